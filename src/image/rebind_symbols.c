/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_symbols.c: dlsym and dladdr for code that lives in a copy, of which ld.so knows nothing.
 */
#include "image/instantiate.h"
#include "image/lazy_tls.h"
#include "image/rebind.h"
#include "image/threads.h"

#include <dlfcn.h>
#include <stdio.h>

/* RTLD_NEXT: the first definition in a module loaded after the caller's. */
static void *find_next(const struct image_module *module, const char *name)
{
    const struct link_map *map = module ? module->link_map : NULL;

    for (map = map ? map->l_next : NULL; map; map = map->l_next) {
        void *handle = map->l_name && map->l_name[0] ? dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        void *value = handle ? dlsym(handle, name) : NULL;

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

void *image_dlsym(void *handle, const char *name, const void *caller)
{
    struct image *image = image_find(caller);
    void *value =
        image && handle == RTLD_NEXT ? find_next(image_module_at(image, caller), name) : dlsym(handle, name);

    return image && value ? translate(image, value) : value;
}

void *image_libc_dlsym(void *handle, const char *name)
{
    return image_dlsym(handle, name, __builtin_return_address(0));
}

int image_libc_dladdr(const void *addr, Dl_info *info)
{
    struct image *image = image_find(addr);
    const struct image_module *module = image ? image_module_at(image, addr) : NULL;
    ptrdiff_t delta;
    int result;

    if (!module)
        return dladdr(addr, info);
    delta = (ptrdiff_t)((uintptr_t)image->base + module->copy_shift - module->bias);
    result = dladdr((const char *)addr - delta, info);
    if (result) {
        info->dli_fbase = (char *)info->dli_fbase + delta;
        if (info->dli_saddr)
            info->dli_saddr = (char *)info->dli_saddr + delta;
    }
    return result;
}

bool image_describe(const void *addr, char *text, size_t size_bytes)
{
    struct image *image = image_find(addr);
    const struct image_module *module = image ? image_module_at(image, addr) : NULL;
    Dl_info info = {0};
    size_t vaddr;
    int len;

    text[0] = '\0';
    if (!module)
        return false;
    vaddr = (size_t)((const char *)addr - image->base) - module->copy_shift;
    len = snprintf(text, size_bytes, "%s+0x%zx", module->name, vaddr);
    if (image_libc_dladdr(addr, &info) && info.dli_sname && len > 0 && (size_t)len < size_bytes)
        snprintf(text + len, size_bytes - (size_t)len, " (%s+0x%zx)", info.dli_sname,
                 (size_t)((const char *)addr - (const char *)info.dli_saddr));
    return true;
}

bool image_ios_sync_with_stdio(bool is_synced)
{
    return true;
}
