/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_check.c: checks the arguments of collective calls, before any data moves.
 */
#include <stdarg.h>
#include <stdio.h>

#include "ampi/coll/engine/coll.h"
#include "ampi/coll/engine/usage.h"
#include "ampi/object/info.h"
#include "base/log.h"

/* Maximum number of members with refused calls that a report lists. */
#define REFUSED_SHOWN_MAX 4

int ampi_coll_raise(struct ampi_comm *comm, int error_class, const char *fmt, ...)
{
    struct ampi_rank *rank = comm->owner;
    char text[512];
    char line[640];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    snprintf(line, sizeof line, "%s: %s: %s", ult_self()->call, ampi_error_name(error_class), text);
    comm->n_coll_refused++;
    atomic_store_explicit(&comm->shared->coll->has_refused, true, memory_order_relaxed);
    free(rank->coll_refused);
    rank->coll_refused = strdup(line);
    return ampi_raise(comm, error_class, "%s", text);
}

/* Reports refused calls of members of this process, if some members had more than others. */
static BASE_COLD void report_refused(const struct ampi_coll_state *state)
{
    const struct ampi_comm_shared *shared = state->shared;
    uint32_t least = UINT32_MAX;
    int n_shown = 0;

    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < ampi_coll_n_local(state) && n_shown < REFUSED_SHOWN_MAX; i++) {
            const struct ampi_comm *comm = ampi_coll_handle(shared, state->part_members[i]);
            if (pass == 0)
                least = (uint32_t)base_min_u64(least, comm->n_coll_refused);
            else if (comm->n_coll_refused > least && comm->owner->coll_refused && ++n_shown)
                base_log_plain("rank %d of the communicator did not take part in an earlier collective: %s",
                               comm->rank, comm->owner->coll_refused);
        }
}

void ampi_coll_end_job(const struct ampi_coll_state *state)
{
    report_refused(state);
    ampi_job_abort(MPI_ERR_OTHER);
}

void ampi_coll_report_mismatch(const struct ampi_coll_args *args, const struct ampi_coll_plan *other,
                               const struct ampi_coll_args *other_args)
{
    char calls[800] = "";

    if (other_args)
        ampi_coll_usage_describe_calls(args, other_args, calls, sizeof calls);
    ampi_report(args->comm->owner,
                "this rank's next collective on the communicator is %s, but other ranks' is %s: all ranks "
                "must call the same ones in the same order%s",
                args->plan->name, other->name, calls[0] ? calls : AMPI_COLL_USAGE_HINT);
    ampi_coll_end_job(args->comm->shared->coll);
}

enum ampi_coll_form ampi_coll_init_form(MPI_Info info)
{
    return info == MPI_INFO_NULL || ampi_info_of(ampi_self(), info) ? AMPI_COLL_PERSISTENT
                                                                    : AMPI_COLL_WRONG_INFO;
}

int ampi_coll_enter(const struct ampi_coll_call *call, MPI_Comm comm, struct ampi_coll_args *args)
{
    struct ampi_rank *self = ampi_enter(call->name);

    args->comm = ampi_comm_of(self, comm);
    if (BASE_UNLIKELY(!args->comm))
        return ampi_comm_raise_invalid(comm);
    if (BASE_UNLIKELY(call->form != AMPI_COLL_BLOCKING && !call->request))
        return ampi_coll_raise(args->comm, MPI_ERR_ARG, "the address of the request is NULL");
    if (BASE_UNLIKELY(call->form == AMPI_COLL_WRONG_INFO))
        return ampi_coll_raise(args->comm, MPI_ERR_INFO, "the info argument is not a valid info object");
    return MPI_SUCCESS;
}

static BASE_COLD int raise_type(struct ampi_comm *comm, const char *what, MPI_Datatype handle)
{
    if (handle == MPI_DATATYPE_NULL)
        return ampi_coll_raise(comm, MPI_ERR_TYPE, "the %s datatype is MPI_DATATYPE_NULL", what);
    if (!ampi_type_of(handle))
        return ampi_coll_raise(comm, MPI_ERR_TYPE,
                               "the %s datatype %p is not a valid datatype, or has been freed", what,
                               (void *)handle);
    return ampi_coll_raise(comm, MPI_ERR_TYPE, "the %s datatype has not been committed (MPI_Type_commit)",
                           what);
}

static BASE_COLD int raise_null(struct ampi_comm *comm, const char *what, MPI_Count count)
{
    return ampi_coll_raise(comm, MPI_ERR_BUFFER, "the %s buffer is NULL, but the count is %lld", what,
                           (long long)count);
}

static BASE_COLD int raise_too_much(struct ampi_comm *comm, const char *what, MPI_Count count,
                                    const struct ampi_type *type)
{
    return ampi_coll_raise(comm, MPI_ERR_COUNT, "the %s buffer: " AMPI_TYPE_TOO_MUCH, what, (long long)count,
                           (long long)type->size_bytes);
}

static inline bool is_usable(const struct ampi_type *type)
{
    return type && type->is_committed;
}

/* MPI_BOTTOM is valid for types with absolute addresses; a NULL buffer for data of a basic type is an
 * error. */
static inline bool needs_address(const struct ampi_type *type)
{
    return type->is_predefined && type->size_bytes > 0;
}

/* Checks the arrays of the v and w forms. */
static int check_blocks(struct ampi_comm *comm, struct ampi_coll_buf *buf, const char *what, int n_blocks)
{
    MPI_Count total_bytes = 0;

    if (n_blocks > 0 && !buf->counts)
        return ampi_coll_raise(comm, MPI_ERR_ARG, "the array of %s counts is NULL", what);
    if (n_blocks > 0 && !buf->displs)
        return ampi_coll_raise(comm, MPI_ERR_ARG, "the array of %s displacements is NULL", what);
    buf->n_blocks = n_blocks;
    for (int i = 0; i < n_blocks; i++) {
        MPI_Count count = ampi_coll_count(buf, i);
        const struct ampi_type *type = buf->type;
        if (BASE_UNLIKELY(count < 0))
            return ampi_coll_raise(comm, MPI_ERR_COUNT, "%s count %d is %lld", what, i, (long long)count);
        if (buf->is_w && count > 0 && !is_usable(type = ampi_type_of(buf->types[i])))
            return raise_type(comm, what, buf->types[i]);
        if (count > 0 && (ampi_type_is_too_much(type, count) ||
                          __builtin_add_overflow(total_bytes, count * type->size_bytes, &total_bytes)))
            return raise_too_much(comm, what, count, type);
        if (BASE_UNLIKELY(!buf->buf && count > 0 && (!buf->is_w || ampi_coll_displ(buf, i) == 0) &&
                          needs_address(type)))
            return raise_null(comm, what, count);
    }
    return MPI_SUCCESS;
}

int ampi_coll_check_any_buf(const struct ampi_coll_args *args, struct ampi_coll_buf *buf, const char *what,
                            int n_blocks)
{
    struct ampi_comm *comm = args->comm;

    if (BASE_UNLIKELY(buf->buf == MPI_IN_PLACE))
        return ampi_coll_raise(comm, MPI_ERR_BUFFER, "MPI_IN_PLACE is not allowed as the %s buffer here",
                               what);
    if (BASE_UNLIKELY(buf->n_blocks < 0)) {
        if (buf->is_w && n_blocks > 0 && !buf->types)
            return ampi_coll_raise(comm, MPI_ERR_ARG, "the array of %s datatypes is NULL", what);
        if (!buf->is_w && !is_usable(buf->type = ampi_type_of(buf->handle)))
            return raise_type(comm, what, buf->handle);
        return check_blocks(comm, buf, what, n_blocks);
    }
    buf->type = ampi_type_of(buf->handle);
    if (BASE_UNLIKELY(buf->count < 0))
        return ampi_coll_raise(comm, MPI_ERR_COUNT, "the %s count %lld is negative", what,
                               (long long)buf->count);
    if (BASE_UNLIKELY(!is_usable(buf->type)))
        return raise_type(comm, what, buf->handle);
    if (BASE_UNLIKELY(ampi_coll_is_too_much(buf->type, buf->count, n_blocks)))
        return raise_too_much(comm, what, buf->count, buf->type);
    if (BASE_UNLIKELY(!buf->buf && buf->count > 0 && n_blocks > 0 && needs_address(buf->type)))
        return raise_null(comm, what, buf->count);
    return MPI_SUCCESS;
}

int ampi_coll_check_root(struct ampi_coll_args *args, int root)
{
    struct ampi_comm *comm = args->comm;
    bool is_inter = comm->shared->is_inter;

    args->root = root;
    args->must_agree += (uint64_t)root << AMPI_COLL_ROOT_SHIFT;
    if (BASE_LIKELY((unsigned)root < (unsigned)comm->peer->n_ranks) ||
        (is_inter && (root == MPI_ROOT || root == MPI_PROC_NULL)))
        return MPI_SUCCESS;
    return ampi_coll_raise(comm, MPI_ERR_ROOT, "the root is %d, but the %s's size is %d", root,
                           is_inter ? "remote group" : "communicator", comm->peer->n_ranks);
}

int ampi_coll_check_op(struct ampi_coll_args *args, MPI_Op handle, const struct ampi_type *type)
{
    args->op = ampi_op_of(handle);
    if (BASE_UNLIKELY(!args->op))
        return ampi_coll_raise(args->comm, MPI_ERR_OP,
                               handle == MPI_OP_NULL ? "the operation is MPI_OP_NULL"
                                                     : "the operation is not valid, or has been freed");
    if (BASE_UNLIKELY(!ampi_op_is_allowed(args->op, type)))
        return ampi_coll_raise(args->comm, MPI_ERR_OP, "%s is not defined on this datatype", args->op->name);
    return MPI_SUCCESS;
}

int ampi_coll_raise_in_place(const struct ampi_coll_args *args)
{
    return ampi_coll_raise(args->comm, MPI_ERR_BUFFER, "MPI_IN_PLACE is not allowed on an intercommunicator");
}

int ampi_coll_raise_same(const struct ampi_coll_args *args)
{
    return ampi_coll_raise(
        args->comm, MPI_ERR_BUFFER,
        "the send and the receive buffer are the same; pass MPI_IN_PLACE as the send buffer");
}
