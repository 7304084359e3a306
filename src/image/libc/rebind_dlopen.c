/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_dlopen.c: dlopen for code in a copy.
 *
 * The C library's dlopen identifies the calling module by the return address: it searches the DT_RUNPATH of
 * that module and replaces $ORIGIN by its folder. It does not know copies, so here the search list of the
 * caller's prototype turns a name into a path.
 */
#include "image/copy/groups.h"
#include "image/copy/instantiate.h"
#include "image/libc/rebind.h"

#include "base/loader_lock.h"
#include "base/log.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The folder of the module, from ld.so; the caller frees it. NULL: not known. (dlinfo's RTLD_DI_ORIGIN crashes if ld.so
 * has not needed it before.) */
static char *origin_of(const struct image_module *module)
{
    bool is_program = module == &image_program.modules[0];
    char *folder = is_program ? realpath("/proc/self/exe", NULL) : strdup(module->name);
    char *slash = folder ? strrchr(folder, '/') : NULL;

    if (slash) {
        *slash = '\0';
        return folder;
    }
    free(folder);
    return NULL;
}

/* Replaces $ORIGIN at the beginning of the path. The caller frees the result; NULL: it is not there. */
static char *expand_origin(const struct image_module *module, const char *path)
{
    static const char *const origins[] = {"$ORIGIN", "${ORIGIN}"};
    char *folder, *expanded;

    for (size_t i = 0; i < BASE_COUNT(origins); i++) {
        size_t len = strlen(origins[i]);

        if (strncmp(path, origins[i], len) != 0 || (path[len] != '/' && path[len] != '\0') ||
            !(folder = origin_of(module)))
            continue;
        if (asprintf(&expanded, "%s%s", folder, path + len) < 0)
            expanded = NULL;
        free(folder);
        return expanded;
    }
    return NULL;
}

/* Makes the libraries that ld.so has just loaded a load group. False: that is impossible, and the reason is this rank's
 * load error. Sharing them instead would mix copies and prototypes: an extension module would use the prototype of the
 * rank's interpreter. */
static bool add_group(struct image *image, void *handle, const struct image_loaded *loaded, const char *path,
                      int mode)
{
    struct image_loaded group = *loaded;
    size_t number;
    const char *error;
    bool is_good;

    if (image_groups_have_programs()) /* what other programs have may be missing in this one */
        image_groups_collect(image->program, handle, loaded->modules, loaded->count, &group.modules,
                             &group.count);
    is_good = image_group_add(image, group.modules, group.count, mode & RTLD_DEEPBIND, &number, &error);
    image_opener_drop_destructors(loaded);
    if (is_good)
        base_log_verbose(1, "%s: load group %zu, %zu libraries", path, number, group.count);
    else
        image_load_error_set(path, error);
    if (group.modules != loaded->modules)
        free(group.modules);
    return is_good;
}

/* The handle of the library, which is loaded unless another rank has loaded it. NULL: dlerror says why. The lock
 * makes sure that all libraries loaded meanwhile belong to this call. No rank's code runs while it is held. */
static void *load(struct image *image, const struct image_module *caller, const char *path, int mode)
{
    struct image_loaded loaded = {NULL, 0, NULL};
    bool is_good = true;
    void *handle;

    base_loader_lock();
    handle = dlopen(path, mode | RTLD_NOLOAD);
    if (handle || (mode & RTLD_NOLOAD)) {
        const struct image_module *module = handle ? image_module_of_map(image->program, handle) : NULL;

        if (handle && !module && image_module_is_private(handle) && !(mode & RTLD_NOLOAD))
            is_good =
                add_group(image, handle, &loaded, path, mode); /* another program's ranks have loaded it */
        else if (handle && (mode & RTLD_NOLOAD) &&
                 (module ? !image_has_group(image, module->group) : image_module_is_private(handle)))
            handle = NULL; /* another rank has loaded it, this one has not */
    } else {
        handle = image_opener_open(caller, path, mode, &loaded);
        if (loaded.count > 0) {
            if (image_rebind_client.make_stacks_executable && image_wants_executable_stacks())
                image_rebind_client.make_stacks_executable(); /* before constructors run */
            is_good = add_group(image, handle, &loaded, path, mode);
        }
        free(loaded.modules);
    }
    if (!is_good) {
        dlclose(handle);
        handle = NULL;
    }
    base_loader_unlock();
    return handle;
}

void *image_dlopen(const char *path, int mode, const void *code)
{
    struct image *image = image_find(code);
    const struct image_module *caller = image ? image_module_at(image, code) : NULL, *module;
    char *expanded;
    void *handle;

    if (!image || !path || !path[0])
        return dlopen(path, mode);
    expanded = caller ? expand_origin(caller, path) : NULL;
    handle = load(image, caller, expanded ? expanded : path, mode);
    free(expanded);
    module = handle ? image_module_of_map(image->program, handle) : NULL;
    if (module && module->is_late) {
        image_group_enter(image, module->group, mode & RTLD_GLOBAL ? module : NULL);
        image_group_count(image, handle, 1);
    }
    return handle;
}

static void *image_libc_dlopen(const char *path, int mode)
{
    return image_load_error_keep(image_dlopen(path, mode, __builtin_return_address(0)));
}
IMAGE_REBINDS(image_libc_dlopen, "dlopen"); /* a plugin's variables are the rank's own */

static int image_libc_dlclose(void *handle)
{
    struct image *image = image_find(__builtin_return_address(0));
    const struct image_module *module = image ? image_module_of_map(image->program, handle) : NULL;
    int result;

    /* A rank's own library stays until the rank's end: its constructors have run, and run only once. */
    if (module && module->is_late && image_group_count(image, handle, -1))
        return 0;
    base_loader_lock();
    result = dlclose(handle);
    base_loader_unlock();
    return result;
}
IMAGE_REBINDS(image_libc_dlclose, "dlclose"); /* other ranks may have opened the same library */
