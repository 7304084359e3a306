/* SPDX-License-Identifier: BSD-3-Clause
 *
 * op.c: operation objects and applying them (MPI 5.0, section 6.9).
 *
 * Owns the table of predefined operations, and creates and frees users' operations. The way to apply a
 * predefined operation depends on the layout of the elements:
 *
 *      a block, or pairs at the distance of their C struct      one kernel call on the users' buffers
 *      anything else                                            in pieces: packed, combined, unpacked
 *
 * Called by the reductions (coll/) and, for Reduce_local, by the program.
 */
#include "ampi/op/op.h"

#include "ampi/op/op_device.h"

#include <limits.h>

#include "ampi/object/error.h"
#include "ampi/object/rank.h"
#include "base/log.h"

void (*ampi_op_save_stage)(struct ampi_op_stage *stage_out);
void (*ampi_op_restore_stage)(const struct ampi_op_stage *saved);

#define PREDEFINED(constant, kind)                                                                     \
    {                                                                                                  \
        .magic = AMPI_MAGIC_OP, .is_commutative = true, .is_predefined = true, .predefined = constant, \
        .name = #constant, .kernels = ampi_op_kernels[kind], .kernels_4 = ampi_op_kernels_4[kind],     \
    }

/* MPI_REPLACE depends on the order of its operands; the standard defines it as non-commutative. */
static struct ampi_op predefined_ops[] = {
    PREDEFINED(MPI_SUM, AMPI_OP_SUM),       PREDEFINED(MPI_PROD, AMPI_OP_PROD),
    PREDEFINED(MPI_MIN, AMPI_OP_MIN),       PREDEFINED(MPI_MAX, AMPI_OP_MAX),
    PREDEFINED(MPI_BAND, AMPI_OP_BAND),     PREDEFINED(MPI_BOR, AMPI_OP_BOR),
    PREDEFINED(MPI_BXOR, AMPI_OP_BXOR),     PREDEFINED(MPI_LAND, AMPI_OP_LAND),
    PREDEFINED(MPI_LOR, AMPI_OP_LOR),       PREDEFINED(MPI_LXOR, AMPI_OP_LXOR),
    PREDEFINED(MPI_MINLOC, AMPI_OP_MINLOC), PREDEFINED(MPI_MAXLOC, AMPI_OP_MAXLOC),
    PREDEFINED(MPI_REPLACE, AMPI_OP_NONE),  PREDEFINED(MPI_NO_OP, AMPI_OP_NONE),
};

struct ampi_op *ampi_op_predefined[AMPI_OP_COUNT];

void ampi_op_init(void)
{
    for (size_t i = 0; i < BASE_COUNT(predefined_ops); i++) {
        struct ampi_op *op = &predefined_ops[i];
        op->is_commutative = op->predefined != MPI_REPLACE && op->predefined != MPI_NO_OP;
        ampi_op_predefined[(uintptr_t)op->predefined - AMPI_OP_FIRST] = op;
    }
}

void ampi_op_destroy(struct ampi_op *op)
{
    op->magic = AMPI_MAGIC_DEAD;
    free(op);
}

static bool is_user(const struct ampi_op *op)
{
    return !op->is_predefined;
}

bool ampi_op_is_allowed(const struct ampi_op *op, const struct ampi_type *type)
{
    if (is_user(op))
        return true;
    if (!type->is_predefined &&
        (type->n_basics != 1 || type->lb_bytes || type->extent_bytes != type->size_bytes))
        return false;
    return type->predefined != MPI_PACKED && op->kernels[type->basic];
}

/* ---- Applying ---- */

static void call_user(const struct ampi_op *op, const void *in, void *inout, MPI_Count count,
                      struct ampi_type *type)
{
    MPI_Datatype handle = ampi_type_handle(type);
    char *a = (char *)(uintptr_t)in;
    char *b = inout;

    if (op->user_fn_c) {
        op->user_fn_c(a, b, &count, &handle);
        return;
    }
    while (count > 0) { /* the int form takes at most INT_MAX elements */
        int n = count < INT_MAX ? (int)count : INT_MAX;
        MPI_Count done = n;
        op->user_fn(a, b, &n, &handle);
        a += done * type->extent_bytes;
        b += done * type->extent_bytes;
        count -= done;
    }
}

/* While the operation's function runs, reports name it. Afterwards they name the collective again, even if the
 * function has called MPI. */
static void apply_user(const struct ampi_op *op, const void *in, void *inout, MPI_Count count,
                       struct ampi_type *type)
{
    struct ult *self = ult_self();
    const void *user_fn = self ? self->user_fn : NULL;
    const void *called_from = self ? self->called_from : NULL;
    const void *resume_at = self ? self->resume_at : NULL;
    const char *call = self ? self->call : NULL;

    if (self)
        self->user_fn = op->user_fn_c ? (const void *)op->user_fn_c : (const void *)op->user_fn;
    call_user(op, in, inout, count, type); /* may switch */
    if (!self)
        return;
    self->user_fn = user_fn;
    self->called_from = called_from;
    self->resume_at = resume_at;
    self->call = call;
}

/* Elements with gaps between their data: in pieces that are packed first. */
static void apply_in_pieces(ampi_op_kernel_fn kernel, size_t stride_bytes, const void *in, void *inout,
                            MPI_Count count, struct ampi_type *type)
{
    _Alignas(16) char a[1024];
    _Alignas(16) char b[1024];
    size_t piece_bytes = sizeof a / stride_bytes * stride_bytes;
    struct ampi_cursor from, get, put;

    ampi_cursor_init(&from, (void *)(uintptr_t)in, count, type);
    ampi_cursor_init(&get, inout, count, type);
    ampi_cursor_init(&put, inout, count, type);
    for (;;) {
        size_t n_bytes = ampi_cursor_pack(&from, a, piece_bytes);
        if (n_bytes == 0)
            return;
        ampi_cursor_pack(&get, b, n_bytes);
        kernel(a, b, n_bytes / stride_bytes);
        ampi_cursor_unpack(&put, b, n_bytes);
    }
}

void ampi_op_apply(const struct ampi_op *op, const void *in, void *inout, MPI_Count count,
                   struct ampi_type *type)
{
    ampi_op_kernel_fn kernel = op->kernels[type->basic];
    MPI_Count stride_bytes = ampi_op_stride_bytes[type->basic];

    if (count <= 0 || op->predefined == MPI_NO_OP)
        return;
    if (is_user(op)) {
        struct ampi_op_stage saved;
        if (ampi_op_save_stage)
            ampi_op_save_stage(&saved);
        apply_user(op, in, inout, count, type); /* may switch */
        if (ampi_op_restore_stage)
            ampi_op_restore_stage(&saved);
    } else if (op->predefined == MPI_REPLACE) {
        ampi_type_copy(inout, count, type, in, count, type);
    } else if (ampi_op_is_pair(type->basic) || ampi_type_is_block(type, count)) {
        BASE_ASSERT(kernel && (!ampi_op_is_pair(type->basic) || type->extent_bytes == stride_bytes));
        kernel((const char *)in + type->true_lb_bytes, (char *)inout + type->true_lb_bytes,
               ampi_op_elems(type, count));
    } else {
        BASE_ASSERT(kernel);
        apply_in_pieces(kernel, (size_t)stride_bytes, in, inout, count, type);
    }
}

/* For far inputs: bytes of each input that are combined, while as many bytes of the next four are
 * prefetched. */
#define FAR_PIECE_BYTES 256

/* Combines four inputs, n_bytes of each; next: the four after them, or NULL. The processor prefetches by
 * itself only within a page, and each input spans only a few pages. */
static void apply_4_far(ampi_op_kernel_4_fn kernel, const char *const *ins, const char *const *next,
                        char *inout, size_t n_bytes, size_t elem_bytes)
{
    for (size_t at = 0; at < n_bytes; at += FAR_PIECE_BYTES) {
        size_t piece_bytes = base_min_u64(FAR_PIECE_BYTES, n_bytes - at);
        const void *data[4];
        for (int i = 0; i < 4; i++) {
            data[i] = ins[i] + at;
            for (size_t line = 0; next && line < piece_bytes; line += BASE_CACHE_LINE)
                __builtin_prefetch(next[i] + at + line);
        }
        kernel(data, inout + at, piece_bytes / elem_bytes);
    }
}

/* Combines inputs in groups of four; returns how many it has combined. All are consecutive memory. */
static int apply_fours(ampi_op_kernel_4_fn kernel, const void *const *ins, int n, bool are_far, void *inout,
                       MPI_Count count, const struct ampi_type *type)
{
    size_t elem_bytes = ampi_op_stride_bytes[type->basic];
    size_t n_elems = ampi_op_elems(type, count);
    char *out = (char *)inout + type->true_lb_bytes;
    int done = 0;

    for (; n - done >= 4; done += 4) {
        const char *data[8];
        bool has_next = n - done >= 8;
        for (int i = 0; i < (has_next ? 8 : 4); i++)
            data[i] = (const char *)ins[done + i] + type->true_lb_bytes;
        if (are_far)
            apply_4_far(kernel, data, has_next ? data + 4 : NULL, out, n_elems * elem_bytes, elem_bytes);
        else
            kernel((const void *const *)data, out, n_elems);
    }
    return done;
}

void ampi_op_apply_many(const struct ampi_op *op, const void *const *ins, int n, bool are_far, void *inout,
                        MPI_Count count, struct ampi_type *type)
{
    ampi_op_kernel_4_fn kernel = op->kernels_4[type->basic];
    int done = 0;

    if (kernel && count > 0 && ampi_type_is_block(type, count))
        done = apply_fours(kernel, ins, n, are_far, inout, count, type);
    for (; done < n; done++)
        ampi_op_apply(op, ins[done], inout, count, type);
}

/* ---- MPI_Op_create and related functions ---- */

static int op_create(MPI_User_function *fn, MPI_User_function_c *fn_c, int commute, MPI_Op *handle_out)
{
    struct ampi_op *op;

    if (!fn && !fn_c)
        return ampi_raise_self(MPI_ERR_ARG, "the user's function is NULL");
    if (!handle_out)
        return ampi_raise_self(MPI_ERR_ARG, "op is NULL");
    op = base_calloc(1, sizeof *op, "an operation");
    op->magic = AMPI_MAGIC_OP;
    atomic_init(&op->refs, 1);
    op->is_commutative = commute != 0;
    op->predefined = MPI_OP_NULL;
    op->name = "a user's operation";
    op->user_fn = fn;
    op->user_fn_c = fn_c;
    op->kernels = ampi_op_kernels[AMPI_OP_NONE];
    op->kernels_4 = ampi_op_kernels_4[AMPI_OP_NONE];
    *handle_out = (MPI_Op)op;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Op_create);
int PMPI_Op_create(MPI_User_function *user_fn, int commute, MPI_Op *op)
{
    ampi_enter("MPI_Op_create");
    return op_create(user_fn, NULL, commute, op);
}

AMPI_EXPORT(Op_create_c);
int PMPI_Op_create_c(MPI_User_function_c *user_fn, int commute, MPI_Op *op)
{
    ampi_enter("MPI_Op_create_c");
    return op_create(NULL, user_fn, commute, op);
}

static int raise_no_op(MPI_Op handle)
{
    return ampi_raise_self(MPI_ERR_OP, "%p is not a valid operation%s", (void *)handle,
                           handle == MPI_OP_NULL ? " (MPI_OP_NULL)" : "");
}

AMPI_EXPORT(Op_free);
int PMPI_Op_free(MPI_Op *op)
{
    struct ampi_op *object;

    ampi_enter("MPI_Op_free");
    if (!op)
        return ampi_raise_self(MPI_ERR_ARG, "op is NULL");
    object = ampi_op_of(*op);
    if (!object)
        return raise_no_op(*op);
    if (object->is_predefined)
        return ampi_raise_self(MPI_ERR_OP, "%s is predefined and cannot be freed", object->name);
    *op = MPI_OP_NULL;
    ampi_op_unref(object);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Op_commutative);
int PMPI_Op_commutative(MPI_Op op, int *commute)
{
    const struct ampi_op *object;

    ampi_enter("MPI_Op_commutative");
    object = ampi_op_of(op);
    if (!object)
        return raise_no_op(op);
    if (!commute)
        return ampi_raise_self(MPI_ERR_ARG, "commute is NULL");
    *commute = object->is_commutative;
    return MPI_SUCCESS;
}

static int reduce_local(const void *in, void *inout, MPI_Count count, MPI_Datatype datatype, MPI_Op op)
{
    struct ampi_op *operation = ampi_op_of(op);
    struct ampi_type *type = ampi_type_of(datatype);

    if (count < 0)
        return ampi_raise_self(MPI_ERR_COUNT, "count is %lld", (long long)count);
    if (!type || !type->is_committed)
        return ampi_raise_self(MPI_ERR_TYPE, "%p is not a valid committed datatype", (void *)datatype);
    if (ampi_type_is_too_much(type, count))
        return ampi_raise_self(MPI_ERR_COUNT, AMPI_TYPE_TOO_MUCH, (long long)count,
                               (long long)type->size_bytes);
    if (!operation)
        return raise_no_op(op);
    if (!ampi_op_is_allowed(operation, type))
        return ampi_raise_self(MPI_ERR_OP, "%s is not allowed on this datatype", operation->name);
    if (count > 0 && (in == MPI_IN_PLACE || inout == MPI_IN_PLACE || in == inout))
        return ampi_raise_self(MPI_ERR_BUFFER, "inbuf and inoutbuf must be two different buffers");
    if (count > 0 && (!in || !inout) && type->is_predefined && type->size_bytes > 0)
        return ampi_raise_self(MPI_ERR_BUFFER, "%s is NULL, but count is %lld", in ? "inoutbuf" : "inbuf",
                               (long long)count);
    if (BASE_UNLIKELY(ampi_device_has(in, count, type) || ampi_device_has(inout, count, type))) {
        int error = ampi_op_apply_device(operation, in, inout, count, type);
        return error ? ampi_raise_self(ampi_device_class(error), AMPI_DEVICE_FAILED, gpu_error_text(error))
                     : MPI_SUCCESS;
    }
    ampi_op_apply(operation, in, inout, count, type);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Reduce_local);
int PMPI_Reduce_local(const void *inbuf, void *inoutbuf, int count, MPI_Datatype datatype, MPI_Op op)
{
    ampi_enter("MPI_Reduce_local");
    return reduce_local(inbuf, inoutbuf, count, datatype, op);
}

AMPI_EXPORT(Reduce_local_c);
int PMPI_Reduce_local_c(const void *inbuf, void *inoutbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op)
{
    ampi_enter("MPI_Reduce_local_c");
    return reduce_local(inbuf, inoutbuf, count, datatype, op);
}
