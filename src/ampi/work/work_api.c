/* SPDX-License-Identifier: BSD-3-Clause
 *
 * work_api.c: AMPI_GPU_Work_register and the other functions of heddle_mpi_work.h: their arguments and errors.
 */
#include "ampi/work/work.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ampi/datatype/buffer.h"
#include "ampi/datatype/work_hook.h"
#include "ampi/object/error.h"
#include "ampi/object/gate.h"
#include "ampi/work/rows_of_type.h"
#include "base/log.h"

#define THREADS_MAX 1024

/* ---- Kinds ---- */

static pthread_mutex_t kinds_lock = PTHREAD_MUTEX_INITIALIZER; /* of the list, and of opening devices */
static struct ampi_work_kind *kinds;

static struct ampi_work_kind *find_kind(const struct ampi_work_kind *wanted)
{
    struct ampi_work_kind *kind;

    for (kind = kinds; kind; kind = kind->next)
        if (strcmp(kind->name, wanted->name) == 0 && kind->device == wanted->device &&
            kind->n_threads == wanted->n_threads && !kind->staying == !wanted->staying &&
            kind->args_bytes == wanted->args_bytes)
            break;
    if (!kind) {
        kind = base_calloc(1, sizeof *kind, "a kind of work");
        *kind = *wanted;
        kind->name = base_malloc(strlen(wanted->name) + 1, "a kind of work");
        memcpy(kind->name, wanted->name, strlen(wanted->name) + 1);
        kind->next = kinds;
        kinds = kind;
    }
    return kind;
}

static void use_kernels_of(const struct ampi_work_handle *handle)
{
    handle->kind->kernel = handle->kernel;
    handle->kind->staying = handle->staying;
}

static void join_kind(struct ampi_work_handle *handle, const struct ampi_work_kind *wanted)
{
    pthread_mutex_lock(&kinds_lock);
    handle->kind = find_kind(wanted);
    handle->next = handle->kind->handles;
    handle->kind->handles = handle;
    use_kernels_of(handle);
    pthread_mutex_unlock(&kinds_lock);
}

/* Another rank's kernel takes the place of this one, which may go. Pending requests that have no other use it still. */
static void leave_kind(struct ampi_work_handle *handle)
{
    struct ampi_work_kind *kind = handle->kind;
    struct ampi_work_handle **link = &kind->handles;

    pthread_mutex_lock(&kinds_lock);
    while (*link && *link != handle)
        link = &(*link)->next;
    if (*link)
        *link = handle->next;
    if (kind->handles)
        use_kernels_of(kind->handles);
    pthread_mutex_unlock(&kinds_lock);
}

void ampi_work_kinds_leave(const struct ampi_rank *rank)
{
    pthread_mutex_lock(&kinds_lock);
    for (struct ampi_work_kind *kind = kinds; kind; kind = kind->next) {
        struct ampi_work_handle **link = &kind->handles;
        while (*link)
            if ((*link)->owner == rank)
                *link = (*link)->next;
            else
                link = &(*link)->next;
        if (kind->handles)
            use_kernels_of(kind->handles);
    }
    pthread_mutex_unlock(&kinds_lock);
}

static int open_device(int number)
{
    int error = 0;

    if (number < 0 || number >= AMPI_WORK_DEVICES)
        return ampi_raise_self(MPI_ERR_UNSUPPORTED_OPERATION,
                               "the current CUDA context is not the primary one of a GPU");
    pthread_mutex_lock(&kinds_lock);
    (void)ampi_work_device_open(number, &error);
    pthread_mutex_unlock(&kinds_lock);
    return error ? ampi_raise_self(ampi_device_class(error), "%s", gpu_error_text(error)) : MPI_SUCCESS;
}

static int check_kind(const char *name, void *kernel, int threads, size_t args_bytes,
                      AMPI_GPU_Work_cpu_fn *cpu, const AMPI_GPU_Work *work)
{
    if (!name || !*name || !work)
        return ampi_raise_self(MPI_ERR_ARG, "the %s is NULL or empty",
                               work ? "name" : "address of the handle");
    if (threads < 1 || threads > THREADS_MAX)
        return ampi_raise_self(MPI_ERR_ARG, "the number of threads %d is not from 1 to %d", threads,
                               THREADS_MAX);
    if (args_bytes > AMPI_GPU_WORK_ARGS_MAX)
        return ampi_raise_self(MPI_ERR_COUNT, "the arguments have %zu bytes; at most %d are possible",
                               args_bytes, AMPI_GPU_WORK_ARGS_MAX);
    if (!cpu && !(kernel && gpu_is_used()))
        return ampi_raise_self(MPI_ERR_UNSUPPORTED_OPERATION,
                               "the kind \"%s\" has no function for the CPU, and %s", name,
                               kernel ? "CUDA is not in use in this process" : "no kernel");
    return MPI_SUCCESS;
}

static int register_kind(struct ampi_rank *self, const char *name, void *kernel, int threads,
                         size_t args_bytes, AMPI_GPU_Work_cpu_fn *cpu, AMPI_GPU_Work *work)
{
    struct ampi_work_kind wanted = {.kernel = kernel,
                                    .device = -1,
                                    .n_threads = threads & ~AMPI_GPU_WORK_STAYS,
                                    .args_bytes = args_bytes};
    struct ampi_work_handle *handle;
    bool has_two = kernel && threads & AMPI_GPU_WORK_STAYS;
    int error = check_kind(name, kernel, wanted.n_threads, args_bytes, cpu, work);

    if (error)
        return error;
    if (has_two) {
        wanted.kernel = ((void **)kernel)[0];
        if (wanted.n_threads >= HEDDLE_WORK_WORDS / 2)
            wanted.staying = ((void **)kernel)[1];
    }
    if (kernel && gpu_is_used()) {
        wanted.device = gpu_worker_device();
        if ((error = open_device(wanted.device)))
            return error;
        gpu_worker_load(ampi_work_engine.devices[wanted.device]->worker, wanted.kernel);
        if (wanted.staying)
            gpu_worker_load(ampi_work_engine.devices[wanted.device]->worker, wanted.staying);
    }
    wanted.name = (char *)(uintptr_t)name;
    handle = base_calloc(1, sizeof *handle, "a kind of work");
    *handle = (struct ampi_work_handle){.magic = AMPI_MAGIC_WORK,
                                        .owner = self,
                                        .cpu = cpu,
                                        .kernel = wanted.kernel,
                                        .staying = wanted.staying};
    join_kind(handle, &wanted);
    __atomic_store_n(&ampi_work_is_used, true, __ATOMIC_RELAXED);
    *work = (AMPI_GPU_Work)handle;
    return MPI_SUCCESS;
}

int AMPI_GPU_Work_register(const char *name, void *kernel, int threads, size_t args_bytes,
                           AMPI_GPU_Work_cpu_fn *cpu, AMPI_GPU_Work *work)
{
    struct ult *gate = ampi_gate_pass("AMPI_GPU_Work_register", __builtin_return_address(0));
    int error =
        register_kind(ampi_enter("AMPI_GPU_Work_register"), name, kernel, threads, args_bytes, cpu, work);

    ampi_gate_leave(gate);
    return error;
}

static int find(const struct ampi_rank *self, AMPI_GPU_Work work, struct ampi_work_handle **handle_out)
{
    struct ampi_work_handle *handle = (struct ampi_work_handle *)work;

    if (!ampi_handle_has_magic(work, AMPI_MAGIC_WORK) || handle->owner != self)
        return ampi_raise_self(MPI_ERR_ARG, "%p is not a valid kind of work of this rank, or has been freed",
                               (void *)work);
    *handle_out = handle;
    return MPI_SUCCESS;
}

static int free_kind(const struct ampi_rank *self, AMPI_GPU_Work *work)
{
    struct ampi_work_handle *handle = NULL;
    int error;

    if (!work)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the handle is NULL");
    if ((error = find(self, *work, &handle)))
        return error;
    leave_kind(handle);
    handle->magic = AMPI_MAGIC_DEAD;
    free(handle);
    *work = AMPI_GPU_WORK_NULL;
    return MPI_SUCCESS;
}

int AMPI_GPU_Work_free(AMPI_GPU_Work *work)
{
    struct ult *gate = ampi_gate_pass("AMPI_GPU_Work_free", __builtin_return_address(0));
    int error = free_kind(ampi_enter("AMPI_GPU_Work_free"), work);

    ampi_gate_leave(gate);
    return error;
}

/* ---- Buffers ---- */

static int read_memory(const struct ampi_work_kind *kind, int i, struct ampi_work_buffer *buffer)
{
    const struct gpu_range *range;

    if (!gpu_is_used())
        return MPI_SUCCESS;
    range = gpu_find((const void *)buffer->rows.from);
    if (range->memory < GPU_MEMORY_DEVICE)
        return MPI_SUCCESS;
    if (range->memory != GPU_MEMORY_DEVICE || kind->device != range->device)
        return ampi_raise_self(MPI_ERR_BUFFER,
                               "buffer %d at %p is neither host memory nor memory of the kind's GPU", i,
                               buffer->address);
    buffer->is_device = true;
    return MPI_SUCCESS;
}

/* A buffer without bytes has no rows. */
static int read_buffer(const struct ampi_work_kind *kind, int i, const struct AMPI_GPU_Work_buffer *given,
                       struct ampi_work_buffer *buffer)
{
    const struct ampi_type *type = ampi_type_of(given->datatype);

    if (given->access < AMPI_GPU_WORK_READ || given->access > AMPI_GPU_WORK_READWRITE)
        return ampi_raise_self(MPI_ERR_ARG, "the access %d of buffer %d is not READ, WRITE or READWRITE",
                               given->access, i);
    if (!type || !type->is_committed)
        return ampi_raise_self(MPI_ERR_TYPE, "the datatype of buffer %d is not valid, or not committed", i);
    if (given->count < 0 || ampi_type_is_too_much(type, given->count))
        return ampi_raise_self(MPI_ERR_COUNT, "buffer %d has %lld elements", i, (long long)given->count);
    *buffer = (struct ampi_work_buffer){.access = given->access, .address = given->address, .place = i};
    if (given->count == 0 || type->size_bytes == 0)
        return MPI_SUCCESS;
    if (!ampi_type_is_address(type, given->address))
        return ampi_raise_self(MPI_ERR_BUFFER, "the address of buffer %d is NULL", i);
    if (!ampi_rows_of_type(given->address, given->count, type, &buffer->rows))
        return ampi_raise_self(
            MPI_ERR_TYPE, "the datatype of buffer %d is not one of rows of equal size at equal distances", i);
    return read_memory(kind, i, buffer);
}

static int check_overlap(const struct ampi_work *work)
{
    for (int i = 0; i < work->n_buffers; i++)
        for (int j = 0; j < i; j++)
            if ((work->buffers[i].access | work->buffers[j].access) & AMPI_GPU_WORK_WRITE &&
                ampi_rows_overlap(&work->buffers[i].rows, &work->buffers[j].rows))
                return ampi_raise_self(
                    MPI_ERR_BUFFER, "buffers %d and %d overlap, and the request writes to %s",
                    work->buffers[j].place, work->buffers[i].place,
                    work->buffers[i].access & work->buffers[j].access & AMPI_GPU_WORK_WRITE ? "both"
                                                                                            : "one of them");
    return MPI_SUCCESS;
}

/* ---- Submitting ---- */

static void describe(const struct ampi_request *request, char *text, size_t size_bytes)
{
    const struct ampi_work *work = request->u.extra;

    snprintf(text, size_bytes, "work request of the kind \"%s\"", work ? work->kind->name : "?");
}

static const struct ampi_request_kind work_kind = {.name = "work request", .describe = describe};

/* An operation with room for the arguments and buffers, from the PE's spare ones if possible. */
static struct ampi_work *take_work(struct ampi_work_pe *pe, size_t args_bytes, int n_buffers)
{
    size_t args_room = base_round_up(args_bytes, 16);
    size_t room_bytes = args_room + (size_t)n_buffers * sizeof(struct ampi_work_buffer);
    struct ampi_work *work = pe->spare;

    if (work)
        pe->spare = work->next;
    if (!work || work->room_bytes < room_bytes) {
        free(work);
        work = base_malloc(base_round_up(sizeof *work, 16) + room_bytes, "a work request");
    } else {
        room_bytes = work->room_bytes;
    }
    *work =
        (struct ampi_work){.what = AMPI_WORK_RUN, .pe = pe, .n_places = n_buffers, .room_bytes = room_bytes};
    work->args = (char *)work + base_round_up(sizeof *work, 16);
    work->buffers = (struct ampi_work_buffer *)(void *)((char *)work->args + args_room);
    return work;
}

static void put_work(struct ampi_work *work)
{
    work->next = work->pe->spare;
    work->pe->spare = work;
}

static int check_submission(int blocks, const void *args, const struct ampi_work_kind *kind, int n_buffers,
                            const struct AMPI_GPU_Work_buffer buffers[], const MPI_Request *request)
{
    if (!request)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the request is NULL");
    if (blocks < 1)
        return ampi_raise_self(MPI_ERR_COUNT, "the number of blocks %d is not positive", blocks);
    if (!args && kind->args_bytes > 0)
        return ampi_raise_self(MPI_ERR_ARG, "the arguments are NULL, but have %zu bytes", kind->args_bytes);
    if (n_buffers < 0 || n_buffers > AMPI_GPU_WORK_BUFFERS_MAX || (n_buffers > 0 && !buffers))
        return ampi_raise_self(MPI_ERR_COUNT,
                               "the number of buffers %d is not from 0 to %d, or their array is NULL",
                               n_buffers, AMPI_GPU_WORK_BUFFERS_MAX);
    return MPI_SUCCESS;
}

static int fill(struct ampi_work *work, const struct AMPI_GPU_Work_buffer buffers[])
{
    int error = MPI_SUCCESS;

    for (int i = 0; i < work->n_places && !error; i++) {
        struct ampi_work_buffer *buffer = &work->buffers[work->n_buffers];
        error = read_buffer(work->kind, i, &buffers[i], buffer);
        work->n_buffers += !error && buffer->rows.n > 0;
    }
    for (int i = 0; i < work->n_buffers && !error; i++)
        if (work->buffers[i].is_device && work->kind->device < 0)
            error = ampi_raise_self(MPI_ERR_BUFFER, "buffer %d is in GPU memory, but the kind has no kernel",
                                    work->buffers[i].place);
    return error ? error : check_overlap(work);
}

static bool are_apart(const struct ampi_work *work)
{
    for (int i = 0; i < work->n_buffers; i++)
        for (int j = 0; j < i; j++)
            if (work->buffers[i].rows.from < ampi_rows_end(&work->buffers[j].rows) &&
                work->buffers[j].rows.from < ampi_rows_end(&work->buffers[i].rows))
                return false;
    return true;
}

static int submit(struct ampi_rank *self, AMPI_GPU_Work kind, int blocks, const void *args, int n_buffers,
                  const struct AMPI_GPU_Work_buffer buffers[], MPI_Request *request)
{
    struct ampi_work_handle *handle = NULL;
    struct ampi_work *work;
    int error = find(self, kind, &handle);

    if (!error)
        error = check_submission(blocks, args, handle->kind, n_buffers, buffers, request);
    if (error)
        return error;
    work = take_work(ampi_work_pe_self(), handle->kind->args_bytes, n_buffers);
    work->kind = handle->kind;
    if ((error = fill(work, buffers))) {
        put_work(work);
        return error;
    }
    work->owner = self;
    work->cpu = handle->cpu;
    work->n_blocks = (unsigned)blocks;
    if (handle->kind->args_bytes > 0)
        memcpy(work->args, args, handle->kind->args_bytes);
    for (int i = 0; i < work->n_buffers; i++)
        if (!work->buffers[i].is_device)
            ampi_work_widen(&work->buffers[i].rows);
    work->is_apart = are_apart(work);
    work->request = ampi_request_create(self, &work_kind, NULL, false);
    work->request->u.extra = work;
    if (!self->work) /* also after MPI_Finalize, if a session goes on */
        self->work = base_calloc(1, sizeof *self->work, "a rank's work");
    self->work->n_active++;
    *request = (MPI_Request)work->request;
    ampi_work_push(work);
    return MPI_SUCCESS;
}

int AMPI_GPU_Work_submit(AMPI_GPU_Work work, int blocks, const void *args, int n_buffers,
                         const struct AMPI_GPU_Work_buffer buffers[], MPI_Request *request)
{
    struct ult *gate = ampi_gate_pass("AMPI_GPU_Work_submit", __builtin_return_address(0));
    int error = submit(ampi_enter("AMPI_GPU_Work_submit"), work, blocks, args, n_buffers, buffers, request);

    ampi_gate_leave(gate);
    return error;
}

/* ---- Waiting, and data ---- */

int AMPI_GPU_Work_wait_all(void)
{
    struct ult *gate = ampi_gate_pass("AMPI_GPU_Work_wait_all", __builtin_return_address(0));
    const struct ampi_rank *self = ampi_enter("AMPI_GPU_Work_wait_all");

    if (self->work)
        ampi_work_wait_all(self->work);
    ampi_gate_leave(gate);
    return MPI_SUCCESS;
}

static int do_data(enum ampi_work_what what, const void *address, MPI_Count n_bytes)
{
    int error;

    if (n_bytes < 0 || (n_bytes > 0 && !address))
        return ampi_raise_self(n_bytes < 0 ? MPI_ERR_COUNT : MPI_ERR_BUFFER, "%lld bytes at %p are no memory",
                               (long long)n_bytes, address);
    if (n_bytes == 0 || !ampi_work_is_used)
        return MPI_SUCCESS;
    error = ampi_work_do(what, (uintptr_t)address, (uintptr_t)address + (uintptr_t)n_bytes);
    return error ? ampi_raise_self(ampi_device_class(error), "%s", gpu_error_text(error)) : MPI_SUCCESS;
}

/* The four calls differ in one word. */
#define DATA_CALL(name, what)                                                                   \
    int AMPI_GPU_Work_##name(const void *address, MPI_Count bytes)                              \
    {                                                                                           \
        struct ult *gate = ampi_gate_pass("AMPI_GPU_Work_" #name, __builtin_return_address(0)); \
        int error;                                                                              \
                                                                                                \
        ampi_enter("AMPI_GPU_Work_" #name);                                                     \
        error = do_data(what, address, bytes);                                                  \
        ampi_gate_leave(gate);                                                                  \
        return error;                                                                           \
    }

DATA_CALL(sync, AMPI_WORK_SYNC)
DATA_CALL(invalidate, AMPI_WORK_DROP)
DATA_CALL(pin, AMPI_WORK_PIN)
DATA_CALL(unpin, AMPI_WORK_UNPIN)
