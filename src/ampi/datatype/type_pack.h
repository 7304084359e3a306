/* SPDX-License-Identifier: BSD-3-Clause
 *
 * type_pack.h: arguments and checks of packing, in native form (comm/pack_api.c) and in external32.
 */
#ifndef AMPI_DATATYPE_PACK_H
#define AMPI_DATATYPE_PACK_H

#include "ampi/datatype/recipe.h"

struct ampi_comm;

struct ampi_pack_args {
    void *data;             /* the program's buffer */
    MPI_Count count;        /* of elements in it */
    MPI_Datatype datatype;  /* of the elements */
    struct ampi_type *type; /* the same; set by ampi_pack_check */
    char *packed;           /* the packed buffer */
    MPI_Count packed_bytes; /* its size */
    struct ampi_comm *comm; /* raises the errors; may be NULL */
};

/* Raises a CUDA error. Returns the class. */
int ampi_pack_raise_gpu(const struct ampi_pack_args *args, int error) BASE_COLD;

/* Checks the arguments except the space, and sets args->type. Returns an error class. */
int ampi_pack_check(struct ampi_pack_args *args, MPI_Count position) BASE_MUST_CHECK;

/* Checks that the data, each_bytes per element when packed, fits after the position. Returns an error
 * class. */
int ampi_pack_check_room(const struct ampi_pack_args *args, MPI_Count each_bytes,
                         MPI_Count position) BASE_MUST_CHECK;

/* ---- external32 in files (external32.c). Never switch. ---- */

/* Bytes of one element. */
MPI_Count ampi_external32_size(const struct ampi_type *type);

/* Converts count elements between host memory and the n_bytes at `packed`; stops before a basic element that does not fit.
 * *moved_out: bytes of data in memory. Returns MPI_ERR_CONVERSION if a value has no representation. */
int ampi_external32_convert(void *data, MPI_Count count, const struct ampi_type *type, void *packed,
                            size_t n_bytes, bool is_pack, MPI_Count *moved_out);

#endif
