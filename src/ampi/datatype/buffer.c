/* SPDX-License-Identifier: BSD-3-Clause
 *
 * buffer.c: see buffer.h.
 */
#include "ampi/datatype/buffer.h"

#include <stdio.h>

#include "ampi/object/error.h"
#include "base/log.h"

/* The numbers of CUDA errors with their own MPI class; all others are MPI_ERR_OTHER. */
enum { ERROR_INVALID_VALUE = 1, ERROR_OUT_OF_MEMORY = 2 };

int ampi_device_pack(struct ampi_comm *comm, void *out, const void *buf, MPI_Count count,
                     const struct ampi_type *type)
{
    struct gpu_data src = ampi_type_gpu_data(buf, count, type);
    struct gpu_data dst = ampi_bytes_gpu_data(out, src.size_bytes);
    int error;

    if (BASE_LIKELY(!ampi_device_has(buf, count, type))) {
        struct ampi_cursor cursor;
        ampi_cursor_init(&cursor, buf, count, type);
        ampi_cursor_pack(&cursor, out, src.size_bytes);
        return MPI_SUCCESS;
    }
    error = gpu_move_wait(&dst, &src, src.size_bytes);
    if (BASE_LIKELY(!error))
        return MPI_SUCCESS;
    return ampi_raise(comm, ampi_device_class(error), AMPI_DEVICE_FAILED, gpu_error_text(error));
}

int ampi_device_copy(void *dst, MPI_Count dst_count, const struct ampi_type *dst_type, const void *src,
                     MPI_Count src_count, const struct ampi_type *src_type)
{
    struct gpu_data to, from;
    size_t n_bytes;

    if (!ampi_device_has(dst, dst_count, dst_type) && !ampi_device_has(src, src_count, src_type)) {
        ampi_type_copy(dst, dst_count, dst_type, src, src_count, src_type);
        return 0;
    }
    to = ampi_type_gpu_data(dst, dst_count, dst_type);
    from = ampi_type_gpu_data(src, src_count, src_type);
    n_bytes = base_min_u64(to.size_bytes, from.size_bytes);
    return n_bytes ? gpu_move_now(&to, &from, n_bytes) : 0;
}

int ampi_host_copy_begin(struct ampi_host_copy *copy, const void *buf, MPI_Count count,
                         const struct ampi_type *type, bool is_read)
{
    MPI_Count last = count > 0 ? (count - 1) * type->extent_bytes : 0, low;
    int error = 0;

    *copy = (struct ampi_host_copy){
        .buf = (void *)(uintptr_t)buf, .original = (void *)(uintptr_t)buf, .type = type, .count = count};
    if (!ampi_device_has(buf, count, type))
        return 0;
    low = type->true_lb_bytes + (last < 0 ? last : 0);
    copy->memory =
        base_malloc((size_t)(type->true_extent_bytes + (last < 0 ? -last : last)), "a copy of a GPU buffer");
    copy->buf = ampi_type_address(copy->memory, -low);
    if (is_read)
        error = ampi_device_copy(copy->buf, count, type, buf, count, type);
    if (error)
        free(copy->memory);
    return error;
}

int ampi_host_copy_end(struct ampi_host_copy *copy, bool is_written)
{
    int error = 0;

    if (copy->memory && is_written)
        error = ampi_device_copy(copy->original, copy->count, copy->type, copy->buf, copy->count, copy->type);
    free(copy->memory);
    return error;
}

int ampi_device_class(int error)
{
    switch (error) {
    case ERROR_INVALID_VALUE:
        return MPI_ERR_BUFFER;
    case ERROR_OUT_OF_MEMORY:
        return MPI_ERR_NO_MEM;
    default:
        return MPI_ERR_OTHER;
    }
}

int ampi_device_error(struct ampi_rank *owner, int error)
{
    const char *text = gpu_error_text(error);
    size_t n_bytes = strlen(text) + 1;
    char *copy = base_malloc(n_bytes, "the text of an error");

    memcpy(copy, text, n_bytes);
    free(__atomic_exchange_n(&owner->gpu_error, copy, __ATOMIC_ACQ_REL));
    return ampi_device_class(error);
}

const char *ampi_device_error_text(struct ampi_rank *self, int error_class)
{
    static __thread char shown[384] __attribute__((tls_model("initial-exec")));
    char *text = self ? __atomic_exchange_n(&self->gpu_error, NULL, __ATOMIC_ACQ_REL) : NULL;

    if (!text)
        return NULL;
    snprintf(shown, sizeof shown, "%s", text);
    free(text);
    return error_class == MPI_ERR_BUFFER || error_class == MPI_ERR_NO_MEM || error_class == MPI_ERR_OTHER
               ? shown
               : NULL;
}

/* Copies host data for src/gpu: bytes offset .. offset + n_bytes - 1 to consecutive memory, or back. */
static void copy_host(const struct gpu_data *data, size_t offset, size_t n_bytes, void *flat, bool is_pack)
{
    struct ampi_cursor cursor;

    if (!data->type) {
        char *bytes = (char *)data->buf + offset;
        memcpy(is_pack ? flat : bytes, is_pack ? bytes : flat, n_bytes);
        return;
    }
    ampi_cursor_init(&cursor, data->buf, data->count, data->type);
    ampi_cursor_seek(&cursor, (MPI_Count)offset);
    if (is_pack)
        ampi_cursor_pack(&cursor, flat, n_bytes);
    else
        ampi_cursor_unpack(&cursor, flat, n_bytes);
}

static void *block_at(const struct gpu_data *data, size_t offset, size_t *n_bytes_out)
{
    struct ampi_cursor cursor;

    ampi_cursor_init(&cursor, data->buf, data->count, data->type);
    ampi_cursor_seek(&cursor, (MPI_Count)offset);
    *n_bytes_out = cursor.run.block - cursor.run.used;
    return (void *)(cursor.run.ptr + cursor.run.used);
}

void ampi_device_init(void)
{
    gpu_block_at = block_at;
    gpu_copy_host = copy_host;
}
