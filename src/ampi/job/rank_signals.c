/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rank_signals.c: handlers of signals of ranks that do not run (src/image/libc/rebind_signal.c): a wake-up, which any thread may send,
 * also in a handler, brings an errand to the rank's PE. The errand runs the handlers on the rank's stack.
 */
#include "ampi/job/job.h"

#include "image/image.h"

static struct ampi_rank *rank_of(const struct image *image, atomic_int *place)
{
    int i = atomic_load_explicit(place, memory_order_relaxed);

    if (i >= ampi_job.n_present || ampi_job.ranks[i].image != image)
        for (i = 0; i < ampi_job.n_present && ampi_job.ranks[i].image != image;)
            i++;
    if (i >= ampi_job.n_present)
        return NULL;
    atomic_store_explicit(place, i, memory_order_relaxed);
    return &ampi_job.ranks[i];
}

pid_t ampi_rank_main_tid(const struct image *image, atomic_int *place)
{
    const struct ampi_rank *rank = rank_of(image, place);

    return rank ? ult_tid(&rank->ult) : 0;
}

bool ampi_rank_is_waiting(void)
{
    return ult_self()->state != ULT_RUNNING;
}

static void run_handlers(struct ult_errand *errand)
{
    struct ampi_rank *rank = BASE_CONTAINER(errand, struct ampi_rank, signal_errand);

    atomic_store(&rank->is_signalled, false);
    image_signals_called();
}

/* On the rank's PE. */
static void send_errand(struct ult_wakeup *wakeup)
{
    struct ampi_rank *rank = BASE_CONTAINER(wakeup, struct ampi_rank, signal_wakeup);

    if (rank->ult.state != ULT_ENDED)
        ult_post_errand(&rank->ult, &rank->signal_errand);
    else
        atomic_store(&rank->is_signalled, false);
}

void ampi_rank_call_soon(const struct image *image, atomic_int *place)
{
    struct ampi_rank *rank = rank_of(image, place);

    if (!rank || atomic_exchange(&rank->is_signalled, true))
        return;
    rank->signal_wakeup.handle = send_errand;
    rank->signal_errand.run = run_handlers;
    ult_post_wakeup(rank->ult.pe, &rank->signal_wakeup);
}
