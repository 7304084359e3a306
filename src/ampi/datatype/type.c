/* SPDX-License-Identifier: BSD-3-Clause
 *
 * type.c: the life of a datatype object: created, finished (its bounds are computed), committed,
 * duplicated, freed.
 */
#include "ampi/datatype/recipe.h"
#include "ampi/datatype/typemap.h"
#include "ampi/object/error.h"
#include "ampi/object/rank.h"
#include "base/log.h"
#include "gpu/copy/gpu_pack.h"

/* Bounds, sizes and displacements must stay below this, so that sums of two of them cannot overflow. */
#define LIMIT ((__int128)1 << 62)

struct ampi_type *ampi_type_new(int combiner, bool is_large, MPI_Count n_ints, MPI_Count n_aints,
                                MPI_Count n_counts, MPI_Count n_types)
{
    struct ampi_type *type = base_calloc(1, sizeof *type, "a datatype");
    size_t n_words = (size_t)(n_aints + n_counts + n_types);
    struct ampi_type_recipe *r =
        base_calloc(1, sizeof *r + n_words * sizeof(int64_t) + (size_t)n_ints * sizeof(int), "a datatype");

    *r = (struct ampi_type_recipe){.combiner = combiner,
                                   .is_large = is_large,
                                   .n_ints = n_ints,
                                   .n_aints = n_aints,
                                   .n_counts = n_counts,
                                   .n_types = n_types};
    r->counts = (MPI_Count *)(r + 1);
    r->aints = (MPI_Aint *)(r->counts + n_counts);
    r->types = (struct ampi_type **)(r->aints + n_aints);
    r->ints = (int *)(r->types + n_types);
    type->magic = AMPI_MAGIC_TYPE;
    type->predefined = MPI_DATATYPE_NULL;
    type->recipe = r;
    atomic_init(&type->refs, 1);
    atomic_init(&type->handles, 1);
    return type;
}

/* Drops a reference. If it was the last one, adds the type to the list of types to destroy, linked through
 * a field that is no longer read. */
static void drop(struct ampi_type *type, struct ampi_type **waiting)
{
    if (!ampi_type_drop_ref(type))
        return;
    free(type->name);
    type->name = (char *)*waiting;
    *waiting = type;
}

/* Uses a list instead of recursion: types may be nested to any depth, on a stack of any size. */
void ampi_type_destroy(struct ampi_type *type)
{
    struct ampi_type *waiting = NULL;

    free(type->name);
    for (; type; type = waiting, waiting = type ? (struct ampi_type *)type->name : NULL) {
        struct ampi_type_recipe *r = type->recipe;

        for (MPI_Count i = 0; i < r->n_types; i++)
            if (r->types[i])
                drop(r->types[i], &waiting);
        if (r->impl)
            drop(r->impl, &waiting);
        type->magic = AMPI_MAGIC_DEAD;
        if (BASE_UNLIKELY(type->map && type->map->gpu))
            gpu_layout_forget(type->map);
        free(type->map);
        free(atomic_load_explicit(&type->signature, memory_order_relaxed));
        free(r);
        free(type);
    }
}

/* The typemap's bounds while pieces are added to it; wide, so that nothing overflows before it is checked. */
struct bounds {
    __int128 size, n_basics;
    __int128 true_lb, true_ub; /* of the data; meaningful if size > 0 */
    __int128 padded_ub;        /* of the parts with data, with their padding; meaningful if size > 0 */
    __int128 lb, ub;           /* of the markers; meaningful if there are any */
    bool has_lb, has_ub;       /* there are markers */
    bool is_mixed;
    bool is_too_large;
    enum ampi_basic basic;
    uint32_t align_bytes;
};

static void lower(__int128 *low, bool is_first, __int128 new_low)
{
    if (is_first || new_low < *low)
        *low = new_low;
}

static void raise_to(__int128 *high, bool is_first, __int128 new_high)
{
    if (is_first || new_high > *high)
        *high = new_high;
}

static void add_part(struct bounds *b, struct ampi_recipe_piece part)
{
    const struct ampi_type *child = part.child;
    __int128 step = (__int128)(part.len - 1) * child->extent_bytes;
    __int128 low = part.disp_bytes + (step < 0 ? step : 0);
    __int128 high = part.disp_bytes + (step > 0 ? step : 0);

    if (part.len == 0 || (child->size_bytes == 0 && !child->has_lb && !child->has_ub))
        return;
    if (part.disp_bytes >= LIMIT || part.disp_bytes <= -LIMIT || low <= -LIMIT || high >= LIMIT)
        b->is_too_large = true;
    if (child->has_lb) {
        lower(&b->lb, !b->has_lb, low + child->lb_bytes);
        b->has_lb = true;
    }
    if (child->has_ub) {
        raise_to(&b->ub, !b->has_ub, high + child->lb_bytes + child->extent_bytes);
        b->has_ub = true;
    }
    if (child->size_bytes == 0)
        return;
    lower(&b->true_lb, b->size == 0, low + child->true_lb_bytes);
    raise_to(&b->true_ub, b->size == 0, high + child->true_lb_bytes + child->true_extent_bytes);
    raise_to(&b->padded_ub, b->size == 0, high + child->lb_bytes + child->extent_bytes);
    if (b->size == 0)
        b->basic = child->basic;
    else if (b->basic != child->basic)
        b->is_mixed = true;
    b->size += (__int128)part.len * child->size_bytes;
    b->n_basics += (__int128)part.len * child->n_basics;
    if (b->size >= LIMIT)
        b->is_too_large = true;
    if (child->align_bytes > b->align_bytes)
        b->align_bytes = child->align_bytes;
}

/* Vectors may have any number of pieces: the first and the last one determine the bounds. */
static void add_vector(struct bounds *b, const struct ampi_type *type)
{
    MPI_Count n = ampi_recipe_pieces(type);
    __int128 size;

    if (n == 0)
        return;
    add_part(b, ampi_recipe_piece_of(type, 0));
    if (n == 1 || b->is_too_large)
        return;
    size = b->size;
    add_part(b, ampi_recipe_piece_of(type, n - 1));
    b->n_basics = b->n_basics / 2 * n;
    b->size = size * n;
    if (b->size >= LIMIT)
        b->is_too_large = true;
}

/* Bounds that no marker sets: from the data; empty without data. A struct is padded to its alignment, as C does; other types
 * are not, as in MPICH and Open MPI: a vector with an odd stride ends where its last block ends. */
static void find_bounds(struct bounds *b, bool is_struct)
{
    if (!b->has_lb)
        b->lb = b->size > 0 ? b->true_lb : b->ub;
    if (b->has_ub)
        return;
    b->ub = b->size == 0 ? b->lb : is_struct ? b->true_ub : b->padded_ub;
    if (is_struct && b->ub > b->lb)
        b->ub = b->lb + (b->ub - b->lb + b->align_bytes - 1) / b->align_bytes * b->align_bytes;
}

static bool set_bounds(struct ampi_type *type, struct bounds *b)
{
    find_bounds(b, type->recipe->combiner == MPI_COMBINER_STRUCT);
    if (b->is_too_large || b->lb <= -LIMIT || b->ub >= LIMIT || b->ub - b->lb >= LIMIT ||
        b->ub - b->lb <= -LIMIT || b->true_lb <= -LIMIT || b->true_ub >= LIMIT ||
        b->true_ub - b->true_lb >= LIMIT)
        return false;
    type->size_bytes = (MPI_Count)b->size;
    type->n_basics = (MPI_Count)b->n_basics;
    type->basic = b->is_mixed ? AMPI_BASIC_NONE : b->basic;
    type->align_bytes = b->align_bytes;
    type->has_lb = b->has_lb;
    type->has_ub = b->has_ub;
    type->lb_bytes = (MPI_Count)b->lb;
    type->extent_bytes = (MPI_Count)(b->ub - b->lb);
    type->true_lb_bytes = (MPI_Count)b->true_lb;
    type->true_extent_bytes = (MPI_Count)(b->true_ub - b->true_lb);
    return true;
}

static void set_depth(struct ampi_type *type, const struct ampi_type *child)
{
    if (child && child->depth >= type->depth)
        type->depth = child->depth + 1;
}

bool ampi_type_finish(struct ampi_type *type)
{
    struct bounds b = {.align_bytes = 1};
    struct ampi_type_recipe *r = type->recipe;

    if (ampi_recipe_is_strided(type)) {
        add_vector(&b, type);
    } else {
        MPI_Count n = ampi_recipe_pieces(type);
        for (MPI_Count i = 0; i < n; i++)
            add_part(&b, ampi_recipe_piece_of(type, i));
    }
    if (r->combiner == MPI_COMBINER_RESIZED) {
        b.lb = r->is_large ? r->counts[0] : r->aints[0];
        b.ub = b.lb + (r->is_large ? r->counts[1] : r->aints[1]);
        b.has_lb = b.has_ub = true;
    }
    for (MPI_Count i = 0; i < r->n_types; i++)
        set_depth(type, r->types[i]);
    set_depth(type, r->impl);
    if (!set_bounds(type, &b)) {
        ampi_type_destroy(type);
        return false;
    }
    return true;
}

struct ampi_type *ampi_type_arg(MPI_Datatype handle, const char *what)
{
    struct ampi_type *type = ampi_type_of(handle);

    if (BASE_LIKELY(type && atomic_load_explicit(&type->handles, memory_order_relaxed) > 0))
        return type;
    if (handle == MPI_DATATYPE_NULL)
        ampi_raise_self(MPI_ERR_TYPE, "%s is MPI_DATATYPE_NULL", what);
    else
        ampi_raise_self(MPI_ERR_TYPE, "%s is not a valid datatype, or was freed", what);
    return NULL;
}

struct ampi_type *ampi_type_arg_committed(MPI_Datatype handle, const char *what)
{
    struct ampi_type *type = ampi_type_arg(handle, what);

    if (type && !type->is_committed) {
        ampi_raise_self(MPI_ERR_TYPE, "%s is not committed: call MPI_Type_commit first", what);
        return NULL;
    }
    return type;
}

void ampi_type_commit(struct ampi_type *type)
{
    if (!type->map && !type->is_dense) /* a type has a map already if its handle was freed and returned again
                                        * by MPI_Type_get_contents */
        ampi_typemap_build(type);
    type->is_committed = true;
}

AMPI_EXPORT(Type_commit);
int PMPI_Type_commit(MPI_Datatype *datatype)
{
    struct ampi_type *type;

    ampi_enter("MPI_Type_commit");
    if (!datatype)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the datatype is NULL");
    type = ampi_type_arg(*datatype, "datatype");
    if (!type)
        return MPI_ERR_TYPE;
    if (!type->is_committed)
        ampi_type_commit(type);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Type_free);
int PMPI_Type_free(MPI_Datatype *datatype)
{
    struct ampi_type *type;

    ampi_enter("MPI_Type_free");
    if (!datatype)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the datatype is NULL");
    type = ampi_type_arg(*datatype, "datatype");
    if (!type)
        return MPI_ERR_TYPE;
    if (type->is_predefined)
        return ampi_raise_self(MPI_ERR_TYPE, "a predefined datatype cannot be freed");
    if (type->attrs && atomic_load(&type->handles) == 1) {
        int error = ampi_type_delete_attrs(type);
        if (error)
            return error;
    }
    if (atomic_fetch_sub(&type->handles, 1) == 1)
        type->is_committed = false; /* no new operation may use it, however long pending ones take */
    ampi_type_unref(type);
    *datatype = MPI_DATATYPE_NULL;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Type_dup);
int PMPI_Type_dup(MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    struct ampi_type *old, *dup;
    int rc = MPI_SUCCESS;

    ampi_enter("MPI_Type_dup");
    old = ampi_type_arg(oldtype, "oldtype");
    if (!old)
        return MPI_ERR_TYPE;
    if (!newtype)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the new datatype is NULL");
    dup = ampi_type_new(MPI_COMBINER_DUP, false, 0, 0, 0, 1);
    dup->recipe->types[0] = old;
    ampi_type_ref(old);
    if (!ampi_type_finish(dup))
        return ampi_raise_self(MPI_ERR_INTERN, "the datatype's own bounds were rejected");
    if (old->is_committed)
        ampi_type_commit(dup);
    if (old->attrs || old->is_predefined)
        rc = ampi_type_copy_attrs(old, dup);
    if (rc != MPI_SUCCESS) {
        ampi_type_unref(dup);
        return rc;
    }
    *newtype = ampi_type_handle(dup);
    return MPI_SUCCESS;
}
