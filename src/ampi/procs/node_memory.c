/* SPDX-License-Identifier: BSD-3-Clause
 *
 * node_memory.c: see node_memory.h.
 *
 * Invariants:
 *   1. `own.blocks` is sorted by address; its blocks do not overlap. It only changes under `own.lock`.
 *   2. A block's reference count is 0 only when no process reads it any more; it rises from 0 only in
 *      ampi_node_memory_alloc.
 */
#include "ampi/procs/node_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "ampi/procs/procs.h"
#include "ampi/procs/segment.h"
#include "base/log.h"

/* Address space for blocks; pages exist only where data was written. */
#define SEGMENT_BYTES ((size_t)1 << 30)
#define SEGMENT_ALIGNMENT 1 /* of its address, beyond that of pages */

/* Pages beyond this size are returned when their block is free; less with many processes on the node. */
#define KEEP_BYTES ((size_t)64 << 20)
#define KEEP_NODE_BYTES ((size_t)512 << 20)

/* Blocks are taken in turn from this many bytes, several times a second-level cache: writing to lines that another core
 * has just read is five times slower than writing to lines that have left its cache. */
#define ROTATION_BYTES ((size_t)2 << 20)

#define BLOCKS_MAX 512u
#define PAGE_BYTES ((size_t)4096)

/* The relation of a process of the job to a segment. */
enum mapping_state { NOT_MAPPED, INVITED, MAPPED };

/* The header of a segment. */
struct head {
    uint64_t magic[2]; /* random: identifies the segment, to detect that another one was opened */
    struct {
        _Atomic uint32_t n_refs;
    } BASE_CACHE_ALIGNED blocks[BLOCKS_MAX];
    _Atomic unsigned char states[]; /* by process of the job: enum mapping_state */
};

/* The content of an invitation. */
struct invitation {
    struct ampi_segment_place place;
    uint64_t magic[2];
    int64_t owner;
};

struct block {
    size_t offset;
    size_t n_bytes;
    uint32_t number; /* index in the header's table */
};

/* A segment mapped by this process. */
struct view {
    struct head *head;            /* NULL: not mapped */
    struct invitation invitation; /* to it */
};

static struct {
    pthread_mutex_t lock;
    bool is_tried;
    struct block blocks[BLOCKS_MAX]; /* the first n are in use */
    unsigned n;
    unsigned char is_taken[BLOCKS_MAX]; /* used indices in the header's table */
    size_t first;                       /* offset of the room for blocks */
    size_t next;                        /* ... where the search for the next one starts */
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* By process of the job; allocated with the first segment that this process creates or maps. */
static struct {
    pthread_mutex_t lock;
    _Atomic(struct view *) all;
} views = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Segments ---- */

static size_t head_bytes(void)
{
    return base_round_up(sizeof(struct head) + (size_t)ampi_job.max_procs, PAGE_BYTES);
}

static struct view *view_of(int proc_id)
{
    struct view *all = atomic_load_explicit(&views.all, memory_order_acquire);

    return all ? &all[proc_id] : NULL;
}

/* The header of a process's segment; NULL: not mapped. */
static struct head *head_of(int proc_id)
{
    const struct view *view = view_of(proc_id);

    return view ? __atomic_load_n(&view->head, __ATOMIC_ACQUIRE) : NULL;
}

/* Records a mapped segment; views.lock is held. */
static void add_view(int proc_id, struct head *head, const struct invitation *invitation)
{
    struct view *all = atomic_load_explicit(&views.all, memory_order_relaxed);

    if (!all) {
        all = base_calloc((size_t)ampi_job.max_procs, sizeof *all, "memory of the node's processes");
        atomic_store_explicit(&views.all, all, memory_order_release);
    }
    all[proc_id].invitation = *invitation;
    __atomic_store_n(&all[proc_id].head, head, __ATOMIC_RELEASE);
}

/* own.lock is held. */
static void make_own(void)
{
    struct invitation invitation = {.owner = ampi_job.proc_id};
    struct head *head;

    own.is_tried = true;
    if (getrandom(invitation.magic, sizeof invitation.magic, 0) != (ssize_t)sizeof invitation.magic ||
        !(head = ampi_segment_create(SEGMENT_BYTES, SEGMENT_ALIGNMENT, &invitation.place)))
        return;
    memcpy(head->magic, invitation.magic, sizeof head->magic);
    atomic_store_explicit(&head->states[ampi_job.proc_id], MAPPED, memory_order_relaxed);
    own.first = own.next = head_bytes();
    pthread_mutex_lock(&views.lock);
    add_view(ampi_job.proc_id, head, &invitation);
    pthread_mutex_unlock(&views.lock);
}

/* ---- Blocks of this process ---- */

static size_t keep_bytes(void)
{
    size_t share = KEEP_NODE_BYTES / (size_t)ampi_job.node_n_procs;

    return share < KEEP_BYTES ? share : KEEP_BYTES;
}

/* Returns a block's pages to the system, except those that are kept. */
static void give_pages_back(struct head *head, const struct block *block)
{
    size_t from = block->offset > keep_bytes() ? block->offset : base_round_up(keep_bytes(), PAGE_BYTES);
    size_t end = block->offset + block->n_bytes;

    if (end > from)
        madvise((char *)head + from, end - from, MADV_REMOVE);
}

/* Removes blocks without references from the list. */
static void sweep(struct head *head)
{
    unsigned n = 0;

    for (unsigned i = 0; i < own.n; i++) {
        const struct block *block = &own.blocks[i];
        if (atomic_load_explicit(&head->blocks[block->number].n_refs, memory_order_acquire) > 0) {
            own.blocks[n++] = *block;
            continue;
        }
        own.is_taken[block->number] = 0;
        give_pages_back(head, block);
    }
    own.n = n;
}

/* The first gap for a block from an offset on: its index in the list, and its offset; -1: none. */
static int find_gap_from(size_t at, size_t n_bytes, size_t *offset_out)
{
    unsigned i = 0;

    while (i < own.n && (own.blocks[i].offset < at || own.blocks[i].offset - at < n_bytes)) {
        size_t end = own.blocks[i].offset + own.blocks[i].n_bytes;
        at = end > at ? end : at;
        i++;
    }
    *offset_out = at;
    return SEGMENT_BYTES - at < n_bytes ? -1 : (int)i;
}

static int find_gap(size_t n_bytes, size_t *offset_out)
{
    size_t end = own.first + ROTATION_BYTES;
    int at = end - own.next < n_bytes ? -1 : find_gap_from(own.next, n_bytes, offset_out);

    if (at < 0 || end - own.next < *offset_out - own.next + n_bytes)
        at = find_gap_from(own.first, n_bytes, offset_out);
    own.next = *offset_out + n_bytes < end ? *offset_out + n_bytes : own.first;
    return at;
}

static uint32_t take_number(void)
{
    uint32_t number = 0;

    while (own.is_taken[number])
        number++;
    own.is_taken[number] = 1;
    return number;
}

void *ampi_node_memory_alloc(size_t n_bytes, struct ampi_node_ref *ref_out)
{
    size_t room = base_round_up(n_bytes, PAGE_BYTES), offset;
    struct head *head;
    int at = -1;

    if (n_bytes == 0 || room < n_bytes || room > SEGMENT_BYTES)
        return NULL;
    pthread_mutex_lock(&own.lock);
    if (!own.is_tried)
        make_own();
    head = head_of(ampi_job.proc_id);
    if (head) {
        sweep(head);
        at = own.n < BLOCKS_MAX ? find_gap(room, &offset) : -1;
    }
    if (at >= 0) {
        struct block block = {offset, room, take_number()};
        memmove(&own.blocks[at + 1], &own.blocks[at], (own.n - (unsigned)at) * sizeof block);
        own.blocks[at] = block;
        own.n++;
        *ref_out = (struct ampi_node_ref){ampi_job.proc_id, block.number, offset, n_bytes};
        atomic_store_explicit(&head->blocks[block.number].n_refs, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&own.lock);
    return at >= 0 ? (char *)head + offset : NULL;
}

/* ---- References ---- */

/* Invites a process to a segment that this one has mapped; a process on another node cannot open it. */
static BASE_COLD void invite(const struct view *view, int to_proc, int to_pe)
{
    unsigned char before = NOT_MAPPED;
    struct invitation *invitation;
    struct ampi_am_header am = {.kind = AMPI_AM_NODE_MEMORY};

    if (!atomic_compare_exchange_strong(&view->head->states[to_proc], &before, INVITED))
        return;
    invitation = base_malloc(sizeof *invitation, "a message between processes");
    *invitation = view->invitation;
    ampi_procs_post(to_proc, to_pe, &am, invitation, sizeof *invitation);
}

static bool can_use(int owner, int to_proc, int to_pe)
{
    const struct view *view = view_of(owner);

    if (BASE_LIKELY(atomic_load_explicit(&view->head->states[to_proc], memory_order_acquire) == MAPPED))
        return true;
    if (ampi_machine->is_near && ampi_machine->is_near(to_proc))
        invite(view, to_proc, to_pe);
    return false;
}

bool ampi_node_memory_reaches(int to_proc, int to_pe)
{
    if (BASE_UNLIKELY(!head_of(ampi_job.proc_id))) {
        if (!ampi_machine->is_near || !ampi_machine->is_near(to_proc))
            return false;
        pthread_mutex_lock(&own.lock);
        if (!own.is_tried)
            make_own();
        pthread_mutex_unlock(&own.lock);
        if (!head_of(ampi_job.proc_id))
            return false;
    }
    return can_use(ampi_job.proc_id, to_proc, to_pe);
}

bool ampi_node_memory_lend(const struct ampi_node_ref *ref, size_t from, size_t n_bytes, int to_proc,
                           int to_pe, struct ampi_node_ref *ref_out)
{
    if (!can_use(ref->owner, to_proc, to_pe))
        return false;
    BASE_ASSERT(n_bytes > 0 && from + n_bytes <= ref->n_bytes);
    atomic_fetch_add_explicit(&head_of(ref->owner)->blocks[ref->block].n_refs, 1, memory_order_relaxed);
    *ref_out = (struct ampi_node_ref){ref->owner, ref->block, ref->offset + from, n_bytes};
    return true;
}

void *ampi_node_memory_at(const struct ampi_node_ref *ref)
{
    return (char *)head_of(ref->owner) + ref->offset;
}

void ampi_node_memory_release(const struct ampi_node_ref *ref)
{
    atomic_fetch_sub_explicit(&head_of(ref->owner)->blocks[ref->block].n_refs, 1, memory_order_release);
}

/* ---- Invitations ---- */

static void map(const struct invitation *invitation)
{
    int owner = (int)invitation->owner;
    struct head *head;

    if (invitation->owner < 0 || invitation->owner >= ampi_job.max_procs ||
        invitation->place.alignment_bytes != SEGMENT_ALIGNMENT)
        return;
    pthread_mutex_lock(&views.lock);
    if (!head_of(owner) && (head = ampi_segment_open(&invitation->place))) {
        if (memcmp(head->magic, invitation->magic, sizeof head->magic) == 0) {
            add_view(owner, head, invitation);
            atomic_store_explicit(&head->states[ampi_job.proc_id], MAPPED, memory_order_release);
        } else {
            ampi_segment_unmap(head, (size_t)invitation->place.n_bytes);
        }
    }
    pthread_mutex_unlock(&views.lock);
}

static bool handle(int pe_id, const struct ampi_am_header *am, const void *header,
                   const struct machine_data *data)
{
    struct invitation invitation;

    if (data->bytes && data->n_bytes == sizeof invitation) {
        memcpy(&invitation, data->bytes, sizeof invitation);
        map(&invitation);
    }
    return false;
}

void ampi_node_memory_connect(void)
{
    ampi_procs_set_handler(AMPI_AM_NODE_MEMORY, handle);
}
