/* SPDX-License-Identifier: BSD-3-Clause
 *
 * transfer.c: one access: makes pieces of its data, each consecutive in memory and in the file, and has them moved.
 *
 * An independent access makes its pieces in batches of limited size. A collective one makes all of them, because collective
 * buffering sorts them; it is one operation of all ranks.
 *
 * In atomic mode the file is locked from before the first piece until the last one is moved; such an access is always blocking,
 * also if its call has a request.
 */
#include "ampi/datatype/buffer.h"
#include "ampi/datatype/cursor.h"
#include "ampi/io/access.h"
#include "ampi/io/datarep.h"
#include "base/log.h"

/* Pieces of a batch. */
#define BATCH 65536

/* ---- Pieces ---- */

/* Moves on by n_bytes, which are in the current block. */
static void advance(struct ampi_cursor *cursor, size_t n_bytes)
{
    struct ampi_cursor_run *run = &cursor->run;

    cursor->packed_bytes += (MPI_Count)n_bytes;
    run->used += n_bytes;
    if (run->used < run->block)
        return;
    run->used = 0;
    run->ptr += (uintptr_t)run->stride;
    if (--run->n_blocks == 0)
        ampi_cursor_next_run(cursor);
}

/* The next piece. */
static struct ampi_disk_piece next_piece(struct ampi_io_access *access)
{
    struct ampi_cursor *place = &access->place, *memory = &access->memory;
    size_t n_bytes = base_min_u64(place->run.block - place->run.used, memory->run.block - memory->run.used);
    struct ampi_disk_piece piece;

    n_bytes = base_min_u64(n_bytes, (uint64_t)access->left);
    piece.at = access->view->disp + (MPI_Offset)(place->run.ptr + place->run.used);
    piece.memory = (void *)(memory->run.ptr + memory->run.used);
    piece.n_bytes = n_bytes;
    access->left -= (MPI_Count)n_bytes;
    if (access->left > 0) {
        advance(place, n_bytes);
        advance(memory, n_bytes);
    }
    return piece;
}

/* Doubles the room for pieces; false: the limit is reached. */
static bool grow(struct ampi_io_access *access, size_t limit)
{
    size_t max = access->max_pieces * 8;
    struct ampi_disk_piece *pieces;

    if (access->max_pieces >= limit)
        return false;
    if (access->pieces == access->few) {
        pieces = base_malloc(max * sizeof *pieces, "pieces of a file access");
        memcpy(pieces, access->few, sizeof access->few);
    } else {
        pieces = base_realloc(access->pieces, max * sizeof *pieces, "pieces of a file access");
    }
    access->pieces = pieces;
    access->max_pieces = max;
    return true;
}

/* Makes the next operation: at most `limit` pieces, or somewhat more. */
static void make_pieces(struct ampi_io_access *access, size_t limit)
{
    size_t n = 0;

    while (access->left > 0) {
        struct ampi_disk_piece piece, *last = n ? &access->pieces[n - 1] : NULL;
        if (n == access->max_pieces && !grow(access, limit))
            break;
        last = n ? &access->pieces[n - 1] : NULL;
        piece = next_piece(access);
        if (last && last->at + (MPI_Offset)last->n_bytes == piece.at &&
            (char *)last->memory + last->n_bytes == piece.memory)
            last->n_bytes += piece.n_bytes;
        else
            access->pieces[n++] = piece;
    }
    access->op.pieces = access->pieces;
    access->op.n_pieces = n;
}

/* ---- Life ---- */

/* Prepares a buffer for data in the file's representation, and for writing converts the program's data into it. */
static int convert_before(struct ampi_io_access *access)
{
    struct ampi_host_copy data;
    MPI_Count moved;
    int error = MPI_SUCCESS, gpu_error;

    access->converted = malloc(access->n_bytes > 0 ? (size_t)access->n_bytes : 1);
    if (!access->converted)
        return ampi_file_raise(access->file, MPI_ERR_NO_MEM, "out of memory: cannot convert %lld bytes",
                               (long long)access->n_bytes);
    if (!access->call->is_write)
        return MPI_SUCCESS;
    gpu_error = ampi_host_copy_begin(&data, access->buf, access->count, access->type, true);
    if (!gpu_error) {
        error = ampi_datarep_convert(access->view->rep, true, data.buf, access->count, access->type,
                                     access->converted, (size_t)access->n_bytes, &moved);
        gpu_error = ampi_host_copy_end(&data, false);
    }
    if (gpu_error)
        return ampi_file_raise(access->file, ampi_device_error(access->file->owner, gpu_error),
                               "the data in GPU memory could not be read");
    return error ? ampi_file_raise(access->file, error, "converting data to \"%s\" failed",
                                   access->view->rep->name)
                 : MPI_SUCCESS;
}

int ampi_io_transfer_init(struct ampi_io_access *access)
{
    struct ampi_file *file = access->file;
    bool is_converted;

    access->view = file->view;
    ampi_view_ref(access->view);
    ampi_type_ref(access->type);
    access->pieces = access->few;
    access->max_pieces = AMPI_IO_FEW_PIECES;
    access->left = access->n_bytes;
    access->op.fd = file->shared->fd;
    access->op.is_write = access->call->is_write;
    access->op.hints = &file->hints;
    is_converted = ampi_datarep_converts(access->view->rep, access->call->is_write);
    if (!access->error && is_converted)
        access->error = convert_before(access);
    if (access->error)
        access->left = 0;
    if (access->left == 0)
        return access->error;
    ampi_view_seek(access->view, &access->place, access->first);
    if (is_converted)
        ampi_cursor_init(&access->memory, access->converted, access->n_bytes, ampi_type_of(MPI_BYTE));
    else
        ampi_cursor_init(&access->memory, access->buf, access->count, access->type);
    return MPI_SUCCESS;
}

void ampi_io_transfer_fini(struct ampi_io_access *access)
{
    if (access->pieces != access->few)
        free(access->pieces);
    free(access->converted);
    ampi_view_unref(access->view);
    ampi_type_unref(access->type);
}

/* Counts the bytes that an operation has moved; true: there is more to do. */
static bool count_done(struct ampi_io_access *access)
{
    size_t wanted = 0;

    for (size_t i = 0; i < access->op.n_pieces; i++)
        wanted += access->op.pieces[i].n_bytes;
    access->done += (MPI_Count)access->op.done;
    if (access->op.is_write && access->op.done > 0)
        atomic_store_explicit(&access->file->shared->has_written, true, memory_order_release);
    return access->left > 0 && !access->op.error && access->op.done == wanted;
}

/* Moves the data of all ranks together. Waits. */
static void run_collective(struct ampi_io_access *access)
{
    make_pieces(access, SIZE_MAX);
    ampi_two_phase_run(access->file->shared->buffers, access->file->comm, &access->op);
    count_done(access);
}

static void run_alone(struct ampi_io_access *access)
{
    while (access->left > 0) {
        make_pieces(access, BATCH);
        ampi_disk_run(&access->op);
        if (!count_done(access))
            break;
    }
}

void ampi_io_transfer_run(struct ampi_io_access *access)
{
    struct ampi_file *file = access->file;
    bool is_locked = file->is_atomic && access->n_bytes > 0;
    int error = is_locked ? ampi_file_lock(file, access->call->is_write) : 0;

    if (error) {
        access->op.error = error;
        access->left = 0;
    }
    access->op.is_locked = is_locked && !error;
    if (access->call->is_collective && !file->is_atomic)
        run_collective(access);
    else if (!error)
        run_alone(access);
    if (access->op.is_locked)
        ampi_file_unlock(file);
}

/* The access of a request is over. */
static void end(struct ampi_io_access *access)
{
    struct ampi_file *file = access->file;

    if (--file->n_pending == 0 && file->closer) {
        ult_ready(file->closer);
        file->closer = NULL;
    }
    ampi_request_complete(access->request);
}

static void complete(struct ampi_disk_op *op)
{
    struct ampi_io_access *access = BASE_CONTAINER(op, struct ampi_io_access, op);

    if (!count_done(access)) {
        end(access);
        return;
    }
    make_pieces(access, BATCH);
    ampi_disk_start(op);
}

void ampi_io_transfer_start(struct ampi_io_access *access)
{
    struct ampi_file *file = access->file;

    access->op.complete = complete;
    file->n_pending++;
    if (access->call->is_collective) {
        make_pieces(access, SIZE_MAX);
        ampi_two_phase_start(file->shared->buffers, file->comm, &access->op);
    } else if (access->left > 0) {
        make_pieces(access, BATCH);
        ampi_disk_start(&access->op);
    } else {
        end(access);
    }
}

/* Converts the data that was read. */
static int convert_after(struct ampi_io_access *access)
{
    struct ampi_host_copy data;
    int error, gpu_error = ampi_host_copy_begin(&data, access->buf, access->count, access->type, true);

    if (gpu_error)
        return ampi_device_error(access->file->owner, gpu_error);
    error = ampi_datarep_convert(access->view->rep, false, data.buf, access->count, access->type,
                                 access->converted, (size_t)access->done, &access->moved);
    gpu_error = ampi_host_copy_end(&data, true);
    return gpu_error ? ampi_device_error(access->file->owner, gpu_error) : error;
}

int ampi_io_transfer_finish(struct ampi_io_access *access)
{
    bool is_write = access->call->is_write;
    int number = access->op.error;

    if (access->is_copied)
        return access->error;
    access->is_copied = true;
    access->moved = access->done;
    if (access->error)
        return access->error;
    if (number) {
        access->error = ampi_file_class(number);
        if (access->file->magic != AMPI_MAGIC_FILE) /* the program has closed it before */
            return access->error;
        return ampi_file_raise_errno(access->file, number, is_write ? "writing" : "reading");
    }
    if (!access->converted)
        return MPI_SUCCESS;
    if (is_write) {
        access->moved = access->count * access->type->size_bytes;
        return MPI_SUCCESS;
    }
    access->error = convert_after(access);
    return access->error ? ampi_file_raise(access->file, access->error, "converting data from \"%s\" failed",
                                           access->view->rep->name)
                         : MPI_SUCCESS;
}
