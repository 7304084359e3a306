/* SPDX-License-Identifier: BSD-3-Clause
 *
 * precedence.c: see precedence.h.
 *
 * This library defines some functions of the C library: the program's start, those that create and join threads,
 * those that report modules, and _exit. ld.so binds each reference to the first definition in the order of look-up,
 * which is breadth first: the program, its libraries, their libraries. This library comes first if the
 * program is linked with it directly, and the C library is named after it. If the program gets MPI through
 * another library, or names the C library first (-lc), the C library's definitions come first. Then the
 * words that ld.so has filled in are overwritten.
 *
 * Where this library comes first, nothing is overwritten: a tool in front of it (LD_PRELOAD) stays there.
 */
#include "image/copy/precedence.h"

#include "base/log.h"
#include "image/copy/deferred.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <unistd.h>

/* The functions that takeover_threads.c, unwind.c and gpu/arch define. */
static const struct {
    const char *name;
    void *definition;
} functions[] = {
    {"pthread_create", (void *)pthread_create},
    {"thrd_create", (void *)thrd_create},
    {"pthread_join", (void *)pthread_join},
    {"dl_iterate_phdr", (void *)dl_iterate_phdr},
    {"dlsym", (void *)dlsym},
    {"_exit", (void *)_exit},
    {"_Exit", (void *)_Exit},
#if __GLIBC_PREREQ(2, 35)
    {"_dl_find_object", (void *)_dl_find_object},
#endif
};

/* ---- The order of look-up ---- */

/* The load address of the module that contains this function. */
BASE_NO_SANITIZE static uintptr_t base_of(const void *function)
{
    Dl_info info = {0};

    return dladdr(function, &info) ? (uintptr_t)info.dli_fbase : 0;
}

/* True if the C library precedes this one. ld.so's list is in the order of look-up. */
BASE_NO_SANITIZE static bool is_behind(void)
{
    static _Atomic int answer; /* 1: no, 2: yes */
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    const struct link_map *map = _r_debug.r_map;
    uintptr_t c_library, own;

    if (known)
        return known == 2;
    c_library = base_of((const void *)gnu_get_libc_version);
    own = base_of((const void *)image_precedence_next);
    while (map && map->l_addr != c_library && map->l_addr != own)
        map = map->l_next;
    known = map && map->l_addr == c_library ? 2 : 1;
    atomic_store_explicit(&answer, known, memory_order_relaxed);
    return known == 2;
}

BASE_NO_SANITIZE void *image_precedence_next(const char *name)
{
    return dlsym(is_behind() ? RTLD_DEFAULT : RTLD_NEXT, name);
}

/* ---- Binding ---- */

static void bind_table(const struct image_module *module, const ElfW(Rela) * table, size_t count,
                       const char *name, void *definition)
{
    for (size_t i = 0; i < count; i++) {
        enum image_reloc_kind kind = image_arch_reloc_kind(ELF64_R_TYPE(table[i].r_info));
        const ElfW(Sym) *symbol = &module->symtab[ELF64_R_SYM(table[i].r_info)];
        void **word = (void **)(module->bias + table[i].r_offset);

        if ((kind == IMAGE_RELOC_GOT || kind == IMAGE_RELOC_PLT ||
             (kind == IMAGE_RELOC_ABSOLUTE && table[i].r_addend == 0)) &&
            strcmp(module->strtab + symbol->st_name, name) == 0 && *word != definition)
            image_patch_word(module->bias, module->phdr, module->n_phdrs, word, (size_t)definition);
    }
}

void image_precedence_bind(const struct image_module *module, const char *name, void *definition)
{
    bind_table(module, module->rela, module->n_relas, name, definition);
    bind_table(module, module->plt_rela, module->n_plt_relas, name, definition);
}

void image_precedence_bind_all(const struct image_module *modules, size_t count)
{
    if (!is_behind())
        return;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; modules[i].dynamic && j < BASE_COUNT(functions); j++)
            image_precedence_bind(&modules[i], functions[j].name, functions[j].definition);
}

void image_precedence_begin(void)
{
    struct image_module *modules;
    size_t count;

    if (!is_behind())
        return;
    image_modules_list(false, &modules, &count);
    image_precedence_bind_all(modules, count);
    image_modules_free(modules, count, NULL);
}

/* ---- Why this library is in the process ---- */

enum { MAPS_MAX = 1024 };

/* A walk over the modules that the program needs. */
struct walk {
    const struct link_map *seen[MAPS_MAX];
    size_t n_seen;
};

/* Adds the libraries that this one needs. */
static void add_needed(struct walk *walk, const struct link_map *map)
{
    struct image_module module = {.name = map->l_name, .bias = map->l_addr};

    image_module_read_dynamic(&module, map->l_ld);
    for (const struct link_map *other = _r_debug.r_map; other; other = other->l_next) {
        struct image_module needed = {.name = other->l_name, .bias = other->l_addr};
        size_t i = 0;

        while (i < walk->n_seen && walk->seen[i] != other)
            i++;
        if (i < walk->n_seen || walk->n_seen == MAPS_MAX)
            continue;
        image_module_read_dynamic(&needed, other->l_ld);
        if (image_module_names(&module, &needed))
            walk->seen[walk->n_seen++] = other;
    }
}

bool image_precedence_is_needed(void)
{
    static struct walk walk;
    uintptr_t own = base_of((const void *)image_precedence_next);

    walk.seen[walk.n_seen++] = _r_debug.r_map;
    for (size_t i = 0; i < walk.n_seen; i++) {
        if (walk.seen[i]->l_addr == own)
            return true;
        add_needed(&walk, walk.seen[i]);
    }
    return false;
}

void image_precedence_unload(char **environment)
{
    static const char name[] = "LD_PRELOAD=";
    Dl_info own = {0};
    char *list, *end;

    while (*environment && strncmp(*environment, name, sizeof name - 1) != 0)
        environment++;
    if (!*environment || !dladdr((const void *)image_precedence_next, &own) ||
        !strstr(*environment, own.dli_fname))
        return;
    list = base_malloc(strlen(*environment) + 1, "the environment");
    end = mempcpy(list, name, sizeof name - 1);
    for (const char *item = *environment + sizeof name - 1; *item; item += strspn(item, ": ")) {
        size_t len = strcspn(item, ": ");

        if (strncmp(item, own.dli_fname, len) != 0 || own.dli_fname[len] != '\0') {
            if (end > list + sizeof name - 1)
                *end++ = ':';
            end = mempcpy(end, item, len);
        }
        item += len;
    }
    *end = '\0';
    *environment = list;
    for (; end == list + sizeof name - 1 && *environment;
         environment++) /* nothing is left: no such variable */
        *environment = environment[1];
}
