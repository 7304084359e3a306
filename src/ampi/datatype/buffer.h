/* SPDX-License-Identifier: BSD-3-Clause
 *
 * buffer.h: buffers in GPU memory, at the level of MPI: detecting them, copying them, and their errors.
 *
 * A program that never touches CUDA pays one load for ampi_device_has and nothing else.
 */
#ifndef AMPI_DEVICE_H
#define AMPI_DEVICE_H

#include "ampi/datatype/gpu_data.h"
#include "ampi/object/rank.h"

/* True if the first byte of data of count elements at buf is in GPU memory. Never switches. */
static inline bool ampi_device_has(const void *buf, MPI_Count count, const struct ampi_type *type)
{
    return gpu_is_used() && count > 0 && type->size_bytes > 0 &&
           gpu_find(ampi_type_address(buf, type->true_lb_bytes))->memory >= GPU_MEMORY_MANAGED;
}

/* The same for a buffer that is used again and again: it is looked up only if the facts about its first byte
 * are out of date. */
static inline bool ampi_device_has_still(struct gpu_facts *facts, const void *buf, MPI_Count count,
                                         const struct ampi_type *type)
{
    if (!gpu_is_used() || count <= 0 || type->size_bytes <= 0)
        return false;
    if (BASE_UNLIKELY(!gpu_facts_hold(facts)))
        gpu_facts_collect(facts, ampi_type_address(buf, type->true_lb_bytes));
    return facts->range.memory >= GPU_MEMORY_MANAGED;
}

/* Packs all data of count elements into consecutive host memory, from any memory; raises and returns
 * errors. May switch if the data is in GPU memory. */
int ampi_device_pack(struct ampi_comm *comm, void *out, const void *buf, MPI_Count count,
                     const struct ampi_type *type) BASE_MUST_CHECK;

/* ampi_type_copy where either side may be in GPU memory; the PE waits. Returns CUDA's error. Never
 * switches. */
int ampi_device_copy(void *dst, MPI_Count dst_count, const struct ampi_type *dst_type, const void *src,
                     MPI_Count src_count, const struct ampi_type *src_type) BASE_MUST_CHECK;

/* A buffer for the CPU: the original, or a copy in host memory of one in GPU memory. */
struct ampi_host_copy {
    void *buf;      /* the address to use, with the given count and type */
    void *memory;   /* allocated; NULL: buf is the original */
    void *original; /* the original; the following fields describe it */
    const struct ampi_type *type;
    MPI_Count count;
};

/* begin makes the copy; is_read: including the data. Returns CUDA's error, after which end must not be
 * called. end frees the copy; is_written: writes the data, but no gaps, back first. The PE waits; never
 * switch. */
int ampi_host_copy_begin(struct ampi_host_copy *copy, const void *buf, MPI_Count count,
                         const struct ampi_type *type, bool is_read) BASE_MUST_CHECK;
int ampi_host_copy_end(struct ampi_host_copy *copy, bool is_written) BASE_MUST_CHECK;

/* MPI's error class for a CUDA error. */
int ampi_device_class(int error) BASE_COLD;

/* Records CUDA's text for an operation of the rank that failed with this error, and returns MPI's class. On
 * the PE that got the error. */
int ampi_device_error(struct ampi_rank *owner, int error) BASE_COLD;

/* The recorded text for the operation that failed with `error_class`; NULL: the error is not from a GPU.
 * Clears it. */
const char *ampi_device_error_text(struct ampi_rank *self, int error_class) BASE_COLD;

/* The format of that text. */
#define AMPI_DEVICE_FAILED "data on a GPU could not be moved: %s"

/* Registers the functions that know datatypes with src/gpu; before the first rank runs. */
void ampi_device_init(void);

#endif
