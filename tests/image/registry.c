/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that all ranks share, with a list and no lock: it expects constructors and destructors to call it
 * one at a time, and aborts otherwise.
 */
#include <stdio.h>
#include <stdlib.h>

void registry_enter(void);
int registry_count;
static int n_inside;

void registry_enter(void)
{
    if (__atomic_fetch_add(&n_inside, 1, __ATOMIC_SEQ_CST) != 0) {
        fprintf(stderr, "two ranks are in the registry\n");
        abort();
    }
    for (volatile int spin = 0; spin < 20000; spin++)
        ;
    registry_count++;
    __atomic_fetch_sub(&n_inside, 1, __ATOMIC_SEQ_CST);
}
