/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_device.c: exchanges whose data stays on a GPU. If the machine supports GPU memory (UCX with CUDA), a
 * process whose members have buffers there keeps large parts and vectors in GPU memory, sends from it and fetches to
 * it. Messages are the same either way, so each process decides for itself. Small data, and data that is accessed on
 * the way, stays in host memory. If the machine does not support GPU memory, parts and vectors are in pooled pinned
 * memory: the CPU copies nothing from or to GPUs, and touches no new pages.
 */
#include "ampi/coll/between/exchange.h"
#include "ampi/coll/device/coll_device.h"
#include "ampi/op/op_device.h"
#include "base/log.h"
#include "gpu/copy/pool.h"

/* GPU memory or pinned memory of an exchange. */
struct ampi_exchange_scratch {
    struct ampi_exchange_scratch *next;
    void *memory;
    size_t n_bytes;
};

static int device_of(const struct ampi_coll_buf *buf)
{
    const struct gpu_range *range;

    if (buf->is_w || !buf->type || buf->buf == MPI_IN_PLACE)
        return -1;
    range = gpu_resolve(ampi_type_address(buf->buf, buf->type->true_lb_bytes));
    return range->memory == GPU_MEMORY_DEVICE ? range->device : -1;
}

int ampi_coll_device_for(const struct ampi_coll_slot *slot)
{
    int device = -1;

    for (int i = 0; i < slot->state->n_members && device < 0; i++)
        if (slot->args[i] && !slot->args[i]->is_remote) {
            device = device_of(&slot->args[i]->send);
            if (device < 0)
                device = device_of(&slot->args[i]->recv);
        }
    return device;
}

enum machine_memory ampi_coll_device_memory(const void *data)
{
    switch (gpu_resolve(data)->memory) {
    case GPU_MEMORY_DEVICE:
        return MACHINE_CUDA;
    case GPU_MEMORY_MANAGED:
        return MACHINE_CUDA_MANAGED;
    default:
        return MACHINE_HOST;
    }
}

void *ampi_coll_device_scratch(struct ampi_exchange *x, size_t n_bytes)
{
    int error;
    void *memory = x->is_staged ? gpu_staging_get(n_bytes) : gpu_scratch_get(x->device, n_bytes, &error);
    struct ampi_exchange_scratch *scratch;

    if (!memory)
        return NULL;
    scratch = base_malloc(sizeof *scratch, "a collective on GPUs");
    *scratch = (struct ampi_exchange_scratch){x->scratch, memory, n_bytes};
    x->scratch = scratch;
    return memory;
}

void ampi_coll_device_release(struct ampi_exchange *x)
{
    while (x->scratch) {
        struct ampi_exchange_scratch *scratch = x->scratch;
        x->scratch = scratch->next;
        if (x->is_staged)
            gpu_staging_put(scratch->memory, scratch->n_bytes);
        else
            gpu_scratch_put(x->device, scratch->memory, scratch->n_bytes);
        free(scratch);
    }
}

void ampi_coll_device_apply(struct ampi_exchange *x, const struct ampi_op *op, const void *in, void *inout,
                            MPI_Count count, struct ampi_type *type)
{
    int error;

    if (!ampi_device_has(in, count, type) && !ampi_device_has(inout, count, type)) {
        ampi_op_apply(op, in, inout, count, type);
        return;
    }
    error = ampi_op_apply_device(op, in, inout, count, type);
    if (BASE_UNLIKELY(error))
        ampi_coll_device_fail(x->slot, error);
}
