/* SPDX-License-Identifier: BSD-3-Clause
 *
 * op.h: reduction operations (MPI 5.0, section 6.9).
 */
#ifndef AMPI_OP_H
#define AMPI_OP_H

#include "ampi/datatype/type.h"

/* Combines count basic elements: inout[i] = in[i] op inout[i]. */
typedef void (*ampi_op_kernel_fn)(const void *in, void *inout, size_t count);

/* The same for four inputs, one after the other: inout[i] = ins[3][i] op (... op (ins[0][i] op inout[i])). */
typedef void (*ampi_op_kernel_4_fn)(const void *const ins[4], void *inout, size_t count);

struct ampi_op {
    uint32_t magic;        /* AMPI_MAGIC_OP */
    _Atomic uint32_t refs; /* handles and pending operations; predefined: not counted */
    bool is_commutative;
    bool is_predefined;                   /* may not be freed */
    MPI_Op predefined;                    /* the predefined constant; else MPI_OP_NULL */
    const char *name;                     /* "MPI_SUM" */
    MPI_User_function *user_fn;           /* MPI_Op_create; NULL otherwise */
    MPI_User_function_c *user_fn_c;       /* MPI_Op_create_c; NULL otherwise */
    const ampi_op_kernel_fn *kernels;     /* by basic type; NULL: not allowed on the type. Users'
                                           * operations have none */
    const ampi_op_kernel_4_fn *kernels_4; /* by basic type; NULL: none */
};

/* ---- Kernels (op_kernels.c) ---- */

/* The predefined operations with kernels; the order is that of the tables. */
enum ampi_op_kind {
    AMPI_OP_SUM,
    AMPI_OP_PROD,
    AMPI_OP_MIN,
    AMPI_OP_MAX,
    AMPI_OP_BAND,
    AMPI_OP_BOR,
    AMPI_OP_BXOR,
    AMPI_OP_LAND,
    AMPI_OP_LOR,
    AMPI_OP_LXOR,
    AMPI_OP_MINLOC,
    AMPI_OP_MAXLOC,
    AMPI_OP_NONE, /* MPI_REPLACE, MPI_NO_OP and users' operations: no kernels */
    AMPI_OP_KIND_COUNT,
};
extern const ampi_op_kernel_fn ampi_op_kernels[AMPI_OP_KIND_COUNT][AMPI_BASIC_COUNT];
extern const ampi_op_kernel_4_fn ampi_op_kernels_4[AMPI_OP_KIND_COUNT][AMPI_BASIC_COUNT];

/* Size in bytes of the elements that a kernel works on: for pairs the size of the C struct, with its
 * padding; 0 for a type that this compiler lacks. */
extern const unsigned char ampi_op_stride_bytes[AMPI_BASIC_COUNT];

/* The pairs of MPI_MINLOC and MPI_MAXLOC. */
static inline bool ampi_op_is_pair(enum ampi_basic basic)
{
    return basic >= AMPI_BASIC_FLOAT_INT;
}

/* Number of kernel elements in count elements of a type: a pair is one, though MPI_Get_elements counts
 * two. */
static inline size_t ampi_op_elems(const struct ampi_type *type, MPI_Count count)
{
    return (size_t)count * (ampi_op_is_pair(type->basic) ? 1 : (size_t)type->n_basics);
}

/* ---- Operations (op.c) ---- */

/* The predefined operations, by handle value - 0x20; NULL where the ABI has none. Set up at start-up. */
#define AMPI_OP_FIRST 0x20u
#define AMPI_OP_COUNT 0x20u
extern struct ampi_op *ampi_op_predefined[AMPI_OP_COUNT];
void ampi_op_init(void);

/* The object of a handle; NULL if it is not valid (including MPI_OP_NULL). */
static inline struct ampi_op *ampi_op_of(MPI_Op handle)
{
    if (BASE_LIKELY(ampi_handle_is_predefined(handle))) {
        uintptr_t index = (uintptr_t)handle - AMPI_OP_FIRST;
        return BASE_LIKELY(index < AMPI_OP_COUNT) ? ampi_op_predefined[index] : NULL;
    }
    return ampi_handle_has_magic(handle, AMPI_MAGIC_OP) ? (struct ampi_op *)handle : NULL;
}

/* A user's function may let other ranks run. So the state that an unfinished operation keeps for its PE is
 * saved before the call and restored after it. The collectives set these two functions; NULL: there is no
 * such state. */
struct ampi_op_stage {
    void *words[3];
};
extern void (*ampi_op_save_stage)(struct ampi_op_stage *stage_out);
extern void (*ampi_op_restore_stage)(const struct ampi_op_stage *saved);

void ampi_op_destroy(struct ampi_op *op);

static inline void ampi_op_ref(struct ampi_op *op)
{
    if (!op->is_predefined)
        atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
}

static inline void ampi_op_unref(struct ampi_op *op)
{
    if (!op->is_predefined && atomic_fetch_sub_explicit(&op->refs, 1, memory_order_acq_rel) == 1)
        ampi_op_destroy(op);
}

/* True if the operation is allowed in a reduction on this type (MPI 5.0, 6.9.2): predefined operations on
 * the predefined types that the standard lists and on equal types (MPI_Type_dup, the f90 types), users'
 * operations on every committed type. MPI_REPLACE and MPI_NO_OP are for RMA only. */
bool ampi_op_is_allowed(const struct ampi_op *op, const struct ampi_type *type);

/* inout[i] = in[i] op inout[i] for count elements of the type, with the standard's order of operands. in
 * and inout must not overlap. A user's function runs on the caller's stack. */
void ampi_op_apply(const struct ampi_op *op, const void *in, void *inout, MPI_Count count,
                   struct ampi_type *type);

/* The same for n inputs, ins[0] first. are_far: the inputs are not in a cache, so the next ones are
 * prefetched. */
void ampi_op_apply_many(const struct ampi_op *op, const void *const *ins, int n, bool are_far, void *inout,
                        MPI_Count count, struct ampi_type *type);

#endif
