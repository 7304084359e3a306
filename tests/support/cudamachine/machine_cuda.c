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

static struct machine real;

/* A send or fetch under way. */
struct bounce {
    machine_done_fn done;
    void *arg;
    void *device; /* destination of fetched data; NULL: it was sent */
    size_t n_bytes;
    unsigned char bytes[];
};

static void copy(void *to, const void *from, size_t n_bytes, const void *device_end, bool is_out)
{
    CUcontext before = NULL, primary = NULL;
    int ordinal = 0;
    CUresult result;

    if (cuCtxGetCurrent(&before) != CUDA_SUCCESS ||
        cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)device_end) !=
            CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&primary, ordinal) != CUDA_SUCCESS ||
        cuCtxSetCurrent(primary) != CUDA_SUCCESS)
        abort();
    result =
        is_out ? cuMemcpyDtoH(to, (CUdeviceptr)from, n_bytes) : cuMemcpyHtoD((CUdeviceptr)to, from, n_bytes);
    if (result == CUDA_SUCCESS && !is_out)
        result = cuStreamSynchronize(
            CU_STREAM_LEGACY); /* a copy from pageable memory may return before it is done */
    if (result != CUDA_SUCCESS || cuCtxSetCurrent(before) != CUDA_SUCCESS)
        abort();
}

static struct bounce *bounce_create(size_t n_bytes, machine_done_fn done, void *arg)
{
    struct bounce *bounce = malloc(sizeof *bounce + n_bytes);

    if (!bounce)
        abort();
    *bounce = (struct bounce){.done = done, .arg = arg, .n_bytes = n_bytes};
    return bounce;
}

static void bounce_end(struct bounce *bounce, int result)
{
    if (bounce->device && result == MACHINE_DONE && bounce->n_bytes)
        copy(bounce->device, bounce->bytes, bounce->n_bytes, bounce->device, false);
    free(bounce);
}

static void bounce_done(void *arg, int result)
{
    struct bounce *bounce = arg;
    machine_done_fn done = bounce->done;
    void *done_arg = bounce->arg;

    bounce_end(bounce, result);
    done(done_arg, result);
}

static bool takes(enum machine_memory memory)
{
    return memory == MACHINE_HOST || memory == MACHINE_CUDA;
}

static int send(int pe_id, int dest_proc, int dest_pe, const void *header, size_t header_bytes,
                const void *data, size_t n_bytes, enum machine_memory memory, machine_done_fn done, void *arg)
{
    struct bounce *bounce;
    int result;

    if (memory == MACHINE_HOST)
        return real.send(pe_id, dest_proc, dest_pe, header, header_bytes, data, n_bytes, memory, done, arg);
    bounce = bounce_create(n_bytes, done, arg);
    if (n_bytes)
        copy(bounce->bytes, data, n_bytes, data, true);
    result = real.send(pe_id, dest_proc, dest_pe, header, header_bytes, bounce->bytes, n_bytes, MACHINE_HOST,
                       bounce_done, bounce);
    if (result != MACHINE_PENDING)
        bounce_end(bounce, result);
    return result;
}

static int fetch(int pe_id, int src_proc, void *token, void *buf, size_t n_bytes, enum machine_memory memory,
                 machine_done_fn done, void *arg)
{
    struct bounce *bounce;
    int result;

    if (memory == MACHINE_HOST)
        return real.fetch(pe_id, src_proc, token, buf, n_bytes, memory, done, arg);
    bounce = bounce_create(n_bytes, done, arg);
    bounce->device = buf;
    result = real.fetch(pe_id, src_proc, token, bounce->bytes, n_bytes, MACHINE_HOST, bounce_done, bounce);
    if (result != MACHINE_PENDING)
        bounce_end(bounce, result);
    return result;
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
}
