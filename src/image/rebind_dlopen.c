/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_dlopen.c: dlopen for code that lives in a copy.
 *
 * The C library's dlopen looks at the return address to know which module calls: it searches the DT_RUNPATH
 * of that module and replaces $ORIGIN by its folder. It knows nothing of copies, so here a name becomes a
 * path by the search list of the caller's prototype.
 */
#include "image/instantiate.h"
#include "image/rebind.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The descriptor of a module is its handle, too, in glibc. */
static void *handle_of(const struct image_module *module)
{
    return (void *)module->link_map;
}

/* Could ld.so load this file? It goes on searching if not. */
static bool is_loadable(const char *path)
{
    ElfW(Ehdr) ehdr;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_elf;

    if (fd < 0)
        return false;
    is_elf = read(fd, &ehdr, sizeof ehdr) == (ssize_t)sizeof ehdr &&
             memcmp(ehdr.e_ident, ELFMAG, SELFMAG) == 0 && ehdr.e_ident[EI_CLASS] == IMAGE_ARCH_ELF_CLASS &&
             ehdr.e_machine == IMAGE_ARCH_ELF_MACHINE;
    close(fd);
    return is_elf;
}

/* Where the name is found in the folders that the module says, and in LD_LIBRARY_PATH; false: in none. What
 * comes after these (the cache, the system's folders) is the same for all callers. */
static bool search(const struct image_module *module, const char *name, char path[PATH_MAX])
{
    Dl_serinfo size, *list;
    bool is_found = false;

    if (dlinfo(handle_of(module), RTLD_DI_SERINFOSIZE, &size) != 0 || !(list = malloc(size.dls_size)))
        return false;
    *list = size;
    if (dlinfo(handle_of(module), RTLD_DI_SERINFO, list) == 0)
        for (unsigned i = 0; i < list->dls_cnt && !is_found; i++) {
            const Dl_serpath *folder = &list->dls_serpath[i];

            if (folder->dls_flags & LA_SER_DEFAULT)
                break;
            is_found =
                snprintf(path, PATH_MAX, "%s/%s", folder->dls_name, name) < PATH_MAX && is_loadable(path);
        }
    free(list);
    return is_found;
}

/* Is a library of this name loaded already? Then that is meant, wherever it was found. */
static bool is_loaded(const char *name)
{
    void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);

    if (handle)
        dlclose(handle);
    return handle != NULL;
}

/* Names that were found here. ld.so does not know them: it was given paths. */
static struct found_name {
    struct found_name *next;
    char *name, *path;
} * found_names;
static pthread_mutex_t found_names_lock = PTHREAD_MUTEX_INITIALIZER;

/* The path by which the name was found before, if that is still loaded. */
static bool was_found(const char *name, char path[PATH_MAX])
{
    bool is_found = false;

    pthread_mutex_lock(&found_names_lock);
    for (const struct found_name *found = found_names; found && !is_found; found = found->next)
        if (strcmp(found->name, name) == 0 && is_loaded(found->path)) {
            snprintf(path, PATH_MAX, "%s", found->path);
            is_found = true;
        }
    pthread_mutex_unlock(&found_names_lock);
    return is_found;
}

static void note_found(const char *name, const char *path)
{
    struct found_name *found = malloc(sizeof *found);

    if (!found)
        return;
    found->name = strdup(name);
    found->path = strdup(path);
    if (!found->name || !found->path) {
        free(found->name);
        free(found->path);
        free(found);
        return;
    }
    pthread_mutex_lock(&found_names_lock);
    found->next = found_names;
    found_names = found;
    pthread_mutex_unlock(&found_names_lock);
}

/* A name without a folder, where the module's search list matters. */
static bool find_name(const struct image_module *module, const char *name, char path[PATH_MAX])
{
    if (is_loaded(name))
        return false;
    if (was_found(name, path))
        return true;
    if (!search(module, name, path))
        return false;
    note_found(name, path);
    return true;
}

/* The folder of the module, as ld.so knows it. (dlinfo's RTLD_DI_ORIGIN crashes where ld.so has not needed
 * it.) */
static bool origin_of(const struct image_module *module, char folder[PATH_MAX])
{
    bool is_program = module == &image_program.modules[0];
    char *slash;

    if (is_program ? !realpath("/proc/self/exe", folder)
                   : snprintf(folder, PATH_MAX, "%s", module->name) >= PATH_MAX)
        return false;
    slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    return slash != NULL;
}

/* Replaces $ORIGIN at the beginning of the path. false: it does not stand there. */
static bool expand_origin(const struct image_module *module, const char *path, char expanded[PATH_MAX])
{
    static const char *const origins[] = {"$ORIGIN", "${ORIGIN}"};
    char folder[PATH_MAX];

    for (size_t i = 0; i < BASE_COUNT(origins); i++) {
        size_t len = strlen(origins[i]);

        if (strncmp(path, origins[i], len) == 0 && (path[len] == '/' || path[len] == '\0') &&
            origin_of(module, folder))
            return snprintf(expanded, PATH_MAX, "%s%s", folder, path + len) < PATH_MAX;
    }
    return false;
}

static void *open_for(const struct image_module *module, const char *path, int mode)
{
    char found[PATH_MAX];

    if (path && path[0] && module && module->link_map &&
        (strchr(path, '/') ? expand_origin(module, path, found) : find_name(module, path, found)))
        path = found;
    return dlopen(path, mode);
}

void *image_libc_dlopen(const char *path, int mode)
{
    const void *caller = __builtin_return_address(0);
    const struct image *image = image_find(caller);

    return open_for(image ? image_module_at(image, caller) : NULL, path, mode);
}
