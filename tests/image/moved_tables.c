/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: tables that a tool has moved into writable segments behind .bss, as in libraries of Python's wheels, are mapped from the
 * file, not copied for each rank, also if each of the segments is small (split_segment.py splits them).
 */
#include "image_test.h"

#define N ((size_t)48 * 1024)

static int numbers[] = {1, 2, 3, 4, 5, 6, 7, 8};
static int table[N] __attribute__((section(".table"))) = {[0 ... N - 1] = 7};

int main(void)
{
    check_mapped(&table[0]);
    check_mapped(&table[N - 1]);
    CHECK(numbers[7] == 8 && table[0] == 7 && table[N - 1] == 7);
    table[N / 2] = (int)test_id();
    let_others_run();
    CHECK(table[N / 2] == (int)test_id() && table[N / 2 + 1] == 7);
    puts("ok");
    return 0;
}
