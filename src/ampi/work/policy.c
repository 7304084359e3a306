/* SPDX-License-Identifier: BSD-3-Clause
 *
 * policy.c: see policy.h.
 */
#include "ampi/work/policy.h"

#include <string.h>

#define BETTER 1.05      /* a way that is not faster by this factor is not better */
#define SPLIT_BETTER 1.1 /* ... than both sides together could be */
#define CHANGED 1.5      /* the program does something else */
#define WAIT_FIRST 32    /* windows until a way is tried again */
#define WAIT_MAX 4096
#define WINDOW_NS 100000 /* at least */

void ampi_work_policy_restart(struct ampi_work_policy *policy)
{
    memset(policy, 0, sizeof *policy);
    for (int i = 0; i < AMPI_WORK_WAYS; i++)
        policy->wait[i] = WAIT_FIRST;
}

/* True if the way may be faster than the best one. */
static bool may_win(const struct ampi_work_policy *policy, enum ampi_work_way way, int n_pes)
{
    double best = policy->speed[policy->best], gpu = policy->speed[AMPI_WORK_WAY_GPU],
           cpu = policy->speed[AMPI_WORK_WAY_CPU];

    if (way == AMPI_WORK_WAY_CPU)
        return n_pes > BETTER * best;
    if (way == AMPI_WORK_WAY_FIRST)
        return gpu + (cpu > 0 && cpu < n_pes ? cpu : n_pes) > SPLIT_BETTER * best;
    return true;
}

/* A way has been tried. */
static void compare(struct ampi_work_policy *policy)
{
    enum ampi_work_way tried = policy->way;
    double ratio = policy->speed[tried] / policy->speed[policy->best];

    if (ratio > BETTER) {
        enum ampi_work_way before = policy->best;
        policy->best = tried;
        policy->was_odd = false;
        policy->wait[before] = WAIT_FIRST;
        policy->due[before] = policy->n_windows + WAIT_FIRST;
        return;
    }
    policy->due[tried] = policy->n_windows + policy->wait[tried];
    policy->wait[tried] *= ratio < 0.5 ? 8 : 2;
    if (policy->wait[tried] > WAIT_MAX)
        policy->wait[tried] = WAIT_MAX;
}

/* The speed of the best way in a window. One window that is quite different may be a pause of the program; two are a change. */
static void follow(struct ampi_work_policy *policy, double speed)
{
    double *average = &policy->speed[policy->best];
    bool is_odd = *average > 0 && (speed > CHANGED * *average || speed * CHANGED < *average);

    policy->n_windows++;
    if (is_odd && !policy->was_odd) {
        policy->was_odd = true;
        return;
    }
    policy->was_odd = false;
    if (!is_odd) {
        *average = *average > 0 ? (*average + speed) / 2 : speed;
        return;
    }
    *average = speed;
    for (int i = 0; i < AMPI_WORK_WAYS; i++) {
        policy->due[i] = policy->n_windows;
        policy->wait[i] = WAIT_FIRST;
    }
}

static void choose(struct ampi_work_policy *policy, enum ampi_work_way before, int n_pes)
{
    policy->way = policy->best;
    for (int i = AMPI_WORK_WAYS - 1; i >= 0; i--)
        if (i != (int)policy->best && i != (int)before && policy->due[i] <= policy->n_windows &&
            may_win(policy, (enum ampi_work_way)i, n_pes))
            policy->way = (enum ampi_work_way)i;
}

static void end_window(struct ampi_work_policy *policy, double speed, int n_pes)
{
    enum ampi_work_way before = policy->way;

    if (before == policy->best) {
        follow(policy, speed);
    } else {
        policy->speed[before] = speed;
        compare(policy);
    }
    choose(policy, before, n_pes);
    policy->is_measuring = policy->way == before;
}

void ampi_work_policy_count(struct ampi_work_policy *policy, double cpu_ns, unsigned n_active, int n_pes,
                            uint64_t now_ns)
{
    unsigned n_together;

    if (n_active > policy->n_together)
        policy->n_together = n_active;
    n_together = policy->n_together > policy->n_together_before ? policy->n_together
                                                                : policy->n_together_before;
    policy->n_done++;
    policy->work_ns += cpu_ns;
    if (!policy->is_measuring) {
        if (policy->n_done < 2 * n_together) /* those under way, and the next ones, for which data has to move */
            return;
        policy->is_measuring = true;
    } else {
        if (policy->n_done < 2 * n_together || now_ns - policy->since_ns < WINDOW_NS)
            return;
        if (policy->work_ns > 0)
            end_window(policy, policy->work_ns / (double)(now_ns - policy->since_ns), n_pes);
        policy->n_together_before = policy->n_together;
        policy->n_together = 0;
    }
    policy->n_done = 0;
    policy->work_ns = 0;
    policy->since_ns = now_ns;
}
