/* SPDX-License-Identifier: BSD-3-Clause
 *
 * work_end.c: which memory work requests have used, for calls of MPI that use it, too; and the end.
 *
 * A bit for each piece of memory, by its number modulo the number of bits, says whether a request has ever used it. Other buffers cost a few loads.
 */
#include "ampi/datatype/work_hook.h"
#include "ampi/work/work.h"

#include "base/log.h"
#include "base/settings.h"

#define PIECE_SHIFT 14
#define WORD_BITS 64
#define PIECES_MAX 4096    /* of a buffer; a larger one counts as used */
#define N_WORDS (1u << 14) /* 2^20 pieces: 16 GiB until they repeat */

bool ampi_work_is_used;
int (*ampi_work_free)(const void *memory, size_t n_bytes);
void (*ampi_work_settle)(const void *buf, MPI_Count count, const struct ampi_type *type, bool is_written);

static _Atomic uint64_t used[N_WORDS];

static _Atomic uint64_t *word_of(uintptr_t piece)
{
    return &used[piece / WORD_BITS % N_WORDS];
}

void ampi_work_widen(const struct ampi_rows *rows)
{
    for (uintptr_t i = rows->from >> PIECE_SHIFT; i <= (ampi_rows_end(rows) - 1) >> PIECE_SHIFT; i++) {
        uint64_t bit = UINT64_C(1) << i % WORD_BITS;
        if (!(atomic_load_explicit(word_of(i), memory_order_relaxed) & bit))
            atomic_fetch_or_explicit(word_of(i), bit, memory_order_relaxed);
    }
}

bool ampi_work_may_use(uintptr_t from, uintptr_t to)
{
    if ((to - from) >> PIECE_SHIFT > PIECES_MAX)
        return true;
    for (uintptr_t i = from >> PIECE_SHIFT; i <= (to - 1) >> PIECE_SHIFT; i++)
        if (atomic_load_explicit(word_of(i), memory_order_relaxed) >> i % WORD_BITS & 1)
            return true;
    return false;
}

/* Errors are those of the GPU, which the requests have reported. */
static void do_settle(bool is_written, uintptr_t from, uintptr_t to)
{
    if (ampi_work_do(is_written ? AMPI_WORK_RECEIVE : AMPI_WORK_SYNC, from, to))
        base_log_verbose(1, "data of work requests is lost with its GPU");
}

static void settle(const void *buf, MPI_Count count, const struct ampi_type *type, bool is_written)
{
    MPI_Count last = count > 0 && type ? (count - 1) * type->extent_bytes : 0;
    uintptr_t from, to;

    if (!ult_self() || !ult_has_pe(ult_self()))
        return;
    if (count < 0) {
        do_settle(is_written, 1, UINTPTR_MAX);
        return;
    }
    if (count == 0 || type->size_bytes <= 0)
        return;
    from = (uintptr_t)ampi_type_address(buf, type->true_lb_bytes + (last < 0 ? last : 0));
    to = from + (uintptr_t)(type->true_extent_bytes + (last < 0 ? -last : last));
    if (ampi_work_may_use(from, to))
        do_settle(is_written, from, to);
}

void ampi_work_connect(void)
{
    ampi_work_settle = settle;
    ampi_work_free = ampi_work_usage_free;
    ampi_work_policy_restart(&ampi_work_engine.policy);
}

/* ---- The end ---- */

static void print_counts(void)
{
    const struct ampi_work_counts *c = &ampi_work_engine.counts;

    base_log_plain("work: %llu requests in %llu launches, %llu on CPUs; %llu bytes to GPUs in %llu copies, "
                   "%llu back in %llu; %llu evictions; %llu without a launch",
                   (unsigned long long)c->n_requests, (unsigned long long)c->n_launches,
                   (unsigned long long)c->n_cpu, (unsigned long long)c->in_bytes,
                   (unsigned long long)c->in_copies, (unsigned long long)c->out_bytes,
                   (unsigned long long)c->out_copies, (unsigned long long)c->n_evictions,
                   (unsigned long long)c->n_ordered);
}

void ampi_work_end(struct ampi_rank *rank)
{
    static atomic_bool is_printed;

    if (!rank->work)
        return;
    ampi_work_wait_all(rank->work); /* requests that were freed */
    if (ampi_work_do(AMPI_WORK_SYNC, 1, UINTPTR_MAX))
        base_log_verbose(1, "data of work requests is lost with its GPU");
    ampi_work_kinds_leave(rank);
    free(rank->work);
    rank->work = NULL;
    if (base_settings.work_trace && !atomic_exchange(&is_printed, true))
        print_counts();
}
