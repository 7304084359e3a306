/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sendrecv.c: sending and receiving in one call (MPI 5.0, section 3.11). The _replace forms send a packed
 * copy.
 */
#include "ampi/p2p/p2p_calls.h"

#include "ampi/datatype/buffer.h"
#include "ampi/p2p/p2p_watch.h"
#include "base/log.h"

static int check(struct ampi_rank *self, struct ampi_sendrecv_args *both, MPI_Datatype sendtype,
                 MPI_Datatype recvtype, MPI_Comm comm)
{
    int error = ampi_check_send(self, sendtype, comm, &both->send);

    return error ? error : ampi_check_recv(self, recvtype, comm, &both->recv);
}

/* Replaces the send half by one with a packed copy, which the caller frees. May switch. */
static int pack_copy(struct ampi_send_args *send, void **copy_out)
{
    size_t n_bytes = (size_t)(send->count * send->type->size_bytes);
    void *copy = base_malloc(n_bytes, "the copy that MPI_Sendrecv_replace sends");
    int error = ampi_device_pack(send->comm, copy, send->buf, send->count, send->type);

    if (BASE_UNLIKELY(error)) {
        free(copy);
        return error;
    }
    send->buf = copy;
    send->count = (MPI_Count)n_bytes;
    send->type = ampi_type_of(MPI_PACKED);
    *copy_out = copy;
    return MPI_SUCCESS;
}

/* +check usage: both halves must not use the same memory. */
static void check_halves(const struct ampi_sendrecv_args *both)
{
    if (ampi_p2p_is_checked(both->send.comm) && both->send.dest != MPI_PROC_NULL &&
        both->recv.source != MPI_PROC_NULL)
        ampi_p2p_checker.exchange(&both->send, &both->recv);
}

/* The receive is posted first, so that the two may go to the same rank. */
static int run_blocking(struct ampi_rank *self, const struct ampi_sendrecv_args *both, MPI_Status *status)
{
    struct ampi_request *recv = ampi_recv_start(self, &both->recv);
    MPI_Request handle = (MPI_Request)recv;
    MPI_Status result;

    int error = ampi_send_blocking(self, &both->send);

    ampi_request_await(recv);
    result = recv->status;
    ampi_request_retire(&handle, recv, status);
    return error ? error : ampi_p2p_result(both->recv.comm, &result);
}

int ampi_sendrecv(struct ampi_rank *self, struct ampi_sendrecv_args *both, MPI_Datatype sendtype,
                  MPI_Datatype recvtype, MPI_Comm comm, MPI_Status *status)
{
    int error = check(self, both, sendtype, recvtype, comm);

    if (BASE_UNLIKELY(error))
        return error;
    check_halves(both);
    return run_blocking(self, both, status);
}

int ampi_sendrecv_replace(struct ampi_rank *self, struct ampi_sendrecv_args *both, MPI_Datatype datatype,
                          MPI_Comm comm, MPI_Status *status)
{
    int error = check(self, both, datatype, datatype, comm);
    void *copy = NULL;

    if (error || (error = pack_copy(&both->send, &copy)))
        return error;
    error = run_blocking(self, both, status);
    free(copy);
    return error;
}

/* ---- Nonblocking: one request for both halves ---- */

struct isendrecv {
    int n_left; /* incomplete halves */
    void *copy; /* the data that the _replace form sends; NULL: the other form */
};

static void release_isendrecv(struct ampi_request *request)
{
    struct isendrecv *state = request->u.extra;

    free(state->copy);
    free(state);
}

static const struct ampi_request_kind isendrecv_kind = {.name = "send and receive",
                                                        .release = release_isendrecv};

/* A half is complete. The status of the whole is the receive's. */
static void half_done(struct ampi_request *half, struct ampi_request *whole)
{
    struct isendrecv *state = whole->u.extra;

    if (half->kind == &ampi_recv_kind)
        whole->status = half->status;
    ampi_request_destroy(half);
    if (--state->n_left == 0)
        ampi_request_complete(whole);
}

static void run_nonblocking(struct ampi_rank *self, const struct ampi_sendrecv_args *both, void *copy,
                            MPI_Request *request)
{
    struct ampi_request *whole = ampi_request_create(self, &isendrecv_kind, both->recv.comm, false);
    struct isendrecv *state = base_malloc(sizeof *state, "MPI_Isendrecv");
    struct ampi_request *recv, *send;

    *state = (struct isendrecv){.n_left = 2, .copy = copy};
    whole->u.extra = state;
    recv = ampi_recv_start(self, &both->recv);
    send = ampi_send_start(self, &both->send);
    ampi_request_attach(whole, recv, half_done);
    ampi_request_attach(whole, send, half_done);
    *request = (MPI_Request)whole;
}

int ampi_isendrecv(struct ampi_rank *self, struct ampi_sendrecv_args *both, MPI_Datatype sendtype,
                   MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
    int error = check(self, both, sendtype, recvtype, comm);

    if (error)
        return error;
    if (BASE_UNLIKELY(!request))
        return ampi_raise(both->recv.comm, MPI_ERR_ARG, "the address of the request is NULL");
    check_halves(both);
    run_nonblocking(self, both, NULL, request);
    return MPI_SUCCESS;
}

int ampi_isendrecv_replace(struct ampi_rank *self, struct ampi_sendrecv_args *both, MPI_Datatype datatype,
                           MPI_Comm comm, MPI_Request *request)
{
    int error = check(self, both, datatype, datatype, comm);
    void *copy = NULL;

    if (error)
        return error;
    if (BASE_UNLIKELY(!request))
        return ampi_raise(both->recv.comm, MPI_ERR_ARG, "the address of the request is NULL");
    if ((error = pack_copy(&both->send, &copy)))
        return error;
    run_nonblocking(self, both, copy, request);
    return MPI_SUCCESS;
}
