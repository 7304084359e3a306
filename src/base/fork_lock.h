/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fork_lock.h: keeps a rank from forking while other ranks are in functions of the C library whose locks a child would find taken
 * for ever: the C library resets those of malloc, streams and the loader only. (A program with one thread never sees this.)
 *
 * Callers of such functions share a lock that a fork takes alone. A fork waits for them for a limited time, because one may wait for
 * the fork: a handler that forks has interrupted such a function, or a callback of dl_iterate_phdr forks.
 */
#ifndef BASE_FORK_LOCK_H
#define BASE_FORK_LOCK_H

#include <stdbool.h>

/* Before and after such a function. The result goes to base_fork_allow. Keep errno; may be called in a signal handler. */
bool base_fork_delay(void);
void base_fork_allow(bool is_delayed);

/* Before and after a fork; in the parent, the result goes to base_fork_end. In the child, base_fork_leave: it has no other threads
 * yet, and those that it starts are as in any process. Waits for a second at most. */
bool base_fork_begin(void);
void base_fork_end(bool has_begun);
void base_fork_leave(void);

#endif
