/* SPDX-License-Identifier: BSD-3-Clause
 *
 * forms.c: the blocking, nonblocking and persistent forms of a collective, from one set of arguments.
 */
#include "ampi/coll/engine/coll.h"
#include "ampi/coll/engine/series.h"
#include "ampi/coll/engine/usage.h"

#include "base/log.h"

static BASE_COLD int raise_error(const struct ampi_coll_args *args, int error)
{
    struct ampi_comm *comm = args->comm;
    const struct ampi_coll_plan *plan = args->plan;
    const char *gpu_text;

    if (error == MPI_ERR_PROC_ABORTED) {
        char text[AMPI_FAILED_TEXT_MAX];
        ampi_failed_describe(comm->shared->is_inter ? NULL : comm->local->layout->group, text);
        return ampi_raise(comm, error, "%s", text);
    }
    gpu_text = ampi_device_error_text(comm->owner, error);
    if (gpu_text)
        return ampi_raise(comm, error, AMPI_DEVICE_FAILED, gpu_text);
    if (error == MPI_ERR_TRUNCATE && args->is_short)
        return ampi_raise(comm, error, "%s: this rank's block for itself is larger than its receive buffer",
                          plan->name);
    if (error == MPI_ERR_TRUNCATE)
        return ampi_raise(comm, error, "%s: another rank sent more data than fits into this rank's buffer",
                          plan->name);
    if (error == MPI_ERR_COUNT && !args->op)
        return ampi_raise(comm, error, "%s: another rank sent less data than this rank receives", plan->name);
    if (error == MPI_ERR_COUNT)
        return ampi_raise(comm, error, "%s: not all ranks contribute the same amount of data", plan->name);
    return ampi_raise(comm, error, "%s failed", plan->name);
}

int ampi_coll_blocking(struct ampi_coll_args *args)
{
    int error = ampi_coll_run(args);

    return BASE_LIKELY(error == MPI_SUCCESS) ? MPI_SUCCESS : raise_error(args, error);
}

/* The state behind a request: the arguments, and references to their types, because the program may free
 * its handles while the operation is pending. */
struct held {
    struct ampi_coll_args args;
    int n_refs;                      /* the request, and its starts in streams (ampi_coll_create_start) */
    struct ampi_coll_series *series; /* persistent; else NULL */
    uint32_t n_starts;               /* by this member, in the series */
    void *arrays[6]; /* the request's own copies of counts, displacements and types; NULL: none */
    int n_types;
    struct ampi_type *types[];
};

static int count_types(const struct ampi_coll_buf *buf)
{
    return buf->is_w ? (buf->n_blocks > 0 ? buf->n_blocks : 0) : buf->type ? 1 : 0;
}

static void hold_types(struct held *held, const struct ampi_coll_buf *buf)
{
    for (int i = 0; i < count_types(buf); i++) {
        struct ampi_type *type = !buf->is_w                ? buf->type
                                 : ampi_coll_count(buf, i) ? ampi_type_of(buf->types[i])
                                                           : NULL;
        if (type) {
            ampi_type_ref(type);
            held->types[held->n_types++] = type;
        }
    }
}

/* Replaces an array of the program by a copy; *copy_out must be freed. */
static const void *keep_array(const void *array, int n, size_t each_bytes, void **copy_out)
{
    if (!array || n <= 0)
        return array;
    *copy_out = base_malloc((size_t)n * each_bytes, "a pending collective");
    return memcpy(*copy_out, array, (size_t)n * each_bytes);
}

/* The standard requires programs to keep these arrays until the operation is complete, or the request is
 * freed; real programs free them after the call, for example mpi4py. */
static void keep_arrays(struct ampi_coll_buf *buf, void **copies)
{
    int n = buf->n_blocks;

    buf->counts =
        keep_array(buf->counts, n, buf->has_large_counts ? sizeof(MPI_Count) : sizeof(int), &copies[0]);
    buf->displs =
        keep_array(buf->displs, n, buf->has_large_displs ? sizeof(MPI_Aint) : sizeof(int), &copies[1]);
    buf->types = keep_array(buf->types, n, sizeof(MPI_Datatype), &copies[2]);
}

static void release(struct ampi_request *request)
{
    struct held *held = request->u.extra;

    if (held->args.request == request)
        held->args.request = NULL;
    if (--held->n_refs > 0)
        return;
    for (size_t i = 0; i < BASE_COUNT(held->arrays); i++)
        free(held->arrays[i]);
    for (int i = 0; i < held->n_types; i++)
        ampi_type_unref(held->types[i]);
    ampi_coll_memory_free(&held->args);
    if (held->args.op)
        ampi_op_unref(held->args.op);
    if (held->series)
        ampi_coll_series_leave(held->series, held->args.comm);
    free(held);
}

/* is_own_call: called on the stack of the member's own call. */
static void start_held(struct ampi_request *request, bool is_own_call)
{
    struct held *held = request->u.extra;
    struct ampi_coll_args *args = &held->args;

    request->state = AMPI_REQUEST_ACTIVE;
    ampi_status_set_empty(&request->status);
    args->error = args->is_short ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
    if (held->series) {
        ampi_coll_memory_update(args);
        ampi_coll_start_series(args, request, held->series, held->n_starts++, is_own_call);
    } else if (is_own_call) {
        ampi_coll_start(args, request);
    } else {
        ampi_coll_start_elsewhere(args, request);
    }
}

static int start(struct ampi_request *request)
{
    start_held(request, true);
    return MPI_SUCCESS;
}

static const struct ampi_request_kind coll_kind = {
    .name = "collective",
    .start = start,
    .release = release,
    .is_collective = true,
};

const struct ampi_coll_args *ampi_coll_args_of(const struct ampi_request *request)
{
    return request->kind == &coll_kind ? &((const struct held *)request->u.extra)->args : NULL;
}

uint32_t ampi_coll_number_of(const struct ampi_request *request)
{
    const struct held *held = request->kind == &coll_kind ? request->u.extra : NULL;

    return held && held->series ? held->series->number : 0;
}

static struct ampi_request *create_request(const struct ampi_coll_args *args, bool is_persistent)
{
    size_t n_types = (size_t)(count_types(&args->send) + count_types(&args->recv));
    struct held *held = base_malloc(sizeof *held + n_types * sizeof held->types[0], "a pending collective");
    struct ampi_request *request =
        ampi_request_create(args->comm->owner, &coll_kind, args->comm, is_persistent);

    held->args = *args;
    held->n_refs = 1;
    held->series = NULL;
    held->n_starts = 0;
    memset(held->arrays, 0, sizeof held->arrays);
    keep_arrays(&held->args.send, &held->arrays[0]);
    keep_arrays(&held->args.recv, &held->arrays[3]);
    held->n_types = 0;
    hold_types(held, &args->send);
    hold_types(held, &args->recv);
    if (args->op)
        ampi_op_ref(args->op);
    request->u.extra = held;
    return request;
}

int ampi_coll_nonblocking(const struct ampi_coll_args *args, MPI_Request *request)
{
    struct ampi_request *object = create_request(args, false);

    start(object);
    *request = (MPI_Request)object;
    return MPI_SUCCESS;
}

int ampi_coll_later(const struct ampi_coll_args *args, MPI_Request *request)
{
    *request = (MPI_Request)create_request(args, false);
    return MPI_SUCCESS;
}

void ampi_coll_start_later(struct ampi_request *request)
{
    start_held(request, false);
}

struct ampi_request *ampi_coll_create_start(const struct ampi_request *persistent, struct ampi_comm *comm)
{
    struct ampi_request *made = ampi_request_create(persistent->owner, &coll_kind, comm, false);
    struct held *held = persistent->u.extra;

    held->n_refs++;
    made->u.extra = held;
    return made;
}

int ampi_coll_persistent(const struct ampi_coll_args *args, MPI_Request *request)
{
    struct ampi_request *object = create_request(args, true);
    struct held *held = object->u.extra;

    held->series = ampi_coll_series_join(args->comm, args->plan);
    *request = (MPI_Request)object;
    return MPI_SUCCESS;
}
