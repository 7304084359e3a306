/* SPDX-License-Identifier: BSD-3-Clause
 *
 * deferred.c: keeps the constructors of private libraries from running on the prototype.
 *
 * They run in every copy. If they ran on the prototype as well, each thread, handler and registration of
 * theirs would exist once more than there are ranks, and copies would start with contents that constructors
 * have already changed.
 *
 * This library is linked with -z initfirst: ld.so runs its constructor (takeover.c) before all others. At
 * that time it is still unknown which libraries are private. So until the program's start, the dynamic
 * section of every candidate claims that there are no constructors. Then image_modules_find decides. Shared
 * libraries are constructed, dependencies first; prototypes of private ones are never constructed or
 * destroyed.
 *
 * glibc before 2.34 gives -z initfirst to its libpthread alone: there all constructors run on the
 * prototypes as well.
 *
 * Not deferred: libraries on the list, preloaded ones, the owner of malloc, and dependencies of UCX and
 * PMIx, which are opened before the choice is made. Nothing is deferred in setuid programs and under
 * sanitizers, which are not ready so early.
 */
#include "image/copy/deferred.h"

#include "image/copy/private_libraries.h"

#include "base/log.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef IMAGE_IS_FIRST /* linked with -z initfirst */
#define IMAGE_IS_FIRST 0
#endif

enum { DEFERRED_MAX = 512 };

/* One library. */
struct deferred {
    uintptr_t bias;
    const ElfW(Phdr) * phdr;
    size_t n_phdrs;
    ElfW(Dyn) * init, *init_size, *fini, *fini_size; /* in its dynamic section; NULL: absent */
    size_t init_value, init_size_value;              /* their original values */
    void (**array)(int, char **, char **);
    bool has_run;
};

static struct deferred deferred[DEFERRED_MAX];
static size_t n_deferred;
static int arg_count;
static char **arguments, **environment;

typedef void (*constructor_fn)(int argc, char **argv, char **envp);

static void do_nothing(void) {}

/* ---- Patching ---- */

static size_t page_down(size_t n)
{
    return n & ~((size_t)IMAGE_ARCH_PAGE_BYTES - 1);
}

/* The protection that ld.so gave the page of this address. */
static int protection_of(const ElfW(Phdr) * phdr, size_t n_phdrs, size_t vaddr)
{
    int prot = PROT_READ;

    for (size_t i = 0; i < n_phdrs; i++)
        if (phdr[i].p_type == PT_LOAD && vaddr - phdr[i].p_vaddr < phdr[i].p_memsz &&
            (phdr[i].p_flags & PF_W))
            prot |= PROT_WRITE;
    for (size_t i = 0; i < n_phdrs; i++) {
        size_t lo = page_down(phdr[i].p_vaddr), hi = page_down(phdr[i].p_vaddr + phdr[i].p_memsz);

        if (phdr[i].p_type == PT_GNU_RELRO && vaddr >= lo && vaddr < hi)
            prot &= ~PROT_WRITE;
    }
    return prot;
}

void image_patch_word(uintptr_t bias, const ElfW(Phdr) * phdr, size_t n_phdrs, void *word, size_t value)
{
    char *page = (char *)page_down((uintptr_t)word);
    int prot = protection_of(phdr, n_phdrs, (uintptr_t)word - bias);

    if (!(prot & PROT_WRITE) && mprotect(page, IMAGE_ARCH_PAGE_BYTES, prot | PROT_WRITE) != 0)
        base_fatal(1, "cannot change the dynamic section of the program or of a library; please report it");
    memcpy(word, &value, sizeof value);
    if (!(prot & PROT_WRITE))
        mprotect(page, IMAGE_ARCH_PAGE_BYTES, prot);
}

static void patch(const struct deferred *d, ElfW(Dyn) * entry, size_t value)
{
    if (entry)
        image_patch_word(d->bias, d->phdr, d->n_phdrs, &entry->d_un.d_val, value);
}

/* ---- Deferring ---- */

/* True if the library is in LD_PRELOAD: its constructors must run at the usual time. */
static bool is_preloaded(char **envp, const char *path)
{
    const char *slash = strrchr(path, '/');

    for (; envp && *envp; envp++)
        if (strncmp(*envp, "LD_PRELOAD=", 11) == 0)
            return strstr(*envp, slash ? slash + 1 : path) != NULL;
    return false;
}

static bool has_address(const struct dl_phdr_info *info, const void *addr)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            (uintptr_t)addr - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
            return true;
    return false;
}

static void read_entries(struct deferred *d, ElfW(Dyn) * dynamic)
{
    for (; dynamic->d_tag != DT_NULL; dynamic++)
        switch (dynamic->d_tag) {
        case DT_INIT:
            d->init = dynamic;
            d->init_value = dynamic->d_un.d_val;
            break;
        case DT_INIT_ARRAY:
            d->array = (void (**)(int, char **, char **))(d->bias + dynamic->d_un.d_ptr);
            break;
        case DT_INIT_ARRAYSZ:
            d->init_size = dynamic;
            d->init_size_value = dynamic->d_un.d_val;
            break;
        case DT_FINI:
            d->fini = dynamic;
            break;
        case DT_FINI_ARRAYSZ:
            d->fini_size = dynamic;
            break;
        }
}

static int add_candidate(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct deferred *d = &deferred[n_deferred];

    if (!info->dlpi_name || !info->dlpi_name[0] || n_deferred == DEFERRED_MAX ||
        image_shared_library_find(info->dlpi_name) || image_is_used_by_shared(info->dlpi_name) ||
        is_preloaded(arg, info->dlpi_name) || has_address(info, deferred) ||
        has_address(info, dlsym(RTLD_DEFAULT, "malloc")))
        return 0;
    *d = (struct deferred){.bias = info->dlpi_addr, .phdr = info->dlpi_phdr, .n_phdrs = info->dlpi_phnum};
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            read_entries(d, (ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr));
    if (!d->init && !d->init_size)
        return 0;
    patch(d, d->init, (uintptr_t)do_nothing - d->bias);
    patch(d, d->init_size, 0);
    n_deferred++;
    return 0;
}

/* True if ld.so runs this library's constructor before all others. */
static bool is_first(void)
{
    int major = 0, minor = 0;
    const char *version = gnu_get_libc_version(), *dot = strchr(version, '.');

    major = atoi(version);
    minor = dot ? atoi(dot + 1) : 0;
    return IMAGE_IS_FIRST && (major > 2 || (major == 2 && minor >= 34));
}

void image_deferred_begin(char **envp)
{
    if (is_first())
        dl_iterate_phdr(add_candidate, envp);
}

void image_deferred_end(int argc, char **argv, char **envp)
{
    arg_count = argc;
    arguments = argv;
    environment = envp;
    for (size_t i = 0; i < n_deferred; i++) {
        patch(&deferred[i], deferred[i].init, deferred[i].init_value);
        patch(&deferred[i], deferred[i].init_size, deferred[i].init_size_value);
    }
}

/* ---- Running them ---- */

static struct deferred *find(const struct image_module *module)
{
    for (size_t i = 0; i < n_deferred; i++)
        if (deferred[i].phdr == module->phdr)
            return &deferred[i];
    return NULL;
}

static void run_one(struct deferred *d)
{
    d->has_run = true;
    if (d->init)
        ((constructor_fn)(d->bias + d->init_value))(arg_count, arguments, environment);
    for (size_t i = 0; d->array && i < d->init_size_value / sizeof *d->array; i++)
        d->array[i](arg_count, arguments, environment);
}

static void run_with_needed(const struct image_module *modules, size_t count, size_t index, bool *is_seen)
{
    struct deferred *d = find(&modules[index]);

    if (is_seen[index])
        return;
    is_seen[index] = true;
    for (size_t i = 0; i < modules[index].n_needed; i++) {
        size_t needed = image_modules_index(modules, count, modules[index].needed[i]);

        if (needed < count)
            run_with_needed(modules, count, needed, is_seen);
    }
    if (d && !d->has_run)
        run_one(d);
}

void image_deferred_run(const struct image_module *modules, size_t count, size_t index)
{
    bool *is_seen;

    if (n_deferred == 0)
        return;
    is_seen = base_calloc(count, sizeof *is_seen, "the order of constructors");
    run_with_needed(modules, count, index, is_seen);
    free(is_seen);
}

void image_deferred_run_all(void)
{
    struct image_module *modules;
    size_t count;

    if (n_deferred == 0)
        return;
    image_modules_list(false, &modules, &count);
    for (size_t i = count; i-- > 0;)
        image_deferred_run(modules, count, i);
    image_modules_free(modules, count, NULL);
}

bool image_deferred_has(const struct image_module *module)
{
    const struct deferred *d = find(module);

    return d && !d->has_run;
}

void image_deferred_drop_destructors(void)
{
    for (size_t i = 0; i < n_deferred; i++) {
        if (deferred[i].has_run)
            continue;
        patch(&deferred[i], deferred[i].fini, (uintptr_t)do_nothing - deferred[i].bias);
        patch(&deferred[i], deferred[i].fini_size, 0);
    }
}
