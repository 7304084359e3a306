/* SPDX-License-Identifier: BSD-3-Clause
 *
 * datatype_fuzz.h: random numbers and checks for datatype_fuzz_test.c, and the contents of datatypes: reads them, and
 * constructs another datatype from them.
 */
#ifndef DATATYPE_FUZZ_H
#define DATATYPE_FUZZ_H

#include <check.h>

#include "datatype_reference.h"

static uint64_t rng_state;
static long type_number; /* for messages */

static uint64_t rng(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return rng_state;
}

/* low <= result <= high */
static int64_t pick(int64_t low, int64_t high)
{
    return low + (int64_t)(rng() % (uint64_t)(high - low + 1));
}

#define REQUIRE(cond) ck_assert_msg(cond, "type %ld: %s", type_number, #cond)
#define OK(call) REQUIRE((call) == MPI_SUCCESS)

/* ---- Contents ---- */

/* The results of MPI_Type_get_envelope and MPI_Type_get_contents. */
#define CONTENTS_MAX 64
struct contents {
    MPI_Count n_ints, n_aints, n_counts, n_types;
    int combiner;
    int ints[CONTENTS_MAX];
    MPI_Aint aints[CONTENTS_MAX];
    MPI_Count counts[CONTENTS_MAX];
    MPI_Datatype types[CONTENTS_MAX];
};

static void decode(MPI_Datatype handle, struct contents *c)
{
    memset(c, 0, sizeof *c);
    OK(MPI_Type_get_envelope_c(handle, &c->n_ints, &c->n_aints, &c->n_counts, &c->n_types, &c->combiner));
    OK(MPI_Type_get_contents_c(handle, CONTENTS_MAX, CONTENTS_MAX, CONTENTS_MAX, CONTENTS_MAX, c->ints,
                               c->aints, c->counts, c->types));
}

/* Calls the constructor again with what was decoded. */
static void rebuild(const struct contents *c, MPI_Datatype *out)
{
    const int *i = c->ints;
    const MPI_Count *l = c->counts;
    bool is_large = c->n_counts > 0;
    int n;

    switch (c->combiner) {
    case MPI_COMBINER_DUP:
        OK(MPI_Type_dup(c->types[0], out));
        break;
    case MPI_COMBINER_CONTIGUOUS:
        OK(is_large ? MPI_Type_contiguous_c(l[0], c->types[0], out)
                    : MPI_Type_contiguous(i[0], c->types[0], out));
        break;
    case MPI_COMBINER_VECTOR:
        OK(is_large ? MPI_Type_vector_c(l[0], l[1], l[2], c->types[0], out)
                    : MPI_Type_vector(i[0], i[1], i[2], c->types[0], out));
        break;
    case MPI_COMBINER_HVECTOR:
        OK(is_large ? MPI_Type_create_hvector_c(l[0], l[1], l[2], c->types[0], out)
                    : MPI_Type_create_hvector(i[0], i[1], c->aints[0], c->types[0], out));
        break;
    case MPI_COMBINER_INDEXED:
        OK(is_large ? MPI_Type_indexed_c(l[0], l + 1, l + 1 + l[0], c->types[0], out)
                    : MPI_Type_indexed(i[0], i + 1, i + 1 + i[0], c->types[0], out));
        break;
    case MPI_COMBINER_HINDEXED:
        OK(is_large ? MPI_Type_create_hindexed_c(l[0], l + 1, l + 1 + l[0], c->types[0], out)
                    : MPI_Type_create_hindexed(i[0], i + 1, c->aints, c->types[0], out));
        break;
    case MPI_COMBINER_INDEXED_BLOCK:
        OK(is_large ? MPI_Type_create_indexed_block_c(l[0], l[1], l + 2, c->types[0], out)
                    : MPI_Type_create_indexed_block(i[0], i[1], i + 2, c->types[0], out));
        break;
    case MPI_COMBINER_HINDEXED_BLOCK:
        OK(is_large ? MPI_Type_create_hindexed_block_c(l[0], l[1], l + 2, c->types[0], out)
                    : MPI_Type_create_hindexed_block(i[0], i[1], c->aints, c->types[0], out));
        break;
    case MPI_COMBINER_STRUCT:
        OK(is_large ? MPI_Type_create_struct_c(l[0], l + 1, l + 1 + l[0], c->types, out)
                    : MPI_Type_create_struct(i[0], i + 1, c->aints, c->types, out));
        break;
    case MPI_COMBINER_RESIZED:
        OK(is_large ? MPI_Type_create_resized_c(c->types[0], l[0], l[1], out)
                    : MPI_Type_create_resized(c->types[0], c->aints[0], c->aints[1], out));
        break;
    case MPI_COMBINER_SUBARRAY:
        n = i[0];
        OK(is_large ? MPI_Type_create_subarray_c(n, l, l + n, l + 2 * n, i[1], c->types[0], out)
                    : MPI_Type_create_subarray(n, i + 1, i + 1 + n, i + 1 + 2 * n, i[1 + 3 * n], c->types[0],
                                               out));
        break;
    case MPI_COMBINER_DARRAY:
        n = i[2];
        OK(is_large ? MPI_Type_create_darray_c(i[0], i[1], n, l, i + 3, i + 3 + n, i + 3 + 2 * n,
                                               i[3 + 3 * n], c->types[0], out)
                    : MPI_Type_create_darray(i[0], i[1], n, i + 3, i + 3 + n, i + 3 + 2 * n, i + 3 + 3 * n,
                                             i[3 + 4 * n], c->types[0], out));
        break;
    default:
        ck_abort_msg("type %ld: combiner %d", type_number, c->combiner);
    }
}

static void free_types(struct contents *c)
{
    for (MPI_Count k = 0; k < c->n_types; k++) {
        MPI_Count n[4];
        int combiner;
        OK(MPI_Type_get_envelope_c(c->types[k], &n[0], &n[1], &n[2], &n[3], &combiner));
        if (combiner != MPI_COMBINER_NAMED)
            OK(MPI_Type_free(&c->types[k]));
    }
}

#endif
