/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: large initialized arrays (mapped from the file, not copied) and large .bss work, over-aligned ones
 * too. The process keeps no second copy of the array's initial contents. In the variant big_data_apart, a
 * writable segment with another distance of addresses and file offsets follows, as in libraries of Python's wheels.
 */
#include "image_test.h"

#include <malloc.h>

#define N 200000
#define ROW 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
#define ROWS ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW
#define MANY ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS
#define MORE MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY

static int numbers[N] = {MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE};
static int table[N / 2] __attribute__((section(".table"))) = {MORE, MORE, MORE, MORE};
static int *middle = &numbers[N / 2];
static char zeros[64 * 1024 * 1024];
static char aligned[16] __attribute__((aligned(65536))) = "aligned";

/* Other memory of the process grows with the copies. */
static void check_heap(void)
{
#if __GLIBC_PREREQ(2, 33)
    const char *copies = getenv("IMAGE_COPIES"); /* not set for ranks of a job */
    struct mallinfo2 info = mallinfo2();

    CHECK(!copies || info.uordblks + info.hblkhd < sizeof numbers / 2 + strtoul(copies, NULL, 10) * 4096);
#endif
}

int main(void)
{
    check_heap();
    check_mapped(&numbers[N / 4]);
    check_mapped(&table[N / 10]);
    CHECK(table[0] == 1 && table[39999] == 10 && table[40000] == 0);
    table[39999] = (int)test_id();
    CHECK(numbers[119999] == 10 && numbers[119990] == 1 && numbers[120000] == 0 && middle == numbers + N / 2);
    CHECK(((unsigned long)aligned & 65535) == 0 && aligned[0] == 'a');
    numbers[119999] = (int)test_id();
    zeros[sizeof zeros - 1] = (char)test_id();
    let_others_run();
    CHECK(table[39999] == (int)test_id());
    CHECK(numbers[119999] == (int)test_id() && zeros[sizeof zeros - 1] == (char)test_id() && zeros[0] == 0);
    puts("ok");
    return 0;
}
