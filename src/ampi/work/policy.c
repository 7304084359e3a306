/* SPDX-License-Identifier: BSD-3-Clause
 *
 * policy.c: see policy.h.
 */
#include "ampi/work/policy.h"

#include <string.h>

#define BETTER 1.05      /* a way that is not faster by this factor is not better */
#define SPLIT_BETTER 1.1 /* ... than both sides together could be */
#define WAIT_FIRST 32    /* windows until a way is tried again, at least */
#define WAIT_MAX 16384   /* and at most */
#define WAIT_OF_EQUAL \
    40. /* windows in 1 part in 20 of which a way of equal speed is tried, with the requests that do not count */
#define WINDOW_NS 1000000 /* at least */

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

/* When a way is tried again that is slower than the best one by this factor. Each time later. */
static void put_off(struct ampi_work_policy *policy, enum ampi_work_way way, double factor)
{
    double least = WAIT_OF_EQUAL * factor, wait = policy->wait[way];

    wait = wait > least ? wait : least;
    wait = wait < WAIT_MAX ? wait : WAIT_MAX;
    policy->due[way] = policy->n_windows + (unsigned)wait;
    policy->wait[way] = 2 * (unsigned)wait;
}

/* A way has been tried. */
static void compare(struct ampi_work_policy *policy)
{
    enum ampi_work_way tried = policy->way, other = policy->best;
    double factor = policy->speed[policy->best] / policy->speed[tried];

    if (factor * BETTER < 1) {
        policy->best = tried;
        policy->was_slow = false;
        policy->wait[other] = WAIT_FIRST;
        factor = 1 / factor;
    } else {
        other = tried;
    }
    put_off(policy, other, factor);
}

/* True if another way was faster. */
static bool is_behind(const struct ampi_work_policy *policy, double speed)
{
    bool is_behind = false;

    for (int i = 0; i < AMPI_WORK_WAYS; i++)
        is_behind |= i != (int)policy->best && policy->speed[i] > BETTER * speed;
    return is_behind;
}

/* The speed of the best way in a window. One window that is slow may be a pause of the program; two are a change. */
static void follow(struct ampi_work_policy *policy, double speed)
{
    double *average = &policy->speed[policy->best];
    bool is_slow = is_behind(policy, speed);

    policy->n_windows++;
    if (is_slow && policy->was_slow) {
        *average = speed;
        for (int i = 0; i < AMPI_WORK_WAYS; i++)
            if (policy->speed[i] > BETTER * speed) {
                policy->due[i] = policy->n_windows;
                policy->wait[i] = WAIT_FIRST;
            }
    } else {
        *average = *average > 0 ? (*average + speed) / 2 : speed;
    }
    policy->was_slow = is_slow;
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
    n_together =
        policy->n_together > policy->n_together_before ? policy->n_together : policy->n_together_before;
    policy->n_done++;
    policy->work_ns += cpu_ns;
    if (policy->n_done < 2 * n_together || policy->n_done % n_together != 0) /* they may end together */
        return;
    if (policy->is_measuring) {
        if (now_ns - policy->since_ns < WINDOW_NS)
            return;
        if (policy->work_ns > 0)
            end_window(policy, policy->work_ns / (double)(now_ns - policy->since_ns), n_pes);
        policy->n_together_before = policy->n_together;
        policy->n_together = 0;
    } else {
        policy->is_measuring = true;
    }
    policy->n_done = 0;
    policy->work_ns = 0;
    policy->since_ns = now_ns;
}
