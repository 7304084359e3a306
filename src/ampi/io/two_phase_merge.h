/* SPDX-License-Identifier: BSD-3-Clause
 *
 * two_phase_merge.h: lists of pieces from several ranks, merged and transferred by several threads.
 */
#ifndef AMPI_IO_TWO_PHASE_MERGE_H
#define AMPI_IO_TWO_PHASE_MERGE_H

#include "ampi/io/disk.h"

/* Maximum number of threads of a merge. */
#define AMPI_MERGE_THREADS_MAX 8

/* A list of pieces whose offsets ascend and do not overlap; none is empty. */
struct ampi_merge_source {
    const struct ampi_disk_piece *pieces;
    size_t n_pieces; /* at least 1 */
    MPI_Offset from; /* the first byte in the file */
    MPI_Offset to;   /* one past the last one */
    size_t n_bytes;  /* of all pieces */
    void *owner;     /* the caller's */
};

struct ampi_merge_worker {
    struct ult_offload work;
    struct ampi_merge *merge;
};

/* The caller owns the struct and the sources, and must not change them until `done` is called. It sets the first fields and
 * zeroes the rest. */
struct ampi_merge {
    int fd;
    bool is_write;
    struct ampi_merge_source *sources; /* start reorders them, by `from` */
    size_t n_sources;
    size_t window_bytes; /* the file is divided into windows of this size, which threads take in turn */
    /* All is transferred, or has failed. On the PE that started it, from its progress or from within start. May free the
     * struct. */
    void (*done)(struct ampi_merge *merge);
    /* Results. Bytes at and above `limit` were not (all) transferred, because of the error, or else of the end of the
     * file. */
    MPI_Offset limit; /* AMPI_DISK_NO_END: none */
    int error;        /* errno; 0: none */
    /* Private: */
    MPI_Offset *reaches;         /* by source: the largest `to` of the sources up to it */
    _Atomic int64_t next_window; /* number of the next one */
    int64_t n_windows;           /* they begin at multiples of window_bytes */
    pthread_mutex_t lock;        /* guards the results */
    atomic_bool has_failed;      /* no further window is taken */
    int n_busy;                  /* workers in progress; on the PE */
    struct ampi_merge_worker workers[AMPI_MERGE_THREADS_MAX];
};

/* Starts the transfer of all pieces. Where pieces of several sources overlap, a write leaves the bytes of any of them. On a
 * PE. Never switches. */
void ampi_merge_start(struct ampi_merge *merge);

/* The first piece of the source that ends above `at`; n_pieces: none. */
size_t ampi_merge_find(const struct ampi_merge_source *source, MPI_Offset at);

/* The part of a piece between two offsets, which it overlaps. */
struct ampi_disk_piece ampi_merge_clip(const struct ampi_disk_piece *piece, MPI_Offset lo, MPI_Offset hi);

/* The bytes of the pieces, in their order, that were transferred. */
size_t ampi_merge_count(const struct ampi_merge *merge, const struct ampi_merge_source *source);

#endif
