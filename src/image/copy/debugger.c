/* SPDX-License-Identifier: BSD-3-Clause
 *
 * debugger.c: shows copies to debuggers, as shared libraries. gdb reads ld.so's lists of libraries, one for each namespace of
 * dlmopen: this file appends a namespace of its own, with an entry for each module of the first copies. So breakpoints and
 * backtraces work in ranks, in a process that gdb starts or attaches to and in a core file, without a command or a script that
 * the user would have to trust. (gdb's interface for compilers at run time, "JIT", wants debug information with absolute
 * addresses: that of each copy would have to be rewritten.)
 *
 * ld.so walks the list of namespaces only to append to it. Entries stay for ever, like copies.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "image/copy/instantiate.h"

/* Before, ld.so has no list of namespaces. A library that is built with this version does not run with an earlier one. */
#if __GLIBC_PREREQ(2, 35)

/* More copies make gdb slow; libmpi_abi.so.1-gdb.py adds the symbols of others. */
#define SHOWN_IMAGES_MAX 32

/* gdb reads the fields of ld.so's own structure behind the public ones when it looks for thread_local variables. A zero for the
 * number of the module there means that there are none. */
#define ENTRY_BYTES 2048

union entry {
    struct link_map map;
    char room[ENTRY_BYTES];
};

static struct {
    pthread_mutex_t lock;           /* for the other fields */
    int n_images;                   /* shown ones */
    struct link_map *last;          /* of the list; NULL: it is empty */
    struct r_debug_extended *ld_so; /* the head of ld.so's list; NULL: not looked for, or none */
    size_t number_offset;           /* of a module's number in ld.so's structure; 0: unknown */
    struct r_debug_extended list;
} shown = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct r_debug_extended *find_ld_so(void)
{
    for (const ElfW(Dyn) *entry = image_program.modules[0].dynamic; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_DEBUG)
            return (struct r_debug_extended *)entry->d_un.d_ptr;
    return NULL;
}

/* The C library describes its structures to debuggers: for each field the bits of a value, the number of values, the offset. */
static size_t find_number_offset(void)
{
    const uint32_t *field = dlvsym(RTLD_DEFAULT, "_thread_db_link_map_l_tls_modid", "GLIBC_PRIVATE");
    bool is_known = field && field[0] == 8 * sizeof(size_t) && field[2] >= sizeof(struct link_map) &&
                    field[2] <= ENTRY_BYTES - sizeof(size_t);

    return is_known ? field[2] : 0;
}

/* Appends our list to ld.so's namespaces. */
static void append_list(void)
{
    struct r_debug_extended *at = shown.ld_so;

    shown.number_offset = find_number_offset();
    shown.list.base = (struct r_debug){.r_version = 2, .r_brk = at->base.r_brk, .r_state = RT_CONSISTENT};
    while (at->base.r_version >= 2 && at->r_next)
        at = at->r_next;
    at->r_next = &shown.list;
    shown.ld_so->base.r_version = 2; /* there is r_next */
}

static void append_modules(const struct image *image, const struct image_program *program,
                           union entry *entries)
{
    for (size_t i = 0; i < program->n_modules; i++) {
        const struct image_module *module = &program->modules[i];
        struct link_map *map = &entries[i].map;
        map->l_addr = (uintptr_t)image->base + module->copy_shift;
        map->l_name = realpath(module->name, NULL); /* gdb may have another working directory */
        if (!map->l_name)
            map->l_name = (char *)module->name;
        map->l_ld = (ElfW(Dyn) *)((uintptr_t)module->dynamic - module->bias + map->l_addr);
        /* The rank that a thread runs has its variables where the prototype would have them, unless they are allocated at their
         * first use. */
        if (shown.number_offset && !module->tls_lazy)
            memcpy(entries[i].room + shown.number_offset, &module->tls_number, sizeof module->tls_number);
        map->l_prev = shown.last;
        *(shown.last ? &shown.last->l_next : &shown.list.base.r_map) = map;
        shown.last = map;
    }
}

/* False in a child of fork if another thread had the lock then: that one will never release it. */
static bool lock(void)
{
    return (image_is_forked_child() ? pthread_mutex_trylock(&shown.lock) : pthread_mutex_lock(&shown.lock)) ==
           0;
}

void image_show_debugger(struct image *image, const struct image_program *program)
{
    union entry *entries;
    void (*has_changed)(void);

    if (!lock())
        return;
    if (!image->is_shown && shown.n_images < SHOWN_IMAGES_MAX &&
        (shown.ld_so || (shown.ld_so = find_ld_so()))) {
        if (shown.n_images++ == 0)
            append_list();
        image->is_shown = true;
    }
    entries = image->is_shown ? calloc(program->n_modules, sizeof *entries) : NULL;
    if (entries) {
        append_modules(image, program, entries);
        has_changed = (void (*)(void))shown.list.base.r_brk;
        has_changed(); /* does nothing: gdb has a breakpoint there, and reads the lists */
    }
    pthread_mutex_unlock(&shown.lock);
}

#else

void image_show_debugger(struct image *image, const struct image_program *program)
{
    (void)image;
    (void)program;
}

#endif
