/* SPDX-License-Identifier: BSD-3-Clause
 *
 * datatype_calls.h: the functions behind the entry points of datatypes (datatype.bindings). Each raises its
 * errors and returns them. is_large: the _c form was called, so MPI_Type_get_contents_c returns the
 * arguments.
 */
#ifndef AMPI_DATATYPE_CALLS_H
#define AMPI_DATATYPE_CALLS_H

#include "ampi/object/handle.h"

int ampi_construct_contiguous(MPI_Count count, MPI_Datatype oldtype, MPI_Datatype *newtype, bool is_large);
int ampi_construct_vector(MPI_Count count, MPI_Count blocklength, MPI_Count stride, MPI_Datatype oldtype,
                          MPI_Datatype *newtype, bool is_large);
int ampi_construct_resized(MPI_Datatype oldtype, MPI_Count lb, MPI_Count extent, MPI_Datatype *newtype,
                           bool is_large);

/* The program's arrays; one of each pair is set, or none if the constructor has no such array. */
struct ampi_layout_args {
    int combiner;
    bool is_large;
    MPI_Count count;
    MPI_Count blocklength; /* of all blocks, without an array */
    const int *lens;
    const MPI_Count *large_lens;
    const int *disps; /* in elements */
    const MPI_Aint *byte_disps;
    const MPI_Count *large_disps; /* in elements or bytes */
    MPI_Datatype oldtype;
    const MPI_Datatype *types; /* struct only */
};

/* The constructors with such arrays: indexed, hindexed, indexed_block, hindexed_block, struct. */
int ampi_construct_layout(const struct ampi_layout_args *args, MPI_Datatype *newtype);

/* The bounds or the true bounds of a type, as 64-bit integers. */
int ampi_type_get_bounds(MPI_Datatype datatype, void *lb, void *extent, bool is_true);

#endif
