/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pe_state.h: the state of src/gpu per PE; for the files of src/gpu alone.
 */
#ifndef GPU_PE_STATE_H
#define GPU_PE_STATE_H

#include <stdatomic.h>

#include "base/base.h"
#include "ult/ult.h"

#define GPU_DEVICES_MAX 64
#define GPU_PLAIN_BUFFERS 1024

/* The purpose of a queue: kinds of work that would delay each other have separate queues. */
enum gpu_stream_role {
    GPU_STREAM_OUT,
    GPU_STREAM_IN,
    GPU_STREAM_KERNELS,
    GPU_STREAM_ASIDE,
    GPU_STREAM_LOCAL,
    GPU_STREAM_RESIDENT,
    GPU_STREAM_NCCL,
    GPU_STREAM_ROLES
};

/* A free pinned block is on one of these lists; the link is in the block itself. */
struct gpu_block {
    struct gpu_block *next;
};

/* A piece of pinned memory that is divided into blocks. */
struct gpu_pinned_chunk {
    char *memory; /* GPU_PINNED_LARGE bytes */
    bool is_cut;  /* into blocks of GPU_PINNED_SMALL */
};

/* Free memory of one size: some blocks are kept. */
#define GPU_SCRATCH_CLASSES 12 /* sizes 64 KiB << class, up to 128 MiB; larger ones are not kept */
#define GPU_SCRATCH_KEPT 32
struct gpu_scratch {
    void *blocks[GPU_SCRATCH_KEPT];
    int n_blocks;
};

struct gpu_pe {
    struct ult_source source;                                    /* its poll is gpu_upper.poll */
    struct gpu_queue *busy;                                      /* queues with tickets */
    struct gpu_queue *queues[GPU_DEVICES_MAX][GPU_STREAM_ROLES]; /* NULL: not created yet */
    struct gpu_block *pinned_small;                              /* free blocks of GPU_PINNED_SMALL */
    struct gpu_block *pinned_large;                              /* free blocks of GPU_PINNED_LARGE */
    struct gpu_pinned_chunk *chunks; /* all pinned memory of this PE, by address */
    int n_chunks;
    int chunks_room;
    struct gpu_scratch scratch[GPU_DEVICES_MAX][GPU_SCRATCH_CLASSES];
    struct gpu_scratch staging[GPU_SCRATCH_CLASSES]; /* free pinned memory, by the same classes */
    size_t staging_bytes;                            /* total size, used and free */
    struct gpu_move *gathered;                       /* moves that begin at the next poll (batch.c) */
    struct gpu_move **gathered_end;
    struct gpu_batch *free_batches;
    struct gpu_question *questions; /* queries to the driver (waits.c) */
    struct gpu_question **questions_end;
    struct gpu_late_work *late_works; /* work behind a wait that is kept on the host (works.c) */
    struct gpu_sync *syncs;           /* streams with points that have not been reached (stream_sync.c) */
    struct gpu_sync *spare_syncs;     /* destroyed ones, to be used again */
    struct gpu_graph_end *graph_ends; /* ends of messages in graphs, to be looked at (stream_graph.c) */
    struct gpu_watch *watches;        /* memory that kernels of the program write to (watch.c) */
    struct gpu_pe *next_pe;           /* link of the list of all PEs */
    atomic_bool is_submitting;        /* a call of the running rank gives work to the driver (drain.h) */
    struct gpu_offload *offloads;     /* calls of its ranks on other threads (offload.c) */
    struct gpu_repeats *repeats;      /* of the running rank, in the middle of a sequence (repeats.c) */
    struct gpu_resident *residents;   /* those created so far (resident.c) */
    /* Ids of buffers in a primary context's own memory (peer_access.c); 0: none. */
    uint64_t plain_buffers[GPU_PLAIN_BUFFERS];
};

/* The state of the calling PE. NULL: it does not exist yet, or the thread is not a PE's, or the PE is shared
 * and the thread calls from the program's code. */
static inline struct gpu_pe *gpu_pe_here(void)
{
    const struct ult *self = ult_self();

    return self && ult_has_pe(self) ? *ult_pe_slot(ULT_PE_SLOT_GPU) : NULL;
}

/* The calling PE's, created at the first call. */
struct gpu_pe *gpu_pe_self(void);

/* The first one of all PEs' in the process, which next_pe links; NULL: none yet. None is ever freed. Any thread. */
struct gpu_pe *gpu_pe_first(void);

#endif
