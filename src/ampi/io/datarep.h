/* SPDX-License-Identifier: BSD-3-Clause
 *
 * datarep.h: data representations of files (MPI 5.0, section 14.5): native and internal, which are the memory's, external32,
 * and those that the program registers.
 */
#ifndef AMPI_IO_DATAREP_H
#define AMPI_IO_DATAREP_H

#include "ampi/datatype/type.h"

struct ampi_rank;

/* Immutable. Those of the program belong to a rank, whose functions they call. */
struct ampi_datarep {
    const char *name;
    bool is_external; /* external32 */
    bool is_large;    /* registered by MPI_Register_datarep_c */
    union {
        MPI_Datarep_conversion_function *small;
        MPI_Datarep_conversion_function_c *large;
    } read_fn, write_fn;                    /* of the program; NULL: no conversion */
    MPI_Datarep_extent_function *extent_fn; /* of the program; NULL: not the program's */
    void *extra_state;                      /* for these three */
    struct ampi_datarep *next;              /* in the rank's list */
};

const struct ampi_datarep *ampi_datarep_native(void);

/* By name; NULL: there is none. */
const struct ampi_datarep *ampi_datarep_find(const struct ampi_rank *self, const char *name);

/* Frees those that the rank has registered; at its end. */
void ampi_datarep_fini(struct ampi_rank *rank);

/* The bytes of a type's data in the file. Returns an error class, also of the program's function. */
int ampi_datarep_size(const struct ampi_datarep *rep, const struct ampi_type *type, MPI_Count *size_out);

/* The type's layout in the file, as a committed type with a reference for the caller. Displacements in bytes stay as they
 * are, others are scaled (MPI 5.0, section 14.5). Returns an error class. */
int ampi_datarep_layout(const struct ampi_datarep *rep, struct ampi_type *type,
                        struct ampi_type **layout_out);

/* True if data is converted in this direction. */
bool ampi_datarep_converts(const struct ampi_datarep *rep, bool is_write);

/* Converts count elements between memory and the n_bytes file bytes at `external`: is_write to them, else from them, as many
 * as are complete. *moved_out: bytes of data in memory that were converted. Returns an error class. May switch, because the
 * program's function may. */
int ampi_datarep_convert(const struct ampi_datarep *rep, bool is_write, void *buf, MPI_Count count,
                         struct ampi_type *type, void *external, size_t n_bytes, MPI_Count *moved_out);

#endif
