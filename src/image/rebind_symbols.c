/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_symbols.c: dlsym, dladdr, dlinfo and their kin for code that lives in a copy, of which ld.so knows
 * nothing.
 */
#include "image/instantiate.h"
#include "image/lazy_tls.h"
#include "image/rebind.h"
#include "image/threads.h"

#include <dlfcn.h>

/* ---- Descriptors of the modules ---- */

/* Which of the copied modules a descriptor of ld.so's is about; n_modules: none. */
static size_t index_of(const struct link_map *map)
{
    size_t i = 0;

    while (i < image_program.n_modules && image_program.modules[i].link_map != map)
        i++;
    return i;
}

/* The same module as the rank sees it. */
static struct link_map *in_copy(struct link_map *maps, const struct link_map *map)
{
    size_t i = map ? index_of(map) : image_program.n_modules;

    return i < image_program.n_modules ? &maps[i] : (struct link_map *)map;
}

/* Descriptors of the copy's modules, linked with ld.so's for the shared ones. NULL: no memory. */
static struct link_map *link_maps_of(struct image *image)
{
    struct link_map *maps = atomic_load(&image->link_maps), *other = NULL;

    if (!maps) {
        maps = calloc(image_program.n_modules, sizeof *maps);
        if (!maps)
            return NULL;
        if (!atomic_compare_exchange_strong(&image->link_maps, &other,
                                            maps)) { /* another thread was faster */
            free(maps);
            maps = other;
        }
    }
    for (size_t i = 0; i < image_program.n_modules; i++) { /* each time: libraries come and go */
        const struct image_module *module = &image_program.modules[i];
        const struct link_map *map = module->link_map;

        if (!map)
            continue;
        maps[i].l_addr = (uintptr_t)image->base + module->copy_shift;
        maps[i].l_name = map->l_name;
        maps[i].l_ld = image_translate(image, map->l_ld);
        maps[i].l_next = in_copy(maps, map->l_next);
        maps[i].l_prev = in_copy(maps, map->l_prev);
    }
    return maps;
}

/* What ld.so takes for a handle: in glibc a descriptor is one, too. */
static void *loader_handle(const struct image *image, void *handle)
{
    struct link_map *maps = image ? atomic_load(&image->link_maps) : NULL, *map = handle;

    return maps && map >= maps && map < maps + image_program.n_modules
               ? (void *)image_program.modules[map - maps].link_map
               : handle;
}

/* ---- Looking up ---- */

/* What the C library says; version NULL: the default one. */
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

/* Of ld.so's answer. */
static void *translate(const struct image *image, void *value)
{
    void *translated = image_translate(image, value);
    Dl_info info;

    if (translated != value || dladdr(value, &info) != 0)
        return translated;
    return image_lazy_tls_translate(image_thread_current(), value); /* in no module: thread_local, perhaps */
}

static void *find(void *handle, const char *name, const char *version, const void *caller)
{
    struct image *image = image_find(caller);
    void *value = image && handle == RTLD_NEXT ? find_next(image_module_at(image, caller), name, version)
                                               : look_up(loader_handle(image, handle), name, version);

    return image && value ? translate(image, value) : value;
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

/* ---- Whose an address is ---- */

int image_libc_dladdr1(const void *addr, Dl_info *info, void **extra, int flags)
{
    struct image *image = image_find(addr);
    const struct image_module *module = image ? image_module_at(image, addr) : NULL;
    struct link_map *maps;
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
        maps = link_maps_of(image);
        if (!maps)
            return 0;
        *extra = in_copy(maps, *extra);
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
    struct link_map **map = answer, *maps;

    if (!image || result != 0 || request != RTLD_DI_LINKMAP)
        return result;
    maps = link_maps_of(image);
    if (!maps)
        return -1;
    *map = in_copy(maps, *map);
    return 0;
}

bool image_ios_sync_with_stdio(bool is_synced)
{
    return true;
}
