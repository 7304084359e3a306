/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: large initialized arrays (mapped from the file, not copied) and large .bss work, over-aligned ones
 * too.
 */
#include "image_test.h"

#define N 200000
#define ROW 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
#define ROWS ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW, ROW
#define MANY ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS
#define MORE MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY

static int numbers[N] = {MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE};
static int *middle = &numbers[N / 2];
static char zeros[64 * 1024 * 1024];
static char aligned[16] __attribute__((aligned(65536))) = "aligned";

int main(void)
{
    CHECK(numbers[119999] == 10 && numbers[119990] == 1 && numbers[120000] == 0 && middle == numbers + N / 2);
    CHECK(((unsigned long)aligned & 65535) == 0 && aligned[0] == 'a');
    numbers[119999] = (int)test_id();
    zeros[sizeof zeros - 1] = (char)test_id();
    let_others_run();
    CHECK(numbers[119999] == (int)test_id() && zeros[sizeof zeros - 1] == (char)test_id() && zeros[0] == 0);
    puts("ok");
    return 0;
}
