/* SPDX-License-Identifier: BSD-3-Clause
 *
 * enqueue.h: operations in the order of a CUDA stream (heddle_mpi_stream.h).
 *
 * The life of an MPIX_Isend_enqueue and its MPIX_Wait_enqueue:
 *      MPIX_Isend_enqueue     checks the arguments, and makes the inner request, an ordinary send that has not
 *                             started, and the outer one, which the program gets
 *      ampi_enqueue           adds a point to the stream
 *      reached (enqueue.c)    the stream has come to the point: the PE starts the inner request
 *      inner_done             the inner request is complete: its status goes to the outer request, which
 *      completes
 *      MPIX_Wait_enqueue      adds a hold to the stream, and takes the outer request from the program
 *      awaited                the outer request is complete: the PE releases the hold
 *
 * A blocking operation does both: one call of the driver adds the point and the hold. The program may also
 * wait for the outer request with MPI_Wait.
 */
#ifndef AMPI_ENQUEUE_H
#define AMPI_ENQUEUE_H

#include "ampi/comm/comm_stream.h"
#include "ampi/object/gate.h"
#include "ampi/p2p/p2p.h"

/* Finds the stream of the communicator. Raises MPI_ERR_OTHER if it has none, and returns the error of an
 * earlier operation. is_blocking: the stream will wait for the operation: waits until the stream has room, and may switch
 * meanwhile. */
int ampi_enqueue_stream(struct ampi_comm *comm, bool is_blocking,
                        struct ampi_stream **stream_out) BASE_MUST_CHECK;

/* An operation to enqueue. */
struct ampi_enqueue {
    const char *call; /* "MPIX_Send_enqueue" */
    const char *name; /* for reports: "enqueued send" */
    struct ampi_stream *stream;
    struct ampi_request *inner;                  /* ACTIVE, not started; with a communicator */
    void (*start)(struct ampi_request *request); /* called on the request's PE; never switches */
};

/* Create a send (not a buffered one) or a receive that has not started, for ampi_enqueue.inner; and the
 * function that starts it, for ampi_enqueue.start. */
struct ampi_request *ampi_enqueue_create_send(const struct ampi_send_args *args);
struct ampi_request *ampi_enqueue_create_recv(const struct ampi_recv_args *args);
void ampi_enqueue_start_p2p(struct ampi_request *request);

/* Enqueue an operation: the stream waits until it is complete (status may be MPI_STATUS_IGNORE), or the
 * program gets a request. Raise errors, after which the inner request is destroyed. */
int ampi_enqueue_blocking(const struct ampi_enqueue *what, MPI_Status *status);
int ampi_enqueue_nonblocking(const struct ampi_enqueue *what, MPI_Request *request_out);

/* Enqueues the operation as a start of this persistent request, which becomes ACTIVE. It becomes COMPLETE
 * with the operation, unless a stream waits for it. */
int ampi_enqueue_persistent(const struct ampi_enqueue *what, struct ampi_request *persistent);

/* Reports an error that no call can return: it is raised on the owner's stack when the owner blocks or
 * yields next, and the next call with the stream returns it. Called on the owner's PE. */
void ampi_enqueue_report(const char *call, struct ampi_comm *comm, struct ampi_stream *stream,
                         const MPI_Status *status) BASE_COLD;

/* Stores the result of an operation in the status (or MPI_STATUS_IGNORE) before the waiting stream
 * continues. The status has the error, too, because no call returns it. outer: the request that the program
 * has (ampi_early_create). */
void ampi_enqueue_give_result(struct ampi_request *outer, MPI_Status *to);

/* Raises CUDA's error. comm NULL: on MPI_COMM_SELF. */
int ampi_enqueue_raise_cuda(struct ampi_comm *comm, int error) BASE_COLD;

/* Registers this room's functions with lower rooms (job/connect.c). */
void ampi_enqueue_connect(void);

/* Defines an entry point: calls the function with these arguments, among which `call` is the entry point's name. */
#define AMPI_ENQUEUE_FORM(name, function, parameters, arguments)              \
    int name parameters                                                       \
    {                                                                         \
        static const char call[] = #name;                                     \
        struct ult *gate = ampi_gate_pass(call, __builtin_return_address(0)); \
        int error;                                                            \
        ampi_enter(call);                                                     \
        error = function arguments;                                           \
        ampi_gate_leave(gate);                                                \
        return error;                                                         \
    }

#endif
