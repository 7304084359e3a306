/* SPDX-License-Identifier: BSD-3-Clause
 *
 * origins.c: +check usage: the origin's memory in one-sided operations: from the call that starts one to the synchronisation
 * that completes it there, even if the library completes it earlier.
 *
 * They are pending operations like sends and receives (buffers.c): what puts and accumulates send must not change, and
 * nothing may overlap the result of a get, nor change it once the data is there. Not checked: results of fetching accumulates, and operations with requests.
 */
#include "ampi/misuse/misuse.h"

#include "ampi/datatype/buffer.h"
#include "base/log.h"

#define ACCESSES_MAX 16384 /* of a rank that are recorded */

/* Until then the library or the kernel may still write there. */
static void settle(struct ampi_misuse_pending *op)
{
    op->is_settled = true;
    if (op->is_recv)
        op->sum = ampi_misuse_sum_of(op->buf, op->count, op->type);
    if (BASE_UNLIKELY(base_settings.check_buffers) && !ampi_device_has(op->buf, op->count, op->type))
        ampi_misuse_guard(op);
}

void ampi_misuse_begin_access(struct ampi_win *win, const struct ampi_misuse_rma *rma)
{
    struct ampi_misuse *own = ampi_misuse_of(win->owner);
    struct ampi_type *type = ampi_type_of(rma->origin.type);
    bool is_recv = rma->kind == AMPI_MISUSE_GET;
    struct ampi_misuse_pending *op;

    if (!type || rma->origin.count == 0 || rma->op == MPI_NO_OP || win->access == AMPI_ACCESS_NONE)
        return;
    ampi_misuse_check_memory(win->owner, rma->origin.buf, rma->origin.count, type, is_recv);
    if (own->n_accesses == ACCESSES_MAX)
        return;
    op = base_calloc(1, sizeof *op, "+check usage");
    op->call = rma->call;
    op->buf = (void *)(uintptr_t)rma->origin.buf;
    op->count = rma->origin.count;
    op->type = type;
    op->is_recv = is_recv;
    op->win = win;
    op->target = rma->target_rank;
    ampi_misuse_enter(own, op);
    op->next = own->accesses;
    own->accesses = op;
    own->n_accesses++;
    if (win->n_under_way == 0)
        settle(op);
}

/* The newest are the first: those behind one that is settled are, too. */
void ampi_misuse_settle_accesses(struct ampi_win *win)
{
    struct ampi_misuse_pending *op = ampi_misuse_of(win->owner)->accesses;

    for (; op && (op->win != win || !op->is_settled); op = op->next)
        if (op->win == win)
            settle(op);
}

void ampi_misuse_finish_accesses(const struct ampi_win *win, struct ampi_misuse_call call, int target)
{
    struct ampi_misuse *own = ampi_misuse_of(win->owner);
    struct ampi_misuse_pending **link = &own->accesses, *op;

    while ((op = *link)) {
        if (op->win != win || (target >= 0 && op->target != target)) {
            link = &op->next;
            continue;
        }
        *link = op->next;
        own->n_accesses--;
        ampi_misuse_leave(win->owner, op, call, false);
    }
}
