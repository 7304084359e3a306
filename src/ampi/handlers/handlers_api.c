/* SPDX-License-Identifier: BSD-3-Clause
 *
 * handlers_api.c: AMPI_GPU_Handlers_create and the other functions of heddle_mpi_handlers.h: their arguments
 * and errors.
 */
#include <stdlib.h>
#include <string.h>

#include "ampi/coll/engine/coll.h"
#include "ampi/create/comm_create.h"
#include "ampi/handlers/handlers.h"
#include "ampi/object/gate.h"
#include "ampi/object/info.h"
#include "base/log.h"

#pragma GCC visibility push(default)
#include "mpi-ext.h"
#pragma GCC visibility pop

extern __typeof__(PMPI_Allgather) ampi_call_Allgather;

/* ---- Creating ---- */

struct options {
    long blocks; /* 0: the default */
    long threads;
    long slots;
    long slot_bytes;
    long idle_us;
};

static int read_option(const struct ampi_info *info, const char *key, long least, long most, long *value_out)
{
    const char *text = ampi_info_get(info, key);
    char *end;
    long value;

    if (!text)
        return MPI_SUCCESS;
    value = strtol(text, &end, 10);
    if (end == text || *end || value < least || value > most)
        return ampi_raise_self(MPI_ERR_INFO_VALUE,
                               "the value \"%s\" of the key %s is not a number from %ld to %ld", text, key,
                               least, most);
    *value_out = value;
    return MPI_SUCCESS;
}

static int read_options(const struct ampi_info *info, struct options *options)
{
    int error;

    *options = (struct options){.threads = 256, .slots = 1024, .slot_bytes = 256, .idle_us = 100};
    if ((error = read_option(info, "blocks", 1, 65535, &options->blocks)) ||
        (error = read_option(info, "threads", 32, HEDDLE_HANDLERS_THREADS_MAX, &options->threads)) ||
        (error = read_option(info, "slots", 2, HEDDLE_HANDLERS_SLOTS_MAX, &options->slots)) ||
        (error = read_option(info, "slot_bytes", 16, HEDDLE_HANDLERS_BYTES_MAX, &options->slot_bytes)) ||
        (error = read_option(info, "idle_us", 0, 1000000, &options->idle_us)))
        return error;
    if (options->slots & (options->slots - 1))
        return ampi_raise_self(MPI_ERR_INFO_VALUE, "the value %ld of the key slots is not a power of 2",
                               options->slots);
    options->slot_bytes = (options->slot_bytes + 15) / 16 * 16;
    return MPI_SUCCESS;
}

static size_t round_up(size_t n_bytes)
{
    return (n_bytes + 127) / 128 * 128;
}

/* Computes the layout of the GPU's memory: struct HEDDLE_Handlers_device and the peers, the ring, its
 * slots. */
static void lay_out(struct ampi_handlers *handlers, const struct options *options)
{
    struct ampi_handlers_card *own = &handlers->cards[handlers->comm->rank];
    size_t n_ranks = (size_t)handlers->comm->local->n_ranks;

    own->n_slots = (uint32_t)options->slots;
    own->slot_bytes = (uint32_t)options->slot_bytes;
    own->ring = round_up(HEDDLE_HANDLERS_DEVICE_BYTES(n_ranks));
    own->slots = own->ring + sizeof(struct HEDDLE_Handlers_ring);
    handlers->memory_bytes = own->slots + own->n_slots * HEDDLE_HANDLERS_STRIDE(own->slot_bytes);
    handlers->idle_us = (uint64_t)options->idle_us;
}

static void settle(struct ampi_handlers *handlers)
{
    struct ampi_handlers_card *own = &handlers->cards[handlers->comm->rank];
    uint64_t memory = (uint64_t)(uintptr_t)handlers->scheduler.memory;

    own->ring += memory;
    own->slots += memory;
    own->doorbell = (uint64_t)(uintptr_t)&handlers->scheduler.page->doorbell;
}

/* Chooses the number of blocks by the number of the process's ranks on the device. *error_out is CUDA's. */
static int choose_blocks(struct ampi_handlers *handlers, long wanted, int *error_out)
{
    struct ampi_handlers_card *own = &handlers->cards[handlers->comm->rank];
    int n_ranks = handlers->comm->local->n_ranks, n_near = 0, n_multiprocessors = 0, error;
    int *devices = base_calloc((size_t)n_ranks, sizeof *devices, "a list of GPUs");

    own->device = -1;
    *error_out = gpu_scheduler_blocks(&n_multiprocessors, &own->device);
    error = ampi_call_Allgather(&own->device, 1, MPI_INT32_T, devices, 1, MPI_INT32_T,
                                ampi_comm_handle(handlers->comm));
    for (int i = 0; i < n_ranks; i++)
        n_near += devices[i] == own->device && handlers->comm->local->layout->pe_of[i] != AMPI_PE_REMOTE;
    free(devices);
    handlers->scheduler.n_blocks = wanted                       ? (unsigned)wanted
                                   : n_multiprocessors > n_near ? (unsigned)(n_multiprocessors / n_near)
                                                                : 1;
    return error;
}

static void release(struct ampi_handlers *handlers)
{
    handlers->magic = AMPI_MAGIC_DEAD;
    ampi_comm_release(handlers->comm);
    free(handlers->cards);
    free(handlers);
}

static int duplicate(struct ampi_comm *old, struct ampi_comm **made_out)
{
    struct ampi_coll_args args = {AMPI_COLL_PLAN(&ampi_comm_dup_plan), .comm = old};
    MPI_Comm ignored;
    int error = ampi_coll_run(&args);

    if (error)
        return ampi_comm_raise_creation(old, error);
    *made_out = args.extra;
    return ampi_comm_adopt(old, args.extra, false, &ignored);
}

static int create(struct ampi_rank *self, struct ampi_comm *old, const struct options *options,
                  AMPI_GPU_Handlers *result)
{
    struct ampi_handlers *made = base_calloc(1, sizeof *made, "a set of handlers");
    int gpu_error = 0, error = duplicate(old, &made->comm), agreed;
    bool is_created = false;

    if (error) {
        free(made);
        return error;
    }
    made->owner = self;
    made->cards = base_calloc((size_t)made->comm->local->n_ranks, sizeof *made->cards, "a set of handlers");
    made->scheduler.n_threads = (unsigned)options->threads;
    lay_out(made, options);
    error = choose_blocks(made, options->blocks, &gpu_error);
    if (!error && !gpu_error) {
        gpu_error = gpu_scheduler_create(&made->scheduler, made->memory_bytes);
        is_created = !gpu_error;
    }
    agreed = error ? error : ampi_handlers_agree(made, gpu_error);
    ult_self()->call = "AMPI_GPU_Handlers_create";
    if (gpu_error)
        error = ampi_handlers_raise(made, gpu_error);
    else if (agreed && !error)
        error = ampi_raise(made->comm, agreed, "another rank has failed to create its handlers");
    if (error) {
        if (is_created)
            gpu_scheduler_destroy(&made->scheduler);
        release(made);
        return error;
    }
    settle(made);
    made->magic = AMPI_MAGIC_HANDLERS;
    made->next = self->handlers;
    self->handlers = made;
    *result = (AMPI_GPU_Handlers)made;
    return MPI_SUCCESS;
}

static int check_and_create(struct ampi_rank *self, MPI_Comm comm, MPI_Info info, AMPI_GPU_Handlers *result)
{
    struct ampi_comm *old = ampi_comm_of(self, comm);
    const struct ampi_info *hints = ampi_info_of(self, info);
    struct options options;
    int error;

    if (!old)
        return ampi_comm_raise_invalid(comm);
    if (old->shared->is_inter)
        return ampi_raise(old, MPI_ERR_COMM, "the communicator is an intercommunicator");
    if (!result)
        return ampi_raise(old, MPI_ERR_ARG, "the address of the handlers is NULL");
    if (!hints && info != MPI_INFO_NULL)
        return ampi_info_raise_invalid(info);
    if ((error = read_options(hints, &options)))
        return error;
    if (!gpu_is_used())
        return ampi_raise(old, MPI_ERR_OTHER, "CUDA is not in use in this process");
    return create(self, old, &options, result);
}

int AMPI_GPU_Handlers_create(MPI_Comm comm, MPI_Info info, AMPI_GPU_Handlers *handlers)
{
    struct ult *gate = ampi_gate_pass("AMPI_GPU_Handlers_create", __builtin_return_address(0));
    int error = check_and_create(ampi_enter("AMPI_GPU_Handlers_create"), comm, info, handlers);

    ampi_gate_leave_waiting(gate);
    return error;
}

/* ---- Handles ---- */

/* Finds the set. is_started: the state that the call requires. */
static int find(struct ampi_rank *self, AMPI_GPU_Handlers handle, bool is_started,
                struct ampi_handlers **handlers_out)
{
    struct ampi_handlers *handlers = (struct ampi_handlers *)handle;

    if (!ampi_handle_has_magic(handle, AMPI_MAGIC_HANDLERS))
        return ampi_raise_self(MPI_ERR_ARG, "%p is not a valid AMPI_GPU_Handlers, or has been freed",
                               (void *)handle);
    if (handlers->owner != self)
        return ampi_raise_self(MPI_ERR_ARG, "the AMPI_GPU_Handlers %p belongs to rank %d", (void *)handle,
                               ampi_rank_number(handlers->owner));
    if (handlers->is_started != is_started)
        return ampi_raise(handlers->comm, MPI_ERR_ARG,
                          is_started ? "the handlers have not been started (AMPI_GPU_Handlers_start)"
                                     : "the handlers have been started already");
    *handlers_out = handlers;
    return MPI_SUCCESS;
}

/* ---- Registering and starting ---- */

static int add(struct ampi_rank *self, int tag, int by, unsigned long long function, void *argument,
               void *kernel, void *post_kernel, AMPI_GPU_Handlers handle)
{
    struct ampi_handlers *handlers;
    struct ampi_handlers_card *own;
    int error = find(self, handle, false, &handlers);

    if (error)
        return error;
    if (tag < 0 || tag >= HEDDLE_HANDLERS_TAGS)
        return ampi_raise(handlers->comm, MPI_ERR_TAG, "the tag %d is not one of 0 to %d", tag,
                          HEDDLE_HANDLERS_TAGS - 1);
    if (by != AMPI_GPU_BY_BLOCK && by != AMPI_GPU_BY_GRID)
        return ampi_raise(handlers->comm, MPI_ERR_ARG, "%d is neither AMPI_GPU_BY_BLOCK nor AMPI_GPU_BY_GRID",
                          by);
    if (!function || !kernel || !post_kernel)
        return ampi_raise(handlers->comm, MPI_ERR_OTHER, "the handler is not on the GPU: CUDA has failed");
    if (handlers->entries[tag].by)
        return ampi_raise(handlers->comm, MPI_ERR_TAG, "there is a handler with the tag %d already", tag);
    if (handlers->scheduler.kernel && handlers->scheduler.kernel != kernel)
        return ampi_raise(handlers->comm, MPI_ERR_ARG,
                          "the handlers of a set must be in one source file: this one is in another");
    handlers->scheduler.kernel = kernel;
    handlers->scheduler.post_kernel = post_kernel;
    handlers->entries[tag] = (struct HEDDLE_Handlers_entry){
        .function = function, .argument = (uint64_t)(uintptr_t)argument, .by = (uint32_t)by};
    own = &handlers->cards[handlers->comm->rank];
    own->tags[tag / 64] |= (uint64_t)1 << tag % 64;
    return MPI_SUCCESS;
}

int AMPI_GPU_Register_entry(int tag, int by, unsigned long long function, void *argument, void *kernel,
                            void *post_kernel, AMPI_GPU_Handlers handlers)
{
    struct ult *gate = ampi_gate_pass("AMPI_GPU_Register_handler", __builtin_return_address(0));
    int error = add(ampi_enter("AMPI_GPU_Register_handler"), tag, by, function, argument, kernel, post_kernel,
                    handlers);

    ampi_gate_leave(gate);
    return error;
}

int AMPI_GPU_Handlers_start(AMPI_GPU_Handlers handlers)
{
    struct ult *gate = ampi_gate_pass("AMPI_GPU_Handlers_start", __builtin_return_address(0));
    struct ampi_handlers *object = NULL;
    int error = find(ampi_enter("AMPI_GPU_Handlers_start"), handlers, false, &object);

    if (!error)
        error = ampi_handlers_start(object);
    ampi_gate_leave(gate);
    return error;
}

int AMPI_GPU_Handlers_device(AMPI_GPU_Handlers handlers, AMPI_GPU_Device *device)
{
    struct ult *gate = ampi_gate_pass("AMPI_GPU_Handlers_device", __builtin_return_address(0));
    struct ampi_handlers *object = NULL;
    int error = find(ampi_enter("AMPI_GPU_Handlers_device"), handlers, true, &object);

    if (!error && !device)
        error = ampi_raise(object->comm, MPI_ERR_ARG, "the address of the device's handle is NULL");
    if (!error)
        *device = object->scheduler.memory;
    ampi_gate_leave(gate);
    return error;
}

/* ---- Messages of the host ---- */

static enum HEDDLE_Handlers_fault check(const struct ampi_handlers *handlers, int n_bytes, int dest, int tag)
{
    const struct ampi_handlers_card *card;

    if (dest < 0 || dest >= handlers->comm->local->n_ranks)
        return HEDDLE_HANDLERS_NO_RANK;
    card = &handlers->cards[dest];
    if (card->obstacle)
        return (enum HEDDLE_Handlers_fault)card->obstacle;
    if (tag < 0 || tag >= HEDDLE_HANDLERS_TAGS || !(card->tags[tag / 64] >> tag % 64 & 1))
        return HEDDLE_HANDLERS_NO_HANDLER;
    return (unsigned)n_bytes > card->slot_bytes ? HEDDLE_HANDLERS_TOO_LONG : HEDDLE_HANDLERS_FINE;
}

static int send(struct ampi_rank *self, const void *data, int n_bytes, int dest, int tag,
                AMPI_GPU_Handlers handle)
{
    struct HEDDLE_Handlers_post post = {
        .dest = (uint32_t)dest, .tag = (uint32_t)tag, .n_bytes = (uint32_t)n_bytes};
    struct ampi_handlers *handlers;
    enum HEDDLE_Handlers_fault fault;
    char text[192];
    int error = find(self, handle, true, &handlers);

    if (error || dest == MPI_PROC_NULL)
        return error;
    if (n_bytes < 0)
        return ampi_raise(handlers->comm, MPI_ERR_COUNT, "the number of bytes %d is negative", n_bytes);
    if (n_bytes > 0 && (!data || gpu_is_device(data)))
        return ampi_raise(handlers->comm, MPI_ERR_BUFFER,
                          data ? "the message at %p is not in host memory" : "the message is NULL (%p)",
                          data);
    fault = check(handlers, n_bytes, dest, tag);
    if (fault == HEDDLE_HANDLERS_FINE && !handlers->scheduler.post_kernel)
        return ampi_raise(handlers->comm, MPI_ERR_UNSUPPORTED_OPERATION,
                          "this rank has registered no handler, and so has no kernel that sends");
    if (fault != HEDDLE_HANDLERS_FINE) {
        ampi_handlers_describe(handlers, fault, dest, tag, text, sizeof text);
        return ampi_raise(handlers->comm, ampi_handlers_class(fault), "%s", text);
    }
    if (n_bytes > 0)
        memcpy(post.data, data, (size_t)n_bytes);
    error = gpu_scheduler_post(&handlers->scheduler, &post);
    return error ? ampi_handlers_raise(handlers, error) : MPI_SUCCESS;
}

int AMPI_GPU_Send(const void *data, int n_bytes, int dest, int tag, AMPI_GPU_Handlers handlers)
{
    struct ult *gate = ampi_gate_pass("AMPI_GPU_Send", __builtin_return_address(0));
    int error = send(ampi_enter("AMPI_GPU_Send"), data, n_bytes, dest, tag, handlers);

    ampi_gate_leave(gate);
    return error;
}

/* ---- The end ---- */

int AMPI_GPU_Handlers_wait(AMPI_GPU_Handlers handlers)
{
    struct ult *gate = ampi_gate_pass("AMPI_GPU_Handlers_wait", __builtin_return_address(0));
    struct ampi_handlers *object = NULL;
    int error = find(ampi_enter("AMPI_GPU_Handlers_wait"), handlers, true, &object);

    if (!error)
        error = ampi_handlers_wait(object);
    ampi_gate_leave(gate);
    return error;
}

/* Frees the set, even if its messages have ended with an error, which is returned. */
static int free_handlers(struct ampi_rank *self, AMPI_GPU_Handlers *handle)
{
    struct ampi_handlers *handlers, **link = &self->handlers;
    int error;

    if (!handle)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the handlers is NULL");
    handlers = (struct ampi_handlers *)*handle;
    error = find(self, *handle, ampi_handle_has_magic(*handle, AMPI_MAGIC_HANDLERS) && handlers->is_started,
                 &handlers);
    if (error)
        return error;
    if (handlers->is_started) {
        error = ampi_handlers_wait(handlers);
        if (handlers->scheduler.kernel)
            gpu_scheduler_stop(&handlers->scheduler);
        /* From here on no rank's kernel uses the memory of another rank. */
        (void)ampi_handlers_agree(handlers, 0);
    }
    while (*link != handlers)
        link = &(*link)->next;
    *link = handlers->next;
    gpu_scheduler_destroy(&handlers->scheduler);
    release(handlers);
    *handle = AMPI_GPU_HANDLERS_NULL;
    return error;
}

int AMPI_GPU_Handlers_free(AMPI_GPU_Handlers *handlers)
{
    struct ult *gate = ampi_gate_pass("AMPI_GPU_Handlers_free", __builtin_return_address(0));
    int error = free_handlers(ampi_enter("AMPI_GPU_Handlers_free"), handlers);

    ampi_gate_leave(gate);
    return error;
}
