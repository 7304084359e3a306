/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stuck.c: says which rank keeps its PE in a lock of a shared library.
 *
 * A mutex of a library that the ranks share belongs to the OS thread. A rank that holds one and is then
 * switched away from (in a callback that waits for a message) leaves it locked; the next rank of the PE that
 * wants it blocks the thread in the kernel, for ever, and with it all ranks of the PE: no PE sleeps, so no
 * deadlock is reported.
 *
 * Only somebody outside of the PEs can see that: a thread of its own. It looks at the PEs' counters of
 * switches, a few times in the limit, and where one stands still asks /proc in which system call the PE's
 * thread is, so PEs do nothing for it. There is no such thread where the ranks share no libraries but those
 * that are known to hold no lock while a rank's code runs.
 */
#include "ampi/job.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ampi/options.h"
#include "base/log.h"
#include "image/image.h"

#define DEFAULT_S 10
#define LOOKS_PER_LIMIT 4
#define STACK_BYTES ((size_t)128 << 10)

/* Most words of a blocked rank's stack that are looked at. */
#define STACK_WORDS 2048

/* What the thread has seen of a PE. */
struct seen {
    uint64_t n_switches;
    int n_looks; /* since then */
    bool is_said;
};

/* Where a thread is blocked. */
struct blocked {
    long call;
    uintptr_t address; /* the first argument: the lock */
    unsigned long operation;
    uintptr_t stack;
};

/* false: it runs, or the kernel does not tell. */
static bool where_blocked(pid_t tid, struct blocked *blocked_out)
{
    char path[64];
    FILE *file;
    int n_read = 0;
    unsigned long args[6];

    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)tid);
    file = fopen(path, "re");
    if (file) {
        n_read = fscanf(file, "%ld %lx %lx %lx %lx %lx %lx %lx", &blocked_out->call, &args[0], &args[1],
                        &args[2], &args[3], &args[4], &args[5], &blocked_out->stack);
        fclose(file);
    }
    if (n_read != 8)
        return false;
    blocked_out->address = args[0];
    blocked_out->operation = args[1];
    return true;
}

/* A wait for a lock; those for conditions, threads and semaphores may be long, and have another operation. */
static bool is_lock(const struct blocked *blocked)
{
    return blocked->call == SYS_futex && (blocked->operation & FUTEX_CMD_MASK) == FUTEX_WAIT;
}

/* The library that waits: the first in the calls on the stack that is not the C library or this one. */
static const char *library_of(const struct blocked *blocked, int rank)
{
    const uintptr_t *word = (const uintptr_t *)(blocked->stack & ~(sizeof(uintptr_t) - 1));
    Dl_info info, c_library, own;

    if (!dladdr((void *)(uintptr_t)pthread_mutex_lock, &c_library) || !dladdr(&ampi_job, &own))
        return NULL;
    /* The lock is a variable of the library, as a rule. */
    if (dladdr((void *)blocked->address, &info) && info.dli_fbase != c_library.dli_fbase)
        return info.dli_fname;
    for (int i = 0;
         i < STACK_WORDS && ampi_memory_slot_of(word + i) == rank && ampi_memory_guard_of(word + i) < 0 &&
         (const char *)(word + i) < ampi_memory_image_base(rank);
         i++)
        if (dladdr((void *)word[i], &info) && info.dli_fbase != c_library.dli_fbase &&
            info.dli_fbase != own.dli_fbase)
            return info.dli_fname;
    return NULL;
}

static void look_at(int pe_id, struct seen *seen)
{
    struct ult_pe *pe = ult_pe_get(pe_id);
    uint64_t n_switches = ult_pe_switches_seen(pe);
    struct blocked blocked;
    const char *library;
    int slot;

    if (n_switches != seen->n_switches)
        *seen = (struct seen){.n_switches = n_switches};
    if (++seen->n_looks <= LOOKS_PER_LIMIT || seen->is_said || !where_blocked(ult_pe_tid(pe), &blocked) ||
        !is_lock(&blocked))
        return;
    slot = ampi_memory_slot_of((const void *)blocked.stack);
    if (slot < 0 || ult_pe_switches_seen(pe) != n_switches)
        return;
    seen->is_said = true;
    library = library_of(&blocked, slot);
    base_log("rank %d of %d waits for a lock of %s, and with it all ranks of PE %d: if another rank of the "
             "PE holds the "
             "lock while it waits for a message, this is for ever; each rank can have a copy of the library "
             "(+private)",
             ampi_job.first_rank + slot, ampi_job.n_ranks, library ? library : "a library", pe_id);
}

static void *watch(void *arg)
{
    struct seen *seen = arg;
    long limit_s = ampi_options.stuck_s > 0 ? ampi_options.stuck_s : DEFAULT_S;
    struct timespec pause = {.tv_sec = limit_s / LOOKS_PER_LIMIT,
                             .tv_nsec = limit_s % LOOKS_PER_LIMIT * (1000000000 / LOOKS_PER_LIMIT)};

    for (;;) {
        nanosleep(&pause, NULL);
        for (int i = 0; i < ult_pe_count(); i++)
            look_at(i, &seen[i]);
    }
    return NULL;
}

void ampi_stuck_watch(void)
{
    bool is_wanted = ampi_options.stuck_s > 0 || (ampi_options.stuck_s < 0 && image_has_shared_libraries());
    static struct seen *seen; /* the thread's, to the end of the process */
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;

    if (!is_wanted || ampi_job.n_local <= ult_pe_count())
        return;
    seen = base_calloc((size_t)ult_pe_count(), sizeof *seen, "the watch for locks");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, watch, seen) != 0)
        base_log_verbose(1, "no thread to watch for ranks that keep their PE: %s", strerror(errno));
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
