/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rank_gpu.c: provides src/gpu with facts about ranks, and binds ranks' CUDA calls to the library's
 * replacements.
 */
#include <string.h>

#include "ampi/datatype/buffer.h"
#include "ampi/job/job.h"
#include "ampi/object/gate.h"
#include "base/log.h"
#include "gpu/driver/driver_symbols.h"
#include "gpu/rank/guard.h"
#include "image/image.h"

static void *device_dlsym(void *library, const char *name)
{
    /* Every runtime looks up one of these first. It does not work with a number that the driver does not see. */
    if (strcmp(name, "cuInit") == 0 || strncmp(name, "cuGetProcAddress", 16) == 0)
        image_set_process_numbers(false);
    return gpu_symbol_found(name, image_dlsym(library, name, __builtin_return_address(0)));
}

static const struct image_rebinding rebindings[] = {
    {{"dlsym"}, (void *)device_dlsym, -1}, /* the driver's functions that wait for a GPU */
};

void ampi_rank_gpu_rebind(void)
{
    size_t n = gpu_guarded_count();
    struct image_rebinding *table = base_calloc(n + 1, sizeof *table, "the table of CUDA's functions");

    for (size_t i = 0; i < n; i++) {
        const struct gpu_guarded *guarded = gpu_guarded_at(i);
        table[i] = (struct image_rebinding){{guarded->name}, guarded->function, -1};
    }
    image_rebind_add(rebindings, BASE_COUNT(rebindings));
    image_rebind_add(table, n);
}

static struct ult *rank_of_thread(void)
{
    const struct image *image;
    int region;

    if (!ampi_job.is_virtual)
        return ampi_job.ranks ? &ampi_job.ranks[0].ult : NULL;
    image = image_of_thread();
    region = image ? ampi_memory_region_of(image_base(image)) : -1;
    return region >= 0 ? &ampi_job.ranks[region].ult : NULL;
}

static bool is_code_of_rank(const void *address)
{
    return image_find(address) != NULL;
}

static const char *variable_of_rank(const struct ult *rank, const char *name)
{
    struct image *image = BASE_CONTAINER(rank, const struct ampi_rank, ult)->image;

    return image ? image_env_value(image, name) : NULL;
}

static bool has_no_messages(void)
{
    return ampi_self()->n_requests == 0;
}

void ampi_rank_gpu_init(void)
{
    ampi_device_init();
    gpu_has_no_messages = has_no_messages;
    gpu_rank_of_thread = rank_of_thread;
    gpu_variable_of_rank = variable_of_rank;
    gpu_is_code_of_rank = is_code_of_rank;
    gpu_expect_thread = ampi_gate_thread_begins;
}
