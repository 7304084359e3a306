/* SPDX-License-Identifier: BSD-3-Clause
 *
 * op_device.h: operations on elements in GPU memory.
 *
 * Kernels apply predefined operations if they support the type and the elements are consecutive. All others
 * (long double, 128-bit numbers, types with gaps), and users' functions, which expect memory that the CPU
 * can read, get copies in host memory.
 */
#ifndef AMPI_OP_DEVICE_H
#define AMPI_OP_DEVICE_H

#include "ampi/datatype/buffer.h"
#include "ampi/op/op.h"

/* True if a kernel can apply the operation to count consecutive elements of the type. */
bool ampi_op_has_gpu_kernel(const struct ampi_op *op, const struct ampi_type *type, MPI_Count count);

/* Sets op and type of the call; a kernel must exist. */
void ampi_op_set_gpu_kernel(const struct ampi_op *op, const struct ampi_type *type,
                            struct gpu_combine *combine);

/* ampi_op_apply where either buffer, or both, are in GPU memory. The PE waits; a user's function runs on
 * the caller's stack. Returns CUDA's error. */
int ampi_op_apply_device(const struct ampi_op *op, const void *in, void *inout, MPI_Count count,
                         struct ampi_type *type) BASE_MUST_CHECK;

/* The same, and copies the previous elements of inout to `old`, which does not overlap it (NULL: not wanted). For
 * MPI_NO_OP `in` is not read. */
int ampi_op_fetch_device(const struct ampi_op *op, const void *in, void *inout, void *old, MPI_Count count,
                         struct ampi_type *type) BASE_MUST_CHECK;

#endif
