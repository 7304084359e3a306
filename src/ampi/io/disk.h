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
    int cb_nodes;                   /* number of aggregators; 0: one per process */
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
    int error; /* errno of the failure; 0: none (a read at the end of the file is not one) */
    struct ampi_disk_work *work; /* private */
};

/* Starts an operation. Interrupted and short transfers continue; out of memory is an error of the operation (ENOMEM). On a PE.
 * Never switches. */
void ampi_disk_start(struct ampi_disk_op *op);

/* The same, and waits; `complete` is not called and need not be set. Other ranks of the PE run. May switch. */
void ampi_disk_run(struct ampi_disk_op *op);

/* A function that may block, for example fsync, ftruncate, posix_fallocate, open, close, unlink or a lock of a byte range. It
 * runs on a thread of the library. The caller owns the struct. */
struct ampi_disk_call {
    int (*function)(
        struct ampi_disk_call *call); /* returns errno or 0; may not use the PE, allocate handles or switch */
    void (*complete)(struct ampi_disk_call *call); /* like that of ampi_disk_op */
    int error;                                     /* the function's result */
    struct ult_wakeup wakeup;                      /* private */
    struct ult_pe *pe;                             /* private */
    struct ampi_disk_call *next;                   /* private */
};

/* Starts it; runs it and waits. As ampi_disk_start and ampi_disk_run. */
void ampi_disk_call_start(struct ampi_disk_call *call);
int ampi_disk_call_run(struct ampi_disk_call *call);

#endif
