/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef IMAGE_REBIND_TIMER_H
#define IMAGE_REBIND_TIMER_H

#include <signal.h>
#include <stdbool.h>

struct image_libc;

/* Deletes the rank's timers. When it ends, before it loses its handlers. */
void image_timers_forget(struct image_libc *libc);

/* True if the signal is from a timer of a rank: it is for that rank alone (NULL: the timer is deleted), and the information becomes
 * what the rank expects. May be called in a signal handler. */
bool image_timers_take(siginfo_t *info, struct image_libc **owner_out);

#endif
