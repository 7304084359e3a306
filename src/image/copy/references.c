/* SPDX-License-Identifier: BSD-3-Clause
 *
 * references.c: finds out, from the relocations of the modules that ld.so has loaded, whether the program calls a
 * function. Runs before constructors and before sanitizers are initialised.
 */
#include "image/copy/program.h"
#include "image/image.h"

#include <link.h>
#include <string.h>

struct search {
    const char *text; /* a part of the function's name */
    size_t n_modules; /* modules seen */
    uintptr_t own;    /* address of this library */
    bool is_found;
};

static BASE_NO_SANITIZE bool contains(const char *name, const char *text)
{
    for (; *name; name++) {
        size_t i = 0;
        while (text[i] && (name[i] | 0x20) == (text[i] | 0x20))
            i++;
        if (!text[i])
            return true;
    }
    return false;
}

static BASE_NO_SANITIZE bool refers_to(const struct image_module *module, const ElfW(Rela) * table,
                                       size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        const ElfW(Sym) *symbol = &module->symtab[ELF64_R_SYM(table[i].r_info)];
        if (ELF64_R_SYM(table[i].r_info) && symbol->st_shndx == SHN_UNDEF &&
            contains(module->strtab + symbol->st_name, text))
            return true;
    }
    return false;
}

/* Callback for each module. */
static BASE_NO_SANITIZE int look(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct search *search = arg;
    struct image_module module = {.name = info->dlpi_name,
                                  .bias = info->dlpi_addr,
                                  .phdr = info->dlpi_phdr,
                                  .n_phdrs = info->dlpi_phnum};

    (void)size;
    if (search->n_modules++ == 0 && info->dlpi_addr == 0)
        return 1; /* the program, not position-independent */
    if (info->dlpi_addr == search->own || strstr(info->dlpi_name, "libheddle_mpifort"))
        return 0;
    image_module_read(&module);
    if (!module.symtab || !module.strtab)
        return 0;
    search->is_found = refers_to(&module, module.rela, module.n_relas, search->text) ||
                       refers_to(&module, module.plt_rela, module.n_plt_relas, search->text);
    return search->is_found;
}

/* The start of this library; dladdr would read all its symbols. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

BASE_NO_SANITIZE bool image_process_refers_to(const char *text)
{
    struct search search = {.text = text, .own = (uintptr_t)&__ehdr_start};

    dl_iterate_phdr(look, &search);
    return search.is_found;
}
