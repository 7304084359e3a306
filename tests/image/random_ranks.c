/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: rand, random and drand48 give every rank the same sequence as a single process, whatever the others
 * draw.
 */
#include "image_test.h"

int main(void)
{
    unsigned seed = test_id() % 2 ? 1 : 2;
    unsigned short x[3] = {0x330e, (unsigned short)seed, 0}; /* the state that srand48 sets */
    int first[4], again[4];

    CHECK(rand() == 1804289383); /* glibc's first one */
    srand(seed);
    srand48((long)seed);
    for (int i = 0; i < 4; i++) {
        first[i] = rand();
        sched_yield();
    }
    srand(seed);
    for (int i = 0; i < 4; i++) {
        again[i] = (int)random();
        sched_yield();
        CHECK(first[i] == again[i]);
    }
    for (int i = 0; i < 4; i++) {
        CHECK(drand48() == erand48(x));
        sched_yield();
    }
    puts("ok");
    return 0;
}
