/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu.h: moving and combining data that GPUs own; the seam between MPI (src/ampi) and CUDA (src/gpu).
 *
 * src/gpu knows nothing of MPI. Without CUDA's headers at build time, null.c stands in for all of it: then
 * gpu_is_active stays false and nothing here is called.
 *
 *      gpu_move       data from one layout to another, either side on the host or on a GPU: p2p, collectives
 *      gpu_combine    n inputs into one output with an operation: reductions
 *      gpu_pack ...   between a layout and consecutive memory: MPI_Pack, eager messages
 *
 * All are asynchronous: started here, finished by the PE's source (ult_source), which calls back on the PE
 * that started them. A PE has its own streams and objects; nothing is shared between PEs, no locks. Errors
 * are CUDA's: `enum cudaError_enum` as an int, 0 is success; gpu_error_text has the driver's words.
 */
#ifndef GPU_GPU_H
#define GPU_GPU_H

#include "base/layout.h"
#include "gpu/queue.h"
#include "gpu_detect.h"
#include "ult/ult.h"

/* ---- Devices (device.c) ---- */

/* Was this library built with CUDA? */
bool gpu_is_built(void);

/* How many the driver shows; 0 without a driver. Opens the driver if it is there. */
int gpu_device_count(void);

/* Who has which (assign.c): "block" (blocks of PEs, which is so without this), "cyclic", or numbers of
 * devices by PE with commas between them, which are begun again when there are more PEs. False: the text is
 * none of these; nothing else may be called then. Before the ranks begin. */
#define GPU_ASSIGN_MAX 64
bool gpu_assign(const char *text) BASE_MUST_CHECK;

/* Which device a PE has. pe_index counts the PEs of this node. -1: there are none. Ends the job if a device
 * was named that does not exist. */
int gpu_device_of_pe(int pe_index, int n_pes, int n_devices);

/* Prints them, and which PEs and ranks of a job of one process have which: +help devices. n_ranks 0: not
 * known. */
void gpu_print_devices(int n_pes, int n_ranks);

/* The device of the calling PE; -1: there is none. Never opens or initializes
 * the driver: only for processes that have done so. */
int gpu_device_of_self(void);

/* The driver's name and text of an error: "CUDA_ERROR_INVALID_VALUE: invalid argument". Static storage. */
const char *gpu_error_text(int error);

/* ---- What the program does with CUDA (gpu/guard.h) ---- */

/* Whether each rank has default streams of its own, whether a rank that waits for a GPU lets others run, and
 * whether what it launches again and again is a graph: "private" or "shared", "suspend" or "block", "on" or
 * "off"; NULL: the usual, the first of each. false: neither. Before the ranks begin. */
bool gpu_streams_set(const char *text) BASE_MUST_CHECK;
bool gpu_waits_set(const char *text) BASE_MUST_CHECK;
bool gpu_graphs_set(const char *text) BASE_MUST_CHECK;

/* The number of ranks that this process will run. With one rank, CUDA is not changed. Before the ranks
 * begin. */
void gpu_streams_begin(int n_ranks);

/* What is known of the caller, set by whoever knows ranks: the rank that the calling OS thread, which is no
 * PE's, belongs to (NULL: to none); and whether this is code of the running rank's own. Any thread. */
extern struct ult *(*gpu_rank_of_thread)(void);
extern bool (*gpu_is_code_of_rank)(const void *address);

/* Has the running rank no request of MPI's under way? On a PE. */
extern bool (*gpu_has_no_messages)(void);

/* A question to the driver that the PE asks again and again. Private to src/gpu/waits.h. */
struct gpu_question {
    struct gpu_question *next;
    void (*answered)(struct gpu_question *question); /* on the PE, from its progress; may free it */
    void *stream;                                    /* is its work done? */
    void *event;                                     /* NULL: of the stream */
    void *context;      /* the stream's or the event's, as far as it matters; NULL: none */
    int result;         /* the driver's last answer */
    uint64_t since_ns;  /* when it was first asked */
    uint64_t ask_at_ns; /* when to ask again */
};

/* ---- Work of the program's (works.c) ---- */

/* A stream's work, or an event, that somebody wants to be told of. The caller provides it and leaves it alone
 * until it is done. */
struct gpu_work {
    /* It is done, or the error says why not. On the PE that began it, from its progress; never from within
     * the functions that begin it. May not switch. */
    void (*done)(struct gpu_work *work, int error);
    struct gpu_question question; /* private, as is the next */
    bool is_own_event;
};

/* Begins to look after what the stream has now (NULL: the running rank's default stream), or after the event.
 * An error: nothing was begun. On a PE, if gpu_is_used(). Never switches. */
int gpu_work_of_stream(struct gpu_work *work, void *stream) BASE_MUST_CHECK;
int gpu_work_of_event(struct gpu_work *work, void *event) BASE_MUST_CHECK;

/* ---- Data ---- */

/* `count` elements at buf, as MPI has them. */
struct gpu_data {
    void *buf;
    int64_t count;
    struct base_layout *layout; /* of one element; NULL: a block of size_bytes / count bytes */
    int64_t extent_bytes;       /* from element to element */
    int64_t true_lb_bytes;      /* where an element's first byte lies that has no layout */
    size_t size_bytes;          /* of all the data */
    const void *type;           /* for gpu_copy_host; NULL: bytes */
};

/* Consecutive bytes. */
static inline struct gpu_data gpu_bytes(void *addr, size_t n_bytes)
{
    return (struct gpu_data){
        .buf = addr, .count = (int64_t)n_bytes, .extent_bytes = 1, .size_bytes = n_bytes};
}

/* ---- Moving (gpu_move.c) ---- */

/* One end of a move, as gpu_move.c found it. */
struct gpu_move_side {
    void *first;       /* of one block: its address */
    int kind;          /* gpu_move.c's */
    int device;        /* -1: the host's memory */
    uintptr_t addr;    /* of a byte of it */
    bool is_foreign;   /* kernels of its own GPU cannot use it; unknown if none is used */
    uint64_t buffer;   /* the driver's id of a device's memory; 0: other memory */
    size_t room_bytes; /* of one block: from `first` to the end of the allocation */
};

/* A part of a move under way. */
struct gpu_move_chunk {
    struct gpu_ticket ticket;
    struct gpu_move *move;
    void *pinned;     /* memory between the ends; NULL: none */
    void *scratch[2]; /* near the source, near the destination */
    size_t offset;    /* of its bytes in the data */
    size_t n_bytes;
};

/* One move. The caller provides it (p2p: in the request) and leaves it alone until `done` is called. */
struct gpu_move {
    struct gpu_data dst;
    struct gpu_data src;
    size_t n_bytes;        /* to move; <= the size of either, but for what is skipped */
    size_t src_skip_bytes; /* of the source's data: these come before what is moved */
    size_t dst_skip_bytes;
    /* The data is there, or error says why not. On the PE that started it, from its progress; never from
     * within gpu_move_start. May not switch. */
    void (*done)(struct gpu_move *move, int error);
    bool is_dst_missing; /* for done: the error is that dst is no memory; src may be in order */
    /* Private to gpu_move.c and batch.c: */
    struct gpu_move *next; /* gathered ones of the PE */
    bool is_stale;         /* it began with what was not so any more */
    struct gpu_move_side from;
    struct gpu_move_side to;
    size_t chunk_bytes;   /* of all chunks but the last */
    size_t taken_bytes;   /* by chunks, so far */
    int n_chunks;         /* at a time */
    int n_busy;           /* chunks under way */
    bool has_pinned;      /* chunks need pinned memory */
    bool has_scratch[2];  /* chunks need memory of the source's GPU, of the destination's */
    bool is_hop;          /* both ends are pinned: through memory of the GPU from.device */
    bool is_split;        /* the drain is in a queue of its own, on the destination's GPU */
    int error;            /* the first */
    struct ult_note note; /* brings a failure to the PE's progress */
    struct gpu_move_chunk chunks[2];
};

/* What the CPU has to do for data in its own memory, set by whoever knows the types: copies the bytes offset
 * .. offset + n_bytes - 1 of the data to consecutive memory (is_pack), or back. */
typedef void (*gpu_copy_host_fn)(const struct gpu_data *data, size_t offset, size_t n_bytes, void *flat,
                                 bool is_pack);
extern gpu_copy_host_fn gpu_copy_host;

/* Likewise, without kernels: the block of memory that the byte `offset` of the data is in. Returns the
 * address of that byte and how many follow it in the block, that one included. */
typedef void *(*gpu_block_at_fn)(const struct gpu_data *data, size_t offset, size_t *n_bytes_out);
extern gpu_block_at_fn gpu_block_at;

/* Starts a move between any memories. Never switches, never blocks on the GPU. On a PE. */
void gpu_move_start(struct gpu_move *move);

/* Large consecutive data from pinned memory to pinned memory: the copy engines of a GPU move it faster than
 * the CPU, which does something else meanwhile. */
extern size_t gpu_hop_min_bytes;
bool gpu_can_hop(const void *to, const void *from, size_t n_bytes);

/* Moves and waits: suspends the calling ULT until it is done. Returns the error. May switch. */
int gpu_move_wait(const struct gpu_data *dst, const struct gpu_data *src, size_t n_bytes) BASE_MUST_CHECK;

/* The same without a switch, for places that may not: the PE waits. */
int gpu_move_now(const struct gpu_data *dst, const struct gpu_data *src, size_t n_bytes) BASE_MUST_CHECK;

/* ---- Many copies at once (copies.c) ---- */

/* A copy from one block of memory to another. */
struct gpu_copy {
    void *dst;
    const void *src;
    size_t n_bytes;
};

/* Some copies by one kernel. The caller provides this and leaves it alone until it is done, but for `copies`,
 * which it may free. */
struct gpu_copies {
    const struct gpu_copy *copies;
    int n;
    int device; /* that does it */
    /* As gpu_combine's. */
    void (*done)(struct gpu_copies *copies, int error);
    struct gpu_ticket ticket; /* private */
    int error;
};

/* Allocations that were found to be there, and in reach of a device; all 0 at first. For questions about many
 * blocks in a row, before anything can be freed. */
struct gpu_known {
    struct {
        uint64_t buffer;
        int device;
    } entries[16];
};

/* true: the device's kernels can use both ends, which are there. */
bool gpu_copies_can(int device, const struct gpu_copy *copy, struct gpu_known *known);

/* Starts them, each of which gpu_copies_can do. Never switches, never waits for a GPU. An error: nothing was
 * started. */
int gpu_copies_start(struct gpu_copies *copies) BASE_MUST_CHECK;

/* ---- The kernel that stays (service.c) ---- */

/* For so many microseconds after a small copy within a GPU or to a peer, a kernel stays on the GPU that does
 * the next ones; 0: there is none. Set before the ranks begin, by gpu_service_set. */
extern long gpu_service_us;

/* What +gpu-service says: off, or microseconds; NULL: nothing, and so the usual. false: neither. */
bool gpu_service_set(const char *text) BASE_MUST_CHECK;

/* The service's copies: up to here it is quicker than other ways; if an address or the size is no multiple of
 * 16, up to a quarter. */
#define GPU_SERVICE_MAX ((size_t)64 << 10)

/* True if the calling PE's kernel on this device is there for small copies. */
bool gpu_service_is_there(int device);

/* How often a call of the program's that waits for a GPU has sent a kernel of ours away, in this process. */
uint64_t gpu_service_times_sent_away(void);

/* ---- Combining (combine.c) ---- */

/* Consecutive elements of a type and an operation of gpu/kernels/kernels.h. The caller provides this, and the
 * arrays, and leaves them alone until it is done. */
struct gpu_combine {
    void *const *outs;         /* n_outs of them, each consecutive elements; may be among the inputs */
    const void *const *inputs; /* n_inputs, each consecutive elements in any memory */
    int n_outs;
    int n_inputs;
    int64_t count_elems;
    int op;        /* enum gpu_op */
    int type;      /* enum gpu_type */
    int device;    /* that does it; -1: that of the first output, or else input, that is a GPU's */
    bool is_aside; /* beside others on this GPU, not behind them */
    /* gpu_combine_start: it is done, or the error says why not. On the PE that started it, from its progress.
     * May not switch. */
    void (*done)(struct gpu_combine *combine, int error);
};

/* True if there is a kernel for this pair: not without nvcc at build time, and not for all that MPI
 * allows. */
bool gpu_can_combine(int op, int type);

/* Every output = inputs[n - 1] op (... (inputs[1] op inputs[0])), which is rank order for operations that are
 * commutative, bit for bit as the CPU has it (any NaN for a NaN). An element of all inputs is read before
 * that element of an output is written. Outputs that the device reaches, in its own memory or in a peer's,
 * are written by the kernel; others are copied.
 *
 * Starts it: never switches, never waits for a GPU. An error: nothing was started, and `done` is not called.
 * On a PE. */
int gpu_combine_start(struct gpu_combine *combine) BASE_MUST_CHECK;

/* The same, and waits: for places that may not switch. */
int gpu_combine_now(const struct gpu_combine *combine) BASE_MUST_CHECK;

#endif
