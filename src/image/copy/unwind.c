/* SPDX-License-Identifier: BSD-3-Clause
 *
 * unwind.c: lets the unwinder find the frames of copies, so that exceptions pass through them.
 *
 * The unwinder (libgcc_s, libunwind) asks ld.so for the module of a program counter, and reads that
 * module's sorted .eh_frame_hdr. ld.so does not know copies. The tables of a copy are position-independent
 * and already mapped, so only that query has to be answered for them: this library defines _dl_find_object
 * (used by libgcc since glibc 2.35) and dl_iterate_phdr (used by older libgcc and by libunwind), which
 * precede ld.so's in the order of look-up. Registering each copy's .eh_frame instead (__register_frame)
 * would cost work per copy, and on older libgcc a linear search through all copies per frame:
 * docs/decisions/0002-image-instantiation.md.
 *
 * The unwinder gets ld.so's answer, and the rank's copies after it. A rank's own code, such as a garbage collector that looks
 * for variables, gets the answer of a process of its own: the rank's copies in place of the prototypes, and none of the
 * libraries that only other ranks have opened. All other callers of dl_iterate_phdr get exactly ld.so's answer.
 *
 * Called from any thread, while an exception is thrown: no locks but ld.so's and a fork's, no allocation. Called by sanitizers
 * before they are initialised.
 */
#include "base/fork_lock.h"
#include "image/copy/groups.h"
#include "image/copy/instantiate.h"
#include "image/copy/lazy_tls.h"
#include "image/copy/precedence.h"
#include "image/copy/threads.h"

#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef int (*phdr_callback_fn)(struct dl_phdr_info *info, size_t size, void *arg);
typedef int (*dl_iterate_phdr_fn)(phdr_callback_fn callback, void *arg);

/* ld.so's functions that this file overrides. Every look-up yields the same value, so no lock is needed. */
static _Atomic(dl_iterate_phdr_fn) real_iterate;

/* ---- dl_iterate_phdr ---- */

/* The caller's callback, and the last info from ld.so. */
struct forward {
    phdr_callback_fn callback;
    void *arg;
    const struct image *image; /* the rank whose code called; NULL: the unwinder */
    struct dl_phdr_info last;
    size_t size;
};

/* The private module with these program headers in its prototype, the image's if it has one; NULL: none. */
BASE_NO_SANITIZE static const struct image_module *module_with(const struct image *image,
                                                               const ElfW(Phdr) * phdr)
{
    size_t n_groups = atomic_load_explicit(&image_n_groups, memory_order_acquire);
    const struct image_module *found = NULL;

    for (size_t number = 0; number < n_groups; number++)
        for (size_t i = 0; i < image_groups[number]->n_modules; i++)
            if (image_groups[number]->modules[i].phdr == phdr && (!found || image_has_group(image, number)))
                found = &image_groups[number]->modules[i];
    return found;
}

/* Changes a prototype's info to that of the image's copy. */
BASE_NO_SANITIZE static void set_copy(const struct image *image, const struct image_module *module,
                                      struct dl_phdr_info *info)
{
    info->dlpi_addr = (uintptr_t)image->base + module->copy_shift;
    info->dlpi_tls_data = module->tls_lazy    ? image_lazy_tls_peek(image_thread_current(), module)
                          : module->tls_bytes ? (char *)__builtin_thread_pointer() + module->tls_offset
                                              : NULL;
}

BASE_NO_SANITIZE static int forward_one(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct forward *forward = arg;
    const struct image_module *module = forward->image ? module_with(forward->image, info->dlpi_phdr) : NULL;

    memcpy(&forward->last, info, size < sizeof forward->last ? size : sizeof forward->last);
    forward->size = size < sizeof forward->last ? size : sizeof forward->last;
    if (!module)
        return forward->callback(info, size, forward->arg);
    if (!image_has_group(forward->image, module->group))
        return 0;
    set_copy(forward->image, module, &forward->last);
    return forward->callback(&forward->last, forward->size, forward->arg);
}

BASE_NO_SANITIZE static bool is_unwinder(const void *caller)
{
    const struct image_program *program = &image_program;

    for (size_t i = 0; i < program->n_unwinders; i++)
        if ((uintptr_t)caller - program->unwinders[i].offset < program->unwinders[i].len_bytes)
            return true;
    return false;
}

/* Reports the rank's copies of the modules of a group. */
BASE_NO_SANITIZE static int show_group(const struct image *image, const struct image_program *group,
                                       const struct forward *forward)
{
    int result = 0;

    for (size_t i = 0; !result && i < group->n_modules; i++) {
        const struct image_module *module = &group->modules[i];
        struct dl_phdr_info info = forward->last; /* dlpi_adds and dlpi_subs are equal for all */

        info.dlpi_name = module->name;
        info.dlpi_phdr = module->phdr;
        info.dlpi_phnum = (ElfW(Half))module->n_phdrs;
        info.dlpi_tls_modid = module->tls_number;
        set_copy(image, module, &info);
        result = forward->callback(&info, forward->size, forward->arg);
    }
    return result;
}

BASE_NO_SANITIZE EXPORT int dl_iterate_phdr(phdr_callback_fn callback, void *arg)
{
    const struct image_program *program = &image_program;
    dl_iterate_phdr_fn real = atomic_load_explicit(&real_iterate, memory_order_relaxed);
    struct forward forward = {.callback = callback, .arg = arg};
    struct image *image;
    bool is_delayed;
    size_t n_groups;
    int result;

    if (!real) {
        real = (dl_iterate_phdr_fn)image_precedence_next("dl_iterate_phdr");
        atomic_store_explicit(&real_iterate, real, memory_order_relaxed);
    }
    if (program->is_open)
        forward.image = image_find(__builtin_return_address(0));
    if (!forward.image && (!program->is_open || !is_unwinder(__builtin_return_address(0))))
        return real(callback, arg);
    is_delayed = base_fork_delay();
    result = real(forward_one, &forward);
    base_fork_allow(is_delayed);
    if (forward.image)
        return result;
    image = image_rebind_client.current ? image_rebind_client.current() : NULL;
    n_groups = atomic_load_explicit(&image_n_groups, memory_order_acquire);
    for (size_t number = 0; !result && image && number < n_groups; number++)
        if (image_has_group(image, number))
            result = show_group(image, image_groups[number], &forward);
    return result;
}

/* ---- _dl_find_object ---- */

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)

typedef int (*dl_find_object_fn)(void *addr, struct dl_find_object *result);

static _Atomic(dl_find_object_fn) real_find_object;

BASE_NO_SANITIZE static dl_find_object_fn get_real_find_object(void)
{
    dl_find_object_fn real = atomic_load_explicit(&real_find_object, memory_order_relaxed);

    if (!real) {
        real = (dl_find_object_fn)image_precedence_next("_dl_find_object");
        atomic_store_explicit(&real_find_object, real, memory_order_relaxed);
    }
    return real;
}

BASE_NO_SANITIZE EXPORT int _dl_find_object(void *addr, struct dl_find_object *result)
{
    const struct image_module *module;
    struct image *image = image_rebind_client.current ? image_rebind_client.current() : NULL;
    char *bias;

    /* The rank's own code first, then ld.so's modules, then other copies (on a thread that a rank
     * started). */
    if (!image || !image_has_address(image, addr)) {
        if (get_real_find_object()(addr, result) == 0)
            return 0;
        image = image_find(addr);
    }
    module = image ? image_module_at(image, addr) : NULL;
    if (!module || !module->eh_frame_hdr_vaddr)
        return -1;
    bias = image->base + module->copy_shift;
    memset(result, 0, sizeof *result);
    result->dlfo_map_start = bias + module->vaddr_lo;
    result->dlfo_map_end = bias + module->vaddr_hi;
    result->dlfo_link_map = (struct link_map *)module->link_map;
    result->dlfo_eh_frame = bias + module->eh_frame_hdr_vaddr;
    return 0;
}

#endif
