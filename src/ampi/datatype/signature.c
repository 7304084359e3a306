/* SPDX-License-Identifier: BSD-3-Clause
 *
 * signature.c: see signature.h.
 */
#include "ampi/datatype/signature.h"

#include "ampi/datatype/recipe.h"
#include "base/log.h"
#include "base/text.h"

#define SIGNATURE_RUNS_MAX 1024

/* Deeper types are unknown: they are visited recursively. */
#define SIGNATURE_DEPTH_MAX 64

/* Runs that a description has. */
#define RUNS_SHOWN_MAX 6

static struct ampi_signature *create(uint32_t cap_runs)
{
    return base_calloc(1, sizeof(struct ampi_signature) + cap_runs * sizeof(struct ampi_signature_run),
                       "+check usage");
}

/* ---- Building ---- */

static void add_run(struct ampi_signature *out, struct ampi_signature_run run)
{
    struct ampi_signature_run *last = out->n_runs ? &out->runs[out->n_runs - 1] : NULL;

    out->n_each += run.n;
    if (last && last->leaf->basic == run.leaf->basic)
        last->n += run.n;
    else if (out->n_runs < SIGNATURE_RUNS_MAX)
        out->runs[out->n_runs++] = run;
    else
        out->is_unknown = true;
}

/* Adds n elements of a type. */
static void add(struct ampi_signature *out, struct ampi_type *type, MPI_Count n)
{
    const struct ampi_signature *child = ampi_signature_of(type);
    MPI_Count n_repeats;

    out->is_unknown |= child->is_unknown || __builtin_mul_overflow(child->n_repeats, n, &n_repeats);
    if (out->is_unknown)
        return;
    if (child->n_runs == 1)
        add_run(out, (struct ampi_signature_run){child->runs[0].leaf, n_repeats * child->runs[0].n});
    for (MPI_Count i = 0; child->n_runs > 1 && i < n_repeats && !out->is_unknown; i++)
        for (uint32_t k = 0; k < child->n_runs; k++)
            add_run(out, child->runs[k]);
}

/* The only type of all pieces that have data, and its number; NULL: there are several. */
static struct ampi_type *only_child(const struct ampi_type *type, MPI_Count *n_out)
{
    bool is_strided = ampi_recipe_is_strided(type);
    MPI_Count n_pieces = ampi_recipe_pieces(type);
    struct ampi_type *only = NULL;

    *n_out = 0;
    for (MPI_Count i = 0; i < (is_strided && n_pieces > 0 ? 1 : n_pieces); i++) {
        struct ampi_recipe_piece piece = ampi_recipe_piece_of(type, i);
        if (piece.len == 0 || piece.child->size_bytes == 0)
            continue;
        if (only && piece.child != only)
            return NULL;
        only = piece.child;
        *n_out += is_strided ? piece.len * n_pieces : piece.len;
    }
    return only;
}

static struct ampi_signature *build(const struct ampi_type *type)
{
    struct ampi_signature *out;
    struct ampi_type *child;
    MPI_Count n;

    if (type->recipe && (child = only_child(type, &n))) {
        const struct ampi_signature *of_child = ampi_signature_of(child);
        size_t n_bytes = sizeof *out + of_child->n_runs * sizeof *out->runs;
        out = memcpy(create(of_child->n_runs), of_child, n_bytes);
        out->is_unknown |= __builtin_mul_overflow(of_child->n_repeats, n, &out->n_repeats);
        return out;
    }
    out = create(SIGNATURE_RUNS_MAX);
    for (MPI_Count i = 0; i < ampi_recipe_pieces(type) && !out->is_unknown; i++) {
        struct ampi_recipe_piece piece = ampi_recipe_piece_of(type, i);
        if (piece.len > 0 && piece.child->size_bytes > 0)
            add(out, piece.child, piece.len);
    }
    out->n_repeats = 1;
    if (out->n_runs == 1) { /* like a contiguous type */
        out->n_repeats = out->runs[0].n;
        out->runs[0].n = out->n_each = 1;
    }
    return base_realloc(out, sizeof *out + out->n_runs * sizeof *out->runs, "+check usage");
}

static struct ampi_signature *build_predefined(const struct ampi_type *type)
{
    struct ampi_recipe_piece parts[2];
    struct ampi_signature *out = create(2);
    const struct ampi_type *leaf = type->recipe ? type->recipe->impl : type; /* MPI_Type_create_f90_real */

    out->n_repeats = 1;
    if (!ampi_type_pair_parts(type, parts)) {
        add_run(out, (struct ampi_signature_run){leaf, 1});
        return out;
    }
    for (int i = 0; i < 2; i++)
        add_run(out, (struct ampi_signature_run){parts[i].child, 1});
    if (out->n_runs == 1) {
        out->n_repeats = 2;
        out->runs[0].n = out->n_each = 1;
    }
    return out;
}

const struct ampi_signature *ampi_signature_of(const struct ampi_type *type)
{
    _Atomic(struct ampi_signature *) *place = &((struct ampi_type *)(uintptr_t)type)->signature;
    struct ampi_signature *found = atomic_load_explicit(place, memory_order_acquire);
    struct ampi_signature *made;

    if (BASE_LIKELY(found != NULL))
        return found;
    if (type->is_predefined) {
        made = build_predefined(type);
    } else if (type->depth > SIGNATURE_DEPTH_MAX || type->size_bytes == 0) {
        made = create(0);
        made->is_unknown = true;
    } else {
        made = build(type);
    }
    if (atomic_compare_exchange_strong(place, &found, made))
        return made;
    free(made);
    return found;
}

/* ---- Comparing ---- */

/* A position in repeated runs. */
struct position {
    const struct ampi_signature *signature;
    uint32_t run;
    MPI_Count n_left; /* of the run */
};

static struct position begin(const struct ampi_signature *signature)
{
    return (struct position){signature, 0, signature->runs[0].n};
}

static const struct ampi_type *leaf_at(const struct position *at)
{
    return at->signature->runs[at->run].leaf;
}

static void advance(struct position *at, MPI_Count n)
{
    at->n_left -= n;
    if (at->n_left > 0)
        return;
    at->run = (at->run + 1) % at->signature->n_runs;
    at->n_left = at->signature->runs[at->run].n;
}

/* True if elements of these types match. MPI_BYTE and MPI_PACKED are the same basic type. */
/* C's and Fortran's: reductions of the latter do no arithmetic, so their basic types differ. */
static bool is_character(const struct ampi_type *leaf)
{
    return leaf->predefined == MPI_CHAR || leaf->predefined == MPI_CHARACTER;
}

static bool are_equal(const struct ampi_type *a, const struct ampi_type *b)
{
    return a == b || (a->basic == b->basic && a->size_bytes == b->size_bytes) ||
           (is_character(a) && is_character(b));
}

static bool is_packed(const struct ampi_type *leaf)
{
    return leaf->predefined == MPI_PACKED;
}

MPI_Count ampi_signature_compare(const struct ampi_signature *a, MPI_Count a_count,
                                 const struct ampi_signature *b, MPI_Count b_count,
                                 const struct ampi_type *leaves_out[2])
{
    struct position a_at, b_at;
    MPI_Count n_max, a_all, b_all, i = 0;

    if (a == b || a_count == 0 || b_count == 0)
        return -1;
    if (a->is_unknown || b->is_unknown || a->n_runs == 0 || b->n_runs == 0)
        return -1;
    n_max = a->n_each + b->n_each; /* if these agree, all others do (theorem of Fine and Wilf) */
    if (!__builtin_mul_overflow(a->n_each * a->n_repeats, a_count, &a_all) && a_all < n_max)
        n_max = a_all;
    if (!__builtin_mul_overflow(b->n_each * b->n_repeats, b_count, &b_all) && b_all < n_max)
        n_max = b_all;
    a_at = begin(a);
    b_at = begin(b);
    while (i < n_max) {
        const struct ampi_type *a_leaf = leaf_at(&a_at), *b_leaf = leaf_at(&b_at);
        MPI_Count n = a_at.n_left < b_at.n_left ? a_at.n_left : b_at.n_left;
        if (is_packed(a_leaf) || is_packed(b_leaf))
            return -1;
        if (!are_equal(a_leaf, b_leaf)) {
            leaves_out[0] = a_leaf;
            leaves_out[1] = b_leaf;
            return i;
        }
        advance(&a_at, n);
        advance(&b_at, n);
        i += n;
    }
    return -1;
}

/* ---- Describing ---- */

void ampi_signature_describe(const struct ampi_type *type, MPI_Count count, char *text, size_t size_bytes)
{
    const struct ampi_signature *s = ampi_signature_of(type);
    struct base_text out = base_text_in(text, size_bytes);

    base_text_add_number(&out, (long)count);
    base_text_add(&out, " of ");
    base_text_add(&out, type->name && *type->name ? type->name : "a derived type");
    if (type->is_predefined || s->is_unknown || s->n_runs == 0)
        return;
    base_text_add(&out, " = ");
    if (s->n_repeats > 1) {
        base_text_add_number(&out, (long)s->n_repeats);
        base_text_add(&out, " x ");
    }
    base_text_add(&out, "{");
    for (uint32_t i = 0; i < s->n_runs && i < RUNS_SHOWN_MAX; i++) {
        base_text_add(&out, i ? ", " : "");
        if (s->runs[i].n > 1) {
            base_text_add_number(&out, (long)s->runs[i].n);
            base_text_add(&out, " ");
        }
        base_text_add(&out, s->runs[i].leaf->name);
    }
    base_text_add(&out, s->n_runs > RUNS_SHOWN_MAX ? ", ...}" : "}");
}
