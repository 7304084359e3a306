/* SPDX-License-Identifier: BSD-3-Clause
 *
 * access.c: all forms of data access: checks, file pointers, requests (MPI 5.0, section 14.4). See access.h.
 *
 * A file pointer moves by the requested amount when the access begins, as the standard requires, even if less is
 * read.
 */
#include "ampi/io/access.h"

#include <stdio.h>

#include "ampi/io/datarep.h"
#include "ampi/p2p/p2p.h"
#include "base/log.h"

/* ---- Checks ---- */

static int check_direction(struct ampi_file *file, bool is_write)
{
    if (is_write)
        return ampi_file_check_writable(file);
    if (BASE_UNLIKELY(file->shared->amode & MPI_MODE_WRONLY))
        return ampi_file_raise(file, MPI_ERR_ACCESS, "it is open with MPI_MODE_WRONLY");
    return MPI_SUCCESS;
}

/* Checks the mode of the file. */
static int check_file(struct ampi_file *file, const struct ampi_io_call *call)
{
    int error = check_direction(file, call->is_write);

    if (!error && (call->place == AMPI_IO_AT || call->place == AMPI_IO_INDIVIDUAL))
        error = ampi_file_check_random(file);
    if (!error && call->is_collective)
        error = ampi_file_check_no_split(file);
    return error;
}

/* Checks the data, and sets the type and the number of bytes in the file. */
static int check_data(struct ampi_io_access *access, const struct ampi_io_args *args)
{
    struct ampi_file *file = access->file;
    struct ampi_type *type = ampi_type_of(args->datatype);
    MPI_Count each_bytes = 0;
    int error = MPI_SUCCESS;

    if (args->count < 0)
        return ampi_file_raise(file, MPI_ERR_COUNT, "the count is %lld", (long long)args->count);
    if (!type || !type->is_committed)
        return ampi_file_raise(file, MPI_ERR_TYPE, "the datatype is %s",
                               args->datatype == MPI_DATATYPE_NULL ? "MPI_DATATYPE_NULL"
                               : type                              ? "not committed"
                                                                   : "not valid");
    if (ampi_datarep_converts(file->view->rep, access->call->is_write))
        error = ampi_datarep_size(file->view->rep, type, &each_bytes);
    else
        each_bytes = type->size_bytes; /* moved as it is, also if the view has other sizes */
    if (error)
        return ampi_file_raise(file, error, "the data representation has no extent for the datatype");
    if (ampi_type_is_too_much(type, args->count) ||
        __builtin_mul_overflow(args->count, each_bytes, &access->n_bytes))
        return ampi_file_raise(file, MPI_ERR_COUNT, AMPI_TYPE_TOO_MUCH, (long long)args->count,
                               (long long)type->size_bytes);
    if (access->n_bytes > 0 && !ampi_type_is_address(type, args->buf))
        return ampi_file_raise(file, MPI_ERR_BUFFER, "the buffer is %s, but the count is %lld",
                               args->buf ? "MPI_IN_PLACE" : "NULL", (long long)args->count);
    if (access->n_bytes % file->view->etype_bytes)
        return ampi_file_raise(file, MPI_ERR_IO, "%lld bytes are not whole etypes of %lld bytes",
                               (long long)access->n_bytes, (long long)file->view->etype_bytes);
    if (access->n_bytes > 0 && file->view->layout->size_bytes == 0)
        return ampi_file_raise(file, MPI_ERR_IO, "the filetype of the view has no data");
    access->type = type;
    return MPI_SUCCESS;
}

/* ---- File pointers ---- */

/* The first etype of an access by shared file pointer. Returns an error class. */
static int move_shared(struct ampi_file *file, bool is_ordered, MPI_Offset n_etypes, MPI_Offset *etype_out)
{
    MPI_Offset before = 0, all = n_etypes, first = 0;
    int error;

    if (!is_ordered)
        return ampi_file_pointer_add(file, n_etypes, etype_out);
    if ((error = ampi_file_prefix(file, n_etypes, &before, &all)))
        return error;
    if (file->rank == 0)
        error = ampi_file_pointer_add(file, all, &first);
    if (error || (error = ampi_file_bcast(file, 0, &first)))
        return error;
    *etype_out = first + before;
    return MPI_SUCCESS;
}

/* Sets where the access begins, and moves the file pointer behind it. */
static int find_first(struct ampi_io_access *access, MPI_Offset offset)
{
    struct ampi_file *file = access->file;
    MPI_Offset n_etypes = access->n_bytes / file->view->etype_bytes, etype = offset;
    int error;

    switch (access->call->place) {
    case AMPI_IO_AT:
        if (offset < 0)
            return ampi_file_raise(file, MPI_ERR_ARG, "the offset %lld is negative", (long long)offset);
        break;
    case AMPI_IO_INDIVIDUAL:
        etype = file->pointer;
        break;
    case AMPI_IO_SHARED:
    case AMPI_IO_ORDERED:
        error = move_shared(file, access->call->place == AMPI_IO_ORDERED, n_etypes, &etype);
        if (error)
            return ampi_file_raise(file, error, "the shared file pointer is lost: a process has failed");
        break;
    }
    if (!ampi_view_find(file->view, etype, access->n_bytes, &access->first))
        return ampi_file_raise(file, MPI_ERR_ARG, "the offset %lld is too large", (long long)etype);
    if (access->call->place == AMPI_IO_INDIVIDUAL)
        file->pointer += n_etypes;
    return MPI_SUCCESS;
}

/* ---- Forms ---- */

static int finish(struct ampi_io_access *access, MPI_Status *status)
{
    int error = ampi_io_transfer_finish(access);
    MPI_Status result;

    ampi_status_set_empty(&result);
    ampi_status_set_bytes(&result, access->moved);
    ampi_status_hand_out(status, &result);
    return error;
}

static int run(struct ampi_io_access *access, MPI_Status *status)
{
    int error = ampi_io_transfer_init(access);

    if (!error || access->call->is_collective) {
        ampi_io_transfer_run(access);
        error = finish(access, status);
    }
    ampi_io_transfer_fini(access);
    return error;
}

static int query(struct ampi_request *request, MPI_Status *status)
{
    struct ampi_io_access *access = request->u.extra;
    int error = ampi_io_transfer_finish(access);

    ampi_status_set_empty(status);
    ampi_status_set_bytes(status, access->moved);
    return error;
}

static void release(struct ampi_request *request)
{
    ampi_io_transfer_fini(request->u.extra);
    free(request->u.extra);
}

static void describe(const struct ampi_request *request, char *text, size_t size_bytes)
{
    const struct ampi_io_access *access = request->u.extra;

    snprintf(text, size_bytes, "%s file %s", access->call->is_write ? "writing" : "reading",
             access->file->shared->name);
}

static const struct ampi_request_kind access_kind = {
    .name = "file access", .query = query, .release = release, .describe = describe, .raises_itself = true};

struct ampi_comm *ampi_io_collective_comm(const struct ampi_request *request)
{
    const struct ampi_io_access *access = request->kind == &access_kind ? request->u.extra : NULL;

    return access && access->call->is_collective ? access->file->comm : NULL;
}

/* Starts an access with a request of its own; moves it to the heap. After an error in a collective access this rank still
 * takes part, without data. */
static int start(const struct ampi_io_access *described, struct ampi_io_access **access_out)
{
    struct ampi_io_access *access = base_malloc(sizeof *access, "a file access");
    struct ampi_request *request;
    int error;

    *access = *described;
    error = ampi_io_transfer_init(access);
    if (error && !access->call->is_collective) {
        ampi_io_transfer_fini(access);
        free(access);
        return error;
    }
    request = access->request = ampi_request_create(access->file->owner, &access_kind, NULL, false);
    request->u.extra = access;
    if (access->file->is_atomic) {
        ampi_io_transfer_run(access);
        ampi_request_complete(request);
    } else {
        ampi_io_transfer_start(access);
    }
    if (!error)
        *access_out = access;
    else if (ampi_request_is_active(request))
        ampi_request_abandon(request);
    else
        ampi_request_destroy(request);
    return error;
}

/* Checks the program's arguments. A rank with wrong data still takes part in a collective access, without data. */
static int prepare(struct ampi_io_access *access, const struct ampi_io_args *args)
{
    int error = check_file(access->file, access->call);

    if (error)
        return error;
    access->error = check_data(access, args);
    if (access->error) {
        access->n_bytes = access->count = 0;
        access->type = ampi_type_of(MPI_BYTE);
    }
    if (access->error && !access->call->is_collective)
        return access->error;
    error = find_first(access, args->offset);
    if (!error || !access->call->is_collective)
        return error;
    if (!access->error)
        access->error = error;
    access->n_bytes = 0;
    return MPI_SUCCESS;
}

int ampi_io_access(const struct ampi_io_call *call, const struct ampi_io_args *args, MPI_Status *status,
                   MPI_Request *request)
{
    struct ampi_io_access access, *started;
    int error;

    memset(&access, 0, offsetof(struct ampi_io_access, few));
    if ((error = ampi_file_enter(args->fh, &access.file)))
        return error;
    access.call = call;
    access.buf = args->buf;
    access.count = args->count;
    if (call->form == AMPI_IO_NONBLOCKING && !request)
        return ampi_file_raise(access.file, MPI_ERR_ARG, "the address of the request is NULL");
    if ((error = prepare(&access, args)))
        return error;
    if (call->form == AMPI_IO_BLOCKING)
        return run(&access, status);
    if ((error = start(&access, &started)))
        return error;
    if (call->form == AMPI_IO_BEGIN)
        access.file->split = started;
    else
        *request = (MPI_Request)started->request;
    return MPI_SUCCESS;
}

int ampi_io_end(MPI_File fh, const char *begin, MPI_Status *status)
{
    struct ampi_file *file;
    struct ampi_io_access *access;
    struct ampi_request *request;
    MPI_Request handle;
    int error = ampi_file_enter(fh, &file);

    if (error)
        return error;
    access = file->split;
    if (!access || strncmp(access->call->name, begin, strlen(begin)) != 0)
        return ampi_file_raise(file, MPI_ERR_IO, "%s has not been called before", begin);
    request = access->request;
    handle = (MPI_Request)request;
    if (ampi_request_is_active(request))
        ampi_request_await(request);
    file->split = NULL;
    return ampi_request_retire(&handle, request, status);
}
