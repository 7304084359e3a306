/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exclusive.c: one ULT of the process at a time, for code that expects to run alone.
 *
 * Constructors and destructors of the ranks' copies register and deregister objects with libraries that all
 * ranks share: these expect ld.so's lock around them. A ULT that waits for its turn lets others of its PE
 * run. At a switch the holder releases its turn, because otherwise the event it waits for might never
 * happen, and acquires it again afterwards: it is protected from others running at the same time, not from
 * interleaving at its own switches. A single PE needs it, too: it is shared if ranks keep OS threads.
 */
#include <sched.h>

#include "ult/pe.h"

static atomic_flag is_held = ATOMIC_FLAG_INIT;

void ult_exclusive_take(struct ult *self)
{
    while (atomic_flag_test_and_set_explicit(&is_held, memory_order_acquire))
        if (!ult_pe_let_others_run(self))
            sched_yield();
}

void ult_exclusive_let_go(void)
{
    atomic_flag_clear_explicit(&is_held, memory_order_release);
}

void ult_exclusive_leave(struct ult *self)
{
    if (self->detours & ULT_EXCLUSIVE)
        ult_exclusive_let_go();
}

void ult_exclusive_begin(void)
{
    struct ult *self = ult_self();

    if (!self)
        return;
    BASE_ASSERT((self->detours & ULT_EXCLUSIVE) < ULT_EXCLUSIVE);
    if ((self->detours & ULT_EXCLUSIVE) == 0)
        ult_exclusive_take(self);
    self->detours++;
}

void ult_exclusive_end(void)
{
    struct ult *self = ult_self();

    if (!self)
        return;
    if ((--self->detours & ULT_EXCLUSIVE) == 0)
        ult_exclusive_let_go();
}
