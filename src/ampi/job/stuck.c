/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stuck.c: reports ranks that block their PE in a system call.
 *
 * Calls that wait inside the C library (fgets, std::cin, condition variables, writev) block the thread of
 * the PE, and with it all its ranks. So does a mutex of a library that the ranks share, because it belongs
 * to the OS thread: a rank that holds one and is then switched away from (in a callback that waits for a
 * message) leaves it locked, and the next rank of the PE that needs it waits for ever. In none of these
 * cases does the PE sleep, so no deadlock is reported.
 *
 * Only an observer outside the PEs can detect that: a separate thread. It reads the PEs' switch counters a few times
 * within the limit. For a PE whose counter has not changed it asks /proc for the system call of the PE's thread and
 * whether the thread has run since, so PEs do nothing for it. Locks have a shorter limit, as long as the ranks share
 * libraries that may hold a lock while a rank's code runs. The thread does not exist if every rank has its own PE,
 * unless +check stuck:S is set: then it also detects a livelock (livelock.c).
 *
 * FUTEX_WAIT in the thread's system call is a lock; conditions, joins and semaphores use FUTEX_WAIT_BITSET and may
 * take long. The library is found by the lock's address or by the calls on the rank's stack. Other calls are reported
 * only if call, arguments, stack pointer and the number of context switches are the same at every poll, so a rank
 * that makes many short calls is not reported.
 */
#include "ampi/job/job.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ampi/job/report.h"
#include "base/settings.h"
#include "base/log.h"
#include "base/text.h"
#include "image/image.h"

#define LOCK_LIMIT_S 10
#define CALL_LIMIT_S 60
#define POLLS_PER_LIMIT 4

/* Maximum number of words of a blocked rank's stack that are examined. */
#define STACK_WORDS 2048

/* The system call that a thread is blocked in. */
struct blocked {
    long call;
    unsigned long args[6]; /* for a lock, the first is its address */
    uintptr_t stack;
    unsigned long n_runs; /* number of context switches of the thread */
};

/* The state of a PE at the thread's last poll. */
struct seen {
    uint64_t n_switches;
    struct blocked blocked;
    int n_polls; /* later polls that found it unchanged */
    bool is_said;
};

static struct {
    long period_ms; /* time between two polls */
    int lock_polls; /* polls within the limit for locks; 0: no special limit for locks */
    int call_polls; /* the same for other calls */
    long call_limit_s;
    struct seen *seen; /* by PE */
} watched;

/* ---- Data from the kernel ---- */

/* The thread's voluntary and involuntary context switches; 0: unknown. */
static unsigned long count_runs(pid_t tid)
{
    char path[64], line[256];
    unsigned long n_runs = 0, n;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)tid);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1 ||
            sscanf(line, "nonvoluntary_ctxt_switches: %lu", &n) == 1)
            n_runs += n;
    if (file)
        fclose(file);
    return n_runs;
}

/* Reads what the kernel says of the thread's system call: "202 0x...", or "running"; "": nothing. Signal handlers may call it. */
static void read_call(pid_t tid, char *text_out, size_t size_bytes)
{
    char bytes[64];
    struct base_text path = base_text_in(bytes, sizeof bytes);
    ssize_t n;
    int fd;

    base_text_add(&path, "/proc/self/task/");
    base_text_add_number(&path, tid);
    base_text_add(&path, "/syscall");
    fd = open(bytes, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, text_out, size_bytes - 1) : 0;
    text_out[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

/* false: it is running, or its state is unknown. */
static bool where_blocked(pid_t tid, struct blocked *blocked_out)
{
    char text[256];
    int n_read;
    unsigned long *args = blocked_out->args;

    memset(blocked_out, 0, sizeof *blocked_out);
    read_call(tid, text, sizeof text);
    n_read = sscanf(text, "%ld %lx %lx %lx %lx %lx %lx %lx", &blocked_out->call, &args[0], &args[1], &args[2],
                    &args[3], &args[4], &args[5], &blocked_out->stack);
    blocked_out->n_runs = count_runs(tid);
    return n_read == 8;
}

/* ---- Locks ---- */

/* True for a wait for a lock; waits for conditions, threads and semaphores may be long, and use another
 * operation. */
static bool is_lock(const struct blocked *blocked)
{
    return blocked->call == SYS_futex && (blocked->args[1] & FUTEX_CMD_MASK) == FUTEX_WAIT;
}

/* The waiting library: the first one in the calls on the stack that is neither the C library nor this one. */
static const char *library_of(const struct blocked *blocked, int rank)
{
    const uintptr_t *word = (const uintptr_t *)(blocked->stack & ~(sizeof(uintptr_t) - 1));
    Dl_info info, c_library, own;

    if (!dladdr((void *)(uintptr_t)pthread_mutex_lock, &c_library) || !dladdr(&ampi_job, &own))
        return NULL;
    /* The lock usually is a variable of the library. */
    if (dladdr((void *)blocked->args[0], &info) && info.dli_fbase != c_library.dli_fbase)
        return info.dli_fname;
    for (int i = 0;
         i < STACK_WORDS && ampi_memory_region_of(word + i) == rank && ampi_memory_guard_of(word + i) < 0 &&
         (const char *)(word + i) < ampi_memory_image_base(rank);
         i++)
        if (dladdr((void *)word[i], &info) && info.dli_fbase != c_library.dli_fbase &&
            info.dli_fbase != own.dli_fbase)
            return info.dli_fname;
    return NULL;
}

static void say_lock(int pe_id, int local_rank, const struct blocked *blocked)
{
    const char *library = library_of(blocked, local_rank);

    base_log(
        "rank %d of %d waits for a lock of %s, and blocks all ranks of PE %d: if another rank of the PE "
        "holds the lock while it waits for a message, they wait for ever; +private gives each rank a copy "
        "of the library",
        ampi_rank_number(&ampi_job.ranks[local_rank]), ampi_rank_world_size(&ampi_job.ranks[local_rank]),
        library ? library : "a library", pe_id);
}

/* ---- Other calls ---- */

/* Waiting calls: on a descriptor, which is the first argument, or on another object. */
static const struct {
    long call;
    const char *name;
    bool has_descriptor;
} calls[] = {
    {SYS_read, "read", true},
    {SYS_readv, "readv", true},
    {SYS_pread64, "pread", true},
    {SYS_preadv, "preadv", true},
    {SYS_write, "write", true},
    {SYS_writev, "writev", true},
    {SYS_pwrite64, "pwrite", true},
    {SYS_pwritev, "pwritev", true},
    {SYS_recvfrom, "recvfrom", true},
    {SYS_recvmsg, "recvmsg", true},
    {SYS_recvmmsg, "recvmmsg", true},
    {SYS_sendto, "sendto", true},
    {SYS_sendmsg, "sendmsg", true},
    {SYS_sendmmsg, "sendmmsg", true},
    {SYS_sendfile, "sendfile", true},
    {SYS_splice, "splice", true},
    {SYS_accept, "accept", true},
    {SYS_accept4, "accept4", true},
    {SYS_connect, "connect", true},
    {SYS_ioctl, "ioctl", true},
    {SYS_fcntl, "fcntl", true},
    {SYS_flock, "flock", true},
    {SYS_fsync, "fsync", true},
    {SYS_fdatasync, "fdatasync", true},
    {SYS_epoll_pwait, "epoll_pwait", true},
    {SYS_ppoll, "ppoll", false},
    {SYS_pselect6, "pselect", false},
    {SYS_futex, "futex (a lock, a condition, a semaphore or the end of a thread)", false},
    {SYS_wait4, "wait4", false},
    {SYS_waitid, "waitid", false},
    {SYS_nanosleep, "nanosleep", false},
    {SYS_clock_nanosleep, "clock_nanosleep", false},
    {SYS_rt_sigtimedwait, "sigtimedwait", false},
    {SYS_rt_sigsuspend, "sigsuspend", false},
    {SYS_openat, "openat", false},
    {SYS_msgrcv, "msgrcv", false},
    {SYS_msgsnd, "msgsnd", false},
    {SYS_semop, "semop", false},
#ifdef SYS_poll /* newer architectures have only the calls with a p and with at */
    {SYS_poll, "poll", false},
    {SYS_select, "select", false},
    {SYS_pause, "pause", false},
    {SYS_open, "open", false},
    {SYS_epoll_wait, "epoll_wait", true},
#endif
};

/* Its place in `calls`; -1: it is not there. */
static int place_of(long call)
{
    for (int i = 0; i < (int)BASE_COUNT(calls); i++)
        if (calls[i].call == call)
            return i;
    return -1;
}

const char *ampi_stuck_call_name(long call)
{
    int place = place_of(call);

    return place >= 0 ? calls[place].name : "another one";
}

long ampi_stuck_call_of(pid_t tid)
{
    char text[64], *end;
    long call;

    read_call(tid, text, sizeof text);
    call = strtol(text, &end, 10);
    return end == text ? -1 : call;
}

bool ampi_stuck_futex_of(pid_t tid, unsigned long *address_out, unsigned long *value_out)
{
    char text[128];
    long call;

    read_call(tid, text, sizeof text);
    return sscanf(text, "%ld %lx %*x %lx", &call, address_out, value_out) == 3 && call == SYS_futex;
}

/* Describes a call: "read of descriptor 0 (/dev/pts/1)". */
static void describe(const struct blocked *blocked, char *text, size_t size_bytes)
{
    char path[64], target[256];
    ssize_t length;

    int place = place_of(blocked->call), fd = (int)blocked->args[0];

    if (place < 0) {
        snprintf(text, size_bytes, "system call %ld", blocked->call);
        return;
    }
    snprintf(text, size_bytes, "%s", calls[place].name);
    if (!calls[place].has_descriptor)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    length = readlink(path, target, sizeof target - 1);
    target[length > 0 ? length : 0] = '\0';
    snprintf(text, size_bytes, "%s of descriptor %d%s%s%s", calls[place].name, fd, length > 0 ? " (" : "",
             target, length > 0 ? ")" : "");
}

/* True if the PE has other ranks that could run. */
static bool has_company(int pe_id, int local_rank)
{
    for (int i = 0; i < atomic_load(&ampi_job.n_present); i++)
        if (i != local_rank && ampi_job.ranks[i].pe_id == pe_id &&
            __atomic_load_n(&ampi_job.ranks[i].state, __ATOMIC_RELAXED) != AMPI_RANK_ENDED)
            return true;
    return false;
}

static void say_call(int pe_id, int local_rank, const struct blocked *blocked)
{
    char text[400];

    describe(blocked, text, sizeof text);
    base_log("rank %d of %d has not returned from %s for %ld s; all other ranks of PE %d are waiting",
             ampi_rank_number(&ampi_job.ranks[local_rank]), ampi_rank_world_size(&ampi_job.ranks[local_rank]),
             text, watched.call_limit_s, pe_id);
}

/* ---- The thread ---- */

/* True if the PE's thread is in the same call as at the last poll, and has not run since. */
static bool is_still_there(struct ult_pe *pe, struct seen *seen)
{
    uint64_t n_switches = ult_pe_switches_seen(pe);
    struct blocked now;

    if (n_switches != seen->n_switches)
        *seen = (struct seen){.n_switches = n_switches};
    if (ult_pe_is_asleep(pe) || !where_blocked(ult_pe_tid(pe), &now)) {
        seen->n_polls = 0;
        seen->blocked = (struct blocked){0};
        return false;
    }
    if (memcmp(&now, &seen->blocked, sizeof now) != 0) {
        seen->n_polls = 0;
        seen->blocked = now;
        return false;
    }
    seen->n_polls++;
    return !seen->is_said;
}

static void poll_pe(int pe_id, struct seen *seen)
{
    struct ult_pe *pe = ult_pe_get(pe_id);
    const struct blocked *blocked = &seen->blocked;
    bool is_lock_late, is_call_late;
    int local_rank;

    if (!is_still_there(pe, seen))
        return;
    is_lock_late = watched.lock_polls > 0 && is_lock(blocked) && seen->n_polls >= watched.lock_polls;
    is_call_late = seen->n_polls >= watched.call_polls;
    local_rank = ampi_memory_region_of((const void *)blocked->stack);
    if ((!is_lock_late && !is_call_late) || local_rank < 0 || ult_pe_switches_seen(pe) != seen->n_switches)
        return;
    seen->is_said = true;
    if (is_lock_late)
        say_lock(pe_id, local_rank, blocked);
    else if (has_company(pe_id, local_rank))
        say_call(pe_id, local_rank, blocked);
}

static void *watch(void *arg)
{
    struct timespec pause = {.tv_sec = watched.period_ms / 1000,
                             .tv_nsec = watched.period_ms % 1000 * 1000000};

    (void)arg;
    pthread_setname_np(pthread_self(), "heddle stuck");
    for (;;) {
        nanosleep(&pause, NULL);
        for (int i = 0; i < ult_pe_count(); i++)
            poll_pe(i, &watched.seen[i]);
        ampi_livelock_check(watched.call_polls);
    }
    return NULL;
}

/* +check stuck:S sets the limit for all calls; by default locks have a shorter one if ranks may wait for each other
 * through them. */
static void choose_limits(void)
{
    bool watches_locks = base_settings.stuck_s > 0 || image_has_shared_libraries();
    long lock_limit_s = base_settings.stuck_s > 0 ? base_settings.stuck_s : LOCK_LIMIT_S;

    watched.call_limit_s = base_settings.stuck_s > 0 ? base_settings.stuck_s : CALL_LIMIT_S;
    watched.period_ms = 1000 * (watches_locks ? lock_limit_s : watched.call_limit_s) / POLLS_PER_LIMIT;
    watched.lock_polls = watches_locks ? POLLS_PER_LIMIT : 0;
    watched.call_polls = (int)(1000 * watched.call_limit_s / watched.period_ms);
}

void ampi_stuck_watch(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;

    if (base_settings.stuck_s > 0)
        ampi_livelock_watch();
    if (base_settings.stuck_s == 0 ||
        (base_settings.stuck_s < 0 && ampi_job.n_local + ampi_job.spawn_room <= ult_pe_count()))
        return;
    choose_limits();
    watched.seen = base_calloc((size_t)ult_pe_count(), sizeof *watched.seen, "detecting blocked ranks");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, BASE_THREAD_STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, watch, NULL) != 0)
        base_log_verbose(1, "cannot start a thread to detect ranks that block their PE: %s", strerror(errno));
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
