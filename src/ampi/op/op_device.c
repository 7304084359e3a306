/* SPDX-License-Identifier: BSD-3-Clause
 *
 * op_device.c: see op_device.h.
 */
#include "ampi/op/op_device.h"

#include "gpu/kernels/kernels.h"

/* MPI's types as types of the kernels: enum gpu_type plus one; 0: none. */
#define TYPE_OF(X, type) [AMPI_BASIC_##type] = GPU_TYPE_##type + 1,
static const signed char type_of[AMPI_BASIC_COUNT] = {GPU_TYPES(TYPE_OF, )};

/* The operation's index in MPI's table, which is also that of the kernels. */
static int op_of(const struct ampi_op *op)
{
    return (int)((op->kernels - ampi_op_kernels[0]) / AMPI_BASIC_COUNT);
}

bool ampi_op_has_gpu_kernel(const struct ampi_op *op, const struct ampi_type *type, MPI_Count count)
{
    return op->is_predefined && type_of[type->basic] &&
           (ampi_op_is_pair(type->basic) || ampi_type_is_block(type, count)) &&
           gpu_can_combine(op_of(op), type_of[type->basic] - 1);
}

void ampi_op_set_gpu_kernel(const struct ampi_op *op, const struct ampi_type *type,
                            struct gpu_combine *combine)
{
    combine->op = op_of(op);
    combine->type = type_of[type->basic] - 1;
}

static int apply_by_kernel(const struct ampi_op *op, const void *in, void *inout, void *old, MPI_Count count,
                           struct ampi_type *type)
{
    void *out = ampi_type_address(inout, type->true_lb_bytes);
    const void *inputs[2] = {out, ampi_type_address(in, type->true_lb_bytes)};
    struct gpu_combine combine = {.outs = &out,
                                  .inputs = inputs,
                                  .old = old ? ampi_type_address(old, type->true_lb_bytes) : NULL,
                                  .n_outs = 1,
                                  .n_inputs = 2,
                                  .count_elems = (int64_t)ampi_op_elems(type, count),
                                  .device = -1};

    ampi_op_set_gpu_kernel(op, type, &combine);
    return gpu_combine_now(&combine);
}

/* Copies both sides to host memory. */
static int apply_on_host(const struct ampi_op *op, const void *in, void *inout, MPI_Count count,
                         struct ampi_type *type)
{
    struct ampi_host_copy a, b;
    int end_error, error = ampi_host_copy_begin(&a, in, count, type, true);

    if (error)
        return error;
    error = ampi_host_copy_begin(&b, inout, count, type, true);
    if (!error) {
        ampi_op_apply(op, a.buf, b.buf, count, type);
        error = ampi_host_copy_end(&b, true);
    }
    end_error = ampi_host_copy_end(&a, false);
    return error ? error : end_error;
}

int ampi_op_fetch_device(const struct ampi_op *op, const void *in, void *inout, void *old, MPI_Count count,
                         struct ampi_type *type)
{
    bool is_combined = op->predefined != MPI_NO_OP && op->predefined != MPI_REPLACE;
    int error = 0;

    if (is_combined && ampi_op_has_gpu_kernel(op, type, count))
        return apply_by_kernel(op, in, inout, old, count, type);
    if (old)
        error = ampi_device_copy(old, count, type, inout, count, type);
    if (error || op->predefined == MPI_NO_OP)
        return error;
    return is_combined ? apply_on_host(op, in, inout, count, type)
                       : ampi_device_copy(inout, count, type, in, count, type);
}

int ampi_op_apply_device(const struct ampi_op *op, const void *in, void *inout, MPI_Count count,
                         struct ampi_type *type)
{
    return ampi_op_fetch_device(op, in, inout, NULL, count, type);
}
