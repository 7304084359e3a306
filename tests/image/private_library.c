/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: a shared library of the program has globals, constructors and thread_local data per rank, and calls
 * functions of the rank that called it.
 */
#include "image_test.h"
#include "libprivate.h"

static int value;

static int get_value(void)
{
    return value;
}

int program_function(void)
{
    return value;
}

int main(void)
{
    CHECK(private_constructed() == 1 && private_counter == 100 && *private_tls_address() == 77);
    value = (int)(test_id() % 1000000);
    private_set_callback(get_value);
    private_counter = value;
    *private_tls_address() = test_id();
    let_others_run();
    CHECK(private_add(1) == value + 1 && private_counter == value + 1);
    CHECK(*private_tls_address() == test_id());
    CHECK(private_call() == 2 * value);
    puts("ok");
    return 0;
}
