/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef IMAGE_REBIND_TIMER_H
#define IMAGE_REBIND_TIMER_H

#include <signal.h>
#include <stdbool.h>

struct image_libc;

/* Stops the timers that the rank was the last to set. When it ends, before it loses its handlers. */
void image_timers_forget(struct image_libc *libc);

/* True if a signal is one that a rank's timer had sent before it was stopped. May be called in a signal handler. */
bool image_timers_have_left(int number, const siginfo_t *info);

/* The rank whose timer has sent a signal; NULL: none. May be called in a signal handler. */
struct image_libc *image_timers_owner(int number, const siginfo_t *info);

#endif
