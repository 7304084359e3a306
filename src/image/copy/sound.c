/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sound.c: checks that the headers of a module that src/image reads are valid.
 *
 * ld.so has loaded the module, but checks less than copying needs: not the symbols of functions that were
 * not called yet, nor segments' alignments, nor the data that destructors and the unwinder need. A damaged
 * file must be refused, not crash.
 */
#include "image/copy/program.h"

static bool is_power_of_two(size_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

static size_t page_down(size_t n)
{
    return n & ~((size_t)IMAGE_ARCH_PAGE_BYTES - 1);
}

static size_t page_up(size_t n)
{
    return page_down(n + IMAGE_ARCH_PAGE_BYTES - 1);
}

/* True if n bytes at vaddr are in a segment with these permissions. */
static bool has_bytes(const struct image_module *module, size_t vaddr, size_t n, unsigned flags)
{
    for (size_t i = 0; i < module->n_phdrs; i++) {
        const ElfW(Phdr) *phdr = &module->phdr[i];
        size_t offset = vaddr - phdr->p_vaddr;

        if (phdr->p_type == PT_LOAD && (phdr->p_flags & flags) == flags && offset <= phdr->p_memsz &&
            n <= phdr->p_memsz - offset)
            return true;
    }
    return false;
}

/* The same for an array at an address of the prototype; NULL is valid if it has no elements. */
static bool has_array(const struct image_module *module, const void *array, size_t count, size_t item_bytes)
{
    if (count == 0)
        return true;
    return array && count <= SIZE_MAX / item_bytes &&
           has_bytes(module, (uintptr_t)array - module->bias, count * item_bytes, PF_R);
}

static const char *segments_flaw(const struct image_module *module)
{
    size_t end = 0;

    for (size_t i = 0; i < module->n_phdrs; i++) {
        const ElfW(Phdr) *phdr = &module->phdr[i];

        if (phdr->p_type != PT_LOAD || !phdr->p_memsz)
            continue;
        if (phdr->p_filesz > phdr->p_memsz || phdr->p_vaddr + phdr->p_memsz < phdr->p_vaddr ||
            page_down(phdr->p_vaddr) < end)
            return "its segments overlap, or are larger in the file than in memory";
        if (phdr->p_align > 1 && (!is_power_of_two(phdr->p_align) || phdr->p_align > (size_t)1 << 32))
            return "the alignment of a segment is not a power of two, or more than 4 GiB";
        if ((phdr->p_vaddr - phdr->p_offset) % IMAGE_ARCH_PAGE_BYTES != 0)
            return "a segment does not begin where its page in the file begins";
        end = page_up(phdr->p_vaddr + phdr->p_memsz);
    }
    return NULL;
}

/* Checks segments that are parts of others. */
static const char *parts_flaw(const struct image_module *module)
{
    for (size_t i = 0; i < module->n_phdrs; i++) {
        const ElfW(Phdr) *phdr = &module->phdr[i];
        size_t end = phdr->p_vaddr + phdr->p_memsz;
        bool is_inside = false;

        /* RELRO may end at its segment's last page. */
        for (size_t j = 0; j < module->n_phdrs; j++)
            is_inside |= module->phdr[j].p_type == PT_LOAD && (module->phdr[j].p_flags & PF_W) &&
                         phdr->p_vaddr >= module->phdr[j].p_vaddr && end >= phdr->p_vaddr &&
                         end <= page_up(module->phdr[j].p_vaddr + module->phdr[j].p_memsz);
        if (phdr->p_type == PT_GNU_RELRO && phdr->p_memsz && !is_inside)
            return "its read-only data (PT_GNU_RELRO) is outside its data";
        if (phdr->p_type == PT_TLS && phdr->p_memsz &&
            (phdr->p_filesz > phdr->p_memsz || (phdr->p_align > 1 && !is_power_of_two(phdr->p_align)) ||
             !has_bytes(module, phdr->p_vaddr, phdr->p_filesz, PF_R)))
            return "its thread_local data (PT_TLS) is outside its segments";
        if (phdr->p_type == PT_GNU_EH_FRAME && !has_bytes(module, phdr->p_vaddr, phdr->p_memsz, PF_R))
            return "its unwind table (PT_GNU_EH_FRAME) is outside its segments";
    }
    return NULL;
}

static const char *dynamic_flaw(const struct image_module *module)
{
    const struct {
        size_t vaddr, count;
    } arrays[] = {{module->preinit_array_vaddr, module->n_preinits},
                  {module->init_array_vaddr, module->n_inits},
                  {module->fini_array_vaddr, module->n_finis}};

    if (!has_array(module, module->rela, module->n_relas, sizeof *module->rela) ||
        !has_array(module, module->plt_rela, module->n_plt_relas, sizeof *module->plt_rela) ||
        !has_array(module, module->relr, module->n_relrs, sizeof *module->relr))
        return "a table of relocations is outside its segments";
    if (!has_array(module, module->symtab, 1, sizeof *module->symtab) ||
        !has_array(module, module->strtab, module->strtab_bytes, 1) || module->strtab_bytes == 0 ||
        module->strtab[module->strtab_bytes - 1] != '\0')
        return "its symbol table or string table is outside its segments";
    if ((module->init_vaddr && !has_bytes(module, module->init_vaddr, 1, PF_X)) ||
        (module->fini_vaddr && !has_bytes(module, module->fini_vaddr, 1, PF_X)))
        return "DT_INIT or DT_FINI is outside its code";
    for (size_t i = 0; i < BASE_COUNT(arrays); i++)
        if (arrays[i].count && (arrays[i].count > SIZE_MAX / sizeof(void *) ||
                                !has_bytes(module, arrays[i].vaddr, arrays[i].count * sizeof(void *), PF_R)))
            return "DT_INIT_ARRAY, DT_FINI_ARRAY or DT_PREINIT_ARRAY is outside its segments";
    return NULL;
}

static const char *relocs_flaw(const struct image_module *module, const ElfW(Rela) * table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        enum image_reloc_kind kind = image_arch_reloc_kind(ELF64_R_TYPE(table[i].r_info));
        size_t index = ELF64_R_SYM(table[i].r_info);
        size_t len_bytes = (kind == IMAGE_RELOC_TLSDESC ? 2 : 1) * sizeof(size_t); /* that it changes */

        if (kind == IMAGE_RELOC_NONE || kind == IMAGE_RELOC_UNSUPPORTED)
            continue;
        if (kind == IMAGE_RELOC_COPY && index == 0)
            return "a COPY relocation has no symbol";
        if (index) {
            const ElfW(Sym) *symbol = &module->symtab[index];

            if (!has_array(module, symbol, 1, sizeof *symbol) || symbol->st_name >= module->strtab_bytes ||
                (module->versym && !has_array(module, &module->versym[index], 1, sizeof *module->versym)))
                return "a relocation refers to a symbol that does not exist";
            if (kind == IMAGE_RELOC_COPY)
                len_bytes = symbol->st_size;
        }
        if (!module->has_textrel && !has_bytes(module, table[i].r_offset, len_bytes, PF_W))
            return "a relocation is outside its data";
    }
    return NULL;
}

const char *image_module_flaw(const struct image_module *module)
{
    const char *flaw = segments_flaw(module);

    if (!flaw)
        flaw = parts_flaw(module);
    if (!flaw)
        flaw = dynamic_flaw(module);
    if (!flaw)
        flaw = relocs_flaw(module, module->rela, module->n_relas);
    if (!flaw)
        flaw = relocs_flaw(module, module->plt_rela, module->n_plt_relas);
    return flaw;
}
