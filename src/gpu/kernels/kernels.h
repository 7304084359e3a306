/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kernels.h: the kernels and their arguments; shared by their callers (gpu/copy/gpu_pack.c, gpu/copy/combine.c) and
 * the kernels themselves (kernels.cu), so it is both C and CUDA C++.
 *
 * Addresses are integers: a kernel converts them to pointers with GPU_AT (portable.h), because in the fake
 * driver of the tests device memory is stored at other addresses.
 */
#ifndef GPU_KERNELS_KERNELS_H
#define GPU_KERNELS_KERNELS_H

#include "base/layout.h"

/* The types that a GPU can combine: Y(X, type). Names and meanings are those of MPI's basic types
 * (ampi/datatype/type.h). */
/* clang-format off */
#define GPU_TYPES(Y, X)                                                                                   \
    Y(X, INT8) Y(X, INT16) Y(X, INT32) Y(X, INT64) Y(X, UINT8) Y(X, UINT16) Y(X, UINT32) Y(X, UINT64)     \
    Y(X, FLOAT16) Y(X, FLOAT) Y(X, DOUBLE) Y(X, COMPLEX_FLOAT16) Y(X, COMPLEX_FLOAT) Y(X, COMPLEX_DOUBLE) \
    Y(X, BYTE) Y(X, BOOL) Y(X, LOGICAL8) Y(X, LOGICAL16) Y(X, LOGICAL32) Y(X, LOGICAL64)                  \
    Y(X, FLOAT_INT) Y(X, DOUBLE_INT) Y(X, LONG_INT) Y(X, 2INT) Y(X, SHORT_INT) Y(X, 2FLOAT) Y(X, 2DOUBLE)
/* clang-format on */
#define GPU_TYPE_ENUM(X, type) GPU_TYPE_##type,
enum gpu_type { GPU_TYPES(GPU_TYPE_ENUM, ) GPU_TYPE_COUNT };

/* X(ENUM, name in the module, type of its only argument). All are called with one struct by value. */
#define GPU_KERNELS(X)                                           \
    X(COPY, heddle_copy, struct gpu_kernel_copy)                 \
    X(COPIES, heddle_copies, struct gpu_kernel_copies)           \
    X(PACK_BOX, heddle_pack_box, struct gpu_kernel_box)          \
    X(PACK_PROGRAM, heddle_pack_program, struct gpu_kernel_pack) \
    X(PACK_ODD, heddle_pack_odd, struct gpu_kernel_odd)          \
    X(JOBS, heddle_jobs, struct gpu_kernel_jobs)                 \
    X(SWAP, heddle_swap, struct gpu_kernel_swap)                 \
    X(EXCHANGE, heddle_exchange, struct gpu_kernel_exchange)     \
    X(HOLD, heddle_hold, struct gpu_kernel_hold)                 \
    X(FILL, heddle_fill, struct gpu_kernel_fill)                 \
    X(EMPTY, heddle_empty, struct gpu_kernel_empty)              \
    X(RESIDENT, heddle_resident, struct gpu_kernel_resident)     \
    GPU_TYPES(GPU_KERNEL_OF_TYPE, X)
#define GPU_KERNEL_OF_TYPE(X, type) X(COMBINE_##type, heddle_combine_##type, struct gpu_kernel_combine)

#define GPU_KERNEL_ENUM(kernel, name, type) GPU_KERNEL_##kernel,
enum gpu_kernel { GPU_KERNELS(GPU_KERNEL_ENUM) GPU_KERNEL_COUNT };

/* The kernel that combines elements of a type. */
#define GPU_KERNEL_COMBINE(type) ((enum gpu_kernel)(GPU_KERNEL_COMBINE_INT8 + (type)))

/* All threads of a launch iterate over the units of their data with a grid-stride loop, so any number of
 * blocks and threads works, except for the resident kernel. */

/* Consecutive bytes to consecutive bytes. */
struct gpu_kernel_copy {
    uint64_t to;
    uint64_t from;
    uint64_t n_bytes;
};

/* Several copies. */
#define GPU_KERNEL_COPIES_MAX 160 /* the arguments have a limit of 4 KiB */
#define GPU_COPIES_WARP 32        /* threads that copy a piece together */
#define GPU_COPIES_PIECE 2048     /* bytes of a piece */
struct gpu_kernel_copies {
    uint64_t n;        /* of copies */
    uint64_t n_pieces; /* of the longest copy */
    struct gpu_kernel_copy copies[GPU_KERNEL_COPIES_MAX];
};

/* Division of 32-bit numbers by a constant: (n * mul >> 32 + shift), exact for n < 2^31. */
struct gpu_divisor {
    uint32_t by;
    uint32_t mul; /* 0: by is a power of two */
    uint32_t shift;
};

/* Blocks of one size in up to GPU_BOX_DIMS nested loops, the innermost first. */
#define GPU_BOX_DIMS 4
struct gpu_kernel_box {
    uint64_t base;            /* address of the data's first block */
    uint64_t flat;            /* address of unit `first` in consecutive memory */
    uint64_t first;           /* unit to begin with */
    uint32_t n;               /* units to copy; < 2^31 */
    uint16_t unit;            /* bytes per load or store: 1, 2, 4, 8 or 16; all addresses are multiples */
    uint8_t n_dims;           /* loops */
    uint8_t is_pack;          /* 0: from flat to base */
    struct gpu_divisor block; /* units per block */
    struct gpu_divisor dim[GPU_BOX_DIMS]; /* repetitions; unused for the last one */
    int64_t stride[GPU_BOX_DIMS];         /* bytes between repetitions */
};

/* Many jobs: each moves data between two layouts, or a layout and consecutive memory. A unit's number gives its
 * place on both sides: the number within the body, and the repetitions of the loops, which both sides have in
 * common. */

/* The places in a body. */
struct gpu_kernel_places {
    uint64_t offsets;         /* address of 32-bit offsets, one per piece; 0: the body is one block */
    struct gpu_divisor piece; /* units per piece */
    int32_t scale;            /* an offset's unit in bytes */
};

/* The structure of one or more jobs. */
struct gpu_kernel_shape {
    uint32_t unit;                            /* bytes per load or store: 1, 2, 4, 8 or 16 */
    uint32_t n_dims;                          /* loops; at least 1 */
    struct gpu_kernel_places to, from;        /* of the body */
    struct gpu_divisor body;                  /* units per body */
    struct gpu_divisor dim[GPU_BOX_DIMS - 1]; /* repetitions; those of the last loop are unlimited */
    int64_t to_stride[GPU_BOX_DIMS];          /* bytes between repetitions */
    int64_t from_stride[GPU_BOX_DIMS];
};

struct gpu_kernel_job {
    uint64_t to; /* address of unit 0 */
    uint64_t from;
    uint32_t first; /* unit to begin with */
    uint32_t n;     /* units; first + n < 2^31 */
    uint32_t piece; /* number of its first piece among those of all jobs */
    uint32_t shape; /* word index */
};

#define GPU_JOBS_LANES 32  /* threads that move a piece together */
#define GPU_JOBS_WORDS 508 /* the arguments have a limit of 4 KiB */
#ifndef GPU_JOBS_PIECE
#define GPU_JOBS_PIECE 128 /* units of a piece */
#endif
#define GPU_JOB_WORDS (sizeof(struct gpu_kernel_job) / sizeof(uint64_t))
#define GPU_SHAPE_WORDS (sizeof(struct gpu_kernel_shape) / sizeof(uint64_t))
struct gpu_kernel_jobs {
    uint32_t n_jobs;
    uint32_t n_pieces;              /* of all jobs */
    uint64_t words[GPU_JOBS_WORDS]; /* the jobs from the first word on, the shapes behind them */
};

/* Small blocks of odd sizes, in loops around a body. */
#ifndef GPU_ODD_CHUNK
#define GPU_ODD_CHUNK 2048 /* bytes that a warp packs at a time */
#endif
#ifndef GPU_ODD_MANY
#define GPU_ODD_MANY 32 /* bodies in a chunk that are many */
#endif
#define GPU_ODD_WARPS 8 /* of a thread block */
struct gpu_kernel_odd {
    uint64_t base;               /* address of the first body's displacement 0 */
    uint64_t flat;               /* address of byte `first` in consecutive memory */
    uint64_t blocks;             /* address of a word for each block, and one for the body's end */
    uint32_t first;              /* byte of data to begin with */
    uint32_t n;                  /* bytes to copy; first + n < 2^31 */
    uint32_t n_dims;             /* loops; at least 1 */
    uint32_t is_pack;            /* 0: from flat to base */
    struct gpu_divisor size;     /* bytes per body */
    struct gpu_divisor n_blocks; /* per body */
    struct gpu_divisor dim[GPU_BOX_DIMS - 1]; /* repetitions; those of the last loop are unlimited */
    int64_t stride[GPU_BOX_DIMS];             /* bytes between repetitions */
};

/* The word of a block: the data bytes of the blocks before it, and its displacement. */
BASE_LAYOUT_FN uint64_t gpu_odd_word(uint32_t prefix, int32_t disp)
{
    return (uint64_t)(uint32_t)disp << 32 | prefix;
}

BASE_LAYOUT_FN uint32_t gpu_odd_prefix(uint64_t word)
{
    return (uint32_t)word;
}

BASE_LAYOUT_FN int32_t gpu_odd_disp(uint64_t word)
{
    return (int32_t)(uint32_t)(word >> 32);
}

/* Any program. */
#define GPU_PROGRAM_WORDS 440 /* maximum size in the arguments, which have a limit of 4 KiB */
struct gpu_kernel_pack {
    uint64_t base;        /* address of element 0's displacement 0 */
    uint64_t flat;        /* address of byte `first` in consecutive memory */
    uint64_t first;       /* byte of data to begin with */
    uint64_t n;           /* units to copy; bytes if unit is 1 */
    uint32_t unit;        /* bytes per load or store: 8 or 16; 1: as the blocks allow */
    uint32_t is_pack;     /* 0: from flat to base */
    int64_t size_bytes;   /* of an element's data */
    int64_t extent_bytes; /* from element to element */
    int64_t disp_bytes;   /* of an element's first byte of data */
    int64_t root;         /* word index of the outermost node */
    uint64_t program;     /* address of the words in the GPU's memory; 0: they are in this struct */
    int64_t n_words;      /* number of words */
    int64_t words[GPU_PROGRAM_WORDS];
};

/* ---- The resident kernel, which copies what it is ordered to (gpu/copy/resident.c) ---- */

#define GPU_RESIDENT_ORDERS 16 /* capacity of the mailbox */
#define GPU_RESIDENT_BATCH 8   /* orders that the kernel takes at a time */
#define GPU_RESIDENT_THREADS 512
#define GPU_RESIDENT_ADDRESS_BITS 48

/* Words: destination, source, bytes, and the eviction word, which is nonzero in all orders or in none. Each
 * of the first three carries the order's number above GPU_RESIDENT_ADDRESS_BITS, so an order is complete
 * when all of them have it, in whatever order they arrive. */
struct gpu_resident_order {
    uint64_t words[4];
};

#define GPU_RESIDENT_LEAVE 3 /* the eviction word */

/* Pinned host memory. Order n is in orders[n % GPU_RESIDENT_ORDERS]. */
struct gpu_mailbox {
    struct gpu_resident_order orders[GPU_RESIDENT_ORDERS]; /* written by the CPU */
    uint32_t done;                                         /* the last order done; written by the kernel */
    uint32_t state;                                        /* enum gpu_resident_phase and launch; written by
                                                            * the kernel */
};

/* The states a launch reports: it is there; it is about to leave, and checks for orders a last time; it has
 * left: nothing will be done any more. */
enum gpu_resident_phase { GPU_RESIDENT_HERE = 1, GPU_RESIDENT_LEAVING, GPU_RESIDENT_LEFT };
#define GPU_RESIDENT_SAYS(launch, phase) ((uint32_t)(launch)*4 + (uint32_t)(phase))

struct gpu_kernel_resident {
    uint64_t mailbox;
    uint32_t launch;  /* its number */
    uint32_t first;   /* number of the first order */
    uint32_t wait_ns; /* leave after this time without orders */
    uint32_t stay_ns; /* leave after this time in any case */
};

/* The operations that combine elements: X(ENUM). In the order of MPI's operations in ampi/op/op.h. */
#define GPU_OPS(X) \
    X(SUM) X(PROD) X(MIN) X(MAX) X(BAND) X(BOR) X(BXOR) X(LAND) X(LOR) X(LXOR) X(MINLOC) X(MAXLOC)
#define GPU_OP_ENUM(op) GPU_OP_##op,
enum gpu_op { GPU_OPS(GPU_OP_ENUM) GPU_OP_COUNT };

/* out[i] = inputs[n - 1][i] op (... (inputs[1][i] op inputs[0][i])), for each output; old[i] = inputs[0][i]. */
#define GPU_COMBINE_ADDRESSES 480 /* inputs and outputs together; the arguments have a limit of 4 KiB */
struct gpu_kernel_combine {
    int64_t count; /* of elements */
    int32_t n_inputs;
    int32_t n_outs;
    int32_t op;                            /* enum gpu_op */
    int32_t is_aligned;                    /* all addresses are multiples of 16 */
    uint64_t old;                          /* apart from inputs and outputs; 0: not needed */
    uint64_t addrs[GPU_COMBINE_ADDRESSES]; /* of the inputs in order, then of the outputs */
};

/* old = target; if target equals expected: target = desired. All are n units apart from each other. */
struct gpu_kernel_swap {
    uint64_t target;
    uint64_t expected;
    uint64_t desired;
    uint64_t old;
    uint32_t unit; /* bytes per load or store: 1, 2, 4 or 8; all addresses are multiples */
    uint32_t n;    /* units */
};

/* ---- Messages between CUDA graphs (exchange_kernel.h, gpu/streams/stream_graph.c) ---- */

#define GPU_EXCHANGE_MAX 50                   /* ends per launch: the arguments have a limit of 4 KiB */
#define GPU_EXCHANGE_CHUNKS 32                /* of a message, at most */
#define GPU_EXCHANGE_CHUNK ((size_t)16 << 10) /* bytes of a chunk, at least */

/* The terms of a message, decided for both ends. */
struct gpu_exchange_terms {
    uint64_t to;
    uint64_t from;
    uint64_t n_bytes;
    uint64_t done[2];  /* addresses of words that become 1 when the message is there */
    uint32_t n_chunks; /* 0: these terms are not known */
    uint32_t unused;
};

/* Memory in which the blocks of both ends of a message meet, on one of the GPUs. Initially all 0. */
struct gpu_exchange_meeting {
    uint32_t done; /* of the end that made it: see gpu_exchange_terms */
    uint32_t pad[15];
    uint32_t n_done; /* chunks copied */
    uint32_t more[15];
    struct gpu_exchange_terms terms;        /* left by blocks of the end that was captured second */
    uint32_t arrivals[GPU_EXCHANGE_CHUNKS]; /* 1: one block has come */
};

struct gpu_exchange_end {
    uint64_t meeting;
    uint64_t reached; /* address of a word that becomes 1 when this end has come; 0: none */
    uint64_t awaited; /* address of this end's word `done`, which the launch waits for and makes 0; 0: none */
    struct gpu_exchange_terms terms;
    uint32_t first_block; /* that works for it */
    uint32_t unused;
};

/* The last block waits for the words that are awaited, if there are any. */
struct gpu_kernel_exchange {
    uint32_t n;        /* ends */
    uint32_t n_blocks; /* of all ends, and the one that waits */
    uint32_t n_awaited;
    uint32_t unused;
    struct gpu_exchange_end ends[GPU_EXCHANGE_MAX];
};

/* One block waits until all words are 1, and makes them 0. */
#define GPU_HOLD_MAX 63
struct gpu_kernel_hold {
    uint32_t n;
    uint32_t unused;
    uint64_t words[GPU_HOLD_MAX];
};

/* ---- Small messages between streams, through slots of the sender's GPU (slot_kernel.h, gpu/streams/stream_slots.c) ---- */

#define GPU_SLOT_BYTES 4096 /* of a message, at most */

/* A word has 4 bytes of the message and, above them, the number of the slot's turn, which differs from that
 * of the previous message. So each word shows by itself that it has arrived. An empty message is one word. */
struct gpu_slot_memory {
    uint64_t words[GPU_SLOT_BYTES / sizeof(uint32_t)];
    unsigned char plain[GPU_SLOT_BYTES]; /* the message, for copies that the PE starts */
};

/* A stream fills a slot. */
struct gpu_kernel_fill {
    uint64_t from;
    uint64_t slot;
    uint64_t reached; /* address of the stream's word `reached`, which becomes `number` */
    uint32_t n_bytes;
    uint32_t turn;
    uint32_t number;
    uint32_t unused;
};

/* The words through which the PE announces a matched message to a waiting stream: pinned memory, 0 until the
 * PE has written both, in any order. */
struct gpu_inbox_words {
    uint64_t place; /* the slot, and the bytes to be copied above GPU_INBOX_ADDRESS_BITS; or GPU_INBOX_DONE */
    uint64_t turn;  /* the slot's */
};
#define GPU_INBOX_ADDRESS_BITS 48
#define GPU_INBOX_DONE 1 /* the PE has received the message */

struct gpu_inbox_end {
    uint64_t to;
    uint64_t words_at; /* struct gpu_inbox_words; only read if turn is 0 */
    uint64_t place;
    uint64_t turn;
};

/* A stream receives messages. */
#define GPU_EMPTY_MAX 16
struct gpu_kernel_empty {
    uint64_t reached; /* as above */
    uint32_t arrived; /* the number that it becomes at the beginning, if has_arrived, */
    uint32_t done;    /* and at the end, if has_done */
    uint8_t has_arrived;
    uint8_t has_done;
    uint16_t n;
    uint32_t unused;
    struct gpu_inbox_end ends[GPU_EMPTY_MAX];
};

#endif
