/* SPDX-License-Identifier: BSD-3-Clause
 *
 * repeats.h: what a rank launches again and again goes to the driver as one graph. For the files of src/gpu
 * alone.
 *
 * Each launch and each copy takes 1.5 to 3 us behind a lock of the driver, for which the ranks of a GPU queue
 * up. The launch of a graph with all of them takes as long as one or two. So the launches and copies that a
 * rank puts into one stream one after the other are noted. Such a sequence ends at any other call of CUDA, at
 * a switch to another rank, and at a pause of the program. A sequence that comes again and again is made a
 * graph. When it next begins, the rank's calls return at once while they are those of the sequence, and the
 * last one launches the graph. If something else comes, what was held back is submitted call by call.
 *
 * Work is held back only between calls that have followed each other without a pause before. A program may
 * still wait there, this time, for what it has launched, without a call of CUDA or MPI: so a thread of the
 * library submits what has been held back for long (repeat_watch.c), and a rank to which that happens often
 * has no graphs any more.
 *
 * An operation is held back only if an equal one has succeeded: errors that a call returns at once are those
 * of its arguments. What a graph refers to may go away: then all are forgotten (gpu_repeats_forget).
 */
#ifndef GPU_REPEATS_H
#define GPU_REPEATS_H

#include <cuda.h>

#include "gpu/pe_state.h"
#include "gpu/streams.h"

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
    uint64_t key[6];  /* its kind, and its arguments but for a kernel's */
    uint32_t at;      /* of a kernel: where its arguments are in the sequence's data */
    uint32_t n_bytes; /* of these */
};

struct gpu_sequence {
    CUstream stream;
    CUcontext context;
    int n;
    uint32_t n_bytes; /* of data */
    struct gpu_operation ops[GPU_SEQUENCE_OPS];
    char data[GPU_SEQUENCE_BYTES];
};

/* +gpu-graphs on, and the driver has what it takes. Set before the ranks begin. */
extern bool gpu_repeats_are_on;

/* Of a rank; made when first needed, and kept. */
struct gpu_repeats;

/* The sequences that a call of the running rank for this stream goes to; NULL: to the driver. stream and
 * is_per_thread are the program's, call is what gpu_call_begin made of them. Sets *context_out. */
struct gpu_repeats *gpu_repeats_for(const struct gpu_call *call, CUstream stream, bool is_per_thread,
                                    CUcontext *context_out);

/* An operation of the running rank: submitted now, or held back. data are a kernel's arguments. Returns what
 * the driver says to it, or to one before it. */
CUresult gpu_repeats_take(struct gpu_repeats *repeats, CUstream stream, CUcontext context,
                          const struct gpu_operation *op, const char *data);

/* Is the operation the next one of something that has a graph? Then its memory is known. */
bool gpu_repeats_has(struct gpu_repeats *repeats, const struct gpu_operation *op);

/* The kernels that the rank has launched. */
struct gpu_kernels *gpu_repeats_kernels(struct gpu_repeats *repeats);

/* A launch of the running rank, whose kernel has been launched before; call is what gpu_call_begin made of the
 * stream. False: it is for the driver, and the sequence is over. (repeat_calls.c) */
bool gpu_repeats_take_launch(const struct gpu_call *call, CUstream stream, bool is_per_thread,
                             CUfunction function, const unsigned sizes[7], void **parameters, void **extra,
                             CUresult *result_out);

/* The running rank's sequence is over: what is held back is submitted. Never switches. */
void gpu_repeats_end(struct gpu_repeats *repeats);

/* The same on an OS thread that is no PE: if it is a rank's, the rank has no graphs any more. */
void gpu_repeats_end_on_thread(void) BASE_COLD;

/* The rank does something else with CUDA. */
static inline void gpu_repeats_break(void)
{
    struct gpu_pe *pe = gpu_pe_of_thread;

    if (BASE_UNLIKELY(!pe)) {
        if (gpu_repeats_are_on)
            gpu_repeats_end_on_thread();
    } else if (pe->repeats) {
        gpu_repeats_end(pe->repeats);
    }
}

/* The same before a launch or copy, which may go on with the sequence. */
void gpu_repeats_break_unless(CUstream stream, bool is_per_thread);

/* Memory, modules or others of the running rank are gone: no graph of it is used again. On a thread that is
 * no rank's: of any rank. */
void gpu_repeats_forget(void);

/* The stream is about to go. Of the running rank. */
void gpu_repeats_forget_stream(struct gpu_rank_streams *rank, CUstream stream);

/* ---- Operations (repeat_ops.c) ---- */

/* The parameters of a kernel. */
struct gpu_function {
    struct gpu_function *next;
    CUfunction function;
    int n; /* -1: not to be known */
    uint32_t n_bytes;
    struct {
        uint16_t at, n_bytes;
    } parameters[32];
};

/* Some kernels, by function. */
struct gpu_kernels {
    struct gpu_function *buckets[64];
};

/* Fills op and data (GPU_ARGUMENTS_MAX bytes). False: not an operation for a sequence. */
bool gpu_op_of_launch(struct gpu_kernels *kernels, CUfunction function, const unsigned sizes[7],
                      void **parameters, void **extra, struct gpu_operation *op, char *data);
bool gpu_op_of_copy(enum gpu_operation_kind kind, CUdeviceptr to, CUdeviceptr from, size_t n_bytes,
                    struct gpu_operation *op);
void gpu_kernels_forget(struct gpu_kernels *kernels);

/* Can a copy with these addresses be held back, as far as its memory goes? */
bool gpu_op_is_safe(const struct gpu_operation *op);

/* Calls the driver. The stream's context is current. */
CUresult gpu_op_submit(const struct gpu_operation *op, const char *data, CUstream stream);

/* The sequence as a graph, by a capture of this stream, whose context is current. NULL: cannot be had. */
CUgraphExec gpu_graph_of(const struct gpu_sequence *sequence, CUstream capture);
void gpu_graph_destroy(CUgraphExec graph);

/* Loads the kernel that copies within graphs, by this function of the driver. The device's context has been
 * made just now, and is current. */
void gpu_repeats_load(int device, CUresult (*load)(CUfunction)) BASE_COLD;

/* Does the driver have what it takes? */
bool gpu_graphs_can_be(void) BASE_COLD;

/* ---- The thread that watches (repeat_watch.c) ---- */

/* Something has been held back since then, where nothing was. */
void gpu_repeat_watch_begin(void);

/* All ranks' are looked at from now on. */
void gpu_repeat_watch_add(struct gpu_repeats *repeats);

/* Submits what has been held back for too long. Returns whether something is held back or was lately. On the
 * watching thread. (repeats.c) */
bool gpu_repeats_look(struct gpu_repeats *repeats, uint64_t now_ns);

#endif
