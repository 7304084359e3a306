/* SPDX-License-Identifier: BSD-3-Clause
 *
 * With CUDA's runtime, which cannot run on the fake driver: each rank has its own __device__, __constant__
 * and __managed__ variables, including those of another file and of a function, with their initial values,
 * whatever other ranks have changed; MPI sends and receives them; and loading stays lazy where CUDA's is.
 * tests/gpu/run builds it, together with variables_part.cu, with the static and with the shared runtime.
 */
#include <mpi.h>

#include <cuda.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static int rank, size, n_wrong;

#define CHECK(cond)                                                                \
    do {                                                                           \
        if (!(cond)) {                                                             \
            fprintf(stderr, "FAIL rank %d, line %d: %s\n", rank, __LINE__, #cond); \
            n_wrong++;                                                             \
        }                                                                          \
    } while (0)
#define CUDA(call) CHECK((call) == cudaSuccess)

__device__ int in_device = 11;
static __device__ int in_device_static = 12;
__constant__ int in_constant = 13;
__managed__ int in_managed = 14;
extern __device__ int in_other_file;                /* 15 */
extern __device__ int count_calls(void);            /* has a static variable, 16 */
enum { N_SEEN = 6 };

/* The variables as a kernel sees them. */
__global__ void look(int *seen)
{
    seen[0] = in_device;
    seen[1] = in_device_static;
    seen[2] = in_constant;
    seen[3] = in_managed;
    seen[4] = in_other_file;
    seen[5] = count_calls();
}

__global__ void add(int value)
{
    in_device += value;
    in_device_static += value;
    in_managed += value;
    in_other_file += value;
}

static void check_seen(int *device_seen, const int *expected)
{
    int seen[N_SEEN];

    look<<<1, 1>>>(device_seen);
    CUDA(cudaMemcpy(seen, device_seen, sizeof seen, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N_SEEN; i++) {
        if (seen[i] != expected[i])
            fprintf(stderr, "rank %d: variable %d is %d instead of %d\n", rank, i, seen[i], expected[i]);
        CHECK(seen[i] == expected[i]);
    }
}

/* Rank after rank changes its variables, and finds the first values before. */
static void check_values(int *device_seen)
{
    int expected[N_SEEN] = {11, 12, 13, 14, 15, 16}, value, calls = 16;

    for (int turn = 0; turn < size; turn++) {
        if (turn == rank) {
            check_seen(device_seen, expected);
            CHECK(in_managed == 14);
            value = 1000 + rank;
            CUDA(cudaMemcpyToSymbol(in_device, &value, sizeof value));
            CUDA(cudaMemcpyToSymbol(in_constant, &value, sizeof value));
            CUDA(cudaMemcpyToSymbol(in_other_file, &value, sizeof value));
            in_managed = 2000 + rank;
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int round = 1; round <= 5; round++) { /* all at once */
        int now[N_SEEN] = {1000 + rank + round * (rank + 1), 12 + round * (rank + 1), 1000 + rank,
                           2000 + rank + round * (rank + 1), 1000 + rank + round * (rank + 1), ++calls};
        add<<<1, 1>>>(rank + 1);
        MPI_Barrier(MPI_COMM_WORLD);
        check_seen(device_seen, now);
        CUDA(cudaDeviceSynchronize());
        CHECK(in_managed == now[3]);
        CUDA(cudaMemcpyFromSymbol(&value, in_device, sizeof value));
        CHECK(value == now[0]);
        CUDA(cudaMemcpyFromSymbol(&value, in_constant, sizeof value));
        CHECK(value == now[2]);
    }
}

/* No two ranks of a process have the same variable, and MPI takes them as buffers. */
static void check_addresses(void)
{
    void *places[2];
    std::vector<void *> all(2 * (size_t)size);
    int value = 5000 + rank, partner = (rank + 1) % size, before = (rank + size - 1) % size;

    CUDA(cudaGetSymbolAddress(&places[0], in_device));
    CUDA(cudaGetSymbolAddress(&places[1], in_other_file));
    MPI_Allgather(places, sizeof places, MPI_BYTE, all.data(), sizeof places, MPI_BYTE, MPI_COMM_WORLD);
    for (int other = 0; other < size; other++)
        for (int i = 0; i < 2; i++)
            CHECK(other == rank || all[2 * other + i] != places[i] || size == 1);
    CUDA(cudaMemcpyToSymbol(in_device, &value, sizeof value));
    MPI_Sendrecv(places[0], 1, MPI_INT, partner, 0, places[1], 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CUDA(cudaMemcpyFromSymbol(&value, in_other_file, sizeof value));
    CHECK(value == 5000 + before);
    in_managed = 6000 + rank;
    MPI_Sendrecv_replace(&in_managed, 1, MPI_INT, partner, 0, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(in_managed == 6000 + before);
}

static void check_loading(void)
{
    const char *wanted = getenv("CUDA_MODULE_LOADING");
    CUmoduleLoadingMode mode;

    CHECK(cuModuleGetLoadingMode(&mode) == CUDA_SUCCESS);
    CHECK(mode == (wanted && strcmp(wanted, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING));
}

int main(int argc, char **argv)
{
    int n_devices, *device_seen;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CUDA(cudaGetDeviceCount(&n_devices));
    if (argc > 1 && strcmp(argv[1], "other") == 0) /* not the GPU that the rank has by default */
        CUDA(cudaSetDevice((rank + 1) % n_devices));
    CUDA(cudaMalloc(&device_seen, N_SEEN * sizeof *device_seen));
    check_loading();
    check_values(device_seen);
    check_addresses();
    CUDA(cudaFree(device_seen));
    MPI_Allreduce(MPI_IN_PLACE, &n_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (n_wrong == 0 && rank == 0)
        printf("right\n");
    return n_wrong != 0;
}
