/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Programs in the shape of MPICH's tests of CUDA, with CUDA's runtime: saxpy, a kernel between an enqueued receive and a copy;
 * stream, the creation of an MPIX_Stream; stream_allred, two rounds of allocation, enqueued allreduce and release, with copies
 * from and to the stack; mem_alloc, memory of MPI_Alloc_mem and of each kind of CUDA's as both ends of messages. See
 * tests/gpu/run; by hand:
 *
 *      nvcc -ccbin mpicxx -arch=sm_90 [-cudart shared] mpich_shapes.cu -o mpich_shapes
 *      mpirun -n 2 mpich_shapes +p 1
 */
#include <mpi.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

static int rank, size;

static void expect(bool is_right, const char *what, int line)
{
    if (is_right)
        return;
    printf("FAIL rank %d, line %d: %s\n", rank, line, what);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define EXPECT(condition) expect(condition, #condition, __LINE__)
#define CUDA(call) expect((call) == cudaSuccess, #call, __LINE__)
#define MPI_OK(call) expect((call) == MPI_SUCCESS, #call, __LINE__)

static MPIX_Stream create_stream(const char *type, cudaStream_t stream)
{
    MPIX_Stream made = MPIX_STREAM_NULL;
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Info_set(info, "type", type);
    MPIX_Info_set_hex(info, "value", &stream, sizeof stream);
    MPIX_Stream_create(info, &made);
    MPI_Info_free(&info);
    return made;
}

/* ---- saxpy ---- */

__global__ void saxpy_kernel(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        y[i] = a * x[i] + y[i];
}

static void saxpy(cudaStream_t stream)
{
    const int n = 1000000;
    MPIX_Stream mpi_stream = create_stream("cudaStream_t", stream);
    std::vector<float> host(n, rank == 0 ? 1.0f : 2.0f);
    float *x, *y;
    MPI_Comm comm;

    MPI_OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, mpi_stream, &comm));
    CUDA(cudaMalloc(&x, n * sizeof *x));
    CUDA(cudaMalloc(&y, n * sizeof *y));
    if (rank == 0) {
        CUDA(cudaMemcpyAsync(x, host.data(), n * sizeof *x, cudaMemcpyHostToDevice, stream));
        MPI_OK(MPIX_Send_enqueue(x, n, MPI_FLOAT, 1, 0, comm));
        CUDA(cudaStreamSynchronize(stream));
    } else if (rank == 1) {
        CUDA(cudaMemcpyAsync(y, host.data(), n * sizeof *y, cudaMemcpyHostToDevice, stream));
        MPI_OK(MPIX_Recv_enqueue(x, n, MPI_FLOAT, 0, 0, comm, MPI_STATUS_IGNORE));
        saxpy_kernel<<<(n + 255) / 256, 256, 0, stream>>>(n, 2.0f, x, y);
        CUDA(cudaMemcpyAsync(host.data(), y, n * sizeof *y, cudaMemcpyDeviceToHost, stream));
        CUDA(cudaStreamSynchronize(stream));
        for (int i = 0; i < n; i++)
            EXPECT(host[i] == 4.0f);
    }
    CUDA(cudaFree(x));
    CUDA(cudaFree(y));
    MPI_OK(MPI_Comm_free(&comm));
    MPI_OK(MPIX_Stream_free(&mpi_stream));
}

/* ---- stream ---- */

static void create(cudaStream_t stream)
{
    MPIX_Stream made = create_stream("cudaStream_t", stream), found;
    MPI_Comm comm;

    EXPECT(made != MPIX_STREAM_NULL);
    MPI_OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, made, &comm));
    MPI_OK(MPIX_Comm_get_stream(comm, 0, &found));
    EXPECT(found == made);
    MPI_OK(MPI_Comm_free(&comm));
    MPI_OK(MPIX_Stream_free(&made));
    EXPECT(create_stream("unknown", stream) == MPIX_STREAM_NULL);
}

/* ---- stream_allred ---- */

static void stream_allred(cudaStream_t stream)
{
    MPIX_Stream mpi_stream = create_stream("cudaStream_t", stream);
    MPI_Comm comm;

    MPI_OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, mpi_stream, &comm));
    for (int round = 0; round < 2; round++) {
        int values[10], *memory;
        for (int i = 0; i < 10; i++)
            values[i] = i + rank + round;
        CUDA(cudaMalloc(&memory, sizeof values));
        CUDA(cudaMemcpyAsync(memory, values, sizeof values, cudaMemcpyHostToDevice, stream));
        MPI_OK(MPIX_Allreduce_enqueue(MPI_IN_PLACE, memory, 10, MPI_INT, MPI_SUM, comm));
        CUDA(cudaMemcpyAsync(values, memory, sizeof values, cudaMemcpyDeviceToHost, stream));
        CUDA(cudaStreamSynchronize(stream));
        CUDA(cudaFree(memory));
        for (int i = 0; i < 10; i++)
            EXPECT(values[i] == size * (i + round) + size * (size - 1) / 2);
    }
    MPI_OK(MPI_Comm_free(&comm));
    MPI_OK(MPIX_Stream_free(&mpi_stream));
}

/* ---- mem_alloc ---- */

enum kind { ALLOC_MEM, DEVICE, PINNED, MANAGED, KINDS };

static int *allocate(int kind, size_t n_bytes)
{
    void *memory = NULL;

    if (kind == ALLOC_MEM)
        MPI_OK(MPI_Alloc_mem((MPI_Aint)n_bytes, MPI_INFO_NULL, &memory));
    else
        CUDA(kind == DEVICE   ? cudaMalloc(&memory, n_bytes)
             : kind == PINNED ? cudaMallocHost(&memory, n_bytes)
                              : cudaMallocManaged(&memory, n_bytes));
    return static_cast<int *>(memory);
}

static void release(int kind, int *memory)
{
    if (kind == ALLOC_MEM)
        MPI_OK(MPI_Free_mem(memory));
    else
        CUDA(kind == PINNED ? cudaFreeHost(memory) : cudaFree(memory));
}

static void mem_alloc(int from, int to, int n)
{
    int kind = rank == 0 ? from : to, *memory;
    std::vector<int> host(n, rank == 0 ? 10 * from + to + 1 : 0);

    if (rank > 1)
        return;
    memory = allocate(kind, n * sizeof(int));
    CUDA(cudaMemcpy(memory, host.data(), n * sizeof(int), cudaMemcpyDefault));
    if (rank == 0) {
        MPI_OK(MPI_Send(memory, n, MPI_INT, 1, 0, MPI_COMM_WORLD));
    } else {
        MPI_OK(MPI_Recv(memory, n, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CUDA(cudaMemcpy(host.data(), memory, n * sizeof(int), cudaMemcpyDefault));
        for (int i = 0; i < n; i++)
            EXPECT(host[i] == 10 * from + to + 1);
    }
    release(kind, memory);
}

int main(int argc, char **argv)
{
    cudaStream_t own;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CUDA(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
    for (cudaStream_t stream : {own, cudaStream_t(0)}) {
        create(stream);
        saxpy(stream);
        stream_allred(stream);
    }
    for (int from = 0; from < KINDS; from++)
        for (int to = 0; to < KINDS; to++)
            for (int n : {1, 1000, 1000000})
                mem_alloc(from, to, n);
    CUDA(cudaStreamDestroy(own));
    MPI_Finalize();
    return 0;
}
