/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_symbols.c: dlsym, dladdr, dlinfo and related functions for code in a copy, which ld.so does not
 * know.
 */
#include "image/copy/groups.h"
#include "image/copy/instantiate.h"
#include "image/copy/lazy_tls.h"
#include "image/copy/scope.h"
#include "image/copy/threads.h"
#include "image/libc/rebind.h"

#include "base/log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

/* ---- Descriptors of the modules ---- */

/* A module from a rank's view; linked with ld.so's descriptors of shared modules. */
struct image_link_map {
    struct link_map map;
    const struct image_module *module;
    struct image_link_map *next; /* link of the image's list */
};

pthread_mutex_t image_maps_lock = PTHREAD_MUTEX_INITIALIZER; /* serialises writers of the lists */

/* The rank's descriptor of the module with this descriptor of ld.so; ld.so's own one if the module is
 * shared. */
static struct link_map *in_copy(const struct image *image, const struct link_map *map)
{
    struct image_link_map *entry = map ? atomic_load(&image->link_maps) : NULL;

    while (entry && entry->module->link_map != map)
        entry = entry->next;
    return entry ? &entry->map : (struct link_map *)map;
}

static void add_entry(struct image *image, const struct image_module *module)
{
    struct image_link_map *entry = base_calloc(1, sizeof *entry, "the list of a rank's libraries");

    entry->module = module;
    entry->map = (struct link_map){.l_addr = (uintptr_t)image->base + module->copy_shift,
                                   .l_name = module->link_map->l_name,
                                   .l_ld = image_translate(image, module->dynamic)};
    entry->next = atomic_load(&image->link_maps);
    atomic_store(&image->link_maps, entry);
}

void image_link_maps_free(struct image *image)
{
    struct image_link_map *entry = atomic_load(&image->link_maps), *next;

    for (; entry; entry = next) {
        next = entry->next;
        free(entry);
    }
}

/* Updates the rank's descriptors: libraries are loaded and unloaded. */
static void update_link_maps(struct image *image)
{
    size_t n_groups = atomic_load_explicit(&image_n_groups, memory_order_acquire);

    pthread_mutex_lock(&image_maps_lock);
    for (size_t number = 0; number < n_groups; number++)
        for (size_t i = 0; image_has_group(image, number) && i < image_groups[number]->n_modules; i++) {
            const struct image_module *module = &image_groups[number]->modules[i];

            if (module->link_map && in_copy(image, module->link_map) == module->link_map)
                add_entry(image, module);
        }
    for (struct image_link_map *entry = atomic_load(&image->link_maps); entry; entry = entry->next) {
        entry->map.l_next = in_copy(image, entry->module->link_map->l_next);
        entry->map.l_prev = in_copy(image, entry->module->link_map->l_prev);
    }
    pthread_mutex_unlock(&image_maps_lock);
}

/* ld.so's handle; in glibc a link map is a handle, too. */
static void *loader_handle(const struct image *image, void *handle)
{
    const struct image_link_map *entry = image ? atomic_load(&image->link_maps) : NULL;

    while (entry && &entry->map != handle)
        entry = entry->next;
    return entry ? (void *)entry->module->link_map : handle;
}

/* ---- Looking up ---- */

/* The C library's result; version NULL: the default version. */
static void *look_up(void *handle, const char *name, const char *version)
{
    return version ? dlvsym(handle, name, version) : dlsym(handle, name);
}

/* NULL, with an error for dlerror. The C library may find the name in what other ranks have opened. */
static void *not_found(void *handle, const char *name, const char *version)
{
    char text[256];

    if (look_up(handle, name, version)) {
        snprintf(text, sizeof text, "%s (in no library of this rank)", name);
        (void)dlsym(RTLD_DEFAULT, text);
    }
    return NULL;
}

/* The rank's address for ld.so's value. */
static void *in_rank(struct image *image, void *value)
{
    const struct image_module *module = value ? image_module_of(image->program, (uintptr_t)value) : NULL;
    struct image_thread *thread = NULL;
    size_t offset;
    Dl_info info;

    if (!module && value && dladdr(value, &info) == 0) /* in no module: possibly thread_local */
        thread = image_thread_current();
    if (thread)
        module = image_lazy_tls_of(value, &offset);
    if (!module)
        return value;
    if (thread && image_module_of_map(image->program, module->link_map))
        module = image_module_of_map(image->program, module->link_map); /* other programs may have it, too */
    if (!image_has_group(image, module->group))                         /* by a shared library's handle */
        image_group_enter(image, module->group, NULL);
    return thread ? image_lazy_tls_block(thread, module) + offset : image_translate(image, value);
}

/* The rank's address for a definition. */
static void *value_of(struct image *image, const struct image_definition *definition, const char *name,
                      const char *version)
{
    const struct image_module *module = definition->module;
    struct image_thread *thread = image_thread_current();

    if (module && module->tls_lazy && thread && ELF64_ST_TYPE(definition->symbol->st_info) == STT_TLS)
        return image_lazy_tls_block(thread, module) + definition->symbol->st_value;
    return image_translate(image, image_definition_value(definition, name, version));
}

/* RTLD_NEXT: the first definition after the caller's module, in the order of look-up of the library that was opened with
 * it. */
static void *find_next(struct image *image, const struct image_module *module, const char *name,
                       const char *version)
{
    const struct image_module *root = module ? &image_groups[module->group]->modules[0] : NULL;
    struct image_definition definition;
    size_t i = 0;

    while (root && i < root->n_scope && root->scope[i] != module->link_map)
        i++;
    if (!root || i == root->n_scope ||
        !image_scope_find_in(image_group_scope(image), NULL, root->scope + i + 1, root->n_scope - i - 1, name,
                             version, &definition))
        return not_found(RTLD_DEFAULT, name, version);
    return value_of(image, &definition, name, version);
}

/* True if ld.so's value is not the rank's: the rank has another program, or it is in a library that a rank has opened. */
static bool is_opened(const struct image *image, const void *value)
{
    const struct image_module *module = image_module_of(image->program, (uintptr_t)value);
    size_t offset;

    if (!module)
        module = image_lazy_tls_of(value, &offset);
    return image->program != &image_program || (module && module->is_late);
}

/* In the rank's program and the libraries that it needs, if the program is not the process's: ld.so has no such order. */
static bool find_in_program(struct image *image, const char *name, const char *version,
                            struct image_definition *definition_out)
{
    const struct image_module *program = &image->program->modules[0];

    return image->program != &image_program &&
           image_scope_find_in(image_group_scope(image), NULL, program->scope, program->n_scope, name,
                               version, definition_out);
}

/* RTLD_DEFAULT, or the handle of the program if caller is NULL: the program and its libraries, those that the rank has
 * opened with RTLD_GLOBAL, and the caller's. */
static void *find_default(struct image *image, const struct image_module *caller, const char *name,
                          const char *version)
{
    const struct image_program *group = caller && caller->is_late ? image_groups[caller->group] : NULL;
    void *value = look_up(RTLD_DEFAULT, name, version);
    struct image_definition definition;

    if (value && !is_opened(image, value))
        return in_rank(image, value);
    if (!find_in_program(image, name, version, &definition) &&
        !image_scope_find(image_group_scope(image), group, group ? group->modules[0].scope : NULL,
                          group ? group->modules[0].n_scope : 0, name, version, &definition))
        return not_found(RTLD_DEFAULT, name, version);
    return value_of(image, &definition, name, version);
}

/* A library and those that it needs. */
static void *find_in_library(struct image *image, void *handle, const char *name, const char *version)
{
    const struct image_module *module = image_module_of_map(image->program, handle);
    struct image_definition definition;

    if (!module || !module->is_late)
        return in_rank(image, look_up(handle, name, version));
    if (!image_has_group(image, module->group))
        image_group_enter(image, module->group, NULL); /* the rank got the handle from another rank */
    if (!image_scope_find_in(image_group_scope(image), NULL, module->scope, module->n_scope, name, version,
                             &definition))
        return not_found(handle, name, version);
    return value_of(image, &definition, name, version);
}

static void *find(void *handle, const char *name, const char *version, const void *caller)
{
    struct image *image = image_find(caller);
    const struct image_module *module = image ? image_module_at(image, caller) : NULL;
    void *value;

    if (!image)
        return look_up(handle, name, version);
    handle = loader_handle(image, handle);
    if (handle == RTLD_NEXT)
        value = find_next(image, module, name, version);
    else if (handle == RTLD_DEFAULT)
        value = find_default(image, module, name, version);
    else if (handle == (void *)image_program.modules[0].link_map ||
             handle == (void *)image->program->modules[0].link_map)
        value = find_default(image, NULL, name, version);
    else
        value = find_in_library(image, handle, name, version);
    return image_stream_of(image, value);
}

void *image_dlsym(void *handle, const char *name, const void *caller)
{
    return image_load_error_keep(find(handle, name, NULL, caller));
}

static void *image_libc_dlsym(void *handle, const char *name)
{
    return image_load_error_keep(find(handle, name, NULL, __builtin_return_address(0)));
}
IMAGE_REBINDS(image_libc_dlsym, "dlsym");

static void *image_libc_dlvsym(void *handle, const char *name, const char *version)
{
    return image_load_error_keep(find(handle, name, version, __builtin_return_address(0)));
}
IMAGE_REBINDS(image_libc_dlvsym, "dlvsym");

/* ---- The module of an address ---- */

static int image_libc_dladdr1(const void *addr, Dl_info *info, void **extra, int flags)
{
    struct image *image = image_find(addr);
    const struct image_module *module = image ? image_module_at(image, addr) : NULL;
    ptrdiff_t delta;

    if (!module)
        return dladdr1(addr, info, extra, flags);
    delta = (ptrdiff_t)((uintptr_t)image->base + module->copy_shift - module->bias);
    if (!dladdr1((const char *)addr - delta, info, extra, flags))
        return 0;
    info->dli_fbase = (char *)info->dli_fbase + delta;
    if (info->dli_saddr)
        info->dli_saddr = (char *)info->dli_saddr + delta;
    if (flags == RTLD_DL_LINKMAP) {
        update_link_maps(image);
        *extra = in_copy(image, *extra);
    }
    return 1;
}
IMAGE_REBINDS(image_libc_dladdr1, "dladdr1");

static int image_libc_dladdr(const void *addr, Dl_info *info)
{
    void *ignored = NULL;

    return image_libc_dladdr1(addr, info, &ignored, 0);
}
IMAGE_REBINDS(image_libc_dladdr, "dladdr");

static int image_libc_dlinfo(void *handle, int request, void *answer)
{
    struct image *image = image_find(__builtin_return_address(0));
    int result = dlinfo(loader_handle(image, handle), request, answer);
    struct link_map **map = answer;

    if (!image || result != 0 || request != RTLD_DI_LINKMAP)
        return result;
    update_link_maps(image);
    *map = in_copy(image, *map);
    return 0;
}
IMAGE_REBINDS(image_libc_dlinfo, "dlinfo"); /* returns the modules of the rank's copy */

static bool image_ios_sync_with_stdio(bool is_synced)
{
    return true;
}

/* Per-rank thread_local variables of libraries (lazy_tls.c). */
IMAGE_REBINDS(image_tls_get_addr, "__tls_get_addr");
/* Would replace the buffers that the other ranks' std::cout writes to. */
IMAGE_REBINDS(image_ios_sync_with_stdio, "_ZNSt8ios_base15sync_with_stdioEb");
