/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that +work both ends near the best fixed way, for programs of random costs in a time of their own: a program that goes on takes at most a tenth
 * longer than with the best way; also when its costs change. Where all PEs together are slower than the GPU, the CPU is never tried. Pauses of a
 * program lead to no other choice. On machines whose GPU is from 8 times slower to 8 times faster than all PEs, short and long runs take little longer than
 * with the GPU alone, the moves of data in experiments included, and long ones little longer than with the best way.
 */
#include <check.h>

#include "ampi/work/policy.h"

#define N_PROGRAMS 40
#define STEPS 12000
#define PAUSE 5

/* In ns. */
struct program {
    unsigned n_requests; /* of a step */
    int n_pes;
    double cpu;      /* of a request on a CPU */
    double gpu;      /* of a request on the GPU, its data included */
    double launch;   /* of a step on the GPU, besides */
    double overhead; /* of a request that goes where it ends first, besides */
    double other;    /* of a step, besides requests */
    double move;     /* of the data when the way has changed */
    double jitter;   /* of a step: a part of it */
    int pause_steps; /* after so many comes a step that takes PAUSE times as long; 0: none */
};

struct run {
    struct ampi_work_policy policy;
    struct program program;
    uint64_t now_ns;
    enum ampi_work_way before;
    unsigned n_steps_of[AMPI_WORK_WAYS];
    unsigned n_steps;
};

static uint64_t state = 1;

static double random_to(double end)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (double)(state >> 33) / (double)(UINT64_C(1) << 31) * end;
}

static double step_ns(const struct program *p, enum ampi_work_way way)
{
    double n = p->n_requests, gpu_ns = p->launch + n * p->gpu, cpu_ns = n * p->cpu / p->n_pes;

    if (way == AMPI_WORK_WAY_FIRST)
        return p->other + 1 / (1 / gpu_ns + 1 / cpu_ns) + n * p->overhead;
    return p->other + (way == AMPI_WORK_WAY_GPU ? gpu_ns : cpu_ns);
}

static double best_ns(const struct program *p)
{
    double best = step_ns(p, AMPI_WORK_WAY_GPU);

    for (int i = 1; i < AMPI_WORK_WAYS; i++)
        best = step_ns(p, (enum ampi_work_way)i) < best ? step_ns(p, (enum ampi_work_way)i) : best;
    return best;
}

static struct program make_program(void)
{
    struct program p = {.n_requests = 1 + (unsigned)random_to(200), .n_pes = 1 + (int)random_to(16)};

    p.cpu = 1e3 + random_to(100e3);
    p.gpu = p.cpu / p.n_pes * (0.1 + random_to(3));
    p.launch = 10e3 + random_to(50e3);
    p.overhead = random_to(2) < 1 ? 0 : random_to(p.cpu / p.n_pes);
    p.other = random_to(100e3);
    p.move = p.n_requests * random_to(2e3);
    p.jitter = random_to(0.05);
    return p;
}

/* The requests of a GPU end together, those of CPUs one after the other. */
static void do_step(struct run *run)
{
    const struct program *p = &run->program;
    enum ampi_work_way way = run->policy.way;
    double ns = step_ns(p, way) * (1 + random_to(p->jitter)) + (way != run->before ? p->move : 0);
    uint64_t began_ns = run->now_ns;

    if (p->pause_steps && ++run->n_steps % (unsigned)p->pause_steps == 0)
        ns *= PAUSE;
    run->before = way;
    run->n_steps_of[way]++;
    for (unsigned i = 0; i < p->n_requests; i++) {
        double part = way == AMPI_WORK_WAY_GPU ? 1 : (i + 1.) / p->n_requests;
        struct ampi_work_done done = {p->cpu, 2 * p->move, p->n_requests - i, p->n_pes,
                                      began_ns + (uint64_t)(ns * part)};
        ampi_work_policy_count(&run->policy, &done);
        run->now_ns = done.now_ns;
    }
}

static double do_steps(struct run *run, int n)
{
    uint64_t began_ns = run->now_ns;

    for (int i = 0; i < n; i++)
        do_step(run);
    return (double)(run->now_ns - began_ns) / n;
}

static struct run make_run(void)
{
    struct run run = {.program = make_program()};

    ampi_work_policy_restart(&run.policy);
    return run;
}

START_TEST(the_choice_is_near_the_best_way)
{
    struct run run;
    double ns, best;

    state = (uint64_t)_i + 1;
    run = make_run();
    ns = do_steps(&run, STEPS);
    best = best_ns(&run.program);
    ck_assert_msg(ns < 1.1 * best, "program %d: %.0f ns per step, the best way takes %.0f: %u %u %u steps",
                  _i, ns, best, run.n_steps_of[0], run.n_steps_of[1], run.n_steps_of[2]);
}
END_TEST

START_TEST(the_choice_follows_a_change)
{
    struct run run;
    double ns, best;

    state = (uint64_t)_i + 1;
    run = make_run();
    run.program.gpu = run.program.cpu / run.program.n_pes / 3;
    do_steps(&run, STEPS);
    run.program.gpu *= 9;
    do_steps(&run, STEPS);
    best = best_ns(&run.program);
    ns = do_steps(&run, STEPS);
    ck_assert_msg(ns < 1.1 * best, "program %d: %.0f ns per step, the best way takes %.0f", _i, ns, best);
}
END_TEST

START_TEST(the_cpu_is_not_tried_in_vain)
{
    struct run run;

    state = (uint64_t)_i + 1;
    run = make_run();
    run.program.gpu = run.program.cpu / run.program.n_pes / 50;
    run.program.launch = run.program.other = 0;
    do_steps(&run, STEPS);
    ck_assert_uint_eq(run.n_steps_of[AMPI_WORK_WAY_GPU], STEPS);
}
END_TEST

/* A way that is much slower is tried rarely, however much the speed varies. */
START_TEST(pauses_do_not_count)
{
    struct run run;

    state = (uint64_t)_i + 1;
    run = make_run();
    run.program.gpu = 20 * run.program.cpu / run.program.n_pes;
    run.program.other = 0;
    run.program.overhead = run.program.cpu;
    run.program.jitter = 3;
    do_steps(&run, STEPS);
    ck_assert_uint_lt(run.n_steps_of[AMPI_WORK_WAY_GPU], STEPS / 100);
}
END_TEST

/* A program that pauses regularly, as a molecular dynamics does when atoms go to other patches: a way that is slower does not win because it was
 * tried between two pauses. */
START_TEST(regular_pauses_do_not_count)
{
    struct run run;
    double ns, first;

    state = (uint64_t)_i + 1;
    run = make_run();
    run.program.gpu = run.program.cpu / run.program.n_pes / 3;
    run.program.overhead = 2 * run.program.gpu;
    run.program.pause_steps = 7 + _i;
    ns = do_steps(&run, STEPS);
    first = step_ns(&run.program, AMPI_WORK_WAY_GPU) * (1 + (PAUSE - 1.) / run.program.pause_steps);
    ck_assert_msg(ns < 1.06 * first, "program %d: %.3f of the time of the GPU alone: %u %u %u steps", _i,
                  ns / first, run.n_steps_of[0], run.n_steps_of[1], run.n_steps_of[2]);
}
END_TEST

static const double machines[] = {1 / 8., 1 / 2., 1 / 1.1,
                                  1.1,    2,      8}; /* the GPU's speed; that of all PEs together is 1 */
static const double moves[] = {
    0, 5, 50}; /* of all data, in steps of the GPU: each is in a step's time if the data does not stay */
static const double overheads[] = {
    0, 3}; /* of requests that go where they end first, in the CPU's time for them */
static const int lengths[] = {40, 400, 4000, 20000}; /* steps */

#define N_CASES (BASE_COUNT(machines) * BASE_COUNT(moves) * BASE_COUNT(overheads) * BASE_COUNT(lengths))

/* Experiments may cost 2 % of the time; what the first step costs that goes another way is not known before. */
START_TEST(experiments_cost_little)
{
    size_t i = (size_t)_i;
    double gpu = machines[i % BASE_COUNT(machines)];
    double move = moves[i / BASE_COUNT(machines) % BASE_COUNT(moves)];
    double overhead = overheads[i / BASE_COUNT(machines) / BASE_COUNT(moves) % BASE_COUNT(overheads)];
    int n_steps = lengths[i / BASE_COUNT(machines) / BASE_COUNT(moves) / BASE_COUNT(overheads)];
    struct run run = {.program = {.n_requests = 16, .n_pes = 4, .cpu = 50e3, .jitter = 0.02}};
    double first_ns, best, ns;

    state = 1;
    ampi_work_policy_restart(&run.policy);
    run.program.gpu = run.program.cpu / run.program.n_pes / gpu;
    run.program.overhead = overhead * run.program.cpu / run.program.n_pes;
    run.program.move = move * step_ns(&run.program, AMPI_WORK_WAY_GPU);
    ns = do_steps(&run, n_steps);
    first_ns = step_ns(&run.program, AMPI_WORK_WAY_GPU);
    best = best_ns(&run.program);
    ck_assert_msg(
        ns < 1.04 * first_ns,
        "GPU %.2f, move %g, overhead %g, %d steps: %.3f of the time of the GPU alone; %u %u %u steps", gpu,
        move, overhead, n_steps, ns / first_ns, run.n_steps_of[0], run.n_steps_of[1], run.n_steps_of[2]);
    if (n_steps > 300 * move && n_steps > 300)
        ck_assert_msg(ns < (n_steps > 4000 * move && n_steps > 5000 ? 1.1 : 2.2) * best,
                      "GPU %.2f, move %g, overhead %g, %d steps: %.3f of the best; %u %u %u steps", gpu, move,
                      overhead, n_steps, ns / best, run.n_steps_of[0], run.n_steps_of[1], run.n_steps_of[2]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("work_policy");
    TCase *tests = tcase_create("policy");
    SRunner *runner;
    int n_failed;

    tcase_add_loop_test(tests, the_choice_is_near_the_best_way, 0, N_PROGRAMS);
    tcase_add_loop_test(tests, the_choice_follows_a_change, 0, N_PROGRAMS);
    tcase_add_loop_test(tests, the_cpu_is_not_tried_in_vain, 0, N_PROGRAMS);
    tcase_add_loop_test(tests, pauses_do_not_count, 0, N_PROGRAMS);
    tcase_add_loop_test(tests, regular_pauses_do_not_count, 0, 30);
    tcase_add_loop_test(tests, experiments_cost_little, 0, N_CASES);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
