/* SPDX-License-Identifier: BSD-3-Clause
 *
 * With CUDA's runtime, which cannot run on the fake driver: a plain MPI+CUDA program ends like a process. The
 * copies of a static runtime release their contexts, one rank or all reset the device before or after
 * MPI_Finalize, and no rank loses memory, pinned memory or messages. Each rank has its own last error and
 * current device. tests/gpu/run builds it with the static and with the shared runtime. Argument: nothing,
 * one, before, after.
 */
#include <mpi.h>

#include <cstdio>
#include <cstring>

static int rank, n_wrong;

#define CHECK(cond)                                                                    \
    do {                                                                               \
        if (!(cond)) {                                                                 \
            fprintf(stderr, "FAIL rank %d, line %d: %s\n", rank, __LINE__, #cond);     \
            n_wrong++;                                                                 \
        }                                                                              \
    } while (0)

static __device__ int own_counter;

__global__ void add(int *to, int n, int value)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        to[i] += value;
    if (threadIdx.x == 0)
        atomicAdd(&own_counter, 1);
}

enum { N = 1000, ROUNDS = 50 };

/* Kernels, copies through pinned memory, and messages of a few bytes between buffers of GPUs. */
static void work(int *device_memory, int *pinned, int size)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;

    for (int round = 0; round < ROUNDS; round++) {
        memset(pinned, 0, N * sizeof(int));
        CHECK(cudaMemcpy(device_memory, pinned, N * sizeof(int), cudaMemcpyHostToDevice) == cudaSuccess);
        add<<<1, 128>>>(device_memory, N, rank * 1000 + round);
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        MPI_Sendrecv(device_memory, 2, MPI_INT, right, 0, device_memory + N / 2, 2, MPI_INT, left, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        CHECK(cudaMemcpy(pinned, device_memory, N * sizeof(int), cudaMemcpyDeviceToHost) == cudaSuccess);
        CHECK(pinned[0] == rank * 1000 + round && pinned[N - 1] == rank * 1000 + round);
        CHECK(pinned[N / 2] == left * 1000 + round && pinned[N / 2 + 1] == left * 1000 + round);
    }
}

/* Errors that break nothing, and the device, do not pass from rank to rank. */
static void check_own_state()
{
    int n_devices, device, wanted;
    void *memory;

    CHECK(cudaGetDeviceCount(&n_devices) == cudaSuccess);
    wanted = rank % n_devices;
    CHECK(cudaSetDevice(wanted) == cudaSuccess);
    for (int round = 0; round < 20; round++) {
        if (rank % 2 == 0)
            CHECK(cudaMalloc(&memory, (size_t)1 << 60) == cudaErrorMemoryAllocation);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(cudaGetDevice(&device) == cudaSuccess && device == wanted);
        CHECK(cudaGetLastError() == (rank % 2 == 0 ? cudaErrorMemoryAllocation : cudaSuccess));
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "nothing";
    int size, is_one = strcmp(what, "one") == 0, *device_memory, *pinned, count = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check_own_state();
    CHECK(cudaMalloc(&device_memory, N * sizeof(int)) == cudaSuccess);
    CHECK(cudaMallocHost(&pinned, N * sizeof(int)) == cudaSuccess);
    work(device_memory, pinned, size);
    if (is_one && rank == 1) /* the rank gives up its memory, the others go on with theirs */
        CHECK(cudaDeviceReset() == cudaSuccess);
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_one) {
        MPI_Comm others;
        MPI_Comm_split(MPI_COMM_WORLD, rank == 1 ? MPI_UNDEFINED : 0, rank, &others);
        if (rank != 1) {
            memset(pinned, 0, N * sizeof(int));
            CHECK(cudaMemcpy(device_memory, pinned, N * sizeof(int), cudaMemcpyHostToDevice) == cudaSuccess);
            add<<<1, 128>>>(device_memory, N, 7);
            CHECK(cudaMemcpy(pinned, device_memory, N * sizeof(int), cudaMemcpyDeviceToHost) == cudaSuccess);
            CHECK(pinned[0] == 7 && pinned[N - 1] == 7);
            MPI_Allreduce(MPI_IN_PLACE, device_memory, 1, MPI_INT, MPI_SUM, others);
            CHECK(cudaMemcpyFromSymbol(&count, own_counter, sizeof count) == cudaSuccess);
            CHECK(count == ROUNDS + 1);
            MPI_Comm_free(&others);
        }
    }
    if (strcmp(what, "before") == 0)
        CHECK(cudaDeviceReset() == cudaSuccess);
    MPI_Allreduce(MPI_IN_PLACE, &n_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (strcmp(what, "after") == 0)
        CHECK(cudaDeviceReset() == cudaSuccess);
    if (n_wrong == 0 && rank == 0)
        printf("right\n");
    return n_wrong != 0;
}
