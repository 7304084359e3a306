/* SPDX-License-Identifier: BSD-3-Clause */
#include "tally.h"

/* A program may define it, too, and then its definition counts. */
__attribute__((weak)) int tally_step(void)
{
    return 1;
}

int tally(void)
{
    static int count;

    return count += tally_step();
}
