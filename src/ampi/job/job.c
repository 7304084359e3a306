/* SPDX-License-Identifier: BSD-3-Clause
 *
 * job.c: the process from start to end: the client of src/image and src/ult.
 *
 * There are two ways to start. Virtualized (more than one rank, or a program that may spawn some): takeover calls
 * wants_images and run before the program's main; each PE creates its ranks' stacks and copies (job_rank.c), then runs
 * them. Not virtualized (one rank): the program runs unchanged, and the thread that calls MPI_Init becomes the rank.
 */
#include <errno.h>
#include <pthread.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ampi/comm/comm.h"
#include "ampi/comm/contexts.h"
#include "ampi/datatype/buffer.h"
#include "ampi/object/error.h"
#include "ampi/object/gate.h"
#include "ampi/job/job.h"
#include "ampi/job/leaks.h"
#include "ampi/op/op.h"
#include "base/settings.h"
#include "ampi/p2p/message.h"
#include "ampi/p2p/schedule.h"
#include "ampi/procs/launcher_env.h"
#include "ampi/procs/procs.h"
#include "ampi/object/sanitizer.h"
#include "ampi/datatype/type.h"
#include "ampi/tool/trace.h"
#include "base/cores.h"
#include "base/launched.h"
#include "base/log.h"
#include "gpu/rank/guard.h"
#include "gpu_detect.h"
#include "gpu/gpu.h"
#include "image/image.h"

/* ---- The end of ranks and of the job ---- */

void ampi_job_end(int exit_code)
{
    if (ampi_job.is_forked)
        _exit(ampi_exit_code_of(exit_code)); /* the job continues */
    ampi_job_flush_output();
    ampi_trace_write();
    ampi_procs_abort(ampi_exit_code_of(exit_code));
    _exit(ampi_exit_code_of(exit_code));
}

void ampi_rank_end(struct ampi_rank *rank, int code)
{
    int none = 0;

    ult_enter(&rank->ult);
    if (rank->state == AMPI_RANK_INITIALIZED) {
        rank->ult.call = NULL;
        ampi_report(rank, "ended with exit code %d, but has not called %s; the job ends", code & 0xff,
                    ampi_rank_missing_call(rank));
        ampi_leaks_report_sessions(rank);
        ampi_job_abort(code);
    }
    if (code & 0xff) {
        rank->ult.call = NULL;
        ampi_report(rank, "ended with exit code %d", code & 0xff);
        atomic_compare_exchange_strong(&ampi_job.exit_code, &none, code & 0xff);
    }
    gpu_guard_rank_ends();
    ampi_env_fini(rank);
    ampi_rank_leave(rank);
    rank->exit_code = code;
    rank->state = AMPI_RANK_ENDED;
    atomic_fetch_add(&ampi_job.n_ended, 1);
    ult_end();
}

/* ---- Functions for src/image ---- */

static struct image *current_image(void)
{
    const struct ult *u = ult_self();

    return u && u->owner && u == &((struct ampi_rank *)u->owner)->ult ? ((struct ampi_rank *)u->owner)->image
                                                                      : NULL;
}

/* Functions that the program's code calls: they enter the library. */
static void sleep_ns(uint64_t duration_ns)
{
    struct ult *self = ult_self();

    ult_enter(self);
    ult_sleep_ns(duration_ns);
    ult_leave(self);
}

static void yield(void)
{
    struct ult *self = ult_self();

    ult_enter(self);
    ult_yield();
    ult_leave(self);
}

static void begin_exclusive(void)
{
    struct ult *self = ult_self();

    if (self)
        ult_enter(self);
    ult_exclusive_begin();
    if (self)
        ult_leave(self);
}

static void end_exclusive(void)
{
    struct ult *self = ult_self();

    if (self)
        ult_enter(self);
    ult_exclusive_end();
    if (self)
        ult_leave(self);
}

static void exit_rank(int code) BASE_NORETURN;
static void exit_rank(int code)
{
    ampi_rank_end(ampi_self(), code);
}

static void abort_rank(void) BASE_NORETURN;
static void abort_rank(void)
{
    if (!ampi_crash_is_reported(SIGABRT))
        ampi_report(ampi_self(), "abort() was called");
    fflush(stdout);
    abort();
}

/* A process that a rank has forked has its memory, but is not part of the job. */
static void leave_job(void)
{
    const struct ampi_rank *self = ampi_self();

    if (!ampi_job.ranks)
        return;
    ampi_job.is_forked = true;
    ampi_job.forked_rank = self ? ampi_rank_number(self) : -1;
    ult_job_leave_child();
}

/* ---- exit() on another thread of a rank ---- */

/* Number of checks before the rank's main thread must have noticed. */
#define EXIT_LOOKS 1000
#define EXIT_LOOK_NS 10000000

/* Ends a rank on its own stack. */
struct last_errand {
    struct ult_wakeup wakeup;
    struct ult_errand errand;
    struct ampi_rank *rank;
};

static void run_last_errand(struct ult_errand *errand)
{
    struct last_errand *last = BASE_CONTAINER(errand, struct last_errand, errand);
    struct ampi_rank *rank = last->rank;

    free(last);
    ampi_rank_end(rank, rank->exit_code);
}

/* On the rank's PE. */
static void send_last_errand(struct ult_wakeup *wakeup)
{
    struct last_errand *last = BASE_CONTAINER(wakeup, struct last_errand, wakeup);

    if (last->rank->state != AMPI_RANK_ENDED)
        ult_post_errand(&last->rank->ult, &last->errand); /* on the main thread */
    else
        free(last);
}

/* The rank ends as soon as its main thread calls a function that lets other ranks run. A process would end
 * at once, wherever it is: if the rank keeps computing or blocks its PE, the job has to end. */
static void exit_by_thread(struct image *image, int code) BASE_NORETURN;
static void exit_by_thread(struct image *image, int code)
{
    struct ampi_rank *rank = &ampi_job.ranks[ampi_memory_region_of(image_base(image))];
    struct last_errand *last = base_calloc(1, sizeof *last, "the end of a rank");

    if (__atomic_load_n(&rank->state, __ATOMIC_RELAXED) == AMPI_RANK_INITIALIZED) {
        ampi_report(NULL, "a thread of rank %d called exit(%d) before %s; the job ends",
                    ampi_rank_number(rank), code, ampi_rank_missing_call(rank));
        ampi_job_abort(code);
    }
    rank->exit_code = code;
    *last =
        (struct last_errand){.wakeup.handle = send_last_errand, .errand.run = run_last_errand, .rank = rank};
    ult_post_wakeup(ult_pe_get(rank->pe_id), &last->wakeup);
    for (int i = 0; i < EXIT_LOOKS; i++) {
        nanosleep(&(struct timespec){.tv_nsec = EXIT_LOOK_NS}, NULL);
        if (__atomic_load_n(&rank->state, __ATOMIC_RELAXED) == AMPI_RANK_ENDED)
            i = -1; /* until the process ends */
    }
    ampi_report(NULL,
                "a thread of rank %d called exit(%d), but the rank's main thread does not stop; the job ends",
                ampi_rank_number(rank), code);
    ampi_job_abort(code);
}

static void report_rank(const char *text)
{
    ampi_report(ampi_self(), "%s", text);
}

static bool has_begun(void)
{
    for (int i = 0; i < atomic_load(&ampi_job.n_present); i++)
        if (__atomic_load_n(&ampi_job.ranks[i].state, __ATOMIC_RELAXED) != AMPI_RANK_STARTED)
            return true;
    return false;
}

const struct image_rebind_client image_rebind_client = {
    .current = current_image,
    .main_tid = ampi_rank_main_tid,
    .call_soon = ampi_rank_call_soon,
    .is_waiting = ampi_rank_is_waiting,
    .exit = exit_rank,
    .quick_exit = exit_rank,
    .process_ends = ampi_job_leave_at_once,
    .abort = abort_rank,
    .holds_others = ult_holds_others,
    .sleep_ns = sleep_ns,
    .yield = yield,
    .begin_exclusive = begin_exclusive,
    .end_exclusive = end_exclusive,
    .thread_begins = ampi_thread_begins,
    .thread_ended = ult_wake_all,
    .await_call = ampi_thread_await_call,
    .end_await = ampi_thread_end_await,
    .join_begins = ampi_join_begin,
    .join_ends = ampi_join_end,
    .make_stacks_executable = ampi_memory_make_stacks_executable,
    .report = report_rank,
    .has_begun = has_begun,
    .child_entry = ampi_late_host_child_entry,
    .forked = leave_job,
    .exit_by_thread = exit_by_thread,
};

/* ---- Set-up ---- */

static const char *host_name(void)
{
    static char name[256];

    if (gethostname(name, sizeof name - 1) != 0)
        snprintf(name, sizeof name, "localhost");
    return name;
}

/* MPI_COMM_WORLD, with each rank's handle of it. */
static void create_world(void)
{
    const struct ampi_spawned *spawned = ampi_job.spawned;
    struct ampi_group *group = spawned ? ampi_group_create_list(ampi_job.world_ranks, spawned->n_ranks)
                                       : ampi_group_create_range(0, 1, ampi_job.n_ranks);
    struct ampi_layout *layout = ampi_layout_create(group);
    uint64_t founder = (uint64_t)ampi_procs_of_rank(ampi_group_world_rank(group, 0));
    struct ampi_comm_shared *world =
        ampi_machine ? ampi_comm_build_as(layout, NULL, AMPI_CONTEXT_WORLD | founder << 48)
                     : ampi_comm_build(layout, NULL);

    for (int i = 0; i < ampi_job.n_local; i++)
        ampi_job.ranks[i].world = &world->side[0].handles[ampi_rank_number(&ampi_job.ranks[i])];
    ampi_layout_unref(layout);
    ampi_group_unref(group);
}

void ampi_job_create(int n_local, int n_pes, bool is_virtual, const struct ult_hooks *hooks)
{
    struct ampi_message_pool *pools;

    if (!ampi_machine)
        ampi_job.n_ranks = ampi_job.n_local = n_local;
    ampi_job.n_pes = n_pes;
    ampi_job.is_virtual = is_virtual;
    ampi_job.host = host_name();
    ampi_job.ranks =
        base_calloc_aligned((size_t)(n_local + ampi_job.spawn_room), sizeof *ampi_job.ranks, "the ranks");
    ampi_job.spawned_at = ampi_job.spawned ? 0 : n_local;
    atomic_store(&ampi_job.n_present, n_local);
    ampi_job.universe_size =
        (ampi_job.own_end && ampi_job.spawned->number == 0 ? ampi_job.spawned->n_ranks : ampi_job.n_ranks) +
        (ampi_job.spawn_room || ampi_job.max_procs > ampi_job.n_procs ? base_usable_cores() : 0);
    pools = ampi_message_pools_create(n_pes);
    for (int i = 0; i < n_local; i++) {
        struct ampi_rank *rank = &ampi_job.ranks[i];
        rank->state = AMPI_RANK_STARTED;
        rank->world_rank = ampi_job.first_rank + i;
        rank->spawned = ampi_job.spawned;
        rank->initial_errors = ampi_job.initial_errors;
        rank->ult.world_rank = ampi_rank_number(rank);
        rank->ult.owner = rank;
        rank->app_num = ampi_job.app_num;
        rank->max_ranks = ampi_job.n_program;
        rank->arguments = ampi_job.arguments;
        ampi_programs_assign(rank);
        rank->pe_id = ampi_job_pe_of(rank->world_rank);
        rank->messages = &pools[rank->pe_id];
    }
    ampi_queue_table_place();
    ampi_type_init();
    ampi_op_init();
    ampi_rank_gpu_init();
    ult_job_init(n_pes, hooks);
    gpu_detect_init();
    gpu_streams_begin(is_virtual ? n_local + (n_local == 1 && ampi_job.spawn_room) : 1);
    ampi_procs_call_begin();
    create_world();
    if (ampi_machine)
        ampi_procs_open();
    if (ampi_job.n_ranks > 1) /* else like any program */
        ampi_quit_install();
    ampi_progress_publish();
}

/* ---- Virtualized ---- */

/* On each PE's thread, before its first rank runs. */
static void start_pe(struct ult_pe *pe)
{
    ampi_crash_handler_install();
    for (int i = 0; i < ampi_job.n_local; i++)
        if (ampi_job.ranks[i].pe_id == ult_pe_id(pe))
            ampi_rank_create(pe, &ampi_job.ranks[i]);
    if (ult_pe_live(pe) > 1 && image_program_starts_threads(&image_program))
        ult_pe_own_tls(pe);
}

static const struct ult_hooks hooks = {
    .deadlock = ampi_report_deadlock,
    .check_termination = ampi_procs_check_termination,
    .pe_start = start_pe,
    .may_keep_thread = ampi_thread_may_keep,
    .carrier_start = ampi_crash_handler_install,
    .has_other_threads = ampi_thread_any_other,
    .errand_suspends = ampi_report_errand,
};

/* True if the program may call a function that spawns ranks: then ranks can be added, copies of the program. An interpreter
 * with one rank per process rather runs as it is. */
static BASE_NO_SANITIZE bool may_spawn(void)
{
    static int answer; /* 1: no, 2: yes */
    int n_launched;

    if (!answer)
        answer = image_process_refers_to("comm_spawn") ? 2 : 1;
    if (answer == 2 || ampi_programs_may_spawn() || !ampi_launched_host())
        return answer == 2 || ampi_programs_may_spawn();
    n_launched = ampi_launched_count();
    return n_launched == 0 || n_launched == 1 || (n_launched > 1 && base_settings.n_ranks > n_launched);
}

/* At the exit of a process that never called MPI_Init. */
static void detach_unused(int code, void *arg)
{
    (void)arg;
    if (!ampi_job.ranks && !image_is_forked_child())
        ampi_procs_close(code & 0xff);
}

/* With one rank per process, the launcher is not contacted before MPI_Init: a program that does not call it
 * (app --help) is not part of the job. With several, it has to be contacted now if only PMIx knows the
 * number of processes. */
static bool find_images(int *argc, char **argv)
{
    const char *options = secure_getenv("HEDDLE_OPTIONS");
    int n_launched;
    bool is_only_rank;

    ampi_launched_take();
    ampi_programs_take();
    ampi_options_read(argc, argv);
    ampi_job.program = argv[0];
    ampi_job.arguments = ampi_info_env_join(*argc, argv);
    n_launched = ampi_launched_count();
    is_only_rank = n_launched != 0 && n_launched != 1 && !ampi_launched_spawn() &&
                   (base_settings.n_ranks <= 1 || n_launched == base_settings.n_ranks) && !may_spawn();
    if (is_only_rank && ampi_launched_host()) {
        ampi_late_host_wait(options);
        return false;
    }
    ampi_launched_report(base_settings.n_ranks);
    if (n_launched == 0 && base_settings.n_ranks > 1)
        ampi_launched_refuse();
    if (ampi_launched_spawn() && !may_spawn() && ampi_procs_is_spawned_alone(ampi_launched_spawn()))
        return false;
    if ((n_launched == 0 || n_launched == 1) && !ampi_launched_spawn())
        return base_settings.n_ranks > 1 || may_spawn();
    if (is_only_rank)
        return false;
    ampi_procs_attach(base_settings.n_ranks > 1 ? base_settings.n_ranks : 0);
    ampi_thread_count_early();
    if (may_spawn())
        return true;
    if (ampi_machine && ampi_job.n_local == 1)
        on_exit(detach_unused, NULL);
    return ampi_machine ? ampi_job.n_local > 1 : base_settings.n_ranks > 1;
}

static bool wants_images(int *argc, char **argv)
{
    bool is_wanted = find_images(argc, argv);

    if (!is_wanted)
        ampi_library_env_set_for_streams(false);
    return is_wanted;
}

/* The ranks share the standard output, and no rank checks whether all of it was written. */
static void check_output(void)
{
    int none = 0, error = fflush(stdout) != 0 ? errno : 0;

    if (!error && !ferror(stdout))
        return;
    if (error == EPIPE || fcntl(STDOUT_FILENO, F_GETFD) < 0) /* the reader has closed it */
        return;
    base_log("the standard output could not be written%s%s", error ? ": " : " completely",
             error ? strerror(error) : "");
    atomic_compare_exchange_strong(&ampi_job.exit_code, &none, 1);
}

/* The library's descriptors must not take the numbers of closed standard files: ranks' output would go
 * there. */
static void open_standard_files(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

static int run_job(image_main_fn main, int argc, char **argv, char **envp)
{
    int n_ranks = ampi_machine                ? ampi_job.n_local
                  : base_settings.n_ranks > 1 ? (int)base_settings.n_ranks
                                              : 1;
    int n_cores = base_usable_cores();
    int n_share = base_core_share(ampi_job.node_n_procs);
    int n_pes = base_settings.n_pes ? (int)base_settings.n_pes : n_share > 0 ? n_share : 1;
    const char *error;

    open_standard_files();
    if (n_pes > n_ranks && !may_spawn())
        n_pes = n_ranks;
    if (n_pes > n_cores && ampi_job.proc_id == ampi_job.own_first)
        base_log("%d PEs on %d cores: PEs share cores, so everything takes longer", n_pes, n_cores);
    ampi_sanitizer_init();
    ampi_rank_set_arguments(argc, argv);
    ampi_library_env_set(n_ranks, n_cores);
    ampi_rank_gpu_rebind();
    if (base_settings.private_libs)
        image_set_private_libraries(base_settings.private_libs);
    if (base_settings.getpid)
        image_set_process_numbers(strcmp(base_settings.getpid, "process") != 0);
    if (ampi_machine)
        image_set_lock_folder(ampi_launched_folder());
    ampi_rank_output_open();
    if (!image_program_open(main, &error))
        base_fatal(1, "%s", error);
    ampi_library_env_set_for_streams(true);
    ampi_job.spawn_room =
        ampi_memory_plan(n_ranks, may_spawn() ? AMPI_SPAWN_MAX - (ampi_job.spawned ? n_ranks : 0) : 0);
    ampi_programs_load();
    ampi_job_create(n_ranks, n_pes, true, &hooks);
    ampi_schedule_begin();
    ampi_rank_env_open();
    base_log_verbose(1, "%d ranks on %d PEs of this process, stacks of %zu KiB, copies of %zu KiB", n_ranks,
                     n_pes, ampi_memory_stack_bytes() >> 10, (image_span_bytes() - image_late_bytes()) >> 10);
    ampi_stuck_watch();
    ult_job_run();
    ampi_schedule_end();
    ampi_trace_write();
    check_output();
    atomic_store(&ampi_job.exit_code, ampi_leaks_end(ampi_late_host_check(atomic_load(&ampi_job.exit_code))));
    ampi_procs_close(atomic_load(&ampi_job.exit_code));
    ult_job_leave(); /* actions of libraries at the process's exit belong to no rank */
    return atomic_load(&ampi_job.exit_code);
}

/* True if +vp requests several ranks, in the arguments or the environment, or if the program may add some. */
static BASE_NO_SANITIZE bool may_want_images(int argc, char **argv, char **envp)
{
    if (may_spawn())
        return true;
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "+vp", 3) == 0)
            return true;
    for (; *envp; envp++)
        if ((strncmp(*envp, "HEDDLE_OPTIONS=", 15) == 0 && strstr(*envp, "+vp")) ||
            strncmp(*envp, BASE_LAUNCHED_HOST_ENV "=", sizeof BASE_LAUNCHED_HOST_ENV) == 0)
            return true;
    return false;
}

const struct image_client image_client = {
    .may_want_images = may_want_images, .wants_images = wants_images, .run = run_job};

/* ---- Not virtualized ---- */

/* Begins the program if that has not happened: libmpi was loaded by dlopen. */
static void begin_late(void)
{
    static atomic_flag has_begun = ATOMIC_FLAG_INIT;

    if (ampi_job.program || ampi_job.is_virtual || atomic_flag_test_and_set(&has_begun))
        return;
    ampi_launched_take();
    ampi_options_read(NULL, NULL);
    ampi_launched_report(base_settings.n_ranks);
}

struct ampi_rank *ampi_rank_or_adopt(void)
{
    static const struct ult_hooks single_hooks = {.deadlock = ampi_report_deadlock,
                                                  .check_termination = ampi_procs_check_termination,
                                                  .has_other_threads = ampi_thread_any_other,
                                                  .errand_suspends = ampi_report_errand};
    static atomic_flag is_adopted = ATOMIC_FLAG_INIT;
    int n_launched;
    long n_local;

    if (ampi_self() || ampi_job.is_virtual || atomic_flag_test_and_set(&is_adopted))
        return ampi_self();
    ampi_thread_count_before();
    begin_late();
    ampi_library_env_set_for_streams(false); /* without a launcher nothing has done so */
    ampi_late_host_join();
    gpu_resident_us = 0; /* it serves messages within a process; the program's calls are not intercepted */
    n_launched = ampi_launched_count();
    if (n_launched == 0)
        ampi_launched_refuse();
    if (!ampi_machine && ((n_launched != 0 && n_launched != 1) || ampi_launched_spawn()))
        ampi_procs_attach(base_settings.n_ranks > 1 ? base_settings.n_ranks : 0);
    n_local = ampi_machine ? ampi_job.n_local : base_settings.n_ranks;
    if (n_local > 1)
        base_fatal(
            1,
            "cannot run %ld ranks in this process: it loaded libmpi later instead of starting as an MPI "
            "program (as Python does), so it is one rank",
            n_local);
    ampi_job_create(1, 1, false, &single_hooks);
    ampi_schedule_begin();
    ult_job_adopt_caller(&ampi_job.ranks[0].ult);
    if (base_settings.stuck_s > 0)
        ampi_stuck_watch(); /* it votes on a livelock between processes */
    ampi_thread_count_after();
    on_exit(ampi_job_check_finalized, NULL);
    ampi_job_watch_main(ampi_self());
    return ampi_self();
}

struct ampi_rank *ampi_rank_or_move(void)
{
    struct ampi_rank *rank;

    begin_late();
    ampi_late_host_refuse_child();
    rank = ampi_rank_or_adopt();
    if (rank || ampi_job.is_virtual || ampi_job.is_forked || !ampi_job.ranks ||
        ampi_job.ranks[0].state != AMPI_RANK_STARTED)
        return rank;
    rank = &ampi_job.ranks[0];
    ult_job_adopt_caller(&rank->ult);
    return rank;
}
