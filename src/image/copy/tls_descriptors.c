/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tls_descriptors.c: TLS descriptors of copies. See tls_descriptors.h.
 *
 * A descriptor of the prototype tells which variable it leads to, in ld.so's answer to the symbol:
 *
 *   no symbol in the relocation     the module's own variable; the addend is its offset in the block
 *   argument < 0                    a distance from the thread pointer: the variable is in a static block
 *   weak symbol, argument = addend  undefined: the address is NULL
 *   otherwise                       the argument points to the module's number and the offset
 */
#include "image/copy/tls_descriptors.h"

#include "image/arch/tls_descriptor.h"
#include "image/copy/groups.h"
#include "image/copy/threads.h"

#include "base/log.h"

#include <string.h>

_Static_assert(offsetof(struct ult, thread_state) == IMAGE_ARCH_ULT_THREAD_STATE, "in tls_descriptor.h");
_Static_assert(offsetof(struct image_thread, lazy_tls) == IMAGE_ARCH_THREAD_LAZY_TLS, "in tls_descriptor.h");
_Static_assert(offsetof(struct image_lazy_blocks, count) == 0, "as image_arch_tls_descriptor expects");
_Static_assert(offsetof(struct image_lazy_blocks, blocks) == 8, "as image_arch_tls_descriptor expects");
_Static_assert(offsetof(struct image_tls_index, offset) == 8, "as image_arch_tls_descriptor expects");
_Static_assert(offsetof(struct image_tls_descriptor, arg) == 8, "as image_arch_tls_descriptor expects");

static struct image_tls_descriptor read_descriptor(const struct image_module *module, const ElfW(Rela) * rela)
{
    struct image_tls_descriptor descriptor;

    memcpy(&descriptor, (const char *)module->bias + rela->r_offset, sizeof descriptor);
    return descriptor;
}

/* An unresolved descriptor's argument points to its relocation, which is in the module. */
static bool is_bound(const struct image_module *module, const ElfW(Rela) * rela)
{
    size_t vaddr = read_descriptor(module, rela).arg - module->bias;

    for (size_t i = 0; i < module->n_phdrs && ELF64_R_SYM(rela->r_info); i++)
        if (module->phdr[i].p_type == PT_LOAD && vaddr - module->phdr[i].p_vaddr < module->phdr[i].p_memsz)
            return false;
    return true;
}

static bool are_bound(const struct image_module *module, const ElfW(Rela) * table, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (image_arch_reloc_kind(ELF64_R_TYPE(table[i].r_info)) == IMAGE_RELOC_TLSDESC &&
            !is_bound(module, &table[i]))
            return false;
    return true;
}

bool image_tls_descriptors_are_bound(const struct image_module *module)
{
    return are_bound(module, module->rela, module->n_relas) &&
           are_bound(module, module->plt_rela, module->n_plt_relas);
}

/* The lazy module of this program or group whose static block in the prototype contains the offset from the
 * thread pointer. */
static const struct image_module *find_static(const struct image_program *program, size_t tp_offset)
{
    for (size_t i = 0; i < program->n_modules; i++) {
        const struct image_module *module = &program->modules[i];

        if (module->tls_lazy && module->tls_block &&
            tp_offset - (size_t)module->tls_offset < module->tls_bytes)
            return module;
    }
    return NULL;
}

const struct image_module *image_tls_descriptor_target(const struct image_program *program,
                                                       const struct image_module *module,
                                                       const ElfW(Rela) * rela, size_t *offset_out)
{
    const ElfW(Sym) *symbol = &module->symtab[ELF64_R_SYM(rela->r_info)];
    size_t arg = read_descriptor(module, rela).arg;
    const struct image_module *target;
    struct image_tls_index index;

    if (!ELF64_R_SYM(rela->r_info)) {
        *offset_out = (size_t)rela->r_addend;
        return module->tls_lazy ? module : NULL;
    }
    if ((ptrdiff_t)arg < 0) { /* only modules loaded at the start have static blocks */
        target = find_static(program->root, arg);
        *offset_out = target ? arg - (size_t)target->tls_offset : 0;
        return target;
    }
    if (ELF64_ST_BIND(symbol->st_info) == STB_WEAK && symbol->st_shndx == SHN_UNDEF &&
        arg == (size_t)rela->r_addend)
        return NULL;
    memcpy(&index, (const void *)arg, sizeof index);
    *offset_out = index.offset;
    return image_lazy_tls_find_number(program, index.module);
}

struct image_tls_descriptor image_tls_descriptor_make(const struct image_module *target, size_t offset)
{
    struct image_tls_index *index =
        base_malloc(sizeof *index, "a TLS descriptor"); /* as long as copies exist */

    image_arch_measure_registers();
    *index = (struct image_tls_index){image_lazy_tls_index(target), offset};
    return (struct image_tls_descriptor){(size_t)image_arch_tls_descriptor, (size_t)index};
}

/* Called by image_arch_tls_descriptor. */
void *image_tls_descriptor_find(const struct image_tls_descriptor *descriptor)
{
    return image_tls_address((const struct image_tls_index *)descriptor->arg, descriptor);
}
