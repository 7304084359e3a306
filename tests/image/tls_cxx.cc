/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: thread_local objects are constructed and destroyed per rank, before static objects are.
 */
#include "image_test.h"

#include <string>

static int n_destroyed;

struct counted {
    std::string text;
    counted() : text("rank " + std::to_string(test_id())) {}
    ~counted()
    {
        CHECK(text == "rank " + std::to_string(test_id()));
        n_destroyed++;
    }
};

struct checker {
    ~checker()
    {
        CHECK(n_destroyed == 1);
        puts("ok");
    }
};

static checker check_at_end;
static thread_local counted object;

int main()
{
    object.text += "";
    let_others_run();
    CHECK(object.text == "rank " + std::to_string(test_id()));
    return 0;
}
