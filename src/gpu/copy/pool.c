/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pool.c: pools of pinned blocks and device memory: the driver needs 80 us for a device allocation and 1 ms
 * for a MiB of pinned memory.
 */
#include "base/log.h"
#include "gpu/copy/pool.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/gpu_upper.h"
#include "gpu/driver/pe_state.h"

/* ---- Pinned blocks ---- */

/* The first context that the library keeps; NULL: it keeps none yet. */
static CUcontext held_context(void)
{
    for (int device = 0; device < GPU_DEVICES_MAX; device++)
        if (gpu_context_is_held(device))
            return gpu_context_of(device);
    return NULL;
}

/* Pinned memory for all devices. It ends with its context, so that must not be the program's. */
static int allocate_pinned(char **memory_out, size_t n_bytes)
{
    CUcontext context = held_context(), before = NULL;
    void *memory = NULL;
    CUdevice device;
    int error;

    if (!context)
        context = gpu_context_of(gpu_driver.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : 0);
    error = context ? gpu_context_enter(context, &before) : gpu_driver_last();
    if (error)
        return error;
    error =
        gpu_call(cuMemHostAlloc, (&memory, n_bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    gpu_context_leave(context, before);
    *memory_out = memory;
    return error;
}

/* The first chunk that is not below the address. */
static int chunk_index(const struct gpu_pe *pe, const char *address)
{
    int lo = 0, hi = pe->n_chunks;

    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (pe->chunks[mid].memory + GPU_PINNED_LARGE <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void push_block(struct gpu_block **list, char *memory)
{
    struct gpu_block *block = (struct gpu_block *)memory;

    block->next = *list;
    *list = block;
}

/* Adds a large block; is_cut: divided into small ones. */
static BASE_COLD int add_chunk(struct gpu_pe *pe, bool is_cut)
{
    char *memory;
    int error = allocate_pinned(&memory, GPU_PINNED_LARGE), index;

    if (error)
        return error;
    if (pe->n_chunks == pe->chunks_room) {
        pe->chunks_room = pe->chunks_room ? 2 * pe->chunks_room : 8;
        pe->chunks = base_realloc(pe->chunks, (size_t)pe->chunks_room * sizeof *pe->chunks,
                                  "the list of pinned memory");
    }
    index = chunk_index(pe, memory);
    for (int i = pe->n_chunks; i > index; i--)
        pe->chunks[i] = pe->chunks[i - 1];
    pe->chunks[index] = (struct gpu_pinned_chunk){memory, is_cut};
    pe->n_chunks++;
    if (!is_cut)
        push_block(&pe->pinned_large, memory);
    else
        for (size_t at = GPU_PINNED_LARGE; at > 0; at -= GPU_PINNED_SMALL)
            push_block(&pe->pinned_small, memory + at - GPU_PINNED_SMALL);
    return 0;
}

void *gpu_pinned_get(size_t n_bytes, size_t *size_out, int *error_out)
{
    struct gpu_pe *pe = gpu_pe_self();
    bool is_small = n_bytes <= GPU_PINNED_SMALL;
    struct gpu_block **list = is_small ? &pe->pinned_small : &pe->pinned_large;
    struct gpu_block *block;

    if (!*list) {
        int error = add_chunk(pe, is_small);
        if (error) {
            *error_out = error;
            return NULL;
        }
    }
    block = *list;
    *list = block->next;
    *size_out = is_small ? GPU_PINNED_SMALL : GPU_PINNED_LARGE;
    return block;
}

void gpu_pinned_put(void *block)
{
    struct gpu_pe *pe = gpu_pe_self();
    int index = chunk_index(pe, block);

    BASE_ASSERT(index < pe->n_chunks && (char *)block >= pe->chunks[index].memory);
    push_block(pe->chunks[index].is_cut ? &pe->pinned_small : &pe->pinned_large, block);
}

/* ---- Device memory ---- */

#define SCRATCH_SMALLEST ((size_t)64 << 10)

/* This many free blocks of a size are always kept, and further ones up to this total size. */
#define KEPT_ALWAYS 4
#define KEPT_BYTES ((size_t)2 << 20)

/* The list of a size, and the size of its blocks; GPU_SCRATCH_CLASSES: too large for any list. */
static int scratch_class(size_t n_bytes, size_t *size_out)
{
    int class = 0;
    size_t size = SCRATCH_SMALLEST;

    while (size < n_bytes && class < GPU_SCRATCH_CLASSES) {
        size *= 2;
        class ++;
    }
    *size_out = class < GPU_SCRATCH_CLASSES ? size : n_bytes;
    return class;
}

/* A few blocks of each size are kept, and more of the small ones; even more come only from bursts. */
static bool is_kept(const struct gpu_scratch *kept, size_t size)
{
    return kept->n_blocks < GPU_SCRATCH_KEPT &&
           (kept->n_blocks < KEPT_ALWAYS || (size_t)kept->n_blocks * size < KEPT_BYTES);
}

/* Frees all kept memory of a device; its context is current. */
static BASE_COLD void drop_scratch(struct gpu_pe *pe, int device)
{
    for (int class = 0; class < GPU_SCRATCH_CLASSES; class ++) {
        struct gpu_scratch *kept = &pe->scratch[device][class];
        while (kept->n_blocks > 0)
            gpu_driver.cuMemFree((CUdeviceptr)kept->blocks[--kept->n_blocks]);
    }
}

static BASE_COLD void *allocate_scratch(struct gpu_pe *pe, int device, size_t n_bytes, int *error_out)
{
    CUcontext context = gpu_context_of(device), before = NULL;
    CUdeviceptr memory = 0;
    int error = context ? gpu_context_enter(context, &before) : gpu_driver_last();

    if (!error) {
        error = gpu_call(cuMemAlloc, (&memory, n_bytes));
        if (error == CUDA_ERROR_OUT_OF_MEMORY) {
            drop_scratch(pe, device);
            error = gpu_call(cuMemAlloc, (&memory, n_bytes));
        }
        gpu_context_leave(context, before);
    }
    if (error) {
        *error_out = error;
        return NULL;
    }
    return (void *)memory;
}

void *gpu_scratch_get(int device, size_t n_bytes, int *error_out)
{
    struct gpu_pe *pe = gpu_pe_self();
    size_t size;
    int class = scratch_class(n_bytes, &size);

    BASE_ASSERT(device >= 0 && device < GPU_DEVICES_MAX);
    if (class < GPU_SCRATCH_CLASSES && pe->scratch[device][class].n_blocks > 0) {
        struct gpu_scratch *kept = &pe->scratch[device][class];
        return kept->blocks[--kept->n_blocks];
    }
    return allocate_scratch(pe, device, size, error_out);
}

void gpu_scratch_put(int device, void *block, size_t n_bytes)
{
    struct gpu_pe *pe = gpu_pe_self();
    size_t size;
    int class = scratch_class(n_bytes, &size);
    struct gpu_scratch *kept;

    if (class >= GPU_SCRATCH_CLASSES || !is_kept(&pe->scratch[device][class], size)) {
        gpu_upper.free_later(gpu_context_of(device), block, false);
        return;
    }
    kept = &pe->scratch[device][class];
    kept->blocks[kept->n_blocks++] = block;
}

/* ---- Pinned memory of any size ---- */

/* Limit of a PE. Allocating takes 1 ms per MiB, so memory is kept. */
#define STAGING_MAX ((size_t)256 << 20)

void *gpu_staging_get(size_t n_bytes)
{
    struct gpu_pe *pe = gpu_pe_self();
    size_t size;
    int class = scratch_class(n_bytes, &size);
    char *memory;

    if (class >= GPU_SCRATCH_CLASSES)
        return NULL;
    if (pe->staging[class].n_blocks > 0)
        return pe->staging[class].blocks[--pe->staging[class].n_blocks];
    if (pe->staging_bytes + size > STAGING_MAX || allocate_pinned(&memory, size))
        return NULL;
    pe->staging_bytes += size;
    return memory;
}

void gpu_staging_put(void *block, size_t n_bytes)
{
    struct gpu_pe *pe = gpu_pe_self();
    size_t size;
    struct gpu_scratch *kept = &pe->staging[scratch_class(n_bytes, &size)];

    if (is_kept(kept, size)) {
        kept->blocks[kept->n_blocks++] = block;
        return;
    }
    pe->staging_bytes -= size;
    gpu_upper.free_later(held_context(), block, true);
}
