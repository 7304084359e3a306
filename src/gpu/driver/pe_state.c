/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pe_state.c: creates the state of a PE when the PE first needs it, and keeps the list of all.
 */
#include "gpu/driver/pe_state.h"

#include "base/log.h"
#include "gpu/driver/gpu_upper.h"

static struct gpu_pe *_Atomic first_pe;

static void add_to_list(struct gpu_pe *pe)
{
    pe->next_pe = atomic_load(&first_pe);
    while (!atomic_compare_exchange_weak(&first_pe, &pe->next_pe, pe))
        continue;
}

static BASE_COLD struct gpu_pe *make_pe(void)
{
    const struct ult *self = ult_self();
    struct gpu_pe *made;

    BASE_ASSERT(self != NULL);
    made = base_calloc(1, sizeof *made, "a PE's state of device buffers");
    made->source = (struct ult_source){.poll = gpu_upper.poll, .fd = -1};
    made->questions_end = &made->questions;
    made->gathered_end = &made->gathered;
    add_to_list(made);
    ult_pe_add_source(self->pe, &made->source);
    *ult_pe_slot(ULT_PE_SLOT_GPU) = made;
    return made;
}

struct gpu_pe *gpu_pe_self(void)
{
    struct gpu_pe *pe = *ult_pe_slot(ULT_PE_SLOT_GPU);

    return BASE_LIKELY(pe != NULL) ? pe : make_pe();
}

struct gpu_pe *gpu_pe_first(void)
{
    return atomic_load(&first_pe);
}
