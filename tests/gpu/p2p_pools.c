/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages and reductions work with memory of pools (cuMemAllocAsync) and mapped memory (cuMemMap), which
 * other GPUs may not access unless the program grants it: their kernels and copies do not touch it, with or
 * without peer access. With the argument "open" the program grants access.
 */
#include "device.h"

enum kind { PLAIN, POOL, MAPPED, KINDS };
static const char *const kind_names[KINDS] = {"plain", "pool", "mapped"};
static const enum gtest_layout layouts[][2] = {{GTEST_CONTIGUOUS, GTEST_CONTIGUOUS},
                                               {GTEST_VECTOR, GTEST_CONTIGUOUS},
                                               {GTEST_CONTIGUOUS, GTEST_VECTOR},
                                               {GTEST_VECTOR, GTEST_SUBARRAY}};
static const size_t sizes[] = {560, 16352, 112000};

#define ROOM ((size_t)2 << 20) /* that the largest of them has with its holes */

static int is_open; /* all devices may use all */

/* Fills in who may use memory of a device. Returns how many they are. */
static size_t set_access(int device, CUmemAccessDesc *access)
{
    size_t n = 0;

    for (int i = 0; i < gtest_n_devices && i < 2; i++)
        if (i == device || is_open)
            access[n++] = (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i},
                                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return n;
}

static CUdeviceptr make_pooled(int device)
{
    CUmemoryPool pool;
    CUmemAccessDesc access[2];
    CUdeviceptr at = 0;

    GTEST_CU(cuDeviceGetDefaultMemPool(&pool, device));
    if (is_open)
        GTEST_CU(cuMemPoolSetAccess(pool, access, set_access(device, access)));
    GTEST_CU(cuMemAllocAsync(&at, ROOM, NULL));
    return at;
}

static CUdeviceptr make_mapped(int device)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemAccessDesc access[2];
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at = 0;

    GTEST_CU(cuMemAddressReserve(&at, ROOM, 0, 0, 0));
    GTEST_CU(cuMemCreate(&handle, ROOM, &properties, 0));
    GTEST_CU(cuMemMap(at, ROOM, 0, handle, 0));
    GTEST_CU(cuMemSetAccess(at, ROOM, access, set_access(device, access)));
    return at;
}

static char *make(enum kind kind, int device)
{
    CUdeviceptr at = 0;

    GTEST_CU(cuCtxSetCurrent(gtest_contexts[device]));
    if (kind == PLAIN)
        GTEST_CU(cuMemAlloc(&at, ROOM));
    else if (kind == POOL)
        at = make_pooled(device);
    else
        at = make_mapped(device);
    GTEST_CU(cuCtxSynchronize());
    return (char *)at;
}

static void exchange(char *buffer, int device, const enum gtest_layout *layout, size_t n_bytes,
                     const char *what)
{
    struct gtest_data from = gtest_data(layout[0], n_bytes), to = gtest_data(layout[1], n_bytes);
    char *image = mtest_alloc(from.span_bytes), *expected, *seen = mtest_alloc(to.span_bytes);

    mtest_fill(image, from.span_bytes, (unsigned)n_bytes);
    expected = gtest_expected(image, &from, &to);
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[device]));
    if (mtest_rank == 0) {
        GTEST_CU(cuMemcpyHtoD((CUdeviceptr)buffer, image, from.span_bytes));
        GTEST_CU(cuCtxSynchronize());
        MTEST_OK(MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Send(buffer, from.count, from.type, 1, 0, MPI_COMM_WORLD));
    } else {
        MPI_Request request;
        GTEST_CU(cuMemsetD8((CUdeviceptr)buffer, GTEST_FILL_BYTE, to.span_bytes));
        GTEST_CU(cuCtxSynchronize());
        MTEST_OK(MPI_Irecv(buffer, to.count, to.type, 0, 0, MPI_COMM_WORLD, &request));
        MTEST_OK(MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD));
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        GTEST_CU(cuMemcpyDtoH(seen, (CUdeviceptr)buffer, to.span_bytes));
        MTEST_CHECK(memcmp(seen, expected, to.span_bytes) == 0, "%s, %zu bytes, %s -> %s: wrong", what,
                    n_bytes, gtest_layout_names[layout[0]], gtest_layout_names[layout[1]]);
    }
    free(image);
    free(expected);
    free(seen);
    gtest_data_free(&from);
    gtest_data_free(&to);
}

/* Both ranks' buffers are inputs and outputs. */
static void reduce(char *buffer, int device, size_t n, const char *what)
{
    double *values = mtest_alloc(n * sizeof *values);
    size_t wrong = 0;

    for (size_t i = 0; i < n; i++)
        values[i] = (double)(i * (size_t)(1 + mtest_rank));
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[device]));
    GTEST_CU(cuMemcpyHtoD((CUdeviceptr)buffer, values, n * sizeof *values));
    GTEST_CU(cuCtxSynchronize());
    MTEST_OK(MPI_Allreduce(buffer, buffer + ROOM / 2, (int)n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    GTEST_CU(cuMemcpyDtoH(values, (CUdeviceptr)(buffer + ROOM / 2), n * sizeof *values));
    for (size_t i = 0; i < n; i++)
        wrong += values[i] != (double)(3 * i);
    MTEST_CHECK(wrong == 0, "%s: %zu of %zu sums are wrong", what, wrong, n);
    free(values);
}

int main(int argc, char **argv)
{
    char *buffers[KINDS][2];
    int n_devices, mine;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    is_open = argc > 1;
    if (is_open && gtest_n_devices > 1) {
        int can[2];
        GTEST_CU(cuDeviceCanAccessPeer(&can[0], 0, 1));
        GTEST_CU(cuDeviceCanAccessPeer(&can[1], 1, 0));
        if (!can[0] || !can[1])
            mtest_skip("these GPUs cannot reach each other's memory");
    }
    n_devices = gtest_n_devices < 2 ? 1 : 2;
    for (int kind = 0; kind < KINDS && mtest_rank < 2; kind++)
        for (int device = 0; device < n_devices; device++)
            buffers[kind][device] = make(kind, device);
    for (int i = 0; i < KINDS * KINDS * 4 && mtest_rank < 2; i++) {
        int from = i % KINDS, to = i / KINDS % KINDS, from_device = i / (KINDS * KINDS) % 2,
            to_device = i / (KINDS * KINDS) / 2;
        char what[100];
        if (from_device >= n_devices || to_device >= n_devices)
            continue;
        snprintf(what, sizeof what, "%s of GPU %d to %s of GPU %d", kind_names[from], from_device,
                 kind_names[to], to_device);
        mine = mtest_rank == 0 ? from_device : to_device;
        for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                for (int repeat = 0; repeat < (sizes[s] < 20000 ? 3 : 1); repeat++)
                    exchange(buffers[mtest_rank == 0 ? from : to][mine], mine, layouts[l], sizes[s], what);
        for (size_t n = 10; n < ROOM / 2 / sizeof(double); n *= 100)
            reduce(buffers[mtest_rank == 0 ? from : to][mine], mine, n, what);
    }
    return mtest_end();
}
