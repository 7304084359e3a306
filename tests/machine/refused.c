/* SPDX-License-Identifier: BSD-3-Clause */
/* Large data between processes: a message, a broadcast, or one-sided. For refused_test.sh. With REFUSED_LIBRARY this file is a
 * library that stands before UCX's and refuses to send or to receive much data, as UCX does when it is out of memory. */
#ifdef REFUSED_LIBRARY
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

enum { LARGE = 100000, UCS_ERR_NO_MEMORY = -4 };

static void *real(const char *name)
{
    return dlsym(dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD), name);
}

static int is_refused(const char *which, size_t n_bytes)
{
    const char *refused = getenv("REFUSED");

    return n_bytes >= LARGE && refused && refused[0] == which[0];
}

void *ucp_am_send_nbx(void *endpoint, unsigned id, const void *header, size_t header_bytes, const void *data,
                      size_t n_bytes, const void *param)
{
    void *(*function)(void *, unsigned, const void *, size_t, const void *, size_t, const void *) =
        real("ucp_am_send_nbx");

    return is_refused("send", n_bytes) ? (void *)(intptr_t)UCS_ERR_NO_MEMORY
                                       : function(endpoint, id, header, header_bytes, data, n_bytes, param);
}

void *ucp_am_recv_data_nbx(void *worker, void *token, void *data, size_t n_bytes, const void *param)
{
    void *(*function)(void *, void *, void *, size_t, const void *) = real("ucp_am_recv_data_nbx");

    return is_refused("receive", n_bytes) ? (void *)(intptr_t)UCS_ERR_NO_MEMORY
                                          : function(worker, token, data, n_bytes, param);
}

#else
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 120000 };

static char data[N], before[N], memory[N];

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Win win;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    memset(data, rank == 0 ? 7 : 0, N);
    if (strcmp(argv[1], "message") == 0 && rank == 0) {
        MPI_Send(data, N, MPI_CHAR, size - 1, 0, MPI_COMM_WORLD);
    } else if (strcmp(argv[1], "message") == 0 && rank == size - 1) {
        MPI_Recv(data, N, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(argv[1], "collective") == 0) {
        MPI_Bcast(data, N, MPI_CHAR, 0, MPI_COMM_WORLD);
    } else if (strcmp(argv[1], "window") == 0) {
        MPI_Win_create(memory, N, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_fence(0, win);
        if (rank == 0)
            MPI_Get_accumulate(data, N, MPI_CHAR, before, N, MPI_CHAR, size - 1, 0, N, MPI_CHAR, MPI_REPLACE,
                               win);
        MPI_Win_fence(0, win);
        memcpy(data, memory, N);
        MPI_Win_free(&win);
    }
    if (rank == size - 1)
        printf("%d\n", data[N - 1]);
    MPI_Finalize();
    return 0;
}
#endif
