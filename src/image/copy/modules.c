/* SPDX-License-Identifier: BSD-3-Clause
 *
 * modules.c: finds the modules of the prototype that are copied for each rank, and reads their headers.
 *
 * The headers of a running program are trusted, since ld.so has loaded it. The checks only find out whether
 * the program can be copied. Called by image_program_open.
 */
#include "image/copy/deferred.h"
#include "image/copy/groups.h"
#include "image/copy/private_libraries.h"
#include "image/copy/program.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* The modules of dl_iterate_phdr in its order: the program first, then in load order. */
struct loaded_list {
    struct image_module *modules;
    size_t count;
};

static int add_loaded(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct loaded_list *list = arg;
    struct image_module module = {
        .name = info->dlpi_name && info->dlpi_name[0] ? info->dlpi_name : "",
        .fd = -1,
        .bias = info->dlpi_addr,
        .phdr = info->dlpi_phdr,
        .n_phdrs = info->dlpi_phnum,
        .align = IMAGE_ARCH_PAGE_BYTES,
    };

    if (size >= offsetof(struct dl_phdr_info, dlpi_tls_data) + sizeof info->dlpi_tls_data) {
        module.tls_block = info->dlpi_tls_data;
        module.tls_number = info->dlpi_tls_modid;
    }
    image_array_push(&list->modules, &list->count, sizeof module, &module);
    return 0;
}

/* Converts an address of the dynamic section, which ld.so may have relocated already, into an address of
 * the prototype. */
static const void *dynamic_address(const struct image_module *module, size_t value)
{
    return (const void *)(value < module->bias ? module->bias + value : value);
}

/* ld.so does not read the size of an array that is missing. */
static void drop_missing_arrays(struct image_module *module)
{
    if (!module->preinit_array_vaddr)
        module->n_preinits = 0;
    if (!module->init_array_vaddr)
        module->n_inits = 0;
    if (!module->fini_array_vaddr)
        module->n_finis = 0;
}

/* In the switch below. */
#define TAKE(tag, field, from)  \
    case tag:                   \
        module->field = (from); \
        break

void image_module_read_dynamic(struct image_module *module, const ElfW(Dyn) * dynamic)
{
    size_t soname = 0;
    const char *slash;

    module->dynamic = dynamic;
    for (const ElfW(Dyn) *d = dynamic; d->d_tag != DT_NULL; d++) {
        size_t value = d->d_un.d_val;
        const void *address = dynamic_address(module, value); /* if the value is one */

        switch (d->d_tag) {
            TAKE(DT_SYMTAB, symtab, address);
            TAKE(DT_STRTAB, strtab, address);
            TAKE(DT_STRSZ, strtab_bytes, value);
            TAKE(DT_GNU_HASH, gnu_hash, address);
            TAKE(DT_HASH, hash, address);
            TAKE(DT_VERSYM, versym, address);
            TAKE(DT_VERNEED, verneed, address);
            TAKE(DT_VERNEEDNUM, n_verneeds, value);
            TAKE(DT_VERDEF, verdef, address);
            TAKE(DT_VERDEFNUM, n_verdefs, value);
            TAKE(DT_RELA, rela, address);
            TAKE(DT_RELASZ, n_relas, value / sizeof *module->rela);
            TAKE(DT_JMPREL, plt_rela, address);
            TAKE(DT_PLTRELSZ, n_plt_relas, value / sizeof *module->plt_rela);
            TAKE(DT_RELR, relr, address);
            TAKE(DT_RELRSZ, n_relrs, value / sizeof *module->relr);
            TAKE(DT_INIT, init_vaddr, value);
            TAKE(DT_FINI, fini_vaddr, value);
            TAKE(DT_PREINIT_ARRAY, preinit_array_vaddr, value);
            TAKE(DT_PREINIT_ARRAYSZ, n_preinits, value / sizeof(void *));
            TAKE(DT_INIT_ARRAY, init_array_vaddr, value);
            TAKE(DT_INIT_ARRAYSZ, n_inits, value / sizeof(void *));
            TAKE(DT_FINI_ARRAY, fini_array_vaddr, value);
            TAKE(DT_FINI_ARRAYSZ, n_finis, value / sizeof(void *));
        case DT_SONAME:
            soname = value;
            break;
        case DT_SYMBOLIC:
            module->is_symbolic = true;
            break;
        case DT_TEXTREL:
            module->has_textrel = true;
            break;
        case DT_FLAGS:
            module->is_symbolic |= (value & DF_SYMBOLIC) != 0;
            module->has_textrel |= (value & DF_TEXTREL) != 0;
            module->has_static_tls = (value & DF_STATIC_TLS) != 0;
            break;
        }
    }
    drop_missing_arrays(module);
    slash = strrchr(module->name, '/');
    module->soname = soname && module->strtab && soname < module->strtab_bytes ? module->strtab + soname
                     : slash                                                   ? slash + 1
                                                                               : module->name;
}

void image_module_read(struct image_module *module)
{
    const ElfW(Dyn) *dynamic = NULL;

    for (size_t i = 0; i < module->n_phdrs; i++) {
        const ElfW(Phdr) *phdr = &module->phdr[i];

        switch (phdr->p_type) {
        case PT_DYNAMIC:
            dynamic = (const ElfW(Dyn) *)(module->bias + phdr->p_vaddr);
            break;
        case PT_TLS:
            module->tls_vaddr = phdr->p_vaddr;
            module->tls_file_bytes = phdr->p_filesz;
            module->tls_bytes = phdr->p_memsz;
            module->tls_align = phdr->p_align;
            break;
        case PT_GNU_EH_FRAME:
            module->eh_frame_hdr_vaddr = phdr->p_vaddr;
            break;
        }
    }
    if (dynamic)
        image_module_read_dynamic(module, dynamic);
}

/* Opens path if it is the file that the module was loaded from, that is, if its program headers are equal. */
static int open_if_same(const struct image_module *module, const char *path, ElfW(Ehdr) * ehdr)
{
    ElfW(Phdr) phdr[64];
    size_t bytes = module->n_phdrs * sizeof *phdr;
    int fd;

    if (!path || !path[0] || module->n_phdrs > BASE_COUNT(phdr))
        return -1;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (pread(fd, ehdr, sizeof *ehdr, 0) == (ssize_t)sizeof *ehdr && ehdr->e_phnum == module->n_phdrs &&
        pread(fd, phdr, bytes, (off_t)ehdr->e_phoff) == (ssize_t)bytes &&
        memcmp(phdr, module->phdr, bytes) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Opens the program's file. Returns false if it no longer exists. */
static bool open_program(struct image_module *module, ElfW(Ehdr) * ehdr)
{
    const char *exec_name = (const char *)getauxval(AT_EXECFN);

    module->fd = open_if_same(module, "/proc/self/exe", ehdr);
    if (!module->name[0])
        module->name = exec_name ? exec_name : program_invocation_name;
    if (module->fd < 0) /* started as `ld.so program` */
        module->fd = open_if_same(module, module->name, ehdr);
    if (module->fd < 0)
        module->fd = open_if_same(module, program_invocation_name, ehdr);
    return module->fd >= 0;
}

static bool has_unsupported(const ElfW(Rela) * table, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (image_arch_reloc_kind(ELF64_R_TYPE(table[i].r_info)) == IMAGE_RELOC_UNSUPPORTED)
            return true;
    return false;
}

/* The reason why an undamaged module cannot be copied; NULL: it can. */
static const char *obstacle(const struct image_module *module)
{
    if (module->has_textrel)
        return "it has relocations in its code (DT_TEXTREL), because parts of it were not compiled with "
               "-fPIC";
    if (has_unsupported(module->rela, module->n_relas) ||
        has_unsupported(module->plt_rela, module->n_plt_relas))
        return "it has relocations of a type that is not supported";
    return NULL;
}

/* True if each rank can have its own copy of the program. */
static bool check_program(struct image_module *module, const char **error_out)
{
    uintptr_t allocator = (uintptr_t)dlsym(RTLD_DEFAULT, "malloc") - module->bias;
    ElfW(Ehdr) ehdr = {0};
    const char *why;

    if (!open_program(module, &ehdr)) {
        *error_out = image_error(
            "cannot run as several ranks: the file %s cannot be read again, or has changed since the "
            "program started; start it again",
            module->name);
        return false;
    }
    if (ehdr.e_type != ET_DYN) {
        *error_out = image_error(
            "cannot run as several ranks: %s is not position-independent (linked with -no-pie), so it "
            "cannot be given a copy of its variables per rank; recompile and link it with this mpicc",
            module->name);
        return false;
    }
    for (size_t i = 0; i < module->n_phdrs; i++)
        if (module->phdr[i].p_type == PT_LOAD &&
            allocator - module->phdr[i].p_vaddr < module->phdr[i].p_memsz) {
            *error_out =
                image_error("cannot run as several ranks: %s contains its own malloc (a statically linked "
                            "allocator or sanitizer), which the ranks cannot share with the C library; link "
                            "it as a shared library (clang's sanitizers: -shared-libsan)",
                            module->name);
            return false;
        }
    why = image_module_flaw(module);
    if (why) {
        *error_out =
            image_error("cannot run as several ranks: the file %s is damaged: %s", module->name, why);
        return false;
    }
    why = obstacle(module);
    if (why)
        *error_out = image_error(
            "cannot run as several ranks: %s cannot be copied: %s; recompile all of it with this mpicc",
            module->name, why);
    return !why;
}

bool image_module_can_copy(struct image_module *module, const char **why_out, const char **damage_out)
{
    ElfW(Ehdr) ehdr;

    *damage_out = image_module_flaw(module);
    *why_out = *damage_out ? NULL : obstacle(module);
    if (!*damage_out && !*why_out && module->tls_bytes && !module->tls_block && module->has_static_tls)
        *why_out = "it was opened at run time, and its thread_local variables are accessed at fixed offsets";
    if (*why_out || *damage_out)
        return !*why_out;
    module->fd = open_if_same(module, module->name, &ehdr);
    if (module->fd < 0)
        *damage_out = "it cannot be read again, or has changed since the program started";
    return true;
}

static struct image_module *find_in(const struct image_program *program, uintptr_t prototype_addr)
{
    for (size_t i = 0; i < program->n_modules; i++) {
        struct image_module *module = &program->modules[i];

        if (prototype_addr - module->bias >= module->vaddr_lo &&
            prototype_addr - module->bias < module->vaddr_hi)
            return module;
    }
    return NULL;
}

struct image_module *image_module_of(const struct image_program *program, uintptr_t prototype_addr)
{
    size_t n_groups = atomic_load_explicit(&image_n_groups, memory_order_acquire);
    struct image_module *module = find_in(program, prototype_addr);

    for (size_t i = 0; i < n_groups && !module; i++)
        if (image_groups[i] != program && image_groups[i]->root == program->root)
            module = find_in(image_groups[i], prototype_addr);
    return module;
}

/* Records the addresses of the unwinders' libraries (unwind.c). */
static void note_unwinder(struct image_program *program, const struct image_module *module)
{
    const char *slash = strrchr(module->name, '/');
    const char *file = slash ? slash + 1 : module->name;

    if (strncmp(file, "libgcc_s", 8) != 0 && strncmp(file, "libunwind", 9) != 0)
        return;
    for (size_t i = 0; i < module->n_phdrs; i++) {
        const ElfW(Phdr) *phdr = &module->phdr[i];
        struct image_range range = {.offset = module->bias + phdr->p_vaddr, .len_bytes = phdr->p_memsz};

        if (phdr->p_type == PT_LOAD && (phdr->p_flags & PF_X))
            image_array_push(&program->unwinders, &program->n_unwinders, sizeof range, &range);
    }
}

/* ld.so's descriptor of a module; NULL: not found. */
static const struct link_map *link_map_of(const struct image_module *module)
{
    const struct link_map *map = _r_debug.r_map;

    while (map && (map->l_addr != module->bias || !map->l_ld))
        map = map->l_next;
    return map;
}

void image_modules_list(bool is_loading, struct image_module **modules_out, size_t *count_out)
{
    struct loaded_list loaded = {0};

    dl_iterate_phdr(add_loaded, &loaded);
    for (size_t i = 0; i < loaded.count; i++) {
        image_module_read(&loaded.modules[i]);
        loaded.modules[i].link_map = link_map_of(&loaded.modules[i]);
    }
    image_modules_resolve(loaded.modules, loaded.count, is_loading);
    *modules_out = loaded.modules;
    *count_out = loaded.count;
}

void image_modules_free(struct image_module *modules, size_t count, const bool *is_kept)
{
    for (size_t i = 0; i < count; i++)
        if (!is_kept || !is_kept[i]) {
            free(modules[i].needed);
            free(modules[i].scope);
        }
    free(modules);
}

static int find_executable_stack(struct dl_phdr_info *info, size_t size, void *is_found)
{
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        *(bool *)is_found |= info->dlpi_phdr[i].p_type == PT_GNU_STACK && (info->dlpi_phdr[i].p_flags & PF_X);
    return *(bool *)is_found;
}

bool image_wants_executable_stacks(void)
{
    bool is_found = false;

    dl_iterate_phdr(find_executable_stack, &is_found);
    return is_found;
}

bool image_modules_find(struct image_program *program, const char **error_out)
{
    struct loaded_list loaded;

    image_modules_list(false, &loaded.modules, &loaded.count);
    if (!loaded.modules[0].dynamic) {
        *error_out = image_error(
            "cannot run as several ranks: the program is statically linked; recompile and link it "
            "with this mpicc, without -static");
        return false;
    }
    if (!check_program(&loaded.modules[0], error_out) ||
        !image_private_libraries_mark(loaded.modules, loaded.count, error_out))
        return false;
    for (size_t i = loaded.count; i-- > 1;)
        if (!image_private_libraries_has(i))
            image_deferred_run(loaded.modules, loaded.count, i);
    image_deferred_drop_destructors();
    image_modules_set_scope(loaded.modules, loaded.count, 0, true);
    for (size_t i = 0; i < loaded.count; i++) {
        struct image_module *module = &loaded.modules[i];

        note_unwinder(program, module);
        if (i != 0 && !image_private_libraries_has(i)) {
            if (module->fd >= 0)
                close(module->fd);
            free(module->needed);
            free(module->scope);
            continue;
        }
        module->is_pristine = i == 0 || image_deferred_has(module);
        image_array_push(&program->modules, &program->n_modules, sizeof *module, module);
    }
    free(loaded.modules);

    image_modules_order(program);
    return true;
}
