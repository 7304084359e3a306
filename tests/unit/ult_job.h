/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ult_job.h: runs a job of ULTs inside a unit test. A failed assertion must not happen on a ULT's stack
 * (Check leaves by longjmp): ULTs use ULT_CHECK, and ult_job_start fails the test afterwards, on the test's
 * own stack.
 */
#ifndef ULT_JOB_H
#define ULT_JOB_H

#include <check.h>
#include <stdio.h>
#include <sys/mman.h>

#include "ult/ult.h"

#define ULT_JOB_MAX 10000
#ifndef ULT_JOB_STACK_BYTES
#define ULT_JOB_STACK_BYTES ((size_t)256 << 10)
#endif

/* The job of the running test; ULT i belongs to PE i modulo their number. */
static struct {
    int n_ults;
    void (*entry)(void *arg); /* what every ULT runs; arg is its number as a pointer */
    void (*deadlock)(void);
    bool (*may_keep_thread)(const struct ult *u);
    struct ult ults[ULT_JOB_MAX];
    char *stacks;
    char wrong[256]; /* what went wrong first */
    atomic_int n_wrong;
} job;

static inline int self_index(void)
{
    return (int)(ult_self() - job.ults);
}

static inline void ult_check(bool is_right, const char *what, int line)
{
    if (!is_right && atomic_fetch_add(&job.n_wrong, 1) == 0)
        snprintf(job.wrong, sizeof job.wrong, "line %d: %s", line, what);
}
#define ULT_CHECK(cond) ult_check(cond, #cond, __LINE__)

static inline void ult_job_pe_start(struct ult_pe *pe)
{
    for (int i = ult_pe_id(pe); i < job.n_ults; i += ult_pe_count()) {
        char *lo = job.stacks + (size_t)i * ULT_JOB_STACK_BYTES;
        job.ults[i].world_rank = -1;
        ult_create(&job.ults[i], pe, lo, lo + ULT_JOB_STACK_BYTES, job.entry, (void *)(intptr_t)i);
    }
}

/* Runs entry on n_ults ULTs of n_pes PEs until all have ended, and fails the test if one found something
 * wrong. */
static inline void ult_job_start(int n_pes, int n_ults, void (*entry)(void *))
{
    struct ult_hooks hooks = {
        .deadlock = job.deadlock, .pe_start = ult_job_pe_start, .may_keep_thread = job.may_keep_thread};

    job.n_ults = n_ults;
    job.entry = entry;
    job.stacks = mmap(NULL, (size_t)n_ults * ULT_JOB_STACK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(job.stacks, MAP_FAILED);
    ult_job_init(n_pes, &hooks);
    ult_job_run();
    munmap(job.stacks, (size_t)n_ults * ULT_JOB_STACK_BYTES);
    ck_assert_msg(atomic_load(&job.n_wrong) == 0, "%s", job.wrong);
}

/* A wakeup that makes a blocked ULT ready on its own PE. */
struct wake_note {
    struct ult_wakeup wakeup;
    struct ult *u;
};

static inline void wake_handle(struct ult_wakeup *wakeup)
{
    ult_ready(BASE_CONTAINER(wakeup, struct wake_note, wakeup)->u);
}

/* Wakes a blocked ULT of any PE; the wakeup must stay valid. */
static inline void wake(struct wake_note *wakeup, struct ult *u)
{
    wakeup->wakeup.handle = wake_handle;
    wakeup->u = u;
    ult_post_wakeup(u->pe, &wakeup->wakeup);
}

/* The main function of a test program. */
static inline int ult_run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int n_failed;

    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}

#endif
