/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fence.c: detects that a PE has handled all items posted to it before.
 *
 * An item is in its sender's ring, or in the sender's backlog. A PE handles its wake-ups first and then at
 * most one ring's worth of each ring: items that were in a ring when a wake-up was handled have been
 * handled when the wake-up comes around again. Backlogs must be empty before.
 */
#include "ult/pe.h"

static void handle_fence(struct ult_wakeup *wakeup)
{
    struct ult_fence *fence = BASE_CONTAINER(wakeup, struct ult_fence, wakeup);

    if (fence->is_last_round) {
        fence->arrived(fence);
        return;
    }
    fence->is_last_round = atomic_load_explicit(&ult_job.n_backlogs, memory_order_acquire) == 0;
    ult_inbox_put_wakeup(&ult_self()->pe->inbox, wakeup);
}

void ult_post_fence(struct ult_pe *dest, struct ult_fence *fence)
{
    fence->wakeup.handle = handle_fence;
    fence->is_last_round = false;
    ult_post_wakeup(dest, &fence->wakeup);
}
