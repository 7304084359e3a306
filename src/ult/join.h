/* SPDX-License-Identifier: BSD-3-Clause
 *
 * join.h: a main thread that waits in the C library for another thread, which is blocked in the library (timer.c).
 *
 * It runs, but cannot do anything until the other one goes on: it does not count as an active thread of its PE meanwhile.
 */
#ifndef ULT_JOIN_H
#define ULT_JOIN_H

#include "ult/ult.h"

/* The calling ULT, whose PE is shared, waits so from when it leaves the library; until the other ULT goes on, or ult_end_join. */
void ult_join_outside(struct ult *blocked);

#endif
