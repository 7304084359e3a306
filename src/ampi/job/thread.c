/* SPDX-License-Identifier: BSD-3-Clause
 *
 * thread.c: threads that the program starts (MPI 5.0, section 11.6): their ranks, and the MPI functions
 * they may call.
 *
 * Outside MPI functions, ampi_self() is NULL on such a thread. But it belongs to a rank: the rank that started it
 * (src/image/copy/threads.h), or, if the thread serves all ranks, the rank whose copy of the program contains the call. If the
 * rank is unknown, queries give the answer of most ranks. How such threads call MPI: gate.h.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ampi/object/error.h"
#include "ampi/object/gate.h"
#include "ampi/comm/comm_stream.h"
#include "base/settings.h"
#include "ampi/job/job.h"
#include "base/log.h"
#include "gpu/gpu.h"
#include "image/image.h"

struct ampi_rank *ampi_rank_of_thread(const void *caller)
{
    struct ampi_rank *self = ampi_self();
    const struct image *image;
    int region;

    if (self)
        return self;
    if (!ampi_job.is_virtual)
        return ampi_job.ranks;
    image = image_of_thread();
    region = ampi_memory_region_of(image ? image_base(image) : caller);
    return region >= 0 ? &ampi_job.ranks[region] : NULL;
}

/* ---- Functions for any thread ---- */

/* The state of the rank's world model; read atomically, because the rank may change it at the same time. */
static enum ampi_rank_state world_state_of(const struct ampi_rank *rank)
{
    return __atomic_load_n(&rank->world_state, __ATOMIC_RELAXED);
}

/* True if the calling thread's rank has reached this state. If its rank is unknown: if any rank has or, for
 * the end, if all have. */
static bool has_reached(enum ampi_rank_state state, const void *caller)
{
    const struct ampi_rank *rank = ampi_rank_of_thread(caller);
    bool wants_all = state >= AMPI_RANK_FINALIZED;

    if (rank)
        return world_state_of(rank) >= state;
    for (int i = 0; i < atomic_load(&ampi_job.n_present) && ampi_job.ranks; i++)
        if (!ampi_job_is_free(i) && (world_state_of(&ampi_job.ranks[i]) >= state) != wants_all)
            return !wants_all;
    return wants_all && ampi_job.ranks;
}

AMPI_EXPORT(Initialized);
int PMPI_Initialized(int *flag)
{
    if (!flag)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the flag is NULL");
    *flag = has_reached(AMPI_RANK_INITIALIZED, __builtin_return_address(0));
    return MPI_SUCCESS;
}

AMPI_EXPORT(Finalized);
int PMPI_Finalized(int *flag)
{
    if (!flag)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the flag is NULL");
    *flag = has_reached(AMPI_RANK_FINALIZED, __builtin_return_address(0));
    return MPI_SUCCESS;
}

AMPI_EXPORT(Query_thread);
int PMPI_Query_thread(int *provided)
{
    const struct ampi_rank *rank = ampi_rank_of_thread(__builtin_return_address(0));
    bool is_known = rank || !ampi_job.is_virtual;

    if (is_known &&
        (ampi_self() || !rank || __atomic_load_n(&rank->state, __ATOMIC_RELAXED) != AMPI_RANK_INITIALIZED))
        rank = ampi_enter("MPI_Query_thread");
    if (!provided)
        return ampi_raise_self(MPI_ERR_ARG, "provided is NULL");
    *provided = rank ? rank->thread_level : MPI_THREAD_FUNNELED; /* unknown rank: the level of ranks
                                                                  * with threads */
    return MPI_SUCCESS;
}

/* ampi_self() is not enough: a callback may call this on another thread of the rank, inside a call of that
 * thread. */
AMPI_EXPORT(Is_thread_main);
int PMPI_Is_thread_main(int *flag)
{
    const struct ampi_rank *self = ampi_self();

    if (self)
        ampi_enter("MPI_Is_thread_main");
    if (!flag)
        return ampi_raise_self(MPI_ERR_ARG, "flag is NULL");
    *flag = self ? ampi_rank_is_on_main(self) : ampi_gate_is_main();
    return MPI_SUCCESS;
}

/* ---- MPI that another thread than the rank's ULT starts ---- */

/* Number of checks before the rank's ULT must have shared its PE. */
#define SHARE_LOOKS 5000
#define SHARE_LOOK_NS 1000000

/* Asks a rank's ULT to share its PE. */
struct sharing {
    struct ult_wakeup wakeup; /* at its PE */
    struct ult_errand errand; /* then on its stack */
    struct ampi_rank *rank;
};

static void share(struct ult_errand *errand)
{
    struct sharing *sharing = BASE_CONTAINER(errand, struct sharing, errand);

    ampi_gate_set_level(sharing->rank, MPI_THREAD_SERIALIZED);
    free(sharing);
}

static void send_sharing(struct ult_wakeup *wakeup)
{
    struct sharing *sharing = BASE_CONTAINER(wakeup, struct sharing, wakeup);

    if (sharing->rank->state != AMPI_RANK_ENDED)
        ult_post_errand(&sharing->rank->ult, &sharing->errand);
    else
        free(sharing);
}

struct ult *ampi_thread_start_mpi(const char *call, const void *from)
{
    struct ampi_rank *rank = ampi_job.is_virtual && !ampi_job.is_forked ? ampi_rank_of_thread(from) : NULL;
    struct ult_pe *pe = rank ? ult_pe_get(rank->pe_id) : NULL;
    struct sharing *sharing;

    if (!rank || !ampi_rank_has_threads(rank) ||
        __atomic_load_n(&rank->state, __ATOMIC_RELAXED) != AMPI_RANK_STARTED)
        return NULL;
    if (!ult_pe_is_shared(pe)) {
        sharing = base_calloc(1, sizeof *sharing, "the start of MPI by a thread");
        *sharing = (struct sharing){.wakeup.handle = send_sharing, .errand.run = share, .rank = rank};
        ult_post_wakeup(pe, &sharing->wakeup);
    }
    for (int i = 0; i < SHARE_LOOKS && !ult_pe_is_shared(pe); i++)
        nanosleep(&(struct timespec){.tv_nsec = SHARE_LOOK_NS}, NULL);
    return ult_pe_is_shared(pe) ? ampi_gate_admit(rank, call, from) : NULL;
}

/* ---- Counting threads ---- */

/* A thread; another one with its number has another start. */
struct task {
    pid_t tid;
    unsigned long long start; /* in the kernel's ticks; 0: unknown, or it has ended */
};

/* In a process with one rank: the thread that became the rank, and the threads that contacting the launcher and starting MPI had
 * left then: those of this library and of the libraries that it uses. Some may have ended. */
static struct {
    struct task *tasks;
    int n;
} first_threads;

/* Threads that this library has started later; -1: other threads may be its own, too. */
static atomic_int n_own_threads = -1;

/* The field of /proc/self/task/TID/stat with the start, counted from the one behind the name, which is in parentheses. */
#define START_FIELD 20

static unsigned long long start_of(pid_t tid)
{
    char path[64], text[1024];
    const char *at;
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    at = strrchr(text, ')');
    for (int i = 0; at && i < START_FIELD; i++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

/* True for a thread with the number of one of first_threads. */
static bool has_number_of_first(pid_t tid)
{
    for (int i = 0; i < first_threads.n; i++)
        if (first_threads.tasks[i].tid == tid)
            return true;
    return false;
}

/* True for a thread of first_threads, or one that has ended. */
static bool is_first(pid_t tid)
{
    unsigned long long start;

    if (!has_number_of_first(tid))
        return false;
    start = start_of(tid);
    for (int i = 0; i < first_threads.n; i++)
        if (first_threads.tasks[i].tid == tid && first_threads.tasks[i].start == start)
            return true;
    return start == 0;
}

static void add_first(pid_t tid)
{
    size_t n = (size_t)first_threads.n + 1;

    first_threads.tasks = base_realloc(first_threads.tasks, n * sizeof(struct task), "the list of threads");
    first_threads.tasks[first_threads.n++] = (struct task){tid, start_of(tid)};
}

/* Counts the threads that are not known, and adds them to first_threads if told so. INT_MAX: unknown. While a thread ends, the
 * kernel may leave out another one. */
static int count_unknown(bool (*is_known)(pid_t tid), bool adds)
{
    DIR *tasks = opendir("/proc/self/task");
    int n_threads = 0;

    if (!tasks)
        return INT_MAX;
    for (const struct dirent *entry; (entry = readdir(tasks));) {
        pid_t tid = atoi(entry->d_name); /* 0: "." */
        if (tid == 0 || is_known(tid))
            continue;
        n_threads++;
        if (adds)
            add_first(tid);
    }
    closedir(tasks);
    return n_threads;
}

/* The same for those that are not among first_threads. */
static int count_threads(bool adds)
{
    return count_unknown(is_first, adds);
}

void ampi_thread_count_before(void)
{
    pid_t self = gettid();

    if (!is_first(self))
        add_first(self);
    n_own_threads = self == getpid() && count_threads(false) == 0 ? 0 : -1;
}

void ampi_thread_count_after(void)
{
    if (n_own_threads == 0)
        count_threads(true);
}

void ampi_thread_count_early(void)
{
    count_threads(true);
}

static int start_progress(bool is_kept)
{
    bool is_new = !ult_progress_is_started();
    int error;

    __atomic_store_n(&ampi_gate_is_on, true, __ATOMIC_RELAXED);
    error = ult_progress_start(is_kept);
    if (!error && is_new && n_own_threads >= 0)
        n_own_threads++;
    return error;
}

void ampi_thread_start_progress(void)
{
    int error;

    if (BASE_LIKELY(!base_settings.progress_thread && !gpu_needs_progress) || ult_progress_is_kept())
        return;
    error = start_progress(true);
    if (error)
        base_fatal(1, "PE %d cannot start its progress thread: %s; raise `ulimit -u`",
                   ult_pe_id(ult_self()->pe), strerror(error));
}

void ampi_thread_begins(void)
{
    struct ampi_rank *self = ampi_self();
    bool must_enter;

    ampi_gate_thread_begins();
    if (!gpu_thread_begins() || !self || ult_self() != &self->ult)
        return;
    must_enter = !ult_has_pe(&self->ult);
    if (must_enter)
        ult_enter(&self->ult);
    ampi_thread_start_progress();
    if (must_enter)
        ult_leave(&self->ult);
}

int MPIX_Start_progress_thread(MPIX_Stream stream)
{
    static const char call[] = "MPIX_Start_progress_thread";
    struct ult *gate = ampi_gate_pass(call, __builtin_return_address(0));
    struct ampi_stream *object;
    int error;

    ampi_enter(call);
    error = ampi_stream_find(stream, &object);
    if (!error && (error = start_progress(false)))
        error =
            ampi_raise_self(MPI_ERR_OTHER, "the progress thread could not be started: %s", strerror(error));
    ampi_gate_leave(gate);
    return error;
}

int MPIX_Stop_progress_thread(MPIX_Stream stream)
{
    static const char call[] = "MPIX_Stop_progress_thread";
    struct ult *gate = ampi_gate_pass(call, __builtin_return_address(0));
    struct ult_progress *ends = NULL;
    struct ampi_stream *object;
    int error;

    ampi_enter(call);
    error = ampi_stream_find(stream, &object);
    if (!error && !ult_progress_drop(&ends))
        error = ampi_raise_self(MPI_ERR_OTHER, "MPIX_Start_progress_thread has not been called on this PE");
    ampi_gate_leave(gate);
    if (ends) {
        ult_progress_end(ends);
        if (n_own_threads >= 0)
            n_own_threads--; /* outside of the PE: another thread may count one more now */
    }
    return error;
}

/* True if pthread_create is this library's. It is the C library's if this library was loaded later. */
static bool hears_of_threads(void)
{
    Dl_info found, own;
    void *create = dlsym(RTLD_DEFAULT, "pthread_create");

    return create && dladdr(create, &found) && dladdr(&ampi_job, &own) && found.dli_fbase == own.dli_fbase;
}

/* True if the program gives CUDA functions to call, on a thread that CUDA starts. */
static bool is_called_back(void)
{
    static atomic_int answer; /* 1: no, 2: yes */

    if (answer == 0)
        answer =
            image_process_refers_to("launchhostfunc") || image_process_refers_to("streamaddcallback") ? 2 : 1;
    return answer == 2;
}

/* The threads of a rank with an image are counted. In other processes each thread may call MPI, except those started by
 * this library, whose number is known if there were none before. */
bool ampi_rank_has_threads(const struct ampi_rank *rank)
{
    if (ampi_job.is_virtual)
        return rank->image && image_count_threads(rank->image) > 0;
    return !hears_of_threads() || n_own_threads < 0 || count_threads(false) != n_own_threads ||
           is_called_back();
}

/* Interval at which a main thread that has ended checks for the end of the program's other threads. */
#define OTHERS_NS 10000000

void ampi_thread_await_others(const struct ampi_rank *rank)
{
    while (__atomic_load_n(&rank->state, __ATOMIC_RELAXED) == AMPI_RANK_INITIALIZED && n_own_threads >= 0 &&
           count_threads(false) > n_own_threads)
        nanosleep(&(struct timespec){.tv_nsec = OTHERS_NS}, NULL);
}

/* Number of the rank's threads, besides the main one, that wait in MPI or for the end of others that do. */
static int count_waiting(const struct ampi_rank *rank)
{
    int n_waiting = ampi_join_count(rank);

    for (const struct ampi_thread *thread = rank->threads; thread; thread = thread->next)
        n_waiting += ult_is_blocked(&thread->ult);
    return n_waiting;
}

/* ---- The end of threads ---- */

/* The thread of the caller's rank, if it is blocked in MPI and no other one waits for it, or that at the end of its joins; NULL: it is
 * not. On the PE. */
static struct ampi_thread *find_blocked(pthread_t target)
{
    struct ampi_rank *self = ult_self()->owner;
    struct ampi_thread *thread = self->threads;

    while (thread && !pthread_equal(thread->thread, target))
        thread = thread->next;
    if (!thread || !ult_is_blocked(&thread->ult))
        thread = ampi_join_follow(self, target);
    return thread && ult_is_blocked(&thread->ult) && !thread->ult.joiner ? thread : NULL;
}

bool ampi_thread_await_call(pthread_t target, const void *from)
{
    struct ult *self = ult_self();
    const char *call = self->call;
    const void *called_from = self->called_from;
    struct ampi_thread *thread;
    bool is_found;

    ult_enter(self);
    thread = find_blocked(target);
    is_found = thread && !self->is_called && !image_cancel_is_due(); /* end_await may have been handled */
    if (is_found) {
        self->call = "pthread_join";
        self->called_from = from;
        ult_join(&thread->ult);
        self->call = call;
        self->called_from = called_from;
    }
    ult_leave(self);
    return is_found;
}

/* Ends the wait of a rank's main thread: at its PE. */
struct await_end {
    struct ult_wakeup wakeup;
    const struct ampi_rank *rank;
};

static void end_await(struct ult_wakeup *wakeup)
{
    struct await_end *end = BASE_CONTAINER(wakeup, struct await_end, wakeup);

    for (struct ampi_thread *thread = end->rank->threads; thread; thread = thread->next)
        ult_end_join(&thread->ult);
    free(end);
}

void ampi_thread_end_await(const struct image *image)
{
    int n_ranks = atomic_load(&ampi_job.n_present), i = 0;
    struct await_end *end;

    while (i < n_ranks && ampi_job.ranks[i].image != image)
        i++;
    if (i == n_ranks)
        return;
    end = base_calloc(1, sizeof *end, "the end of a thread");
    *end = (struct await_end){.wakeup.handle = end_await, .rank = &ampi_job.ranks[i]};
    ult_post_wakeup(ult_pe_get(end->rank->pe_id), &end->wakeup);
}

/* ---- Counting those that wait ---- */

/* Scans that must all have found no other thread: one may have missed it. */
#define SCANS 2

/* True if more threads than these are not among first_threads. Reads the starts of threads only if their numbers do not suffice. */
static bool has_more_threads(int n)
{
    bool has_more = count_unknown(has_number_of_first, false) > n;

    for (int i = 0; i < SCANS && !has_more; i++)
        has_more = count_threads(false) > n;
    return has_more;
}

bool ampi_thread_any_other(void)
{
    if (atomic_load(&gpu_n_callbacks) > 0)
        return true;
    for (int i = 0; i < atomic_load(&ampi_job.n_present); i++) {
        const struct ampi_rank *rank = &ampi_job.ranks[i];
        if (rank->threads_level < MPI_THREAD_SERIALIZED)
            continue;
        if (ampi_job.is_virtual ? rank->image && image_count_threads(rank->image) > count_waiting(rank)
                                : n_own_threads < 0 || has_more_threads(n_own_threads + count_waiting(rank)))
            return true;
    }
    return false;
}

bool ampi_thread_may_keep(const struct ult *u)
{
    const struct ampi_rank *rank = u->owner;

    return rank->threads_level >= MPI_THREAD_SERIALIZED && ampi_rank_has_threads(rank);
}
