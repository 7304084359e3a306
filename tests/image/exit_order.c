/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: at exit a rank calls the program's handlers (h), its destructor function (m), that of a library (d), and then destroys
 * the library's static objects, as a process does.
 */
#include "image_test.h"
#include "libexit_order.h"

static void handle(void)
{
    order_note('h');
}

__attribute__((destructor)) static void destruct(void)
{
    order_note('m');
}

int main(void)
{
    CHECK(atexit(handle) == 0);
    let_others_run();
    return 0;
}
