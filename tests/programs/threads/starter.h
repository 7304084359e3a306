/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STARTER_H
#define STARTER_H

/* Runs the function on a new thread and waits for its end. Returns 0 if there is no thread. */
int run_in_thread(void *(*function)(void *), void *arg);

#endif
