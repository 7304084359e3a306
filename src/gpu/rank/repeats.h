/* SPDX-License-Identifier: BSD-3-Clause
 *
 * repeats.h: submits repeated sequences of launches to the driver as one graph. For the files of src/gpu
 * alone.
 *
 * Each launch and each copy takes 1.5 to 3 us under a lock of the driver, for which the ranks of a GPU
 * queue up. The launch of a graph with all of them takes as long as one or two. So the consecutive launches
 * and copies of a rank into one stream are recorded. Such a sequence ends at any other CUDA call, at a
 * switch to another rank, and at a pause of the program. A sequence that is repeated often becomes a graph (repeat_graph.c).
 * When it begins again, the rank's calls return at once as long as they match the sequence, and the last
 * one launches the graph. If a call differs, the operations held back are submitted one by one.
 *
 * Operations are held back only between calls that had no pause between them before. The program may wait
 * there for its launches nevertheless, without calling CUDA or MPI. So a thread of the library submits
 * operations that were held back for long (repeat_watch.c), and a rank that needs this often stops using
 * graphs.
 *
 * An operation is held back only if an equal one has succeeded: errors that a call returns at once are
 * those of its arguments. Objects that a graph refers to may be destroyed: then all graphs are discarded
 * (gpu_repeats_forget).
 */
#ifndef GPU_REPEATS_H
#define GPU_REPEATS_H

#include <cuda.h>

#include "gpu/driver/pe_state.h"
#include "gpu/rank/offload.h"
#include "gpu/rank/streams.h"

#define GPU_SEQUENCE_OPS 64
#define GPU_SEQUENCE_BYTES 8192
#define GPU_ARGUMENTS_MAX 1024

enum gpu_operation_kind {
    GPU_OP_LAUNCH = 1,
    GPU_OP_COPY,           /* between any two addresses */
    GPU_OP_COPY_TO_DEVICE, /* from the host */
    GPU_OP_COPY_TO_HOST,
    GPU_OP_COPY_WITHIN, /* from device to device */
};

/* A launch or a copy. */
struct gpu_operation {
    uint64_t key[6];  /* its kind, and its arguments except a kernel's */
    uint32_t at;      /* for a kernel: offset of its arguments in the sequence's data */
    uint32_t n_bytes; /* size of these arguments */
};

struct gpu_sequence {
    CUstream stream;
    CUcontext context;
    int n;
    uint32_t n_bytes; /* of data */
    struct gpu_operation ops[GPU_SEQUENCE_OPS];
    char data[GPU_SEQUENCE_BYTES];
};

/* +gpu no-graphs is not given, and the driver has the functions. Set before the ranks begin. */
extern bool gpu_repeats_are_on;

/* Of a rank; created on demand, and kept. */
struct gpu_repeats;

/* The sequences that receive a call of the running rank on this stream; NULL: the driver does. stream and
 * is_per_thread are the program's, call is the result of gpu_call_begin for them. Sets *context_out. */
struct gpu_repeats *gpu_repeats_for(const struct gpu_call *call, CUstream stream, bool is_per_thread,
                                    CUcontext *context_out);

/* Takes an operation of the running rank: submits it now, or holds it back. data are a kernel's arguments.
 * Returns the driver's result of this operation, or of an earlier one. */
CUresult gpu_repeats_take(struct gpu_repeats *repeats, CUstream stream, CUcontext context,
                          const struct gpu_operation *op, const char *data);

/* True if the operation is the next one of a sequence with a graph: then its memory has been checked. */
bool gpu_repeats_has(struct gpu_repeats *repeats, const struct gpu_operation *op);

/* The kernels that the rank has launched. */
struct gpu_kernels *gpu_repeats_kernels(struct gpu_repeats *repeats);

/* Takes a launch of the running rank whose kernel was launched before; call is the result of gpu_call_begin
 * for the stream. False: it must go to the driver, and the sequence is over. (repeat_calls.c) */
bool gpu_repeats_take_launch(const struct gpu_call *call, CUstream stream, bool is_per_thread,
                             CUfunction function, const unsigned sizes[7], void **parameters, void **extra,
                             const void *caller, CUresult *result_out);

/* Ends the running rank's sequence: submits operations held back. Never switches. */
void gpu_repeats_end(struct gpu_repeats *repeats);

/* The same without a PE: on one that has become shared since, or on another OS thread; if that belongs to a rank, the
 * rank stops using graphs. */
void gpu_repeats_end_outside(void) BASE_COLD;

/* Called when the rank makes any other CUDA call. */
static inline void gpu_repeats_break(void)
{
    struct gpu_pe *pe = gpu_pe_here();

    if (BASE_UNLIKELY(!pe)) {
        if (gpu_repeats_are_on)
            gpu_repeats_end_outside();
    } else if (pe->repeats) {
        gpu_repeats_end(pe->repeats);
    }
}

/* The same before a launch or copy, which may continue the sequence. */
void gpu_repeats_break_unless(CUstream stream, bool is_per_thread);

/* True if operations are held back, or on their way to the driver. Any thread. */
bool gpu_repeats_are_held(struct gpu_repeats *repeats);

/* Memory, modules or other objects of the running rank are destroyed: drops its graphs, on a thread of no
 * rank those of all ranks, and invalidates facts about memory (gpu_detect.h). */
void gpu_repeats_forget(void);

/* Called before that: no graph of them is being made any more. */
void gpu_repeats_cancel(void);

/* Called by the running rank before the stream is destroyed. */
void gpu_repeats_forget_stream(struct gpu_rank_streams *rank, CUstream stream);

/* ---- Operations (repeat_ops.c) ---- */

/* The parameters of a kernel. */
struct gpu_function {
    struct gpu_function *next;
    CUfunction function;
    int n; /* -1: unknown */
    uint32_t n_bytes;
    struct {
        uint16_t at, n_bytes;
    } parameters[32];
};

/* Kernels, by function. */
struct gpu_kernels {
    struct gpu_function *buckets[64];
};

/* Fills op and data (GPU_ARGUMENTS_MAX bytes). False: the operation cannot be part of a sequence. */
bool gpu_op_of_launch(struct gpu_kernels *kernels, CUfunction function, const unsigned sizes[7],
                      void **parameters, void **extra, struct gpu_operation *op, char *data);
bool gpu_op_of_copy(enum gpu_operation_kind kind, CUdeviceptr to, CUdeviceptr from, size_t n_bytes,
                    struct gpu_operation *op);
void gpu_kernels_forget(struct gpu_kernels *kernels);

/* True if the memory at these addresses allows holding the copy back. */
bool gpu_op_is_safe(const struct gpu_operation *op);

/* Calls the driver. The stream's context is current. */
CUresult gpu_op_submit(const struct gpu_operation *op, const char *data, CUstream stream);

/* A hash of the sequence's stream, operations and data. */
uint64_t gpu_sequence_hash(const struct gpu_sequence *sequence);

/* Makes a graph of the sequence by capturing on this stream, whose context is current. NULL: failed. */
CUgraphExec gpu_graph_of(const struct gpu_sequence *sequence, CUstream capture);
void gpu_graph_destroy(CUgraphExec graph);

/* Loads the kernel that copies within graphs, by this function of the driver (NULL: it has none). The device's primary context
 * has just been created. */
void gpu_repeats_load(int device, CUcontext context, CUresult (*load)(CUfunction)) BASE_COLD;

/* True if the driver has the functions that graphs need. */
bool gpu_graphs_can_be(void) BASE_COLD;

/* ---- Graphs (repeat_graph.c) ---- */

/* A rank's stream for capturing graphs. */
struct gpu_capture_stream {
    CUstream stream; /* NULL: not created yet */
    CUcontext context;
    int priority;
};

/* A graph that is made beside the rank. */
struct gpu_graph_job {
    struct gpu_offload offload;
    struct gpu_sequence *sequence;
    struct gpu_capture_stream *capture; /* the rank's */
    uint64_t generation;                /* when the sequence was recorded */
    CUgraphExec graph;                  /* NULL: none was made */
    bool is_cancelled;
    _Atomic bool is_done; /* nobody else uses this any more */
};

/* Begins to make a graph of the sequence, of which it takes a copy. There is no graph if the GPU is busy, or if objects are
 * forgotten meanwhile. The caller frees the job and its sequence when it is done. On a PE; never switches. */
struct gpu_graph_job *gpu_graph_job_begin(const struct gpu_sequence *sequence, uint64_t generation,
                                          struct gpu_capture_stream *capture);

/* Objects of the job's sequence, or of any sequence, are about to be destroyed; these return when no graph of them is being
 * made. Never switch. */
void gpu_graph_job_cancel(struct gpu_graph_job *job);
void gpu_graphs_forget_all(void);

/* Counts the calls of gpu_graphs_forget_all. */
uint64_t gpu_graphs_generation(void);

/* ---- The monitoring thread (repeat_watch.c) ---- */

/* Called when operations begin to be held back. */
void gpu_repeat_watch_begin(void);

/* Adds a rank's state to those that the thread monitors. */
void gpu_repeat_watch_add(struct gpu_repeats *repeats);

/* Submits operations that have been held back too long. Returns whether any are held back or were recently.
 * On the monitoring thread. (repeats.c) */
bool gpu_repeats_look(struct gpu_repeats *repeats, uint64_t now_ns);

#endif
