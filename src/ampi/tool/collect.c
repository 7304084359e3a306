/* SPDX-License-Identifier: BSD-3-Clause
 *
 * collect.c: see collect.h.
 */
#include "ampi/tool/collect.h"

#define TAG (-2000000001) /* no channel of partitioned.c has it */

static bool finish(struct ampi_request *request)
{
    int error;

    ampi_request_await(request);
    error = request->status.MPI_ERROR;
    ampi_request_destroy(request);
    return error == MPI_SUCCESS;
}

bool ampi_collect_send(struct ampi_rank *self, struct ampi_comm *hidden, int dest, const void *data,
                       size_t n_bytes)
{
    struct ampi_send_args args = {data,   (MPI_Count)n_bytes, ampi_type_of(MPI_BYTE), dest, TAG,
                                  hidden, AMPI_SEND_STANDARD};

    return finish(ampi_send_start(self, &args));
}

bool ampi_collect_receive(struct ampi_rank *self, struct ampi_comm *hidden, int source, void *data,
                          size_t n_bytes)
{
    struct ampi_recv_args args = {data, (MPI_Count)n_bytes, ampi_type_of(MPI_BYTE), source, TAG, hidden};

    return finish(ampi_recv_start(self, &args));
}
