/* SPDX-License-Identifier: BSD-3-Clause
 *
 * disk.c: starts disk operations. See disk.h.
 *
 * A thread of the library makes an operation's system calls (ult_offload_start), which costs some 10 us. The PE makes those
 * of a small operation itself if they cannot block: a read of pages that are in memory (RWF_NOWAIT), and any access to a file
 * system that is memory.
 */
#include "ampi/io/disk.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include "gpu_detect.h"

/* Largest operation that the PE does itself: 20 us. */
#define QUICK_BYTES ((size_t)64 << 10)
#define QUICK_PIECES 16

/* ---- Operations ---- */

static void run_op(struct ult_offload *work)
{
    struct ampi_disk_op *op = BASE_CONTAINER(work, struct ampi_disk_op, work);
    struct ampi_disk_transfer t;

    ampi_disk_transfer_init(&t, op);
    ampi_disk_transfer(&t);
    op->done = t.done;
    op->error = t.error;
}

static void end_op(struct ult_offload *work)
{
    struct ampi_disk_op *op = BASE_CONTAINER(work, struct ampi_disk_op, work);

    op->complete(op);
}

/* True if the file is in memory. */
static bool is_in_memory(int fd)
{
    struct statfs about;

    return fstatfs(fd, &about) == 0 && (about.f_type == TMPFS_MAGIC || about.f_type == RAMFS_MAGIC);
}

/* True if a write never raises SIGXFSZ, which threads of the library block and the PE does not. */
static bool is_size_unlimited(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

/* Reads consecutive bytes if all are in memory now. */
static bool read_now(struct ampi_disk_op *op, size_t n_bytes)
{
    struct iovec iov[QUICK_PIECES];
    MPI_Offset at = op->pieces[0].at;

    for (size_t i = 0; i < op->n_pieces; i++) {
        if (op->pieces[i].at != at)
            return false;
        iov[i] = (struct iovec){op->pieces[i].memory, op->pieces[i].n_bytes};
        at += (MPI_Offset)op->pieces[i].n_bytes;
    }
    if (preadv2(op->fd, iov, (int)op->n_pieces, op->pieces[0].at, RWF_NOWAIT) != (ssize_t)n_bytes)
        return false;
    op->done = n_bytes;
    return true;
}

/* Does a small operation that cannot block; false: nothing was done, or it must be done again. */
static bool is_done_now(struct ampi_disk_op *op, size_t n_bytes)
{
    if (n_bytes > QUICK_BYTES || op->n_pieces > QUICK_PIECES)
        return false;
    if (!op->is_write && read_now(op, n_bytes))
        return true;
    if (!is_in_memory(op->fd) || (op->is_write && !is_size_unlimited()))
        return false;
    run_op(&op->work);
    return true;
}

bool ampi_disk_has_device(const struct ampi_disk_op *op)
{
    if (!gpu_is_used())
        return false;
    for (size_t i = 0; i < op->n_pieces; i++)
        if (op->pieces[i].n_bytes && gpu_is_device(op->pieces[i].memory))
            return true;
    return false;
}

void ampi_disk_start(struct ampi_disk_op *op)
{
    size_t n_bytes = 0;

    op->done = 0;
    op->error = 0;
    for (size_t i = 0; i < op->n_pieces; i++)
        n_bytes += op->pieces[i].n_bytes;
    if (n_bytes > 0 && ampi_disk_has_device(op)) {
        ampi_disk_device_start(op);
    } else if (n_bytes == 0 || is_done_now(op, n_bytes)) {
        op->complete(op);
    } else {
        op->work.run = run_op;
        op->work.done = end_op;
        ult_offload_start(&op->work);
    }
}

static void wake_op(struct ampi_disk_op *op)
{
    op->is_over = true;
    if (op->waiter)
        ult_ready(op->waiter);
}

void ampi_disk_wait_begin(struct ampi_disk_op *op)
{
    op->complete = wake_op;
    op->waiter = NULL;
    op->is_over = false;
}

void ampi_disk_wait_end(struct ampi_disk_op *op)
{
    if (!op->is_over) {
        op->waiter = ult_self();
        ult_suspend();
    }
}

void ampi_disk_run(struct ampi_disk_op *op)
{
    ampi_disk_wait_begin(op);
    ampi_disk_start(op);
    ampi_disk_wait_end(op);
}

/* ---- Calls ---- */

static void run_call(struct ult_offload *work)
{
    struct ampi_disk_call *call = BASE_CONTAINER(work, struct ampi_disk_call, work);

    do
        call->error = call->function(call);
    while (call->error == EINTR);
}

static void end_call(struct ult_offload *work)
{
    struct ampi_disk_call *call = BASE_CONTAINER(work, struct ampi_disk_call, work);

    call->complete(call);
}

void ampi_disk_call_start(struct ampi_disk_call *call)
{
    call->work.run = run_call;
    call->work.done = end_call;
    ult_offload_start(&call->work);
}

static void wake_call(struct ampi_disk_call *call)
{
    ult_ready(call->waiter);
}

int ampi_disk_call_run(struct ampi_disk_call *call)
{
    call->complete = wake_call;
    call->waiter = ult_self();
    ampi_disk_call_start(call);
    ult_suspend();
    return call->error;
}
