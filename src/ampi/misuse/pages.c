/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pages.c: +check buffers: the pages of pending operations are protected, so that the program's access is a fault, which
 * job/crash.c reports with the operation.
 *
 * Only whole pages inside of a buffer: those of sends can be read, those of receives neither read nor written. The pages of a
 * receive are open from its match to its completion, while the library and the kernel write there. A fault in the library (a
 * one-sided operation of another rank, say) opens the operation's pages for good.
 */
#include "ampi/misuse/misuse.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"

/* Guarded blocks of the process: each splits a mapping, of which Linux allows 65,530. */
#define GUARDED_MAX 16384
#define GUARDED_MIN 4096 /* bytes of a block that can have a whole page */
#define LOOKS_MAX 64     /* at other pages that may cover some */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all */
static struct ampi_intervals guarded;                    /* blocks of pages; owner: their operations */
static int n_guarded;

static bool protect(const struct ampi_interval *pages, int protection)
{
    return mprotect((void *)pages->begin, pages->end - pages->begin, protection) == 0;
}

static bool guard(const struct ampi_interval *pages)
{
    return protect(pages,
                   ((const struct ampi_misuse_pending *)pages->owner)->is_recv ? PROT_NONE : PROT_READ);
}

static bool covers(const struct ampi_interval *other, const void *arg)
{
    const struct ampi_interval *pages = arg;

    return other->begin <= pages->begin && other->end >= pages->end &&
           ((const struct ampi_misuse_pending *)other->owner)->is_recv ==
               ((const struct ampi_misuse_pending *)pages->owner)->is_recv;
}

/* With the lock. True if other pages protect these in the same way: many sends may have one buffer. */
static bool is_covered(const struct ampi_interval *pages)
{
    return ampi_intervals_find(&guarded, pages->begin, pages->end, covers, pages, LOOKS_MAX) != NULL;
}

/* With the lock. The whole pages of a block. */
static void guard_block(struct ampi_misuse_pending *op, uintptr_t begin, uintptr_t end)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct ampi_interval pages = {.begin = (begin + page - 1) & -page, .end = end & -page, .owner = op};
    struct ampi_interval *made;

    if (pages.begin >= pages.end || n_guarded >= GUARDED_MAX || (!is_covered(&pages) && !guard(&pages)))
        return;
    made = base_malloc(sizeof *made, "+check buffers");
    *made = pages;
    made->with = op->pages;
    op->pages = made;
    ampi_intervals_add(&guarded, made);
    n_guarded++;
}

void ampi_misuse_guard(struct ampi_misuse_pending *op)
{
    bool is_guarded;

    pthread_mutex_lock(&lock);
    is_guarded = op->pages != NULL;
    for (const struct ampi_interval *run = op->runs; run && !is_guarded; run = run->with) {
        const struct ampi_misuse_run *blocks = ampi_misuse_run_of(run);
        if (blocks->block_bytes == blocks->stride) /* they are one */
            guard_block(op, run->begin, run->end);
        else if (blocks->block_bytes >= GUARDED_MIN)
            for (uintptr_t at = run->begin; at < run->end && n_guarded < GUARDED_MAX; at += blocks->stride)
                guard_block(op, at, at + blocks->block_bytes);
    }
    pthread_mutex_unlock(&lock);
}

static bool guard_again(const struct ampi_interval *pages, const void *arg)
{
    (void)arg;
    guard(pages);
    return false;
}

/* With the lock. Other sends may have the same pages. */
static void open_pages(struct ampi_misuse_pending *op)
{
    for (struct ampi_interval *pages = op->pages, *with; pages; pages = with) {
        with = pages->with;
        ampi_intervals_remove(&guarded, pages);
        n_guarded--;
        if (!is_covered(pages)) {
            protect(pages, PROT_READ | PROT_WRITE);
            ampi_intervals_find(&guarded, pages->begin, pages->end, guard_again, NULL, n_guarded);
        }
        free(pages);
    }
    op->pages = NULL;
}

void ampi_misuse_open(struct ampi_misuse_pending *op)
{
    pthread_mutex_lock(&lock);
    open_pages(op);
    pthread_mutex_unlock(&lock);
}

static bool is_any(const struct ampi_interval *pages, const void *arg)
{
    (void)pages;
    (void)arg;
    return true;
}

/* With the lock. The operation that has guarded the page; NULL: none. */
static struct ampi_misuse_pending *find(const void *address)
{
    const struct ampi_interval *pages =
        ampi_intervals_find(&guarded, (uintptr_t)address, (uintptr_t)address + 1, is_any, NULL, 1);

    return pages ? pages->owner : NULL;
}

bool ampi_misuse_find_guarded(const void *address, struct ampi_misuse_fault *fault_out)
{
    const struct ampi_misuse_pending *op;

    pthread_mutex_lock(&lock);
    op = find(address);
    if (op)
        *fault_out = (struct ampi_misuse_fault){op->call, op->is_recv};
    pthread_mutex_unlock(&lock);
    return op != NULL;
}

void ampi_misuse_open_at(const void *address)
{
    struct ampi_misuse_pending *op;

    pthread_mutex_lock(&lock);
    while ((op = find(address)))
        open_pages(op);
    pthread_mutex_unlock(&lock);
}

void ampi_misuse_describe_fault(const struct ampi_misuse_fault *fault, struct base_text *out)
{
    if (!fault->call.name)
        return;
    base_text_add(out, fault->is_recv ? ": it is in the receive buffer of "
                                      : ": a write into the send buffer of ");
    base_text_add(out, fault->call.name);
    ampi_misuse_add_site(out, fault->call.from);
    base_text_add(out, ", which is pending until a call such as MPI_Wait returns;");
}
