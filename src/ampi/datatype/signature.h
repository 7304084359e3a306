/* SPDX-License-Identifier: BSD-3-Clause
 *
 * signature.h: type signatures (MPI 5.0, sections 3.3.1 and 5.1), for +check usage.
 *
 * A signature is a sequence of runs of predefined types, repeated. Types that differ only by name or language, such as MPI_INT
 * and MPI_INTEGER, are equal. MPI_PACKED matches every type, and MPI_BYTE only itself. A type keeps its signature, which is
 * made when it is first compared. Signatures of more than SIGNATURE_RUNS_MAX runs are unknown, and match all.
 */
#ifndef AMPI_SIGNATURE_H
#define AMPI_SIGNATURE_H

#include "ampi/datatype/type.h"

struct ampi_signature_run {
    const struct ampi_type *leaf; /* in ampi_type_predefined, and not a pair */
    MPI_Count n;
};

struct ampi_signature {
    MPI_Count n_repeats; /* of the runs */
    MPI_Count n_each;    /* elements of all runs together */
    uint32_t n_runs;     /* 0: no data */
    bool is_unknown;
    struct ampi_signature_run runs[];
};

/* The signature of a type, which owns it. Any thread. */
const struct ampi_signature *ampi_signature_of(const struct ampi_type *type);

/* Compares the data of counts of two types, as far as the shorter of both goes: the index of the first element that differs,
 * with both leaves; -1: none. */
MPI_Count ampi_signature_compare(const struct ampi_signature *a, MPI_Count a_count,
                                 const struct ampi_signature *b, MPI_Count b_count,
                                 const struct ampi_type *leaves_out[2]);

/* Writes "10 of MPI_INT", or the structure of a derived type: "2 of row = 3 x {2 MPI_INT, MPI_DOUBLE}". */
void ampi_signature_describe(const struct ampi_type *type, MPI_Count count, char *text, size_t size_bytes);

#endif
