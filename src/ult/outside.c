/* SPDX-License-Identifier: BSD-3-Clause
 *
 * outside.c: waiting by threads that have not entered their PE. See sharing.h.
 */
#include <sched.h>

#include "base/arch/relax.h"
#include "ult/pe.h"

/* How long such a thread polls before it enters the PE and waits there, in ns. */
#define SPIN_NS 100000

bool ult_spin_outside(bool (*is_done)(const void *arg), const void *arg)
{
    uint64_t now_ns = ult_now_ns(), end_ns = now_ns + SPIN_NS;
    uint64_t yield_at_ns = ult_is_crowded() ? now_ns + ULT_YIELD_AFTER_NS : UINT64_MAX;

    for (unsigned i = 1; !is_done(arg); i++) {
        base_relax();
        if (i % 16 != 0)
            continue;
        now_ns = ult_now_ns();
        if (now_ns >= end_ns)
            return false;
        if (now_ns >= yield_at_ns) {
            sched_yield();
            yield_at_ns = ult_now_ns() + ULT_YIELD_AFTER_NS;
        }
    }
    return true;
}
