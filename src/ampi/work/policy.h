/* SPDX-License-Identifier: BSD-3-Clause
 *
 * policy.h: which way requests go with +work both: all to the GPUs, all to the CPU, or each where it ends first (choice.h). Measurements in, a way out;
 * knows neither requests nor clocks.
 *
 * What a request costs on a GPU is more than its kernel: the launch, its data on both ways, the waits of ranks. So what is compared is the speed of the whole
 * process, from window to window: the requests that were done, in CPU time that they would take, by the time that passed.
 *
 * - A window is as long as twice as many requests as were active at a time. As many before it do not count: the way was another one, or
 *   data had to move.
 * - Another way is tried in one window: at the beginning, when the best one has become slower than the other was, and now and then; the rarer, the slower it
 *   is, and the more often it has lost.
 * - A way has won if it is faster by more than windows of the best one differ: a program may pause in some of them.
 * - Such experiments cost at most 1 part in SHARE (policy.c) of the program's time, the moves of data to the other side and back included. What one will cost is
 *   estimated before: one that would cost too much must wait, so that short runs have none. One that costs more than that ends early.
 * - The CPU is not tried where the GPUs are faster than all PEs together could be.
 */
#ifndef AMPI_WORK_POLICY_H
#define AMPI_WORK_POLICY_H

#include "base/base.h"

enum ampi_work_way { AMPI_WORK_WAY_GPU, AMPI_WORK_WAY_CPU, AMPI_WORK_WAY_FIRST, AMPI_WORK_WAYS };

/* A request is done. */
struct ampi_work_done {
    double cpu_ns;     /* its time on a CPU, in a unit that does not change; 0: not known */
    double move_ns;    /* estimate: all data of requests to the other side and back */
    unsigned n_active; /* requests that were not done, with this one */
    int n_pes;
    uint64_t now_ns;
};

struct ampi_work_policy {
    enum ampi_work_way way; /* now */
    enum ampi_work_way best;
    bool is_measuring;   /* a window has begun */
    unsigned n_done;     /* requests since then, or since the last change */
    unsigned n_together; /* the largest number of active requests, in this window and the last one */
    unsigned n_together_before;
    uint64_t since_ns;            /* when the window began */
    double work_ns;               /* the CPU's time for its requests */
    double speed[AMPI_WORK_WAYS]; /* work_ns per ns; 0: not known */
    double spread;      /* of windows of the best way: the mean deviation from its speed, as a part of it */
    bool was_slow;      /* the last window: another way was faster */
    unsigned n_windows; /* of the best way */
    unsigned due[AMPI_WORK_WAYS]; /* a way is tried again when n_windows is this number */
    unsigned wait[AMPI_WORK_WAYS];
    /* The cost of experiments: */
    uint64_t began_ns;  /* the program's first request was done; 0: none */
    double spent_ns;    /* so far */
    double window_work; /* work_ns of the last window */
    double learned_ns;  /* the moves of data in the last experiment; 0: there was none */
    uint64_t left_ns;   /* when the best way was left */
    double away_work;   /* done since then in the other way, */
    double away_speed;  /* the other way's speed, */
    double back_work;   /* and since the return to the best one */
    bool is_returning;  /* the last experiment has ended, but data may still be on its way back */
};

/* Measurements of the past have no meaning any more, but what experiments have cost. The policy begins with the GPUs. */
void ampi_work_policy_restart(struct ampi_work_policy *policy);

void ampi_work_policy_count(struct ampi_work_policy *policy, const struct ampi_work_done *done);

#endif
