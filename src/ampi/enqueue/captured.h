/* SPDX-License-Identifier: BSD-3-Clause
 *
 * captured.h: operations in a stream that is being captured (heddle_mpi_stream.h): every launch of the graph repeats
 * them.
 *
 * The life of a message whose ends are captured by two ranks of a process:
 *      ampi_captured_add_end   (captured_end.c) the first end finds no other, and stays in the list of all;
 *                       the second one finds it, and decides for both (gpu_graph_agree) whether GPUs or PEs
 *                       move the data in every launch
 *      hold             a wait: adds to the graph that the ends are reached, all in one node, and the waits
 *      reached          at a launch, if the PEs do it: starts an ordinary request on the hidden communicator
 *      inner_done       that request is complete: the launch continues
 *      close_comm       the communicator is freed, and with it the ends
 *
 * A collective is a persistent one that each launch starts, in the PE.
 *
 * Captured operations match each other only, in the order of the calls. Between processes both ends count their messages, and the PEs
 * send them with tags made of these numbers.
 */
#ifndef AMPI_CAPTURED_H
#define AMPI_CAPTURED_H

#include "ampi/enqueue/enqueue.h"

/* A send or a receive. */
struct ampi_captured_args {
    const char *call;
    bool is_send;
    void *buf;
    MPI_Count count;
    struct ampi_type *type;
    int peer; /* a rank, MPI_ANY_SOURCE or MPI_PROC_NULL */
    int tag;
    struct ampi_comm *comm;
    struct ampi_stream *stream;
};

/* Captures a message: with its wait (blocking), or as a request. Both raise errors, and may switch. */
int ampi_captured_blocking(const struct ampi_captured_args *args, const MPI_Status *status, uint64_t capture);
int ampi_captured_nonblocking(const struct ampi_captured_args *args, uint64_t capture,
                              MPI_Request *request_out);

/* Captures a collective with its wait. Takes over the persistent request that describes it, also after an
 * error. Raises errors. May switch. */
int ampi_captured_coll(const char *call, struct ampi_stream *stream, struct ampi_request *persistent,
                       uint64_t capture);

/* Captures a start of a persistent request, which stays inactive: every launch starts it. For a collective
 * args has call, comm, stream, and MPI_PROC_NULL as peer. Raises errors. May switch. */
int ampi_captured_start(const struct ampi_captured_args *args, const struct ampi_request *persistent,
                        uint64_t capture);

/* True if the request is that of a captured operation, or a persistent one that is inactive while its stream is
 * captured. Captures the wait for such requests. */
bool ampi_captured_is(MPI_Request handle);
int ampi_captured_wait(int count, MPI_Request requests[], const MPI_Status *statuses);

#endif
