/* SPDX-License-Identifier: BSD-3-Clause
 *
 * prequest_marks.c: the memory in which kernels leave the marks of a send's partitions, and how its PE reads
 * them. See prequest.h.
 */
#include <string.h>

#include "ampi/datatype/buffer.h"
#include "ampi/object/info.h"
#include "ampi/p2p/partitioned/partitioned.h"
#include "base/log.h"
#include "gpu/copy/pool.h"

/* Maximum number of marks that the PE reads in a poll. */
#define MARKS_PER_LOOK 64

int ampi_marks_choose(struct ampi_comm *comm, MPI_Info handle, struct ampi_marks_choice *choice)
{
    const struct ampi_info *info = handle == MPI_INFO_NULL ? NULL : ampi_info_of(comm->owner, handle);
    const char *marks = ampi_info_get(info, "heddle_prequest_marks");
    const char *memory = ampi_info_get(info, "heddle_prequest_memory");

    if (marks && strcmp(marks, "flags") != 0 && strcmp(marks, "queue") != 0)
        return ampi_raise(comm, MPI_ERR_INFO_VALUE, "heddle_prequest_marks is \"%s\", not flags or queue",
                          marks);
    if (memory && strcmp(memory, "pinned") != 0 && strcmp(memory, "device") != 0)
        return ampi_raise(comm, MPI_ERR_INFO_VALUE, "heddle_prequest_memory is \"%s\", not pinned or device",
                          memory);
    choice->is_queue = marks && *marks == 'q';
    choice->is_on_device = memory && *memory == 'd';
    return MPI_SUCCESS;
}

/* ---- Memory ---- */

/* Assigns the GPU's memory: the counter, the ring if it is there, and the words that kernels read. */
static void place(struct ampi_prequest *prequest, int n)
{
    const struct ampi_marks *marks = &prequest->marks;
    struct HEDDLE_Prequest *shared = prequest->shared;
    uint32_t *pinned = heddle_prequest_words_of(shared);
    uint64_t *counter = marks->device_memory;

    shared->words = shared->seen = pinned;
    if (!counter)
        return;
    shared->seen = (uint32_t *)(counter + 1 + (marks->is.is_queue && marks->is.is_on_device ? n : 0));
    if (marks->is.is_queue) {
        shared->words = NULL;
        shared->counter = counter;
        shared->ring = marks->is.is_on_device ? counter + 1 : (uint64_t *)pinned;
    } else if (marks->is.is_on_device) {
        shared->words = shared->seen;
    }
}

/* Clears the words, so that none belongs to a later round. */
static int clear(const struct ampi_prequest *prequest, const struct ampi_partitioned *end)
{
    const struct ampi_marks *marks = &prequest->marks;
    uint32_t *pinned = heddle_prequest_words_of(prequest->shared), *seen;
    char *all;
    int error;

    if (!end->is_send)
        for (int i = 0; i < end->n_partitions; i++)
            pinned[i * HEDDLE_PREQUEST_STRIDE(end->n_partitions)] = ampi_prequest_round(end);
    else if (!marks->is.is_queue)
        for (int i = 0; i < end->n_partitions; i++)
            pinned[i] = ampi_prequest_round(end) << 2;
    if (!marks->device_memory)
        return 0;
    all = base_calloc(1, marks->device_bytes, "marks of partitions");
    seen = (uint32_t *)(all + ((char *)prequest->shared->seen - (char *)marks->device_memory));
    for (int i = 0; i < end->n_partitions; i++)
        seen[i] = ampi_prequest_round(end) << 2;
    error = gpu_copy_wait(marks->device_memory, all, marks->device_bytes);
    free(all);
    return error;
}

int ampi_marks_create(struct ampi_prequest *prequest)
{
    const struct ampi_partitioned *end = prequest->request->u.extra;
    struct ampi_marks *marks = &prequest->marks;
    size_t n = (size_t)end->n_partitions;
    int error = 0;

    if (end->is_send && prequest->watch.device >= 0 && n > 0) {
        marks->is = end->marks;
        if (n >= (size_t)1 << HEDDLE_PREQUEST_SHIFT)
            marks->is.is_queue = false;
        marks->device_bytes =
            sizeof *prequest->shared->counter + n * sizeof *prequest->shared->seen +
            (marks->is.is_queue && marks->is.is_on_device ? n * sizeof *prequest->shared->ring : 0);
        marks->device_memory = gpu_scratch_get(prequest->watch.device, marks->device_bytes, &error);
        if (!marks->device_memory)
            return error;
    }
    place(prequest, end->n_partitions);
    if (marks->is.is_on_device)
        marks->copy = (char *)heddle_prequest_words_of(prequest->shared);
    return clear(prequest, end);
}

size_t ampi_marks_pinned_bytes(const struct ampi_partitioned *end)
{
    size_t n = (size_t)end->n_partitions;

    return end->is_send ? n * (end->marks.is_queue ? sizeof(uint64_t) : sizeof(uint32_t))
                        : n * HEDDLE_PREQUEST_STRIDE(end->n_partitions) * sizeof(uint32_t);
}

void ampi_marks_destroy(struct ampi_prequest *prequest)
{
    struct ampi_marks *marks = &prequest->marks;

    if (marks->device_memory)
        gpu_scratch_put(prequest->watch.device, marks->device_memory, marks->device_bytes);
}

void ampi_marks_start(struct ampi_prequest *prequest)
{
    const struct ampi_partitioned *send = prequest->request->u.extra;

    prequest->marks.next = 0;
    prequest->marks.n_fetched = 0;
    for (int i = 0; i < prequest->n_copies && prequest->marks.is.is_queue; i++)
        prequest->shared[i].first = send->round << HEDDLE_PREQUEST_SHIFT;
}

/* ---- Polling ---- */

static void fetched(struct gpu_move *move, int error)
{
    struct ampi_marks *marks = BASE_CONTAINER(move, struct ampi_marks, fetch);

    marks->is_fetching = false;
    marks->error = error;
    if (error)
        marks->n_fetched = 0;
}

/* Copies marks from the GPU: some of the queue, or of the words. */
static void fetch(struct ampi_prequest *prequest, int n_partitions)
{
    struct ampi_marks *marks = &prequest->marks;
    size_t each = marks->is.is_queue ? sizeof *prequest->shared->ring : sizeof *prequest->shared->words;
    char *from = marks->is.is_queue ? (char *)prequest->shared->ring : (char *)prequest->shared->words;
    int n = n_partitions - marks->next;

    marks->n_fetched = n < MARKS_PER_LOOK ? n : MARKS_PER_LOOK;
    marks->is_fetching = true;
    marks->fetch = (struct gpu_move){
        .src = gpu_bytes(from + (size_t)marks->next * each, (size_t)marks->n_fetched * each),
        .dst = gpu_bytes(marks->copy, (size_t)marks->n_fetched * each),
        .n_bytes = (size_t)marks->n_fetched * each,
        .done = fetched};
    gpu_move_start(&marks->fetch);
}

/* Reads the queue's entries up to the first one that has not arrived. Returns their number. */
static int read_queue(struct ampi_prequest *prequest, const uint64_t *ring, int n, uint32_t round,
                      ampi_mark_fn *note)
{
    for (int i = 0; i < n; i++) {
        uint64_t entry = heddle_prequest_load_wide(&ring[i]);
        uint32_t mark = (uint32_t)(entry >> 32);
        if (mark >> 2 != round)
            return i;
        note(prequest, (int)(uint32_t)entry, (mark & 3) == HEDDLE_PREQUEST_COPIED);
    }
    return n;
}

/* Reads the words from partition `first` on. */
static void read_flags(struct ampi_prequest *prequest, const uint32_t *words, int first, int n,
                       uint32_t round, ampi_mark_fn *note)
{
    const struct ampi_partitioned *send = prequest->request->u.extra;

    for (int i = 0; i < n; i++) {
        uint32_t mark;
        if (send->is_ready[first + i])
            continue;
        mark = heddle_prequest_load(&words[i]);
        if (mark >> 2 == round)
            note(prequest, first + i, (mark & 3) == HEDDLE_PREQUEST_COPIED);
    }
}

static void look_at_pinned(struct ampi_prequest *prequest, int n_partitions, uint32_t round,
                           ampi_mark_fn *note)
{
    struct ampi_marks *marks = &prequest->marks;
    const struct HEDDLE_Prequest *shared = prequest->shared;
    int n = n_partitions - marks->next < MARKS_PER_LOOK ? n_partitions - marks->next : MARKS_PER_LOOK;

    if (marks->is.is_queue) {
        marks->next += read_queue(prequest, shared->ring + marks->next, n, round, note);
        return;
    }
    read_flags(prequest, shared->words + marks->next, marks->next, n, round, note);
    marks->next = marks->next + n == n_partitions ? 0 : marks->next + n;
}

/* Reads the marks of the last copy, and starts another copy. */
static void look_at_device(struct ampi_prequest *prequest, int n_partitions, uint32_t round,
                           ampi_mark_fn *note)
{
    struct ampi_marks *marks = &prequest->marks;
    const struct ampi_partitioned *send = prequest->request->u.extra;

    if (marks->is_fetching)
        return;
    if (marks->is.is_queue) {
        marks->next += read_queue(prequest, (const uint64_t *)marks->copy, marks->n_fetched, round, note);
    } else if (marks->n_fetched > 0) {
        read_flags(prequest, (const uint32_t *)marks->copy, marks->next, marks->n_fetched, round, note);
        marks->next = marks->next + marks->n_fetched == n_partitions ? 0 : marks->next + marks->n_fetched;
    }
    marks->n_fetched = 0;
    if (send->n_ready < n_partitions && marks->next < n_partitions)
        fetch(prequest, n_partitions);
}

int ampi_marks_poll(struct ampi_prequest *prequest, ampi_mark_fn *note)
{
    const struct ampi_partitioned *send = prequest->request->u.extra;
    int error = prequest->marks.error;

    if (BASE_UNLIKELY(error)) {
        prequest->marks.error = 0;
        return error;
    }
    if (BASE_UNLIKELY(prequest->marks.is.is_on_device))
        look_at_device(prequest, send->n_partitions, ampi_prequest_round(send), note);
    else
        look_at_pinned(prequest, send->n_partitions, ampi_prequest_round(send), note);
    return 0;
}
