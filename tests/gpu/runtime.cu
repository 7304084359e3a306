/* SPDX-License-Identifier: BSD-3-Clause
 *
 * With CUDA's runtime, which cannot run on the fake driver: a rank that selects no device has the GPU of its
 * PE; a kernel's results are sent; a harmless error of the program is still set after MPI calls; calls that
 * wait for a GPU evict the resident kernel. tests/gpu/run builds it with the static and with the shared
 * runtime. The argument is the number of PEs.
 */
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

static int rank, n_wrong;

#define CHECK(cond)                                                                    \
    do {                                                                               \
        if (!(cond)) {                                                                 \
            fprintf(stderr, "FAIL rank %d, line %d: %s\n", rank, __LINE__, #cond);     \
            n_wrong++;                                                                 \
        }                                                                              \
    } while (0)

__global__ void fill(int *to, int n, int value)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        to[i] = value + i;
}

__global__ void count_wrong(const int *in, int n, int value, int *wrong_out)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        if (in[i] != value + i)
            atomicAdd(wrong_out, 1);
}

/* Small messages go to and fro between two ranks, then rank 0 waits for its GPU, or frees memory. Only the second sends a kernel
 * away: the first waits for the rank's own streams. (Messages that start together are copied without the kernel.) */
static void send_away()
{
    int provided, index, count, n_seen[2] = {0, 0}, is_over = 0;
    unsigned long long before, after;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle counter;
    char *buffer;
    void *memory;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    CHECK(MPI_T_pvar_get_index("heddle_gpu_service_sent_away", MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS);
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_handle_alloc(session, index, NULL, &counter, &count);
    CHECK(cudaMalloc(&buffer, 128) == cudaSuccess);
    for (int round = 0; !is_over; round++) {
        for (int i = 0; i < 120 && rank < 2; i++)
            if (rank == i % 2)
                MPI_Send(buffer, 64, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD);
            else
                MPI_Recv(buffer + 64, 64, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 0) {
            CHECK(cudaMalloc(&memory, 4 << 20) == cudaSuccess);
            MPI_T_pvar_read(session, counter, &before);
            CHECK((round % 2 ? cudaFree(memory) : cudaDeviceSynchronize()) == cudaSuccess);
            MPI_T_pvar_read(session, counter, &after);
            n_seen[round % 2] += after > before;
            if (round % 2 == 0)
                CHECK(cudaFree(memory) == cudaSuccess);
        }
        is_over = n_seen[1] > 10 || round == 2000;
        MPI_Bcast(&is_over, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    CHECK(rank > 0 || (n_seen[0] == 0 && n_seen[1] > 10));
    CHECK(cudaFree(buffer) == cudaSuccess);
}

int main(int argc, char **argv)
{
    const int n = 100000;
    int size, n_devices, device, n_pes = argc > 1 ? atoi(argv[1]) : 1, left, right, *in, *out, *wrong, host_wrong = 0;
    void *too_much;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(cudaGetDeviceCount(&n_devices) == cudaSuccess);
    CHECK(cudaGetDevice(&device) == cudaSuccess);
    CHECK(device == rank * n_pes / size * n_devices / n_pes);
    CHECK(cudaMalloc(&in, n * sizeof(int)) == cudaSuccess);
    CHECK(cudaMalloc(&out, n * sizeof(int)) == cudaSuccess);
    CHECK(cudaMalloc(&wrong, sizeof(int)) == cudaSuccess);
    CHECK(cudaMemset(wrong, 0, sizeof(int)) == cudaSuccess);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        CHECK(cudaMalloc(&too_much, (size_t)1 << 60) == cudaErrorMemoryAllocation);
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    for (int round = 0; round < 20; round++) {
        fill<<<50, 256>>>(out, n, rank * 1000 + round);
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        MPI_Sendrecv(out, n, MPI_INT, right, 0, in, n, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        count_wrong<<<50, 256>>>(in, n, left * 1000 + round, wrong);
    }
    CHECK(cudaMemcpy(&host_wrong, wrong, sizeof(int), cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(host_wrong == 0);
    CHECK(cudaGetDevice(&device) == cudaSuccess);
    CHECK(device == rank * n_pes / size * n_devices / n_pes);
    if (rank == 0)
        CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    send_away();
    MPI_Allreduce(MPI_IN_PLACE, &n_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return n_wrong != 0;
}
