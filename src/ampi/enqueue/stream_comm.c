/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream_comm.c: MPIX_Stream_comm_create and MPIX_Stream_comm_create_multiplex (heddle_mpi_stream.h).
 */
#include "ampi/coll/engine/coll.h"
#include "ampi/comm/comm_stream.h"
#include "ampi/create/comm_create.h"
#include "ampi/object/gate.h"
#include "ampi/p2p/thread/endpoint.h"
#include "base/log.h"

/* Creates the member's endpoint, so that threads exchange messages without entering their PEs. No member
 * returns before all have their endpoints. */
static int give_endpoint(struct ampi_comm *made, const struct ampi_stream *stream)
{
    static const struct ampi_coll_plan plan = {.name = "stream communicator creation"};
    struct ampi_coll_args args = {AMPI_COLL_PLAN(&plan), .comm = made};

    if (!ampi_endpoint_may_give(made))
        return MPI_SUCCESS;
    if (stream && !stream->sync)
        ampi_endpoint_give(made);
    return ampi_coll_run(&args);
}

/* A duplicate of the communicator, without its attributes and hints, with the rank's streams. */
static int create(struct ampi_comm *old, struct ampi_stream *const *streams, int n, bool is_multiplex,
                  MPI_Comm *newcomm)
{
    struct ampi_coll_args args = {AMPI_COLL_PLAN(&ampi_comm_dup_plan), .comm = old,
                                  .key = {is_multiplex, is_multiplex ? n : 0}};
    int error;

    for (int i = 0; i < n; i++)
        if (streams[i])
            ampi_stream_ref(streams[i]); /* another thread may free it meanwhile */
    error = ampi_coll_run(&args);
    if (error) {
        error = ampi_comm_raise_creation(old, error);
    } else {
        ampi_comm_streams_set(args.extra, streams, n, is_multiplex);
        error = is_multiplex ? MPI_SUCCESS : give_endpoint(args.extra, streams[0]);
        error = error ? error : ampi_comm_adopt(old, args.extra, false, newcomm);
    }
    for (int i = 0; i < n; i++)
        if (streams[i])
            ampi_stream_unref(streams[i]);
    return error;
}

static int check_comm(struct ampi_rank *self, MPI_Comm comm, const MPI_Comm *newcomm,
                      struct ampi_comm **old_out)
{
    struct ampi_comm *old = ampi_comm_of(self, comm);

    if (!old)
        return ampi_comm_raise_invalid(comm);
    if (old->shared->is_inter)
        return ampi_raise(old, MPI_ERR_COMM, "the communicator is an intercommunicator");
    if (!newcomm)
        return ampi_raise(old, MPI_ERR_ARG, "the address of the new communicator is NULL");
    *old_out = old;
    return MPI_SUCCESS;
}

static int create_single(struct ampi_rank *self, MPI_Comm comm, MPIX_Stream stream, MPI_Comm *newcomm)
{
    struct ampi_stream *object;
    struct ampi_comm *old = NULL;
    int error = check_comm(self, comm, newcomm, &old);

    if (error || (error = ampi_stream_find(stream, &object)))
        return error;
    return create(old, &object, 1, false, newcomm);
}

int MPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm *newcomm)
{
    struct ult *gate = ampi_gate_pass("MPIX_Stream_comm_create", __builtin_return_address(0));
    int error = create_single(ampi_enter("MPIX_Stream_comm_create"), comm, stream, newcomm);

    ampi_gate_leave(gate);
    return error;
}

static int create_multiplex(struct ampi_rank *self, MPI_Comm comm, int count, MPIX_Stream streams[],
                            MPI_Comm *newcomm)
{
    struct ampi_stream **objects;
    struct ampi_comm *old = NULL;
    int error = check_comm(self, comm, newcomm, &old);

    if (error)
        return error;
    if (count < 0)
        return ampi_raise(old, MPI_ERR_COUNT, "the count of streams %d is negative", count);
    if (count > 0 && !streams)
        return ampi_raise(old, MPI_ERR_ARG, "the array of %d streams is NULL", count);
    objects = base_malloc((size_t)(count + 1) * sizeof(struct ampi_stream *), "an array of streams");
    for (int i = 0; i < count && !error; i++)
        error = ampi_stream_find(streams[i], &objects[i]);
    if (!error)
        error = create(old, objects, count, true, newcomm);
    free(objects);
    return error;
}

int MPIX_Stream_comm_create_multiplex(MPI_Comm comm, int count, MPIX_Stream array_of_streams[],
                                      MPI_Comm *newcomm)
{
    struct ult *gate = ampi_gate_pass("MPIX_Stream_comm_create_multiplex", __builtin_return_address(0));
    int error = create_multiplex(ampi_enter("MPIX_Stream_comm_create_multiplex"), comm, count,
                                 array_of_streams, newcomm);

    ampi_gate_leave(gate);
    return error;
}
