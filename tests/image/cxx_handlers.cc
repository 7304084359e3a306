/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: the handlers of std::set_terminate, std::set_new_handler and std::set_unexpected are the rank's own, for get and when
 * the C++ runtime calls them.
 */
#include "image_test.h"

#include <cstdint>
#include <exception>
#include <new>

#include <dlfcn.h>

typedef void (*handler_fn)();
extern "C" handler_fn _ZSt14set_unexpectedPFvvE(handler_fn handler); /* C++17 does not declare it */
extern "C" handler_fn _ZSt14get_unexpectedv();

static int n_new_calls;

/* Without a handler, operator new throws. */
static void count_new()
{
    n_new_calls++;
    std::set_new_handler(nullptr);
}

static void end_well()
{
    CHECK(n_new_calls <= 1);
    puts("ok");
    fflush(stdout);
    exit(0);
}

static bool allocate_too_much()
{
    try {
        void *volatile memory = ::operator new(SIZE_MAX / 4);

        ::operator delete(memory);
    } catch (const std::bad_alloc &) {
        return false;
    }
    return true;
}

int main()
{
    bool has_asan = dlsym(RTLD_DEFAULT, "__asan_init") != nullptr; /* its operator new calls no handler */
    handler_fn old_terminate = std::get_terminate();

    CHECK(std::get_new_handler() == nullptr && old_terminate != nullptr);
    let_others_run();
    CHECK(std::set_terminate(end_well) == old_terminate);
    CHECK(std::set_new_handler(count_new) == nullptr);
    _ZSt14set_unexpectedPFvvE(end_well);
    let_others_run();
    CHECK(std::get_terminate() == end_well && std::get_new_handler() == count_new &&
          _ZSt14get_unexpectedv() == end_well);
    if (!has_asan) {
        CHECK(!allocate_too_much() && n_new_calls == 1);
        let_others_run();
        CHECK(!allocate_too_much() && n_new_calls == 1);
    }
    std::terminate();
}
