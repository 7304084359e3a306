/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pe_lock.h: a lock for short sections: that of a shared PE, and of endpoints (ampi/p2p/thread/endpoint.h).
 *
 * States of the word, a futex, and the calls that change it:
 *
 *      0 FREE    --take-->                             1 HELD
 *      1 HELD    --take, of another thread-->          2 WANTED: threads sleep until it is free
 *      2 WANTED  --give-->                             0 FREE, and one of them is woken
 *      2 WANTED  --hand_over-->                        3 GRANTED: a thread that has slept gets it, no other
 *      3 GRANTED --take, of a thread that slept-->     2 WANTED
 *
 * After `give`, a thread that is running can take the lock before the woken one has started; this is fast.
 * `hand_over` is for threads that would otherwise take it again and again. `give` does the same if a thread
 * has waited long.
 */
#ifndef ULT_PE_LOCK_H
#define ULT_PE_LOCK_H

#include "base/base.h"

struct ult_lock {
    _Atomic uint32_t word;    /* the state */
    _Atomic bool has_starved; /* a thread has waited for long: hand it over next time */
};

/* Takes the lock; waits until it is free. */
void ult_lock_take(struct ult_lock *lock);

/* Takes the lock if it is free; false: it is not. */
bool ult_lock_try(struct ult_lock *lock);

void ult_lock_give(struct ult_lock *lock);

/* Passes the lock to a thread that waits; false: none waits, and the caller still holds it. */
bool ult_lock_hand_over(struct ult_lock *lock);

#endif
