/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_symbols.c: dlsym, dladdr, dlinfo and related functions for code in a copy, which ld.so does not
 * know.
 */
#include "image/copy/cxx_streams.h"
#include "image/copy/groups.h"
#include "image/copy/instantiate.h"
#include "image/copy/lazy_tls.h"
#include "image/copy/threads.h"
#include "image/libc/rebind.h"

#include "base/log.h"

#include <dlfcn.h>
#include <pthread.h>

/* ---- Descriptors of the modules ---- */

/* A module from a rank's view; linked with ld.so's descriptors of shared modules. Never freed, like
 * copies. */
struct image_link_map {
    struct link_map map;
    const struct image_module *module;
    struct image_link_map *next; /* link of the image's list */
};

static pthread_mutex_t maps_lock = PTHREAD_MUTEX_INITIALIZER; /* serialises writers of the lists */

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

/* Updates the rank's descriptors: libraries are loaded and unloaded. */
static void update_link_maps(struct image *image)
{
    size_t n_groups = atomic_load_explicit(&image_n_groups, memory_order_acquire);

    pthread_mutex_lock(&maps_lock);
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
    pthread_mutex_unlock(&maps_lock);
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

/* RTLD_NEXT: the first definition in a module loaded after the caller's. */
static void *find_next(const struct image_module *module, const char *name, const char *version)
{
    const struct link_map *map = module ? module->link_map : NULL;

    for (map = map ? map->l_next : NULL; map; map = map->l_next) {
        void *handle = map->l_name && map->l_name[0] ? dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        void *value = handle ? look_up(handle, name, version) : NULL;

        if (handle)
            dlclose(handle);
        if (value)
            return value;
    }
    return NULL;
}

/* The definition that the rank would see in a process of its own: excludes libraries that only other ranks
 * have opened. */
static void *in_rank(struct image *image, void *handle, void *value)
{
    const struct image_module *module = value ? image_module_of(&image_program, (uintptr_t)value) : NULL;
    struct image_thread *thread = NULL;
    size_t offset;
    Dl_info info;

    if (!module && value && dladdr(value, &info) == 0) /* in no module: possibly thread_local */
        thread = image_thread_current();
    if (thread)
        module = image_lazy_tls_of(value, &offset);
    if (!module)
        return value;
    if (!image_has_group(image, module->group)) {
        if (handle == RTLD_DEFAULT || handle == RTLD_NEXT)
            return NULL;
        image_group_enter(image, module->group); /* the rank got the handle from another rank */
    }
    return thread ? image_lazy_tls_block(thread, module) + offset : image_translate(image, value);
}

static void *find(void *handle, const char *name, const char *version, const void *caller)
{
    struct image *image = image_find(caller);
    const struct image_module *module = image ? image_module_at(image, caller) : NULL;
    void *value;

    if (!image)
        return look_up(handle, name, version);
    if (handle == RTLD_NEXT)
        return in_rank(image, handle, find_next(module, name, version));
    value = in_rank(image, handle, look_up(loader_handle(image, handle), name, version));
    /* A library opened with RTLD_LOCAL also sees the libraries that were loaded with it. */
    if (!value && handle == RTLD_DEFAULT && module && module->group > 0)
        value = in_rank(image, handle, look_up((void *)module->link_map, name, version));
    return image_stream_of(image, value);
}

void *image_dlsym(void *handle, const char *name, const void *caller)
{
    return find(handle, name, NULL, caller);
}

void *image_libc_dlsym(void *handle, const char *name)
{
    return find(handle, name, NULL, __builtin_return_address(0));
}

void *image_libc_dlvsym(void *handle, const char *name, const char *version)
{
    return find(handle, name, version, __builtin_return_address(0));
}

/* ---- The module of an address ---- */

int image_libc_dladdr1(const void *addr, Dl_info *info, void **extra, int flags)
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

int image_libc_dladdr(const void *addr, Dl_info *info)
{
    void *ignored = NULL;

    return image_libc_dladdr1(addr, info, &ignored, 0);
}

int image_libc_dlinfo(void *handle, int request, void *answer)
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

bool image_ios_sync_with_stdio(bool is_synced)
{
    return true;
}
