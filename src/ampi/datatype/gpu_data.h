/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_data.h: converts datatypes to the form of src/gpu.
 */
#ifndef AMPI_DATATYPE_DEVICE_H
#define AMPI_DATATYPE_DEVICE_H

#include "ampi/datatype/type.h"
#include "gpu/gpu.h"

/* count elements of a type at buf. */
static inline struct gpu_data ampi_type_gpu_data(const void *buf, MPI_Count count,
                                                 const struct ampi_type *type)
{
    return (struct gpu_data){.buf = (void *)(uintptr_t)buf,
                             .count = count,
                             .layout = type->map,
                             .extent_bytes = type->extent_bytes,
                             .true_lb_bytes = type->true_lb_bytes,
                             .size_bytes = (size_t)(count * type->size_bytes),
                             .type = type};
}

/* The same with n_bytes consecutive bytes. */
static inline struct gpu_data ampi_bytes_gpu_data(const void *buf, size_t n_bytes)
{
    return (struct gpu_data){
        .buf = (void *)(uintptr_t)buf, .count = 1, .extent_bytes = (int64_t)n_bytes, .size_bytes = n_bytes};
}

#endif
