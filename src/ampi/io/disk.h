/* SPDX-License-Identifier: BSD-3-Clause
 *
 * disk.h: reads and writes of lists of pieces, asynchronously. Independent of MPI's file handles and views.
 *
 * An operation begins in ampi_disk_start and ends in a call of op->complete on the PE that started it. Between the two,
 * threads of the library call the kernel, so that a disk never blocks a PE. A pending operation prevents a deadlock report.
 */
#ifndef AMPI_IO_DISK_H
#define AMPI_IO_DISK_H

#include "base/base.h"
#include "mpi.h"
#include "ult/ult.h"

/* A run of bytes, in memory and in the file. The memory may be a GPU's. */
struct ampi_disk_piece {
    MPI_Offset at; /* of the first byte in the file */
    void *memory;
    size_t n_bytes;
};

/* The value of a hint such as romio_ds_read. */
enum ampi_disk_choice { AMPI_DISK_AUTOMATIC, AMPI_DISK_ENABLE, AMPI_DISK_DISABLE };

/* Hints that change how data is read and written. */
struct ampi_disk_hints {
    enum ampi_disk_choice ds_read;  /* romio_ds_read: data sieving of independent reads */
    enum ampi_disk_choice ds_write; /* romio_ds_write */
    enum ampi_disk_choice cb_read;  /* romio_cb_read: collective buffering */
    enum ampi_disk_choice cb_write; /* romio_cb_write */
    size_t ind_rd_buffer_bytes;     /* ind_rd_buffer_size: of data sieving */
    size_t ind_wr_buffer_bytes;     /* ind_wr_buffer_size */
    size_t cb_buffer_bytes;         /* cb_buffer_size: of an aggregator */
    size_t cb_nodes;                /* number of aggregators; 0: one per process */
};

/* The values without hints. */
#define AMPI_DISK_HINTS_DEFAULT                                                           \
    {                                                                                     \
        .ind_rd_buffer_bytes = (size_t)4 << 20, .ind_wr_buffer_bytes = (size_t)512 << 10, \
        .cb_buffer_bytes = (size_t)16 << 20                                               \
    }

/* One operation. The caller owns the struct, the pieces and the memory, and must not change them until `complete` is called.
 * It sets the first fields and zeroes the rest. */
struct ampi_disk_op {
    int fd;
    bool is_write;
    /* The caller has locked the byte range of the pieces against all other writers, so that bytes between the pieces may be
     * read and written back. */
    bool is_locked;
    const struct ampi_disk_piece *pieces; /* in the order of the data; offsets need not ascend */
    size_t n_pieces;
    const struct ampi_disk_hints *hints; /* NULL: none */
    /* The operation is over: `done` and `error` are set. On the PE that started it, from its progress or from within
     * ampi_disk_start. May free the op; may not switch. */
    void (*complete)(struct ampi_disk_op *op);
    /* Bytes transferred, in the order of the data: those before the end of the file or before the error. */
    size_t done;
    int error;               /* errno of the failure; 0: none (a read at the end of the file is not one) */
    struct ult_offload work; /* private, like the other fields */
    struct ult *waiter;      /* ampi_disk_run: the caller, which waits; NULL: none, or it is over */
    bool is_over;            /* ampi_disk_run */
};

/* Starts an operation. Interrupted and short transfers continue; out of memory is an error of the operation (ENOMEM). On a PE.
 * Never switches. */
void ampi_disk_start(struct ampi_disk_op *op);

/* The same, and waits; `complete` is not called and need not be set. Other ranks of the PE run. May switch. */
void ampi_disk_run(struct ampi_disk_op *op);

/* A function that may block, for example fsync, ftruncate, posix_fallocate, open, close, unlink or a lock of a byte range. It
 * runs on a thread of the library. The caller owns the struct. */
struct ampi_disk_call {
    /* Returns errno or 0; is called again after EINTR. Must not use what belongs to a PE: handles, the rank, ult_self. */
    int (*function)(struct ampi_disk_call *call);
    void (*complete)(struct ampi_disk_call *call); /* like that of ampi_disk_op */
    int error;                                     /* the function's result */
    struct ult_offload work;                       /* private, like the other fields */
    struct ult *waiter;                            /* ampi_disk_call_run: the caller */
};

/* Starts it; runs it and waits. As ampi_disk_start and ampi_disk_run. */
void ampi_disk_call_start(struct ampi_disk_call *call);
int ampi_disk_call_run(struct ampi_disk_call *call);

/* ---- Within this room ---- */

/* Stand before and after the start of an operation that the caller waits for. end may switch. */
void ampi_disk_wait_begin(struct ampi_disk_op *op);
void ampi_disk_wait_end(struct ampi_disk_op *op);

/* A list of pieces to read or write in the calling thread (disk_transfer.c). */
struct ampi_disk_transfer {
    int fd;
    bool is_write;
    const struct ampi_disk_piece *pieces; /* in host memory */
    size_t n_pieces;
    /* Holes in the file up to this size are read with the data; a write also writes them back. 0: none. */
    size_t bridge_bytes;
    size_t buffer_bytes; /* size of the buffer for small pieces and holes */
    size_t done;         /* result: bytes transferred, in the order of the data */
    int error;           /* result: errno; 0: none */
    MPI_Offset end;      /* result of a read: the end of the file if that was met; else AMPI_DISK_NO_END */
    void *buffer;        /* private: of buffer_bytes; malloc'ed at first use */
    size_t room_bytes;   /* private: its size */
    struct iovec *iov;   /* private: of IOV_MAX elements; malloc'ed at first use */
};
#define AMPI_DISK_NO_END INT64_MAX

/* Transfers all pieces up to the first error or the end of the file; pieces whose offsets ascend go together. Sets the
 * results. Any thread. Blocks. */
void ampi_disk_transfer(struct ampi_disk_transfer *t);

/* Describes the transfer of an operation, with the limits of its hints. */
void ampi_disk_transfer_init(struct ampi_disk_transfer *t, const struct ampi_disk_op *op);

/* ampi_disk_start for an operation with pieces in GPU memory: chunks go through pinned memory, one is copied while the disk
 * works on another one. (disk_device.c) */
void ampi_disk_device_start(struct ampi_disk_op *op);

/* True if memory of a piece is in a GPU. On a PE. */
bool ampi_disk_has_device(const struct ampi_disk_op *op);

#endif
