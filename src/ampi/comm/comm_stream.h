/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_stream.h: streams of MPICH's extension (heddle_mpi_stream.h), and the communicators that use them.
 */
#ifndef AMPI_COMM_STREAM_H
#define AMPI_COMM_STREAM_H

#include "ampi/comm/comm.h"
#include "gpu/gpu.h"

struct ampi_captured;

/* The object behind a handle of type MPIX_Stream. Belongs to one rank. */
struct ampi_stream {
    uint32_t magic; /* AMPI_MAGIC_STREAM */
    int n_comms;    /* communicators that use it */
    int n_refs;     /* the program's handle, communicators, and operations in progress */
    int error;      /* of an operation, returned by the next call that names the stream; MPI_SUCCESS: none */
    struct ampi_rank *owner;
    struct gpu_sync *sync;          /* the CUDA stream; NULL: a stream without a GPU */
    struct ampi_captured *captured; /* not waited for in their graph yet */
    int n_late; /* sends and receives that the stream has not reached, and that match when it does: see
                 * enqueue/early.h */
};

/* A rank's streams on a communicator. Shared by the duplicates of the communicator. */
struct ampi_comm_streams {
    int n_refs;
    bool is_multiplex;
    int n;
    struct ampi_stream *streams[]; /* NULL: MPIX_STREAM_NULL */
};

/* Add and drop a reference. */
void ampi_stream_ref(struct ampi_stream *stream);
void ampi_stream_unref(struct ampi_stream *stream);

/* Finds the rank's stream of a handle; NULL for MPIX_STREAM_NULL. Raises MPI_ERR_OTHER for other invalid
 * handles. */
int ampi_stream_find(const void *handle, struct ampi_stream **stream_out) BASE_MUST_CHECK;

/* Gives streams to a new communicator of the rank. */
void ampi_comm_streams_set(struct ampi_comm *comm, struct ampi_stream *const *streams, int n,
                           bool is_multiplex);

/* Adds a reference for another communicator of the rank with the same streams; NULL: no effect. Returns the
 * argument. */
struct ampi_comm_streams *ampi_comm_streams_ref(struct ampi_comm_streams *streams);

/* Drops the reference of a communicator; NULL: no effect. */
void ampi_comm_streams_unref(struct ampi_comm_streams *streams);

#endif
