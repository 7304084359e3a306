/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine_cuda.c: a test double of a machine that takes device memory, for a UCX without CUDA: it wraps the
 * real one (HEDDLE_REAL_MACHINE), which gets copies in host memory. HEDDLE_MACHINE names this one to the
 * library.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "machine_ucx/machine.h"

#define PORTS_MAX 64

static struct machine real;

/* A send or fetch under way. */
struct bounce {
    struct bounce *next;
    machine_done_fn done;
    void *arg;
    struct bounce *(*go_on)(struct bounce *bounce); /* called when the copy is done */
    CUevent copied;
    CUcontext context;
    int pe_id, dest_proc, dest_pe; /* of a send */
    const void *header;
    size_t header_bytes;
    void *device; /* destination of fetched data */
    size_t n_bytes;
    unsigned char bytes[];
};

/* Of each port: copies under way. */
static struct bounce *copying[PORTS_MAX];

static void need(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "test double of a machine: %s: CUDA error %d\n", call, (int)result);
    abort();
}
#define NEED(call) need(call, #call)

/* Begins a copy, as UCX does: in a stream of its own, with an event that poll queries. */
static void copy(struct bounce *bounce, const void *device, bool is_out)
{
    static __thread CUstream streams[16];
    CUcontext before = NULL;
    int ordinal = 0;

    NEED(cuCtxGetCurrent(&before));
    NEED(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)device));
    NEED(cuDevicePrimaryCtxRetain(&bounce->context, ordinal));
    NEED(cuCtxSetCurrent(bounce->context));
    if (!streams[ordinal])
        NEED(cuStreamCreate(&streams[ordinal], CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&bounce->copied, CU_EVENT_DISABLE_TIMING));
    if (is_out)
        NEED(cuMemcpyDtoHAsync(bounce->bytes, (CUdeviceptr)device, bounce->n_bytes, streams[ordinal]));
    else
        NEED(cuMemcpyHtoDAsync((CUdeviceptr)device, bounce->bytes, bounce->n_bytes, streams[ordinal]));
    NEED(cuEventRecord(bounce->copied, streams[ordinal]));
    NEED(cuCtxSetCurrent(before));
    bounce->next = copying[bounce->pe_id];
    copying[bounce->pe_id] = bounce;
}

/* UCX takes any error for "not yet". */
static int poll_copies(int pe_id)
{
    struct bounce **link = &copying[pe_id], *taken = NULL;
    int n = 0;

    while (*link) {
        struct bounce *bounce = *link;
        if (cuEventQuery(bounce->copied) != CUDA_SUCCESS) {
            link = &bounce->next;
            continue;
        }
        *link = bounce->next;
        bounce->next = taken;
        taken = bounce;
    }
    for (; taken; n++) {
        struct bounce *next = taken->next;
        NEED(cuEventDestroy(taken->copied));
        taken->go_on(taken);
        taken = next;
    }
    return n;
}

static struct bounce *end(struct bounce *bounce, int result)
{
    machine_done_fn done = bounce->done;
    void *arg = bounce->arg;

    free(bounce);
    done(arg, result);
    return NULL;
}

static void sent(void *arg, int result)
{
    end(arg, result);
}

static struct bounce *send_copy(struct bounce *bounce)
{
    int result = real.send(bounce->pe_id, bounce->dest_proc, bounce->dest_pe, bounce->header,
                           bounce->header_bytes, bounce->bytes, bounce->n_bytes, MACHINE_HOST, sent, bounce);

    return result == MACHINE_PENDING ? bounce : end(bounce, result);
}

static struct bounce *end_well(struct bounce *bounce)
{
    return end(bounce, MACHINE_DONE);
}

static void fetched(void *arg, int result)
{
    struct bounce *bounce = arg;

    if (result != MACHINE_DONE || bounce->n_bytes == 0)
        end(bounce, result);
    else
        copy(bounce, bounce->device, false);
}

static bool takes(enum machine_memory memory)
{
    return memory == MACHINE_HOST || memory == MACHINE_CUDA;
}

static struct bounce *bounce_create(struct bounce what)
{
    struct bounce *bounce = malloc(sizeof *bounce + what.n_bytes);

    if (!bounce || what.pe_id >= PORTS_MAX)
        abort();
    *bounce = what;
    return bounce;
}

static int send(int pe_id, int dest_proc, int dest_pe, const void *header, size_t header_bytes,
                const void *data, size_t n_bytes, enum machine_memory memory, machine_done_fn done, void *arg)
{
    if (memory == MACHINE_HOST || n_bytes == 0)
        return real.send(pe_id, dest_proc, dest_pe, header, header_bytes, data, n_bytes, MACHINE_HOST, done,
                         arg);
    copy(bounce_create((struct bounce){.done = done,
                                       .arg = arg,
                                       .go_on = send_copy,
                                       .pe_id = pe_id,
                                       .dest_proc = dest_proc,
                                       .dest_pe = dest_pe,
                                       .header = header,
                                       .header_bytes = header_bytes,
                                       .n_bytes = n_bytes}),
         data, true);
    return MACHINE_PENDING;
}

static int fetch(int pe_id, int src_proc, void *token, void *buf, size_t n_bytes, enum machine_memory memory,
                 machine_done_fn done, void *arg)
{
    struct bounce *bounce;
    int result;

    if (memory == MACHINE_HOST)
        return real.fetch(pe_id, src_proc, token, buf, n_bytes, memory, done, arg);
    bounce = bounce_create((struct bounce){
        .done = done, .arg = arg, .go_on = end_well, .pe_id = pe_id, .device = buf, .n_bytes = n_bytes});
    result = real.fetch(pe_id, src_proc, token, bounce->bytes, n_bytes, MACHINE_HOST, fetched, bounce);
    if (result == MACHINE_DONE && n_bytes > 0) {
        copy(bounce, buf, false);
        return MACHINE_PENDING;
    }
    if (result != MACHINE_PENDING)
        free(bounce);
    return result;
}

static int poll(int pe_id)
{
    return poll_copies(pe_id) + real.poll(pe_id);
}

static bool arm(int pe_id)
{
    return !copying[pe_id] && real.arm(pe_id);
}

static bool is_moving(int pe_id)
{
    return copying[pe_id] || (real.is_moving && real.is_moving(pe_id));
}

__attribute__((visibility("default"))) struct machine machine_ucx_table;

__attribute__((constructor)) static void load(void)
{
    const char *path = getenv("HEDDLE_REAL_MACHINE");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const struct machine *table = library ? dlsym(library, MACHINE_SYMBOL) : NULL;

    if (!table) {
        fprintf(stderr, "HEDDLE_REAL_MACHINE names no machine\n");
        abort();
    }
    machine_ucx_table = real = *table;
    machine_ucx_table.name = "test double that takes GPUs' memory";
    machine_ucx_table.takes = takes;
    machine_ucx_table.send = send;
    machine_ucx_table.push = NULL; /* all messages go through send */
    machine_ucx_table.fetch = fetch;
    machine_ucx_table.poll = poll;
    machine_ucx_table.arm = arm;
    machine_ucx_table.is_moving = is_moving;
}
