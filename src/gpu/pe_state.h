/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pe_state.h: what src/gpu keeps per PE; for the files of src/gpu alone.
 */
#ifndef GPU_PE_STATE_H
#define GPU_PE_STATE_H

#include "gpu/queue.h"
#include "ult/ult.h"

#define GPU_DEVICES_MAX 64
#define GPU_PLAIN_BUFFERS 64

/* A pinned block that nobody uses lies on one of these lists; the link is in the block itself. */
struct gpu_block {
    struct gpu_block *next;
};

/* A piece of pinned memory that blocks are cut from. */
struct gpu_pinned_chunk {
    char *memory; /* GPU_PINNED_LARGE bytes */
    bool is_cut;  /* into blocks of GPU_PINNED_SMALL */
};

/* Device memory of one size that nobody uses: some blocks are kept. */
#define GPU_SCRATCH_CLASSES 12 /* sizes 64 KiB << class, up to 128 MiB; larger ones are not kept */
#define GPU_SCRATCH_KEPT 4
struct gpu_scratch {
    void *blocks[GPU_SCRATCH_KEPT];
    int n_blocks;
};

struct gpu_pe {
    struct ult_source source;                             /* polls `busy` */
    struct gpu_queue *busy;                               /* queues with tickets */
    struct gpu_queue *queues[GPU_DEVICES_MAX][GPU_LANES]; /* NULL: not made yet */
    struct gpu_block *pinned_small;                       /* free blocks of GPU_PINNED_SMALL */
    struct gpu_block *pinned_large;                       /* free blocks of GPU_PINNED_LARGE */
    struct gpu_pinned_chunk *chunks;                      /* all pinned memory of this PE, by address */
    int n_chunks;
    int chunks_room;
    struct gpu_scratch scratch[GPU_DEVICES_MAX][GPU_SCRATCH_CLASSES];
    struct gpu_scratch staging[GPU_SCRATCH_CLASSES]; /* pinned memory that nobody uses, likewise */
    size_t staging_bytes;                            /* of all that there is, used or not */
    struct gpu_move *gathered;                       /* moves that begin at the next poll (batch.c) */
    struct gpu_move **gathered_end;
    struct gpu_batch *free_batches;
    struct gpu_question *questions; /* that are asked of the driver (waits.c) */
    struct gpu_question **questions_end;
    struct gpu_repeats *repeats;  /* of the running rank, in the midst of a sequence (repeats.c) */
    struct gpu_service *services; /* those that were made (service.c) */
    uint64_t plain_buffers[GPU_PLAIN_BUFFERS]; /* ids of some that are a primary context's own (reach.c); 0:
                                                  none */
};

/* The calling thread's; NULL: not made yet. (queue.c) */
extern __thread struct gpu_pe *gpu_pe_of_thread __attribute__((tls_model("initial-exec")));

/* The calling PE's, made at the first call (queue.c). */
struct gpu_pe *gpu_pe_self(void);

#endif
