/* SPDX-License-Identifier: BSD-3-Clause */
/* For trace_test.py, with the fake CUDA driver: each rank copies to its GPU and from there, fills memory, and waits; then it sends device
 * memory to the next rank. Only messages have MESSAGE bytes: the library may make a blocking copy of the program itself. The few functions of CUDA's driver are declared here, so that this needs no CUDA. */
#include <mpi.h>
#include <stddef.h>
#include <stdlib.h>

#define MESSAGE 2000

typedef unsigned long long address;
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(address *at, size_t n_bytes);
int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t n_bytes, void *stream);
int cuMemcpyDtoH_v2(void *to, address from, size_t n_bytes);
int cuMemsetD8Async(address at, unsigned char value, size_t n_bytes, void *stream);
int cuStreamSynchronize(void *stream);

static void check(int error)
{
    if (error)
        exit(1);
}

int main(int argc, char **argv)
{
    static char data[4096];
    address at[2];
    void *context;
    MPI_Request request;
    int rank, n;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    check(cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context));
    check(cuMemAlloc_v2(&at[0], sizeof data) || cuMemAlloc_v2(&at[1], sizeof data));
    check(cuMemcpyHtoDAsync_v2(at[0], data, sizeof data, NULL) ||
          cuMemsetD8Async(at[1], 7, sizeof data, NULL));
    check(cuStreamSynchronize(NULL) || cuMemcpyDtoH_v2(data, at[1], sizeof data));
    MPI_Irecv((void *)(size_t)at[1], MESSAGE, MPI_BYTE, (rank + n - 1) % n, 1, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD); /* a message that comes before its receive may be copied twice */
    MPI_Send((void *)(size_t)at[0], MESSAGE, MPI_BYTE, (rank + 1) % n, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return data[9] != 7;
}
