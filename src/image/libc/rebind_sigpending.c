/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_sigpending.c: a rank's pending signals: those that it blocks, and those whose handlers have to wait until it runs. Handlers
 * of signals add to them, on any thread: no lock is taken. The bits of image_signals.pending decide; the information of a signal is
 * kept beside them while there is room.
 */
#include "image/libc/rebind_signal.h"

#include <errno.h>

enum { FREE = 0, CHANGES, FULL }; /* of struct image_kept */

/* Takes the information of one of these signals: false if there is none. */
static bool take_kept(struct image_signals *rank, int number, siginfo_t *info_out)
{
    for (int i = 0; i < IMAGE_KEPT; i++) {
        struct image_kept *kept = &rank->kept[i];
        int full = FULL;
        if (atomic_load(&kept->state) != FULL || kept->info.si_signo != number ||
            !atomic_compare_exchange_strong(&kept->state, &full, CHANGES))
            continue;
        if (kept->info.si_signo == number) {
            *info_out = kept->info;
            atomic_store(&kept->state, FREE);
            return true;
        }
        atomic_store(&kept->state, FULL);
    }
    return false;
}

static bool has_kept(const struct image_signals *rank, int number)
{
    for (int i = 0; i < IMAGE_KEPT; i++)
        if (atomic_load(&rank->kept[i].state) == FULL && rank->kept[i].info.si_signo == number)
            return true;
    return false;
}

void image_mask_add_pending(struct image_signals *rank, int number, const siginfo_t *info)
{
    bool is_merged = number < IMAGE_MERGED && (atomic_load(&rank->pending) & image_signal_bit(number));

    for (int i = 0; i < IMAGE_KEPT && !is_merged; i++) {
        struct image_kept *kept = &rank->kept[i];
        int none = FREE;
        if (atomic_compare_exchange_strong(&kept->state, &none, CHANGES)) {
            kept->info = *info;
            kept->info.si_signo = number;
            atomic_store(&kept->state, FULL);
            break;
        }
    }
    atomic_fetch_or(&rank->pending, image_signal_bit(number));
}

int image_mask_take_pending(struct image_signals *rank, uint64_t set, siginfo_t *info_out)
{
    for (;;) {
        int number = image_signal_first(atomic_load(&rank->pending) & set);
        if (number &&
            !(atomic_fetch_and(&rank->pending, ~image_signal_bit(number)) & image_signal_bit(number)))
            continue;
        if (!number || !take_kept(rank, number, info_out))
            *info_out = (siginfo_t){.si_signo = number, .si_code = SI_USER};
        if (number >= IMAGE_MERGED && has_kept(rank, number))
            atomic_fetch_or(&rank->pending, image_signal_bit(number));
        return number;
    }
}

void image_mask_drop_pending(struct image_signals *rank)
{
    siginfo_t info;

    while (image_mask_take_pending(rank, ~UINT64_C(0), &info))
        ;
}

void image_mask_run_pending(struct image_signals *rank)
{
    int number, saved_errno = errno;
    siginfo_t info;

    while ((number = image_mask_take_pending(rank, ~atomic_load(&rank->blocked), &info)))
        image_signals_run(rank, number, &info);
    errno = saved_errno;
}

void image_mask_forget(struct image_signals *rank, int number)
{
    siginfo_t info;

    take_kept(rank, number, &info);
}
