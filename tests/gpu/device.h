/* SPDX-License-Identifier: BSD-3-Clause
 *
 * device.h: common parts of the programs of tests/gpu: memory of every kind, through CUDA's driver API, and
 * layouts. The programs run on real GPUs and on the fake driver of tests/support/fakecuda alike.
 */
#ifndef GPU_TEST_DEVICE_H
#define GPU_TEST_DEVICE_H

#include <cuda.h>

#include "mtest.h"

#define GTEST_DEVICES_MAX 16

static int gtest_n_devices = 0;
static CUcontext gtest_contexts[GTEST_DEVICES_MAX];

/* A call of the driver must succeed. */
#define GTEST_CU(call)                                                            \
    do {                                                                          \
        CUresult gtest_result_ = (call);                                          \
        const char *gtest_name_ = "?";                                            \
        if (gtest_result_ != CUDA_SUCCESS)                                        \
            cuGetErrorName(gtest_result_, &gtest_name_);                          \
        MTEST_CHECK(gtest_result_ == CUDA_SUCCESS, "%s: %s", #call, gtest_name_); \
        if (gtest_result_ != CUDA_SUCCESS)                                        \
            mtest_give_up();                                                      \
    } while (0)

/* After mtest_init: skips without a GPU. */
static inline void gtest_init(void)
{
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&gtest_n_devices) != CUDA_SUCCESS ||
        gtest_n_devices < 1)
        mtest_skip("there is no GPU here");
    if (gtest_n_devices > GTEST_DEVICES_MAX)
        gtest_n_devices = GTEST_DEVICES_MAX;
    for (int i = 0; i < gtest_n_devices; i++) {
        CUdevice device;
        GTEST_CU(cuDeviceGet(&device, i));
        GTEST_CU(cuDevicePrimaryCtxRetain(&gtest_contexts[i], device));
    }
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
}

/* The memory of a buffer. A second GPU is the first one if there is only one. */
enum gtest_place { GTEST_HOST, GTEST_GPU0, GTEST_GPU1, GTEST_PINNED, GTEST_MANAGED, GTEST_PLACES };
static const char *const gtest_place_names[] = {"host", "GPU 0", "GPU 1", "pinned", "managed"};

/* Any GPU, by its number. */
static inline enum gtest_place gtest_gpu(int device)
{
    return (enum gtest_place)(GTEST_PLACES + device);
}

static inline void gtest_select(enum gtest_place place)
{
    int device = place >= GTEST_PLACES ? (int)place - GTEST_PLACES : place == GTEST_GPU1;

    GTEST_CU(cuCtxSetCurrent(gtest_contexts[device < gtest_n_devices ? device : 0]));
}

/* Guard bytes lie in front of and behind every buffer. */
#define GTEST_GUARD 64
#define GTEST_GUARD_BYTE 0xa5
#define GTEST_FILL_BYTE 0x5e

struct gtest_buffer {
    enum gtest_place place;
    size_t len_bytes;
    char *memory; /* with the guards */
    char *data;
};

static inline void gtest_set(struct gtest_buffer *buffer, const void *image)
{
    size_t total = buffer->len_bytes + 2 * GTEST_GUARD;
    char *copy = mtest_alloc(total);

    memset(copy, GTEST_GUARD_BYTE, total);
    if (image)
        memcpy(copy + GTEST_GUARD, image, buffer->len_bytes);
    else
        memset(copy + GTEST_GUARD, GTEST_FILL_BYTE, buffer->len_bytes);
    gtest_select(buffer->place);
    if (buffer->place == GTEST_HOST || buffer->place == GTEST_PINNED) {
        memcpy(buffer->memory, copy, total);
    } else {
        GTEST_CU(cuMemcpyHtoD((CUdeviceptr)buffer->memory, copy, total));
        GTEST_CU(cuCtxSynchronize());
    }
    free(copy);
}

/* image: the buffer's initial contents; NULL: the fill byte. */
static inline struct gtest_buffer gtest_alloc(enum gtest_place place, size_t len_bytes, const void *image)
{
    struct gtest_buffer buffer = {.place = place, .len_bytes = len_bytes};
    size_t total = len_bytes + 2 * GTEST_GUARD;
    CUdeviceptr address = 0;
    void *host = NULL;

    gtest_select(place);
    switch (place) {
    case GTEST_HOST:
        host = mtest_alloc(total);
        break;
    case GTEST_PINNED:
        GTEST_CU(cuMemAllocHost(&host, total));
        break;
    case GTEST_MANAGED:
        GTEST_CU(cuMemAllocManaged(&address, total, CU_MEM_ATTACH_GLOBAL));
        break;
    default:
        GTEST_CU(cuMemAlloc(&address, total));
        break;
    }
    buffer.memory = host ? host : (char *)(uintptr_t)address;
    buffer.data = buffer.memory + GTEST_GUARD;
    gtest_set(&buffer, image);
    return buffer;
}

static inline void gtest_free(struct gtest_buffer *buffer)
{
    gtest_select(buffer->place);
    if (buffer->place == GTEST_HOST)
        free(buffer->memory);
    else if (buffer->place == GTEST_PINNED)
        GTEST_CU(cuMemFreeHost(buffer->memory));
    else
        GTEST_CU(cuMemFree((CUdeviceptr)buffer->memory));
}

/* The first byte of the buffer that is not as in the image, or -1; -2: a guard was written to. */
static inline long gtest_differs(const struct gtest_buffer *buffer, const void *image)
{
    size_t total = buffer->len_bytes + 2 * GTEST_GUARD;
    char *copy = mtest_alloc(total);
    long differs = -1;

    gtest_select(buffer->place);
    if (buffer->place == GTEST_HOST || buffer->place == GTEST_PINNED) {
        memcpy(copy, buffer->memory, total);
    } else {
        GTEST_CU(cuMemcpyDtoH(copy, (CUdeviceptr)buffer->memory, total));
    }
    if (mtest_touched(copy, GTEST_GUARD, GTEST_GUARD_BYTE) >= 0 ||
        mtest_touched(copy + GTEST_GUARD + buffer->len_bytes, GTEST_GUARD, GTEST_GUARD_BYTE) >= 0)
        differs = -2;
    else if (memcmp(copy + GTEST_GUARD, image, buffer->len_bytes) != 0)
        for (differs = 0; copy[GTEST_GUARD + differs] == ((const char *)image)[differs];)
            differs++;
    free(copy);
    return differs;
}

/* ---- Layouts ---- */

enum gtest_layout {
    GTEST_CONTIGUOUS,
    GTEST_VECTOR,
    GTEST_SUBARRAY,
    GTEST_STRUCT,
    GTEST_INDEXED,
    GTEST_LAYOUTS
};
static const char *const gtest_layout_names[] = {"contiguous", "vector", "subarray", "struct", "indexed"};

struct gtest_data {
    MPI_Datatype type;
    int count;
    size_t span_bytes; /* from the buffer's first byte to the last of the data */
};

static inline MPI_Datatype gtest_struct_type(void)
{
    int lengths[3] = {1, 3, 4};
    MPI_Aint displs[3] = {8, 16, 0};
    MPI_Datatype types[3] = {MPI_INT, MPI_SHORT, MPI_CHAR}, made, sized;

    MTEST_OK(MPI_Type_create_struct(3, lengths, displs, types, &made)); /* 14 bytes */
    MTEST_OK(MPI_Type_create_resized(made, 0, 24, &sized));
    MTEST_OK(MPI_Type_free(&made));
    return sized;
}

/* Data of n_bytes (a multiple of 56) or, of CONTIGUOUS, any number of bytes. */
static inline struct gtest_data gtest_data(enum gtest_layout layout, size_t n_bytes)
{
    struct gtest_data data = {.count = 1};
    int n = n_bytes ? (int)(n_bytes / 56) : 1; /* of no bytes: no element of a type */
    MPI_Aint lb, extent, true_lb, true_extent;

    switch (layout) {
    case GTEST_CONTIGUOUS:
        data.type = MPI_BYTE;
        data.count = (int)n_bytes;
        data.span_bytes = n_bytes;
        return data;
    case GTEST_VECTOR:
        MTEST_OK(MPI_Type_vector(n * 7, 1, 3, MPI_DOUBLE, &data.type));
        break;
    case GTEST_SUBARRAY: {
        int sizes[3] = {n + 2, 4, 9}, subsizes[3] = {n, 2, 7}, starts[3] = {1, 1, 1};
        MTEST_OK(MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &data.type));
        break;
    }
    case GTEST_STRUCT:
        data.type = gtest_struct_type();
        data.count = n * 4;
        break;
    default: {
        int lengths[3] = {1, 4, 2}, displs[3] = {1, 10, 3};
        MPI_Datatype each;
        MTEST_OK(MPI_Type_indexed(3, lengths, displs, MPI_DOUBLE, &each));
        MTEST_OK(MPI_Type_create_resized(each, 0, 16 * 8, &data.type));
        MTEST_OK(MPI_Type_free(&each));
        data.count = n;
        break;
    }
    }
    if (n_bytes == 0)
        data.count = 0;
    MTEST_OK(MPI_Type_commit(&data.type));
    MTEST_OK(MPI_Type_get_extent(data.type, &lb, &extent));
    MTEST_OK(MPI_Type_get_true_extent(data.type, &true_lb, &true_extent));
    data.span_bytes = data.count > 0 ? (size_t)((data.count - 1) * extent + true_lb + true_extent) : 0;
    return data;
}

static inline void gtest_data_free(struct gtest_data *data)
{
    if (data->type != MPI_BYTE)
        MTEST_OK(MPI_Type_free(&data->type));
}

/* What a receive of `from` (an image of the sender's buffer, `from_data`) leaves in a buffer of fill
 * bytes. */
static inline char *gtest_expected(const void *from, const struct gtest_data *from_data,
                                   const struct gtest_data *to_data)
{
    int size, position = 0;
    char *image = mtest_alloc(to_data->span_bytes), *packed;

    MTEST_OK(MPI_Pack_size(from_data->count, from_data->type, MPI_COMM_SELF, &size));
    packed = mtest_alloc((size_t)size);
    memset(image, GTEST_FILL_BYTE, to_data->span_bytes);
    MTEST_OK(MPI_Pack(from, from_data->count, from_data->type, packed, size, &position, MPI_COMM_SELF));
    size = position;
    position = 0;
    MTEST_OK(MPI_Unpack(packed, size, &position, image, to_data->count, to_data->type, MPI_COMM_SELF));
    free(packed);
    return image;
}

#endif
