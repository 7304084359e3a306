/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: exceptions, of own types and the library's, pass through frames of a copy, run destructors and are
 * caught by type; also through a callback from a shared library (qsort).
 */
#include "image_test.h"

#include <stdexcept>
#include <string>

static int unwound;

struct guard {
    ~guard()
    {
        unwound++;
    }
};

struct own_error : std::runtime_error {
    unsigned id;
    explicit own_error(unsigned i) : std::runtime_error("own"), id(i) {}
};

__attribute__((noinline)) static void thrower(int depth)
{
    guard g;

    if (depth == 0)
        throw own_error(test_id());
    thrower(depth - 1);
}

static int compare(const void *, const void *)
{
    throw 17;
}

int main()
{
    for (int round = 1; round <= 3; round++) {
        try {
            thrower(10);
            CHECK(!"reached");
        } catch (const std::logic_error &) {
            CHECK(!"the wrong type");
        } catch (const std::runtime_error &e) {
            CHECK(dynamic_cast<const own_error &>(e).id == test_id() && std::string(e.what()) == "own");
        }
        CHECK(unwound == 11 * round);
        let_others_run();
    }
    try {
        (void)std::string("abc").at(5);
        CHECK(!"reached");
    } catch (const std::out_of_range &) {
    }
    try {
        int two[2] = {2, 1};

        qsort(two, 2, sizeof two[0], compare);
        CHECK(!"reached");
    } catch (int value) {
        CHECK(value == 17);
    }
    puts("ok");
    return 0;
}
