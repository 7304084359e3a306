/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Every kind of copy and fill is ordered after the preceding and before the following work, and completes
 * when CUDA specifies: between device, pageable and pinned memory, of 4 bytes to some MiB, without Async in
 * the rank's stream NULL while kernels run in a blocking stream, and with Async in that. An argument
 * "per-thread" takes the functions for streams of threads.
 */
#include <dlfcn.h>

#include "kernels.h"

#define MAX_WORDS (300 * 1024)
#define TOUCHED 256  /* words, at most, that kernels change: they have one thread */
#define ROW_BYTES 64 /* of copies of rows: 4 slices where there are as many bytes */

enum kind { DEVICE, PAGEABLE, PINNED, KINDS };
static const char *const kind_names[] = {"device", "pageable", "pinned"};

static CUdeviceptr memory[2][KINDS]; /* destinations and sources of the copies */
static CUstream stream;              /* blocking */
static unsigned *seen;

/* ---- The functions: linked, or those for streams of threads ---- */

static bool is_per_thread;

static void *twin(const char *name, void *function)
{
    static void *driver;
    char full[64];
    void *found;

    if (!is_per_thread)
        return function;
    if (!driver)
        driver = dlopen("libcuda.so.1", RTLD_NOW);
    snprintf(full, sizeof full, "%s_ptds", name);
    found = dlsym(driver, full);
    if (!found) {
        snprintf(full, sizeof full, "%s_ptsz", name);
        found = dlsym(driver, full);
    }
    MTEST_CHECK(found, "there is no %s", full);
    return found;
}

#define TEXT(name) TEXT_2(name)
#define TEXT_2(name) #name
#define CALL(function) ((__typeof__(&function))twin(TEXT(function), (void *)function))

/* ---- Copies ---- */

static CUDA_MEMCPY2D rows(CUdeviceptr to, CUdeviceptr from, size_t n_bytes)
{
    size_t width = n_bytes % ROW_BYTES ? n_bytes : ROW_BYTES;

    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = from,
                           .srcPitch = width,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = to,
                           .dstPitch = width,
                           .WidthInBytes = width,
                           .Height = n_bytes / width};
}

#define SLICES(type)                                                            \
    static type slices_##type(CUdeviceptr to, CUdeviceptr from, size_t n_bytes) \
    {                                                                           \
        size_t width = n_bytes % (4 * ROW_BYTES) ? n_bytes : ROW_BYTES;         \
        size_t depth = width == ROW_BYTES ? 4 : 1;                              \
        return (type){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,                   \
                      .srcDevice = from,                                        \
                      .srcPitch = width,                                        \
                      .srcHeight = n_bytes / width / depth,                     \
                      .dstMemoryType = CU_MEMORYTYPE_UNIFIED,                   \
                      .dstDevice = to,                                          \
                      .dstPitch = width,                                        \
                      .dstHeight = n_bytes / width / depth,                     \
                      .WidthInBytes = width,                                    \
                      .Height = n_bytes / width / depth,                        \
                      .Depth = depth};                                          \
    }
SLICES(CUDA_MEMCPY3D)

static CUDA_MEMCPY3D_PEER slices_peer(CUdeviceptr to, CUdeviceptr from, size_t n_bytes)
{
    CUDA_MEMCPY3D plain = slices_CUDA_MEMCPY3D(to, from, n_bytes);

    return (CUDA_MEMCPY3D_PEER){.srcMemoryType = plain.srcMemoryType,
                                .srcDevice = from,
                                .srcContext = gtest_contexts[0],
                                .srcPitch = plain.srcPitch,
                                .srcHeight = plain.srcHeight,
                                .dstMemoryType = plain.dstMemoryType,
                                .dstDevice = to,
                                .dstContext = gtest_contexts[0],
                                .dstPitch = plain.dstPitch,
                                .dstHeight = plain.dstHeight,
                                .WidthInBytes = plain.WidthInBytes,
                                .Height = plain.Height,
                                .Depth = plain.Depth};
}

#define WAY(name, call)                                                                 \
    static CUresult name(CUdeviceptr to, CUdeviceptr from, size_t n_bytes, CUstream in) \
    {                                                                                   \
        (void)in;                                                                       \
        return call;                                                                    \
    }
WAY(by_copy, CALL(cuMemcpy)(to, from, n_bytes))
WAY(by_copy_async, CALL(cuMemcpyAsync)(to, from, n_bytes, in))
WAY(by_htod, CALL(cuMemcpyHtoD)(to, (void *)from, n_bytes))
WAY(by_htod_async, CALL(cuMemcpyHtoDAsync)(to, (void *)from, n_bytes, in))
WAY(by_dtoh, CALL(cuMemcpyDtoH)((void *)to, from, n_bytes))
WAY(by_dtoh_async, CALL(cuMemcpyDtoHAsync)((void *)to, from, n_bytes, in))
WAY(by_dtod, CALL(cuMemcpyDtoD)(to, from, n_bytes))
WAY(by_dtod_async, CALL(cuMemcpyDtoDAsync)(to, from, n_bytes, in))
WAY(by_peer, CALL(cuMemcpyPeer)(to, gtest_contexts[0], from, gtest_contexts[0], n_bytes))
WAY(by_peer_async, CALL(cuMemcpyPeerAsync)(to, gtest_contexts[0], from, gtest_contexts[0], n_bytes, in))
WAY(by_2d, CALL(cuMemcpy2D)(&(CUDA_MEMCPY2D[]){rows(to, from, n_bytes)}[0]))
WAY(by_2d_unaligned, CALL(cuMemcpy2DUnaligned)(&(CUDA_MEMCPY2D[]){rows(to, from, n_bytes)}[0]))
WAY(by_2d_async, CALL(cuMemcpy2DAsync)(&(CUDA_MEMCPY2D[]){rows(to, from, n_bytes)}[0], in))
WAY(by_3d, CALL(cuMemcpy3D)(&(CUDA_MEMCPY3D[]){slices_CUDA_MEMCPY3D(to, from, n_bytes)}[0]))
WAY(by_3d_async, CALL(cuMemcpy3DAsync)(&(CUDA_MEMCPY3D[]){slices_CUDA_MEMCPY3D(to, from, n_bytes)}[0], in))
WAY(by_3d_peer, CALL(cuMemcpy3DPeer)(&(CUDA_MEMCPY3D_PEER[]){slices_peer(to, from, n_bytes)}[0]))
WAY(by_3d_peer_async,
    CALL(cuMemcpy3DPeerAsync)(&(CUDA_MEMCPY3D_PEER[]){slices_peer(to, from, n_bytes)}[0], in))

enum { ASYNC = 1, TO_HOST = 2, FROM_HOST = 4, ON_DEVICE = 8 };

static const struct {
    const char *name;
    CUresult (*copy)(CUdeviceptr to, CUdeviceptr from, size_t n_bytes, CUstream in);
    int flags;
} copies[] = {
    {"cuMemcpy", by_copy, 0},
    {"cuMemcpyAsync", by_copy_async, ASYNC},
    {"cuMemcpyHtoD", by_htod, FROM_HOST},
    {"cuMemcpyHtoDAsync", by_htod_async, FROM_HOST | ASYNC},
    {"cuMemcpyDtoH", by_dtoh, TO_HOST},
    {"cuMemcpyDtoHAsync", by_dtoh_async, TO_HOST | ASYNC},
    {"cuMemcpyDtoD", by_dtod, ON_DEVICE},
    {"cuMemcpyDtoDAsync", by_dtod_async, ON_DEVICE | ASYNC},
    {"cuMemcpyPeer", by_peer, ON_DEVICE},
    {"cuMemcpyPeerAsync", by_peer_async, ON_DEVICE | ASYNC},
    {"cuMemcpy2D", by_2d, 0},
    {"cuMemcpy2DUnaligned", by_2d_unaligned, 0},
    {"cuMemcpy2DAsync", by_2d_async, ASYNC},
    {"cuMemcpy3D", by_3d, 0},
    {"cuMemcpy3DAsync", by_3d_async, ASYNC},
    {"cuMemcpy3DPeer", by_3d_peer, ON_DEVICE},
    {"cuMemcpy3DPeerAsync", by_3d_peer_async, ON_DEVICE | ASYNC},
};

static bool has(int flags, enum kind to, enum kind from)
{
    if (flags & TO_HOST)
        return to != DEVICE && from == DEVICE;
    if (flags & FROM_HOST)
        return to == DEVICE && from != DEVICE;
    return flags & ON_DEVICE ? to == DEVICE && from == DEVICE : to == DEVICE || from == DEVICE;
}

/* ---- Between two kernels ---- */

static void set_words(CUdeviceptr where, enum kind kind, unsigned value, size_t n)
{
    if (kind == DEVICE) {
        GTEST_CU(cuMemsetD32Async(where, value, n, stream));
        GTEST_CU(cuStreamSynchronize(stream));
        return;
    }
    for (size_t i = 0; i < n; i++)
        ((unsigned *)where)[i] = value;
}

static size_t n_touched(size_t n)
{
    return n < TOUCHED ? n : TOUCHED;
}

static void check_words(CUdeviceptr where, enum kind kind, unsigned touched, unsigned others, size_t n,
                        const char *name, enum kind from)
{
    const unsigned *words = (unsigned *)where;
    size_t i;

    if (kind == DEVICE) {
        GTEST_CU(cuMemcpyDtoHAsync(seen, where, n * sizeof *seen, stream));
        words = seen;
    }
    for (i = 0; i < n && words[i] == (i < TOUCHED ? touched : others); i++)
        ;
    MTEST_CHECK(i == n, "%s, %zu words, %s to %s: word %zu is %u instead of %u", name, n, kind_names[from],
                kind_names[kind], i, words[i < n ? i : 0], i < TOUCHED ? touched : others);
}

static void launch(CUdeviceptr where, size_t n, unsigned factor, unsigned added)
{
    gtest_launch_update(where, (unsigned)n_touched(n), factor, added, stream);
}

static void try_copy(size_t way, enum kind to_kind, enum kind from_kind, size_t n)
{
    CUdeviceptr to = memory[0][to_kind], from = memory[1][from_kind];
    bool is_async = copies[way].flags & ASYNC;
    unsigned value = 10 + (unsigned)way, expected = from_kind == DEVICE ? 3 * value + 1 : value;

    set_words(from, from_kind, value, n);
    set_words(to, to_kind, 7, n);
    if (from_kind == DEVICE)
        launch(from, n, 3, 1);
    if (to_kind == DEVICE)
        launch(to, n, 2, 2);
    GTEST_CU(copies[way].copy(to, from, n * sizeof(unsigned), is_async ? stream : NULL));
    if (from_kind == DEVICE)
        launch(from, n, 5, 5);
    else if (from_kind == PAGEABLE || !is_async)
        set_words(from, from_kind, 99, n);
    if (is_async && to_kind == PINNED)
        GTEST_CU(cuStreamSynchronize(stream));
    check_words(to, to_kind, expected, value, n, copies[way].name, from_kind);
    GTEST_CU(cuStreamSynchronize(stream));
}

/* ---- Fills: behind a kernel, before another ---- */

static size_t row_words(size_t n)
{
    return n % 16 ? n : 16;
}

#define FILL(name, call)                                        \
    static CUresult name(CUdeviceptr to, size_t n, CUstream in) \
    {                                                           \
        (void)in;                                               \
        return call;                                            \
    }
FILL(fill_d8, CALL(cuMemsetD8)(to, 1, 4 * n))
FILL(fill_d16, CALL(cuMemsetD16)(to, 0x101, 2 * n))
FILL(fill_d32, CALL(cuMemsetD32)(to, 0x1010101, n))
FILL(fill_2d8, CALL(cuMemsetD2D8)(to, 4 * row_words(n), 1, 4 * row_words(n), n / row_words(n)))
FILL(fill_2d16, CALL(cuMemsetD2D16)(to, 4 * row_words(n), 0x101, 2 * row_words(n), n / row_words(n)))
FILL(fill_2d32, CALL(cuMemsetD2D32)(to, 4 * row_words(n), 0x1010101, row_words(n), n / row_words(n)))
FILL(fill_d8_async, CALL(cuMemsetD8Async)(to, 1, 4 * n, in))
FILL(fill_d16_async, CALL(cuMemsetD16Async)(to, 0x101, 2 * n, in))
FILL(fill_d32_async, CALL(cuMemsetD32Async)(to, 0x1010101, n, in))
FILL(fill_2d8_async, CALL(cuMemsetD2D8Async)(to, 4 * row_words(n), 1, 4 * row_words(n), n / row_words(n), in))
FILL(fill_2d16_async,
     CALL(cuMemsetD2D16Async)(to, 4 * row_words(n), 0x101, 2 * row_words(n), n / row_words(n), in))
FILL(fill_2d32_async,
     CALL(cuMemsetD2D32Async)(to, 4 * row_words(n), 0x1010101, row_words(n), n / row_words(n), in))

static const struct {
    const char *name;
    CUresult (*fill)(CUdeviceptr to, size_t n, CUstream in);
    bool is_async;
} fills[] = {
    {"cuMemsetD8", fill_d8, false},
    {"cuMemsetD16", fill_d16, false},
    {"cuMemsetD32", fill_d32, false},
    {"cuMemsetD2D8", fill_2d8, false},
    {"cuMemsetD2D16", fill_2d16, false},
    {"cuMemsetD2D32", fill_2d32, false},
    {"cuMemsetD8Async", fill_d8_async, true},
    {"cuMemsetD16Async", fill_d16_async, true},
    {"cuMemsetD32Async", fill_d32_async, true},
    {"cuMemsetD2D8Async", fill_2d8_async, true},
    {"cuMemsetD2D16Async", fill_2d16_async, true},
    {"cuMemsetD2D32Async", fill_2d32_async, true},
};

static void try_fill(size_t way, enum kind kind, size_t n)
{
    CUdeviceptr to = memory[0][kind];

    set_words(to, kind, 7, n);
    launch(to, n, 2, 2);
    GTEST_CU(fills[way].fill(to, n, fills[way].is_async ? stream : NULL));
    if (kind == PINNED && !fills[way].is_async)
        check_words(to, kind, 0x1010101, 0x1010101, n, fills[way].name, kind);
    launch(to, n, 2, 1);
    GTEST_CU(cuStreamSynchronize(stream));
    check_words(to, kind, 0x2020203, 0x1010101, n, fills[way].name, kind);
}

static void set_up(void)
{
    if (is_per_thread)
        stream = CU_STREAM_PER_THREAD;
    else
        GTEST_CU(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    for (int i = 0; i < 2; i++) {
        void *pinned;
        GTEST_CU(cuMemAlloc(&memory[i][DEVICE], MAX_WORDS * sizeof(unsigned)));
        GTEST_CU(cuMemAllocHost(&pinned, MAX_WORDS * sizeof(unsigned)));
        memory[i][PINNED] = (CUdeviceptr)pinned;
        memory[i][PAGEABLE] = (CUdeviceptr)mtest_alloc(MAX_WORDS * sizeof(unsigned));
    }
    seen = mtest_alloc(MAX_WORDS * sizeof(unsigned));
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {1, 1024, 20000, MAX_WORDS};

    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_load_kernels();
    is_per_thread = argc > 1 && strcmp(argv[1], "per-thread") == 0;
    set_up();
    for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
        for (size_t way = 0; way < sizeof copies / sizeof *copies; way++)
            for (int kinds = 0; kinds < KINDS * KINDS; kinds++)
                if (has(copies[way].flags, kinds / KINDS, kinds % KINDS))
                    try_copy(way, kinds / KINDS, kinds % KINDS, sizes[size]);
        for (size_t way = 0; way < sizeof fills / sizeof *fills; way++)
            for (int kind = DEVICE; kind <= PINNED; kind += PINNED - DEVICE)
                try_fill(way, kind, sizes[size]);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    return mtest_end();
}
