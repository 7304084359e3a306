/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef IMAGE_REBIND_TIMER_H
#define IMAGE_REBIND_TIMER_H

struct image_libc;

/* Stops the timers that the rank was the last to set. When it ends, before it loses its handlers. */
void image_timers_forget(struct image_libc *libc);

#endif
