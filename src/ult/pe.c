/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pe.c: PEs, the run queue and the switch between ULTs. See ult.h for the states and invariants.
 */
#include "ult/pe.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <linux/membarrier.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/log.h"
#include "ult/arch/ult_arch.h"
#include "ult/asan.h"
#include "ult/shuffle.h"
#include "ult/tls.h"

/* A PE polls its inbox at every switch, and its other sources this often. */
#define YIELDS_PER_POLL 32

/* With more PEs than cores, a PE yields its core after this many yields of its ULTs: often enough for ranks that
 * wait for another PE, too seldom to cost much where every yield runs another ULT. */
#define YIELDS_PER_LEND 128

/* Maximum number of polls of an idle PE before it sleeps: many (a time limit ends them, idle.c) if every PE
 * has a core, else few. */
#define SPIN_POLLS 200000
#define SPIN_POLLS_OVERSUBSCRIBED 20

struct ult_job ult_job;
__thread struct ult *ult_current __attribute__((tls_model("initial-exec")));
__thread bool ult_has_switched __attribute__((tls_model("initial-exec")));

/* ---- The run queue ---- */

static inline void queue_push(struct ult_pe *pe, struct ult *u)
{
    u->next = NULL;
    if (pe->queue_first)
        pe->queue_last->next = u;
    else
        pe->queue_first = u;
    pe->queue_last = u;
}

static inline struct ult *queue_pop(struct ult_pe *pe)
{
    struct ult *u = pe->queue_first;

    pe->queue_first = u->next;
    return u;
}

/* ---- The switch ---- */

/* See ult_hook_switches. */
static void *const no_hint = NULL;
static void *const *_Atomic switch_hint = &no_hint;
static void (*_Atomic switch_hook)(struct ult *from, struct ult *to);

void ult_hook_switches(void *const *hint, void (*hook)(struct ult *from, struct ult *to))
{
    atomic_store(&switch_hook, hook);
    atomic_store(&switch_hint, hint);
}

/* Swaps state that few programs have: thread_local variables, AddressSanitizer's. */
static void swap_extras(struct ult *from, struct ult *to)
{
    if (ult_switch_extras & ULT_EXTRA_WATCHED)
        ult_watchers.switches(from, to);
    if (ult_switch_extras & ULT_EXTRA_TLS)
        ult_tls_swap(from->tls_save, to->tls_save);
    else if (ult_switch_extras & ULT_EXTRA_OWN)
        ult_tls_switch(from, to);
    if (BASE_UNLIKELY(ult_switch_extras & ULT_EXTRA_ASAN))
        ult_asan_switch(from, to);
}

/* Swaps the state that is kept per OS thread on behalf of a ULT. */
static inline void swap_thread_state(struct ult_pe *pe, struct ult *from, struct ult *to)
{
    from->saved_errno = *pe->errno_addr;
    *pe->errno_addr = to->saved_errno;
    if (pe->cxa_globals) {
        memcpy(from->cxa_globals, pe->cxa_globals, sizeof from->cxa_globals);
        memcpy(pe->cxa_globals, to->cxa_globals, sizeof to->cxa_globals);
    }
    if (BASE_UNLIKELY(ult_switch_extras))
        swap_extras(from, to);
    if (BASE_UNLIKELY(*atomic_load_explicit(&switch_hint, memory_order_acquire) != NULL))
        atomic_load_explicit(&switch_hook, memory_order_relaxed)(from, to);
}

static inline void switch_to(struct ult_pe *pe, struct ult *from, struct ult *to)
{
    const struct ult *after = pe->queue_first;

    pe->n_switches++;
    /* With thousands of ranks all data of the next one is cold, including page tables. Prefetch while this
     * one runs: the stack and code of the one after it, whose struct the previous switch has prefetched,
     * and the struct after that. */
    if (after) {
        __builtin_prefetch(after->next);
        __builtin_prefetch(after->sp);
        __builtin_prefetch((const char *)after->sp + BASE_CACHE_LINE);
        __builtin_prefetch((const char *)after->sp + 2 * BASE_CACHE_LINE);
        __builtin_prefetch(after->resume_at);
    }
    swap_thread_state(pe, from, to);
    to->state = ULT_RUNNING;
    ult_current = to;
    ult_annotate_leave(&from->annotation, &to->annotation, from->state == ULT_ENDED);
    ult_arch_switch(&from->sp, to->sp);
    ult_annotate_enter(&from->annotation);
    ult_has_switched = true;
}

static BASE_NOINLINE void wait_for_work(struct ult_pe *pe)
{
    pe->n_waits++;
    ult_pe_idle(pe, false);
}

static void run_next(struct ult_pe *pe, struct ult *self)
{
    struct ult *next;

    if (ult_inbox_has_mail(&pe->inbox) || ++pe->n_yields % YIELDS_PER_POLL == 0)
        ult_pe_poll(pe);
    if (BASE_UNLIKELY(!pe->queue_first))
        wait_for_work(pe);
    next = queue_pop(pe);
    if (next == self)
        self->state = ULT_RUNNING;
    else
        switch_to(pe, self, next);
}

bool ult_pe_let_others_run(struct ult *self)
{
    struct ult_pe *pe = self->pe;

    if (ult_is_bound(self)) {
        ult_sharing_yield(self);
        return false;
    }
    if (BASE_UNLIKELY(pe->is_shared))
        ult_sharing_yield(self);
    else if (!pe->queue_first)
        ult_pe_poll(pe);
    if (!pe->queue_first)
        return false;
    self->state = ULT_READY;
    queue_push(pe, self);
    if (self->detours & ULT_SHUFFLED)
        ult_shuffle_queue(pe);
    run_next(pe, self);
    return true;
}

/* Called if the next ULT is chosen at random, or the caller holds the exclusive turn: others may take it until the caller runs
 * again. */
static BASE_COLD void run_next_specially(struct ult_pe *pe, struct ult *self)
{
    bool is_exclusive = self->detours & ULT_EXCLUSIVE;

    if (is_exclusive)
        ult_exclusive_let_go();
    if (!ult_is_bound(self) && (self->detours & ULT_SHUFFLED))
        ult_shuffle_queue(pe);
    if (ult_is_bound(self))
        ult_sharing_wait(self);
    else
        run_next(pe, self);
    if (is_exclusive)
        ult_exclusive_take(self);
}

/* Runs the next ready ULT instead of the caller, which is queued, blocked or ended; waits if none is ready.
 * A bound caller only waits. */
static inline void switch_away(struct ult_pe *pe, struct ult *self)
{
    if (BASE_LIKELY(!self->detours))
        run_next(pe, self);
    else if (self->detours == ULT_BOUND)
        ult_sharing_wait(self);
    else
        run_next_specially(pe, self);
}

void ult_errands_run(struct ult *self)
{
    while (self->errands) {
        struct ult_errand *errand = self->errands;
        self->errands = errand->next;
        errand->run(errand);
    }
}

/* The caller keeps waiting, and runs its errands meanwhile. */
static BASE_COLD void suspend_with_errands(struct ult *self)
{
    self->is_called = true;
    for (;;) {
        ult_errands_run(self);
        self->is_called = false;
        if (self->is_ready_too)
            break;
        self->state = ULT_BLOCKED;
        switch_away(self->pe, self);
        if (!self->is_called)
            return;
    }
    self->is_ready_too = false;
}

static inline __attribute__((always_inline)) void suspend(struct ult *self)
{
    if (BASE_LIKELY(!self->errands)) {
        self->state = ULT_BLOCKED;
        switch_away(self->pe, self);
        if (BASE_LIKELY(!self->is_called))
            return;
    }
    suspend_with_errands(self);
}

/* Ends the job: an errand may not suspend its ULT, because a wake-up could be meant for either wait, the
 * errand's or the one that it interrupts. */
static BASE_COLD void refuse_suspend(const struct ult *self)
{
    if (ult_job.hooks.errand_suspends)
        ult_job.hooks.errand_suspends(self);
    base_fatal(1, "rank %d: an errand called a function that waits for other ranks", self->world_rank);
}

static BASE_COLD void suspend_watched(struct ult *self)
{
    uint64_t since_ns = ult_now_ns();
    ult_watchers.blocks(self);
    suspend(self);
    ult_watchers.resumes(self, since_ns);
}

void ult_suspend(void)
{
    struct ult *self = ult_self();

    if (BASE_LIKELY(!self->alert))
        suspend(self);
    else if (self->is_called)
        refuse_suspend(self);
    else
        suspend_watched(self);
}

void ult_ready(struct ult *u)
{
    if (BASE_UNLIKELY(u->is_watched))
        ult_report_ready(u);
    if (BASE_UNLIKELY(u->state != ULT_BLOCKED)) {
        if (u->state == ULT_PARKED) {
            ult_sharing_ready(u);
            return;
        }
        BASE_ASSERT(u->is_called && !u->is_ready_too);
        u->is_ready_too = true;
        return;
    }
    u->state = ULT_READY;
    queue_push(u->pe, u);
}

void ult_post_errand(struct ult *u, struct ult_errand *errand)
{
    struct ult_errand **link = &u->errands;

    while (*link)
        link = &(*link)->next;
    errand->next = NULL;
    *link = errand;
    if (ult_is_blocked(u)) {
        u->is_called = true;
        if (u->state == ULT_PARKED) {
            ult_sharing_ready(u);
            return;
        }
        u->state = ULT_READY;
        queue_push(u->pe, u);
    }
}

/* More PEs than cores: ranks that call MPI_Test in a loop would keep the core from the PE that they wait for,
 * until the kernel takes it away some milliseconds later. */
static BASE_COLD void lend_core(struct ult_pe *pe)
{
    if (++pe->n_until_lend % YIELDS_PER_LEND == 0)
        sched_yield();
}

void ult_yield(void)
{
    struct ult *self = ult_self();
    struct ult_pe *pe = self->pe;

    if (BASE_UNLIKELY(ult_job.is_oversubscribed))
        lend_core(pe);
    if (BASE_UNLIKELY(pe->is_shared))
        ult_sharing_yield(self);
    else if (!pe->queue_first)
        ult_pe_poll(pe);
    if (pe->queue_first && BASE_LIKELY(!ult_is_bound(self))) {
        self->state = ULT_READY;
        queue_push(pe, self);
        switch_away(pe, self);
    }
    if (BASE_UNLIKELY(self->errands != NULL))
        ult_errands_run(self);
}

/* ---- Start and end of a ULT ---- */

/* A ULT has ended, or a PE has created its ULTs: the last one ends the PEs. */
static void count_one_less(void)
{
    if (atomic_fetch_sub_explicit(&ult_job.n_live, 1, memory_order_seq_cst) == 1)
        for (int i = 0; i < ult_job.n_pes; i++) {
            ult_pe_wake(&ult_job.pes[i]);
            ult_sharing_job_ended(&ult_job.pes[i]);
        }
}

/* First function of every ULT. */
static void run_entry(void *arg)
{
    struct ult *self = arg;

    ult_annotate_enter(&self->annotation);
    self->entry(self->arg);
    ult_end();
}

void ult_create(struct ult *u, struct ult_pe *pe, char *stack_lo, char *stack_hi, void (*entry)(void *),
                void *arg)
{
    u->sp = ult_arch_prepare(stack_hi, run_entry, u);
    u->pe = pe;
    u->saved_errno = 0;
    u->hook_state = NULL;
    memset(u->cxa_globals, 0, sizeof u->cxa_globals);
    u->state = ULT_READY;
    u->alert = 0;
    u->is_ready_too = false;
    u->detours = ult_shuffles ? ULT_SHUFFLED : 0;
    u->depth = 1;
    u->errands = NULL;
    u->entry = entry;
    u->arg = arg;
    u->stack_lo = stack_lo;
    u->stack_hi = stack_hi;
    ult_asan_create(u);
    ult_annotate_create(&u->annotation, stack_lo, stack_hi);
    queue_push(pe, u);
    pe->n_live++;
    atomic_fetch_add_explicit(&ult_job.n_live, 1, memory_order_relaxed);
    if (BASE_UNLIKELY(pe->is_shared) && !pe->sharing.watcher && pe->n_live > 1)
        ult_watcher_start(u);
}

void ult_end(void)
{
    struct ult *self = ult_self();
    struct ult_pe *pe = self->pe;

    self->state = ULT_ENDED;
    if (!ult_is_bound(self)) { /* otherwise the carrier may still wait on the stack of another one */
        pe->ended = self;
        pe->n_before_end = pe->n_switches;
    }
    pe->n_live--;
    count_one_less();
    if (pe->n_live == 0)
        queue_push(pe, &pe->carrier->base);
    if (ult_is_bound(self)) {
        ult_exclusive_leave(self);
        ult_sharing_end(self);
    }
    switch_away(pe, self);
    __builtin_unreachable();
}

bool ult_has_left_stack(const struct ult *u)
{
    const struct ult_pe *pe = u->pe;

    return u->state == ULT_ENDED && (pe->ended != u || pe->n_before_end != pe->n_switches);
}

/* ---- PEs ---- */

struct ult_pe *ult_pe_get(int pe_id)
{
    return &ult_job.pes[pe_id];
}

int ult_pe_count(void)
{
    return ult_job.n_pes;
}

int ult_pe_id(const struct ult_pe *pe)
{
    return pe->pe_id;
}

int ult_pe_node_index(const struct ult_pe *pe, int *n_on_node_out)
{
    *n_on_node_out = ult_job.n_pes * (ult_job.node_n_procs > 0 ? ult_job.node_n_procs : 1);
    return pe->pe_id + ult_job.node_index * ult_job.n_pes;
}

int ult_pe_live(const struct ult_pe *pe)
{
    return pe->n_live;
}

bool ult_pe_has_ready(const struct ult_pe *pe)
{
    return pe->queue_first != NULL;
}

void ult_pe_add_source(struct ult_pe *pe, struct ult_source *source)
{
    source->next = pe->sources;
    pe->sources = source;
}

static void pe_init(struct ult_pe *pe, int pe_id, int n_pes)
{
    pe->pe_id = pe_id;
    ult_inbox_init(&pe->inbox);
    pe->backlogs = base_calloc((size_t)n_pes, sizeof *pe->backlogs, "the backlogs of a PE");
    pe->rings_to = base_calloc((size_t)n_pes, sizeof *pe->rings_to, "the rings of a PE");
    pe->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pe->event_fd < 0)
        base_fatal(1, "no event descriptor for PE %d: %s; raise `ulimit -n` or use fewer PEs (+p)", pe_id,
                   strerror(errno));
    pe->carrier = &pe->first;
    pe->first.pe = pe;
}

void ult_pe_attach(struct ult_carrier *carrier)
{
    void *(*get_globals)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "__cxa_get_globals");
    struct ult_pe *pe = carrier->pe;

    carrier->base.pe = pe;
    carrier->base.world_rank = -1;
    carrier->base.depth = 1;
    carrier->base.state = ULT_RUNNING;
    carrier->base.detours = ult_shuffles ? ULT_SHUFFLED : 0;
    carrier->base.tls_save = NULL;
    carrier->base.thread_pointer = NULL;
    carrier->thread_pointer = __builtin_thread_pointer();
    carrier->tid = gettid();

    pe->errno_addr = &errno;
    pe->cxa_globals = get_globals ? get_globals() : NULL;
    __atomic_store_n(&pe->tid, carrier->tid, __ATOMIC_RELAXED);
    ult_current = &carrier->base;
    ult_asan_adopt(&carrier->base);
    ult_annotate_adopt(&carrier->base.annotation);
}

void ult_pe_run(struct ult_carrier *carrier)
{
    struct ult_pe *pe = carrier->pe;

    do {
        if (pe->n_live > 0) {
            carrier->base.state = ULT_BLOCKED;
            switch_away(pe, &carrier->base);
        }
        if (!carrier->successor)
            ult_pe_idle(pe, true); /* ULTs may be created on it */
    } while (!carrier->successor && pe->n_live > 0);
    if (pe->is_shared)
        ult_sharing_leave(pe);
    if (carrier->successor)
        pthread_join(carrier->successor->thread, NULL);
}

/* Creates the PE's ULTs and runs them. */
static void start_pe(struct ult_pe *pe)
{
    if (ult_job.hooks.pe_start)
        ult_job.hooks.pe_start(pe);
    count_one_less();
    ult_pe_run(&pe->first);
}

static void *pe_thread(void *arg)
{
    struct ult_pe *pe = arg;

    ult_pe_name_thread(pe, "PE");
    ult_pe_pin(pe);
    ult_pe_attach(&pe->first);
    start_pe(pe);
    ult_current = NULL; /* code that runs at the thread's end belongs to no rank */
    return NULL;
}

/* ---- The job ---- */

void ult_job_share_node(int node_index, int node_n_procs)
{
    ult_job.node_index = node_index;
    ult_job.node_n_procs = node_n_procs;
}

void ult_job_init(int n_pes, const struct ult_hooks *hooks)
{
    ult_asan_init();
    ult_offload_init();
    ult_job.n_pes = n_pes;
    if (hooks)
        ult_job.hooks = *hooks;
    ult_job.is_oversubscribed = n_pes > base_core_share(ult_job.node_n_procs);
    ult_job.n_cores = base_usable_cores();
    ult_job.n_threads = n_pes;
    ult_job.spin_polls = ult_job.is_oversubscribed ? SPIN_POLLS_OVERSUBSCRIBED : SPIN_POLLS;
    pthread_mutex_init(&ult_job.idle_lock, NULL);
    ult_job.has_membarrier =
        n_pes > 1 && syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    ult_job.pes = base_calloc_aligned((size_t)n_pes, sizeof *ult_job.pes, "the PEs");
    for (int i = 0; i < n_pes; i++)
        pe_init(&ult_job.pes[i], i, n_pes);
    ult_pe_attach(&ult_job.pes[0].first);
}

void ult_job_run(void)
{
    cpu_set_t before;
    bool has_before = sched_getaffinity(0, sizeof before, &before) == 0;

    atomic_fetch_add_explicit(&ult_job.n_live, ult_job.n_pes, memory_order_relaxed);
    for (int i = 1; i < ult_job.n_pes; i++) {
        int error = ult_pe_create_thread(&ult_job.pes[i].first.thread, NULL, pe_thread, &ult_job.pes[i]);
        if (error)
            base_fatal(1,
                       "cannot create a thread for PE %d of %d: %s; raise `ulimit -u` or use fewer PEs (+p)",
                       i, ult_job.n_pes, strerror(error));
    }
    ult_pe_pin(&ult_job.pes[0]);
    start_pe(&ult_job.pes[0]);
    for (int i = 1; i < ult_job.n_pes; i++)
        pthread_join(ult_job.pes[i].first.thread, NULL);
    ult_watchers_end();
    ult_lenders_end();
    if (has_before)
        sched_setaffinity(0, sizeof before, &before);
}

void ult_job_leave(void)
{
    ult_current = NULL;
}

void ult_job_adopt_caller(struct ult *u)
{
    struct ult_pe *pe = &ult_job.pes[0];

    ult_pe_attach(&pe->first);
    u->pe = pe;
    u->depth = 0;
    u->state = ULT_RUNNING;
    u->stack_lo = u->stack_hi = NULL;
    ult_annotate_adopt(&u->annotation);
    pe->n_live = 1;
    atomic_store(&ult_job.n_live, 1);
    ult_current = u;
}
