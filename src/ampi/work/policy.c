/* SPDX-License-Identifier: BSD-3-Clause
 *
 * policy.c: see policy.h.
 */
#include "ampi/work/policy.h"

#include <math.h>
#include <string.h>

#define BETTER 1.05      /* a way that is not faster by this factor is not better */
#define SPLIT_BETTER 1.1 /* ... than both sides together could be */
#define WEIGHT 0.125     /* of a window in the averages */
#define SPREADS 2        /* a way that is faster by fewer mean deviations is not better */
#define WAIT_FIRST 32    /* windows until a way is tried again, at least */
#define WAIT_MAX 16384   /* and at most */
#define WAIT_OF_EQUAL \
    40. /* windows in 1 part in 20 of which a way of equal speed is tried, with the requests that do not count */
#define WINDOW_NS 1000000 /* at least */
#define SHARE 0.02        /* of the time that may be spent on experiments */
#define GAIN_SHARE 0.25   /* ... of the time that would have been saved with a way that seems to be faster */
#define DOUBT 2           /* factor by which a speed that was not measured may be lower */
#define EXPERIMENT 2      /* windows of work, with the requests that do not count */

void ampi_work_policy_restart(struct ampi_work_policy *policy)
{
    struct ampi_work_policy before = *policy;

    memset(policy, 0, sizeof *policy);
    policy->began_ns = before.began_ns;
    policy->spent_ns = before.spent_ns;
    policy->learned_ns = before.learned_ns;
    for (int i = 0; i < AMPI_WORK_WAYS; i++)
        policy->wait[i] = WAIT_FIRST;
}

/* A way that is faster by this factor than the best one is better. */
static double better(const struct ampi_work_policy *policy)
{
    return BETTER + SPREADS * policy->spread;
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

/* ---- The cost of experiments ---- */

/* The speed of a way; if it was never tried: the CPU is as fast as all PEs together, and if each request goes where it ends first, that may take
 * twice as long as with the best way. */
static double estimate(const struct ampi_work_policy *policy, enum ampi_work_way way, int n_pes)
{
    if (policy->speed[way] > 0)
        return policy->speed[way];
    return way == AMPI_WORK_WAY_CPU ? n_pes : policy->speed[policy->best] / DOUBT;
}

/* What an experiment may cost. */
static double allowed_ns(const struct ampi_work_policy *policy, enum ampi_work_way way,
                         const struct ampi_work_done *done)
{
    double speed = estimate(policy, way, done->n_pes) / (policy->speed[way] > 0 ? 1 : DOUBT);
    double gain = 1 - policy->speed[policy->best] / speed;

    return (SHARE + (gain > 0 ? GAIN_SHARE * gain : 0)) * (double)(done->now_ns - policy->began_ns) -
           policy->spent_ns;
}

/* How much longer the program would take with an experiment. */
static double expected_ns(const struct ampi_work_policy *policy, enum ampi_work_way way,
                          const struct ampi_work_done *done)
{
    double work = EXPERIMENT * policy->window_work;

    return work / estimate(policy, way, done->n_pes) - work / policy->speed[policy->best] +
           (policy->learned_ns > 0 ? policy->learned_ns : done->move_ns);
}

/* What the experiment that runs has cost so far. */
static double cost_ns(const struct ampi_work_policy *policy, uint64_t now_ns)
{
    return (double)(now_ns - policy->left_ns) -
           (policy->away_work + policy->back_work) / policy->speed[policy->best];
}

/* The best way has taken over again: the data has come back. */
static void settle_up(struct ampi_work_policy *policy, uint64_t now_ns)
{
    double cost = cost_ns(policy, now_ns);
    double moves = (double)(now_ns - policy->left_ns) - policy->away_work / policy->away_speed -
                   policy->back_work / policy->speed[policy->best];

    policy->is_returning = false;
    policy->spent_ns += cost > 0 ? cost : 0;
    policy->learned_ns = moves > 1 ? moves : 1;
}

/* ---- The choice ---- */

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

    if (factor * better(policy) < 1) {
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
        is_behind |= i != (int)policy->best && policy->speed[i] > better(policy) * speed;
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
            if (policy->speed[i] > better(policy) * speed) {
                policy->due[i] = policy->n_windows;
                policy->wait[i] = WAIT_FIRST;
            }
    } else {
        if (*average > 0)
            policy->spread += WEIGHT * (fabs(speed / *average - 1) - policy->spread);
        *average = *average > 0 ? *average + WEIGHT * (speed - *average) : speed;
    }
    policy->was_slow = is_slow;
}

static void choose(struct ampi_work_policy *policy, const struct ampi_work_done *done)
{
    for (int i = AMPI_WORK_WAYS - 1; i >= 0; i--)
        if (i != (int)policy->best && policy->due[i] <= policy->n_windows &&
            may_win(policy, (enum ampi_work_way)i, done->n_pes) &&
            expected_ns(policy, (enum ampi_work_way)i, done) <=
                allowed_ns(policy, (enum ampi_work_way)i, done))
            policy->way = (enum ampi_work_way)i;
    policy->left_ns = done->now_ns;
    policy->away_work = policy->back_work = 0;
}

static void go_back(struct ampi_work_policy *policy, double away_speed)
{
    policy->way = policy->best;
    policy->away_speed = away_speed;
    policy->is_returning = true;
}

static void end_experiment(struct ampi_work_policy *policy, double speed)
{
    enum ampi_work_way tried = policy->way;

    policy->speed[tried] = speed;
    compare(policy);
    policy->is_measuring = policy->best == tried;
    if (policy->best != tried)
        go_back(policy, speed);
}

static void end_window(struct ampi_work_policy *policy, double speed, const struct ampi_work_done *done)
{
    enum ampi_work_way before = policy->way;

    if (before != policy->best) {
        end_experiment(policy, speed);
        return;
    }
    policy->window_work = policy->work_ns;
    follow(policy, speed);
    choose(policy, done);
    policy->is_measuring = policy->way == before;
}

/* True: an experiment has ended, because it costs more than is allowed. What it has cost counts as moves of data. */
static bool is_too_dear(struct ampi_work_policy *policy, const struct ampi_work_done *done)
{
    if (policy->way == policy->best || cost_ns(policy, done->now_ns) <= allowed_ns(policy, policy->way, done))
        return false;
    put_off(policy, policy->way, 1);
    go_back(policy, estimate(policy, policy->way, done->n_pes));
    policy->is_measuring = false;
    return true;
}

static void add_up(struct ampi_work_policy *policy, const struct ampi_work_done *done)
{
    if (policy->began_ns == 0)
        policy->began_ns = done->now_ns;
    if (done->n_active > policy->n_together)
        policy->n_together = done->n_active;
    policy->n_done++;
    policy->work_ns += done->cpu_ns;
    if (policy->is_returning)
        policy->back_work += done->cpu_ns;
    else if (policy->way != policy->best)
        policy->away_work += done->cpu_ns;
}

static void begin_window(struct ampi_work_policy *policy, uint64_t now_ns)
{
    policy->n_done = 0;
    policy->work_ns = 0;
    policy->since_ns = now_ns;
}

void ampi_work_policy_count(struct ampi_work_policy *policy, const struct ampi_work_done *done)
{
    unsigned n_together;

    add_up(policy, done);
    n_together =
        policy->n_together > policy->n_together_before ? policy->n_together : policy->n_together_before;
    if (policy->n_done % n_together != 0) /* they may end together */
        return;
    if (is_too_dear(policy, done)) {
        begin_window(policy, done->now_ns);
        return;
    }
    if (policy->n_done < 2 * n_together)
        return;
    if (policy->is_measuring) {
        if (done->now_ns - policy->since_ns < WINDOW_NS)
            return;
        if (policy->work_ns > 0)
            end_window(policy, policy->work_ns / (double)(done->now_ns - policy->since_ns), done);
        policy->n_together_before = policy->n_together;
        policy->n_together = 0;
    } else {
        policy->is_measuring = true;
        if (policy->is_returning)
            settle_up(policy, done->now_ns);
    }
    begin_window(policy, done->now_ns);
}
