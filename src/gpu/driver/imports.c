/* SPDX-License-Identifier: BSD-3-Clause
 *
 * imports.c: see imports.h.
 */
#include "gpu/driver/imports.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/driver/arch/gpu_arch.h"

/* The needed parts of a library's dynamic section. */
struct tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * relocations[2]; /* of functions (DT_JMPREL), and others (DT_RELA) */
    size_t n_relocations[2];
};

static struct tables read_tables(const struct link_map *map)
{
    struct tables tables = {0};

    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        /* On this CPU the C library has made these addresses absolute. */
        const void *address = (const void *)entry->d_un.d_ptr;
        switch (entry->d_tag) {
        case DT_SYMTAB:
            tables.symbols = address;
            break;
        case DT_STRTAB:
            tables.strings = address;
            break;
        case DT_JMPREL:
            tables.relocations[0] = address;
            break;
        case DT_PLTRELSZ:
            tables.n_relocations[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
            break;
        case DT_RELA:
            tables.relocations[1] = address;
            break;
        case DT_RELASZ:
            tables.n_relocations[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
            break;
        default:
            break;
        }
    }
    return tables;
}

/* The write-protected part of a library (RELRO). */
struct protected_part {
    uintptr_t base; /* load address of the library: the search key */
    uintptr_t from, to;
};

static int find_protected(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct protected_part *part = arg;

    if (info->dlpi_addr != part->base)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO) {
            part->from = part->base + info->dlpi_phdr[i].p_vaddr;
            part->to = part->from + info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

static bool set_slot(void **slot, void (*value)(void), const struct protected_part *part)
{
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE), page = (uintptr_t)slot & ~(page_bytes - 1);
    bool is_protected = page >= (part->from & ~(page_bytes - 1)) && page < part->to;

    if (is_protected && mprotect((void *)page, page_bytes, PROT_READ | PROT_WRITE) != 0)
        return false;
    *slot = (void *)(uintptr_t)value;
    if (is_protected)
        mprotect((void *)page, page_bytes, PROT_READ);
    return true;
}

/* The index of the import that a relocation resolves; -1: none of them. */
static int index_of(const struct tables *tables, const ElfW(Rela) * relocation,
                    const struct gpu_import *imports, size_t n_imports)
{
    const char *name;

    if (!gpu_arch_stores_function(ELF64_R_TYPE(relocation->r_info)))
        return -1;
    name = tables->strings + tables->symbols[ELF64_R_SYM(relocation->r_info)].st_name;
    for (size_t i = 0; i < n_imports; i++)
        if (strcmp(name, imports[i].name) == 0)
            return (int)i;
    return -1;
}

void gpu_imports_redirect(const struct link_map *map, const struct gpu_import *imports, size_t n_imports,
                          bool *is_found)
{
    struct tables tables = read_tables(map);
    struct protected_part part = {.base = map->l_addr};

    dl_iterate_phdr(find_protected, &part);
    for (int table = 0; table < 2; table++)
        for (size_t i = 0; i < tables.n_relocations[table]; i++) {
            const ElfW(Rela) *relocation = &tables.relocations[table][i];
            int index = index_of(&tables, relocation, imports, n_imports);
            if (index >= 0 &&
                set_slot((void **)(map->l_addr + relocation->r_offset), imports[index].function, &part))
                is_found[index] = true;
        }
}

bool gpu_imports_has(const struct link_map *map, const char *name)
{
    const struct gpu_import import = {.name = name};
    struct tables tables = read_tables(map);

    for (int table = 0; table < 2; table++)
        for (size_t i = 0; i < tables.n_relocations[table]; i++)
            if (index_of(&tables, &tables.relocations[table][i], &import, 1) == 0)
                return true;
    return false;
}

bool gpu_imports_is_library(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');

    return strncmp(slash ? slash + 1 : path, name, strlen(name)) == 0;
}

struct link_map *gpu_imports_first_library(void)
{
    void *program = dlopen(NULL, RTLD_LAZY);
    struct link_map *map = NULL;

    return program && dlinfo(program, RTLD_DI_LINKMAP, &map) == 0 ? map : NULL;
}
