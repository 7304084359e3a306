/* SPDX-License-Identifier: BSD-3-Clause
 *
 * livelock.h: +check stuck:S: ranks that test and probe for ever, and find nothing.
 *
 * The gates (tools/gen_gates.py) count calls that test or probe, and all others. The thread of stuck.c looks at the counts.
 */
#ifndef AMPI_JOB_LIVELOCK_H
#define AMPI_JOB_LIVELOCK_H

#include "ampi/object/rank.h"

/* True: calls are counted. */
extern bool ampi_livelock_is_watched;

/* A rank calls a function that tests or probes; from: the return address. On the rank's PE. */
void ampi_livelock_poll(const char *call, const void *from);

/* Any other call; a test or probe that finds something. Any thread. */
void ampi_livelock_progress(void);

/* Starts to count, before ranks run. */
void ampi_livelock_watch(void);

/* One of n_looks equal looks within the limit: prints a report, once, if in the last limit_s seconds each rank was blocked in MPI
 * or has polled, none has made another call, and nothing was found. */
void ampi_livelock_look(int n_looks, long limit_s);

#endif
