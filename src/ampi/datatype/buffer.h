/* SPDX-License-Identifier: BSD-3-Clause
 *
 * buffer.h: buffers that are a GPU's, in the terms of MPI: telling them apart, copying them, and errors.
 *
 * A program that never touches CUDA pays one load for ampi_device_has and nothing else.
 */
#ifndef AMPI_DEVICE_H
#define AMPI_DEVICE_H

#include "ampi/datatype/gpu_data.h"
#include "ampi/object/rank.h"

/* True if the first byte of data of count elements at buf is a GPU's. Never switches. */
static inline bool ampi_device_has(const void *buf, MPI_Count count, const struct ampi_type *type)
{
    return gpu_is_used() && count > 0 && type->size_bytes > 0 &&
           gpu_find(ampi_type_address(buf, type->true_lb_bytes))->memory >= GPU_MEMORY_MANAGED;
}

/* Packs all data of count elements into consecutive host memory, from wherever they are; raises and returns
 * errors. May switch if they are a GPU's. */
int ampi_device_pack(struct ampi_comm *comm, void *out, const void *buf, MPI_Count count,
                     const struct ampi_type *type) BASE_MUST_CHECK;

/* ampi_type_copy where one side or both may be a GPU's; the PE waits. Returns CUDA's error. Never
 * switches. */
int ampi_device_copy(void *dst, MPI_Count dst_count, const struct ampi_type *dst_type, const void *src,
                     MPI_Count src_count, const struct ampi_type *src_type) BASE_MUST_CHECK;

/* A buffer as the CPU can use it: itself, or a copy in the host's memory of one that is a GPU's. */
struct ampi_host_copy {
    void *buf;      /* to be used, with the count and type given */
    void *memory;   /* allocated; NULL: buf is the buffer itself */
    void *original; /* the rest is what the copy is of */
    const struct ampi_type *type;
    MPI_Count count;
};

/* Makes the copy; is_read: with the data. Returns CUDA's error, after which there is nothing to end. end:
 * frees it; is_written: writes the data, and nothing between, back before. The PE waits; never switch. */
int ampi_host_copy_begin(struct ampi_host_copy *copy, const void *buf, MPI_Count count,
                         const struct ampi_type *type, bool is_read) BASE_MUST_CHECK;
int ampi_host_copy_end(struct ampi_host_copy *copy, bool is_written) BASE_MUST_CHECK;

/* MPI's class for an error of CUDA's. */
int ampi_device_class(int error) BASE_COLD;

/* An operation of the rank has failed with this error of CUDA's: remembers what CUDA says of it, and returns
 * MPI's class for it. On the PE that got the error. */
int ampi_device_error(struct ampi_rank *owner, int error) BASE_COLD;

/* The text of the error that was remembered last, for the operation that has failed with `error_class`; NULL:
 * it had nothing to do with a GPU. Forgets it. */
const char *ampi_device_error_text(struct ampi_rank *self, int error_class) BASE_COLD;

/* The format of that text. */
#define AMPI_DEVICE_FAILED "data on a GPU could not be moved: %s"

/* Gives src/gpu the functions that know datatypes; before the first rank runs. */
void ampi_device_init(void);

#endif
