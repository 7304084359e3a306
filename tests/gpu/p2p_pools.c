/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages arrive from and to memory of pools (cuMemAllocAsync) and mapped memory (cuMemMap), which other GPUs may
 * not use unless the program says so: kernels and copies of theirs keep away from it, peers or not.
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

static CUdeviceptr make_mapped(int device)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at = 0;

    GTEST_CU(cuMemAddressReserve(&at, ROOM, 0, 0, 0));
    GTEST_CU(cuMemCreate(&handle, ROOM, &properties, 0));
    GTEST_CU(cuMemMap(at, ROOM, 0, handle, 0));
    GTEST_CU(cuMemSetAccess(at, ROOM, &access, 1));
    return at;
}

static char *make(enum kind kind, int device)
{
    CUdeviceptr at = 0;

    GTEST_CU(cuCtxSetCurrent(gtest_contexts[device]));
    if (kind == PLAIN)
        GTEST_CU(cuMemAlloc(&at, ROOM));
    else if (kind == POOL)
        GTEST_CU(cuMemAllocAsync(&at, ROOM, NULL));
    else
        at = make_mapped(device);
    GTEST_CU(cuCtxSynchronize());
    return (char *)at;
}

static void exchange(char *buffer, int device, const enum gtest_layout *layout, size_t n_bytes, const char *what)
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
        MTEST_CHECK(memcmp(seen, expected, to.span_bytes) == 0, "%s, %zu bytes, %s -> %s: wrong", what, n_bytes,
                    gtest_layout_names[layout[0]], gtest_layout_names[layout[1]]);
    }
    free(image);
    free(expected);
    free(seen);
    gtest_data_free(&from);
    gtest_data_free(&to);
}

int main(int argc, char **argv)
{
    char *buffers[KINDS][2];
    int n_devices, mine;

    mtest_init(&argc, &argv, 2);
    gtest_init();
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
        snprintf(what, sizeof what, "%s of GPU %d to %s of GPU %d", kind_names[from], from_device, kind_names[to],
                 to_device);
        mine = mtest_rank == 0 ? from_device : to_device;
        for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                for (int repeat = 0; repeat < (sizes[s] < 20000 ? 3 : 1); repeat++)
                    exchange(buffers[mtest_rank == 0 ? from : to][mine], mine, layouts[l], sizes[s], what);
    }
    return mtest_end();
}
