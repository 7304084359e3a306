/* SPDX-License-Identifier: BSD-3-Clause
 *
 * disk_device.c: reads and writes of pieces in GPU memory, through pinned memory. The data is divided into chunks in its
 * order. While the disk works on one chunk, the copies of the other one run.
 *
 *      a write   fill --copies--> start_transfer --> next chunk
 *      a read    fill --> start_transfer --copies--> next chunk
 */
#include <errno.h>

#include "ampi/io/disk.h"
#include "gpu/copy/pool.h"
#include "gpu/gpu.h"

/* Limits of a chunk, besides its memory. */
#define PIECES_MAX 512
#define COPIES_MAX 32

/* A copy between the program's memory and pinned memory. */
struct copy {
    struct gpu_move move;
    struct chunk *chunk;
    char *memory; /* the program's */
    size_t from;  /* offset in the chunk */
    size_t n_bytes;
};

struct chunk {
    struct staged *staged;
    char *pinned;                /* from gpu_pinned_get */
    size_t room_bytes;           /* its size */
    size_t offset;               /* of its first byte in the data */
    size_t n_bytes;              /* of data */
    struct ampi_disk_transfer t; /* its transfer between the file and pinned memory ... */
    struct ult_offload work;     /* ... which a thread of the library makes */
    size_t n_pieces;
    int n_copies;
    int n_copying; /* copies in progress */
    struct copy copies[COPIES_MAX];
    struct ampi_disk_piece pieces[PIECES_MAX]; /* memory: in the pinned memory */
};

/* An operation. */
struct staged {
    struct ampi_disk_op *op;
    size_t piece;       /* the next bytes: piece of the op ... */
    size_t piece_bytes; /* ... and its bytes that are assigned already */
    size_t assigned;    /* bytes of the data that are assigned to chunks */
    size_t end;         /* bytes of the data before the first one that could not be transferred */
    int error;          /* errno for that byte; 0: the end of the file */
    int n_busy;         /* chunks in progress */
    struct chunk chunks[2];
};

/* The data ends after these bytes of the chunk, if it does not end earlier. */
static void set_end(struct chunk *chunk, size_t done, int error)
{
    struct staged *staged = chunk->staged;

    if (chunk->offset + done < staged->end) {
        staged->end = chunk->offset + done;
        staged->error = error;
    }
}

/* ---- Choosing a chunk's data ---- */

static void add_copy(struct chunk *chunk, char *memory, size_t n_bytes)
{
    struct copy *last = &chunk->copies[chunk->n_copies - 1];

    if (chunk->n_copies > 0 && last->memory + last->n_bytes == memory)
        last->n_bytes += n_bytes;
    else
        chunk->copies[chunk->n_copies++] =
            (struct copy){.chunk = chunk, .memory = memory, .from = chunk->n_bytes, .n_bytes = n_bytes};
}

/* Assigns the next bytes of the data to the chunk. */
static void choose(struct chunk *chunk)
{
    struct staged *staged = chunk->staged;
    const struct ampi_disk_op *op = staged->op;

    chunk->offset = staged->assigned;
    chunk->n_bytes = 0;
    chunk->n_pieces = 0;
    chunk->n_copies = 0;
    while (staged->piece < op->n_pieces && chunk->n_bytes < chunk->room_bytes &&
           chunk->n_pieces < PIECES_MAX && chunk->n_copies < COPIES_MAX) {
        const struct ampi_disk_piece *piece = &op->pieces[staged->piece];
        size_t n = base_min_u64(piece->n_bytes - staged->piece_bytes, chunk->room_bytes - chunk->n_bytes);
        if (n > 0) {
            chunk->pieces[chunk->n_pieces++] = (struct ampi_disk_piece){
                piece->at + (MPI_Offset)staged->piece_bytes, chunk->pinned + chunk->n_bytes, n};
            add_copy(chunk, (char *)piece->memory + staged->piece_bytes, n);
        }
        chunk->n_bytes += n;
        staged->piece_bytes += n;
        if (staged->piece_bytes == piece->n_bytes) {
            staged->piece++;
            staged->piece_bytes = 0;
        }
    }
    staged->assigned += chunk->n_bytes;
}

/* ---- The life of a chunk ---- */

static void fill(struct chunk *chunk);

static void run_transfer(struct ult_offload *work)
{
    ampi_disk_transfer(&BASE_CONTAINER(work, struct chunk, work)->t);
}

static void start_transfer(struct chunk *chunk)
{
    ampi_disk_transfer_init(&chunk->t, chunk->staged->op);
    chunk->t.pieces = chunk->pieces;
    chunk->t.n_pieces = chunk->n_pieces;
    ult_offload_start(&chunk->work);
}

static void copied(struct gpu_move *move, int error)
{
    struct copy *copy = BASE_CONTAINER(move, struct copy, move);
    struct chunk *chunk = copy->chunk;

    if (error)
        set_end(chunk, copy->from, EFAULT);
    if (--chunk->n_copying > 0)
        return;
    if (chunk->staged->op->is_write && chunk->staged->end == SIZE_MAX)
        start_transfer(chunk);
    else
        fill(chunk);
}

/* Copies the first bytes of the chunk from or to the program's memory. */
static void start_copies(struct chunk *chunk, size_t n_bytes)
{
    bool is_write = chunk->staged->op->is_write;
    int n = 0;

    while (n < chunk->n_copies && chunk->copies[n].from < n_bytes)
        n++;
    chunk->n_copying = n;
    for (int i = 0; i < n; i++) {
        struct copy *copy = &chunk->copies[i];
        size_t n_copied = base_min_u64(copy->n_bytes, n_bytes - copy->from);
        struct gpu_data pinned = gpu_bytes(chunk->pinned + copy->from, n_copied);
        struct gpu_data memory = gpu_bytes(copy->memory, n_copied);
        copy->move = (struct gpu_move){.dst = is_write ? pinned : memory,
                                       .src = is_write ? memory : pinned,
                                       .n_bytes = n_copied,
                                       .done = copied};
        gpu_move_start(&copy->move);
    }
    if (n == 0)
        fill(chunk);
}

static void end_transfer(struct ult_offload *work)
{
    struct chunk *chunk = BASE_CONTAINER(work, struct chunk, work);

    if (chunk->t.done < chunk->n_bytes)
        set_end(chunk, chunk->t.done, chunk->t.error);
    if (chunk->t.is_write)
        fill(chunk);
    else
        start_copies(chunk, chunk->t.done);
}

/* The last chunk is over. */
static void finish(struct staged *staged)
{
    struct ampi_disk_op *op = staged->op;

    op->done = base_min_u64(staged->end, staged->assigned);
    op->error = staged->error;
    for (size_t i = 0; i < BASE_COUNT(staged->chunks); i++)
        if (staged->chunks[i].pinned)
            gpu_pinned_put(staged->chunks[i].pinned);
    free(staged);
    op->complete(op);
}

/* Begins the next data in this chunk, which is free. */
static void fill(struct chunk *chunk)
{
    struct staged *staged = chunk->staged;

    chunk->n_bytes = 0;
    if (staged->end == SIZE_MAX)
        choose(chunk);
    if (chunk->n_bytes == 0) {
        if (--staged->n_busy == 0)
            finish(staged);
    } else if (staged->op->is_write) {
        start_copies(chunk, chunk->n_bytes);
    } else {
        start_transfer(chunk);
    }
}

void ampi_disk_device_start(struct ampi_disk_op *op)
{
    struct staged *staged = calloc(1, sizeof *staged);
    int error = 0;

    if (!staged) {
        op->error = ENOMEM;
        op->complete(op);
        return;
    }
    staged->op = op;
    staged->end = SIZE_MAX;
    for (size_t i = 0; i < BASE_COUNT(staged->chunks); i++) {
        struct chunk *chunk = &staged->chunks[i];
        chunk->staged = staged;
        chunk->work = (struct ult_offload){.run = run_transfer, .done = end_transfer};
        chunk->pinned = gpu_pinned_get(GPU_PINNED_LARGE, &chunk->room_bytes, &error);
        staged->n_busy += chunk->pinned != NULL;
    }
    if (staged->n_busy == 0) {
        staged->error = ENOMEM;
        finish(staged);
        return;
    }
    for (size_t i = 0; i < BASE_COUNT(staged->chunks); i++)
        if (staged->chunks[i].pinned)
            fill(&staged->chunks[i]);
}
