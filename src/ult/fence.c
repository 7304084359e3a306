/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fence.c: noticing that a PE has handled all that was posted to it before.
 *
 * An item lies in its sender's ring, or in the sender's backlog. A PE handles its notes first and then at
 * most one ring's worth of each ring: what lay in a ring when a note was handled has been handled when the
 * note comes round again. Backlogs have to be empty before.
 */
#include "ult/pe.h"

static void handle_fence(struct ult_note *note)
{
    struct ult_fence *fence = BASE_CONTAINER(note, struct ult_fence, note);

    if (fence->is_last_round) {
        fence->arrived(fence);
        return;
    }
    fence->is_last_round = atomic_load_explicit(&ult_job.n_backlogged, memory_order_acquire) == 0;
    ult_inbox_put_note(&ult_self()->pe->inbox, note);
}

void ult_post_fence(struct ult_pe *dest, struct ult_fence *fence)
{
    fence->note.handle = handle_fence;
    fence->is_last_round = false;
    ult_post_note(dest, &fence->note);
}
