/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reloc.c: relocates a module's initial contents for a copy at address 0, once per program.
 *
 * The value of a relocated word of a copy is one of:
 *   - the same in every copy (address of a shared function, TLS offset): the word holds it;
 *   - an address inside the copy: the word holds its offset from the base, and the plan adds the base to
 *     it;
 *   - the address of a member of the rank's struct image_libc, or of a stream object of the rank: a libc_ref or stream_ref of
 *     the plan.
 *
 * ld.so has already looked up every symbol: the results are in the prototype's GOT, which only ld.so
 * writes. Data words that a constructor may have changed since are looked up again.
 *
 * Called by image_program_open. At that time constructors of private libraries have run on the prototype,
 * but not the program's.
 */
#include "image/copy/lazy_tls.h"
#include "image/copy/libc_state.h"
#include "image/copy/scope.h"
#include "image/copy/instantiate.h"
#include "image/copy/tls_descriptors.h"

#include "base/log.h"

#include <dlfcn.h>
#include <string.h>

static size_t read_word(const void *at)
{
    size_t word;

    memcpy(&word, at, sizeof word);
    return word;
}

static void write_word(void *at, size_t word)
{
    memcpy(at, &word, sizeof word);
}

/* ---- The kinds of words ---- */

static void set_constant(unsigned char *slot, size_t value)
{
    write_word(slot, value);
}

static void set_in_copy(struct image_program *program, unsigned char *slot, size_t slot_offset,
                        size_t value_offset)
{
    write_word(slot, value_offset);
    image_array_push(&program->adds, &program->n_adds, sizeof slot_offset, &slot_offset);
}

static void set_libc_ref(struct image_program *program, unsigned char *slot, size_t slot_offset,
                         size_t field_offset)
{
    struct image_libc_ref ref = {.offset = slot_offset, .field_offset = field_offset};

    write_word(slot, 0);
    image_array_push(&program->libc_refs, &program->n_libc_refs, sizeof ref, &ref);
}

static void set_stream_ref(struct image_program *program, unsigned char *slot, size_t slot_offset, int stream,
                           size_t addend)
{
    struct image_stream_ref ref = {.offset = slot_offset, .stream = stream, .addend = addend};

    write_word(slot, 0);
    image_array_push(&program->stream_refs, &program->n_stream_refs, sizeof ref, &ref);
}

/* Records that copies of the group refer to another one: a rank that has this group needs the other. */
static void note_target(struct image_program *program, const struct image_module *target)
{
    if (target->group != program->number && program->needs)
        program->needs[target->group] = true;
}

/* ---- Symbols ---- */

/* One relocation, decoded. */
struct reloc {
    enum image_reloc_kind kind;
    size_t vaddr; /* of the word */
    size_t addend;
    size_t symbol_index;
    const ElfW(Sym) * symbol;   /* NULL: none */
    const char *name;           /* of the symbol; NULL: none */
    unsigned char *slot;        /* the word in the initial contents */
    size_t slot_offset;         /* the word in a copy */
    const void *prototype_slot; /* the word in the prototype */
};

/* Stands in for a function that no module defines; ld.so would fail at its first call, too. */
static void undefined_function(void)
{
    base_fatal(127,
               "the program called a function that none of its libraries defines; run it without Heddle's "
               "ranks (+vp 1) to see which one");
}

static bool is_in_relro(const struct image_module *module, size_t vaddr)
{
    for (size_t i = 0; i < module->n_phdrs; i++)
        if (module->phdr[i].p_type == PT_GNU_RELRO &&
            vaddr - module->phdr[i].p_vaddr < module->phdr[i].p_memsz)
            return true;
    return false;
}

/* True if a rank's value of the symbol may not be ld.so's. */
static bool may_differ(const struct image_program *program, const struct image_module *module,
                       const struct reloc *r, size_t value)
{
    return program->number > 0 && !image_symbol_is_own(module, r->symbol_index) &&
           image_scope_may_differ(program, (const void *)value);
}

/* True if the prototype's word still has the value that ld.so wrote. */
static bool can_trust_prototype(const struct image_program *program, const struct image_module *module,
                                const struct reloc *r)
{
    switch (r->kind) {
    case IMAGE_RELOC_GOT:
        return true;
    case IMAGE_RELOC_PLT: /* not bound yet: it points back into the PLT, to the address in the file */
        return read_word(r->prototype_slot) != module->bias + read_word(r->slot);
    default:
        return module->is_pristine || is_in_relro(module, r->vaddr);
    }
}

/* The symbol's value in the prototype; 0: undefined. */
static size_t symbol_value(const struct image_program *program, const struct image_module *module,
                           const struct reloc *r)
{
    if (!r->symbol)
        return module->bias;
    if (can_trust_prototype(program, module, r)) {
        size_t word = read_word(r->prototype_slot);
        size_t value = r->kind == IMAGE_RELOC_ABSOLUTE ? word - r->addend : word;

        if (!may_differ(program, module, r, value))
            return value;
    }
    return (size_t)image_symbol_lookup(program, module, r->symbol_index);
}

/* Relocates a word that holds the address of a symbol. */
static void relocate_symbol(struct image_program *program, struct image_module *module, const struct reloc *r)
{
    size_t addend = r->kind == IMAGE_RELOC_ABSOLUTE ? r->addend : 0;
    size_t value = symbol_value(program, module, r);
    const struct image_module *target = value ? image_module_of(program, value) : NULL;
    bool is_own_end = r->symbol && r->symbol->st_shndx != SHN_UNDEF && r->symbol->st_shndx != SHN_ABS &&
                      value == module->bias + r->symbol->st_value;
    const struct image_rebinding *rebinding = NULL;
    int stream = -1;

    if (is_own_end) /* also covers symbols just after the last page, such as _end */
        target = module;
    if (r->symbol && r->symbol->st_shndx == SHN_ABS)
        target = NULL;
    if (r->name && !target) /* a definition of the program itself is not replaced */
        rebinding = image_libc_room.find_for(r->name, (const void *)value);
    if (r->name && !target)
        stream = image_stream_find(r->name, (const void *)value);
    if (stream >= 0)
        set_stream_ref(program, r->slot, r->slot_offset, stream, addend);
    else if (rebinding && rebinding->replacement)
        set_constant(r->slot, (size_t)rebinding->replacement + addend);
    else if (rebinding)
        set_libc_ref(program, r->slot, r->slot_offset,
                     image_libc_field_offset(rebinding->libc_field) + addend);
    else if (target) {
        note_target(program, target);
        set_in_copy(program, r->slot, r->slot_offset, value - target->bias + target->copy_shift + addend);
    } else if (!value && r->kind == IMAGE_RELOC_PLT && ELF64_ST_BIND(r->symbol->st_info) != STB_WEAK)
        set_constant(r->slot, (size_t)undefined_function);
    else
        set_constant(r->slot, value + addend);
}

/* A function chosen at run time: ld.so has called the resolver. */
static void relocate_ifunc(struct image_program *program, struct image_module *module, const struct reloc *r)
{
    size_t value = read_word(r->prototype_slot);
    const struct image_module *target;

    if (!module->is_pristine && !is_in_relro(module, r->vaddr))
        value = ((size_t(*)(void))(module->bias + r->addend))();
    target = image_module_of(program, value);
    if (target) {
        note_target(program, target);
        set_in_copy(program, r->slot, r->slot_offset, value - target->bias + target->copy_shift);
    } else
        set_constant(r->slot, value);
}

/* ---- thread_local variables ---- */

static void relocate_tls_module(struct image_program *program, const struct reloc *r)
{
    size_t number = read_word(r->prototype_slot);
    const struct image_module *target = image_lazy_tls_find_number(program, number);

    if (target)
        note_target(program, target);
    set_constant(r->slot, target ? target->tls_lazy : number);
}

static void relocate_tls_descriptor(struct image_program *program, const struct image_module *module,
                                    const ElfW(Rela) * rela, const struct reloc *r)
{
    size_t offset;
    const struct image_module *target = image_tls_descriptor_target(program, module, rela, &offset);
    struct image_tls_descriptor descriptor;

    memcpy(&descriptor, r->prototype_slot, sizeof descriptor);
    if (target) {
        note_target(program, target);
        descriptor = image_tls_descriptor_make(target, offset);
    }
    memcpy(r->slot, &descriptor, sizeof descriptor);
}

/* ---- COPY ---- */

/* The library's definition that ld.so copied from: the first one after the program's. NULL: none, or ld.so
 * does not report it. *live_out: the variable that the libraries use. */
static const void *copied_definition(const struct image_program *program, const struct image_module *module,
                                     const struct reloc *r, const void **live_out)
{
    const char *version = image_symbol_version(module, r->symbol_index);

    if (program->number > 0) { /* after the program in its order of look-up */
        struct image_definition definition;
        const void *value;

        if (!image_scope_find_in(&program->scope, program, module->scope + 1, module->n_scope - 1, r->name,
                                 version, &definition))
            return NULL;
        value = image_definition_value(&definition, r->name, version);
        *live_out = image_symbol_bound(definition.map, r->name);
        if (!*live_out)
            *live_out = value;
        return value;
    }
    for (const struct link_map *map = _r_debug.r_map->l_next; map; map = map->l_next) {
        void *handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
        void *value = handle && version ? dlvsym(handle, r->name, version) : NULL;
        struct link_map *found = NULL;
        Dl_info info;

        if (handle && !value)
            value = dlsym(handle, r->name);
        if (handle)
            dlclose(handle);
        if (value && dladdr1(value, &info, (void **)&found, RTLD_DL_LINKMAP) && found == map)
            return value;
    }
    return NULL;
}

static void add_variable(struct image_program *program, const struct image_module *module,
                         const struct reloc *r)
{
    const void *live = r->prototype_slot;
    const void *definition = copied_definition(program, module, r, &live);
    const struct image_module *owner = image_module_of(program, (uintptr_t)definition);
    const struct image_rebinding *rebinding = image_libc_room.find(r->name);
    struct image_variable variable = {
        .offset = r->slot_offset,
        .len_bytes = r->symbol->st_size,
        .prototype = live,
        .is_private = owner != NULL,
        .source = owner ? (uintptr_t)definition - owner->bias + owner->copy_shift : 0,
        .libc_field = rebinding && !rebinding->replacement ? rebinding->libc_field : -1,
        .is_stream = !owner && image_stream_is(r->name),
        .is_zeroed = strcmp(r->name, "__libc_single_threaded") == 0,
    };

    image_array_push(&program->variables, &program->n_variables, sizeof variable, &variable);
}

/* ---- The loop ---- */

static bool relocate_one(struct image_program *program, struct image_module *module, struct reloc *r,
                         const ElfW(Rela) * rela, const char **error_out)
{
    size_t len = r->kind == IMAGE_RELOC_TLSDESC ? 2 * sizeof(size_t) : sizeof(size_t);

    r->slot_offset = r->vaddr + module->copy_shift;
    r->prototype_slot = (const void *)(module->bias + r->vaddr);
    if (r->kind == IMAGE_RELOC_COPY) { /* in .bss: no initial contents to relocate */
        add_variable(program, module, r);
        return true;
    }
    r->slot = image_data_at(module, r->vaddr, len);
    if (!r->slot && r->kind != IMAGE_RELOC_NONE && r->kind != IMAGE_RELOC_UNSUPPORTED) {
        *error_out = image_error("cannot run as several ranks: %s has a relocation outside its initialized "
                                 "data (at 0x%zx); please report it",
                                 module->name, r->vaddr);
        return false;
    }
    switch (r->kind) {
    case IMAGE_RELOC_NONE:
        return true;
    case IMAGE_RELOC_RELATIVE:
        set_in_copy(program, r->slot, r->slot_offset, r->addend + module->copy_shift);
        return true;
    case IMAGE_RELOC_GOT:
    case IMAGE_RELOC_PLT:
    case IMAGE_RELOC_ABSOLUTE:
        relocate_symbol(program, module, r);
        return true;
    case IMAGE_RELOC_IRELATIVE:
        relocate_ifunc(program, module, r);
        return true;
    case IMAGE_RELOC_TLS_MODULE:
        relocate_tls_module(program, r);
        return true;
    case IMAGE_RELOC_TLSDESC:
        relocate_tls_descriptor(program, module, rela, r);
        return true;
    case IMAGE_RELOC_TLS:
    case IMAGE_RELOC_TLS_OFFSET:
        memcpy(r->slot, r->prototype_slot, len);
        return true;
    default:
        *error_out =
            image_error("cannot run as several ranks: unsupported relocation type %u in %s; please report it",
                        (unsigned)ELF64_R_TYPE(rela->r_info), module->name);
        return false;
    }
}

static bool relocate_table(struct image_program *program, struct image_module *module,
                           const ElfW(Rela) * table, size_t count, const char **error_out)
{
    for (size_t i = 0; i < count; i++) {
        struct reloc r = {
            .kind = image_arch_reloc_kind(ELF64_R_TYPE(table[i].r_info)),
            .vaddr = table[i].r_offset,
            .addend = (size_t)table[i].r_addend,
            .symbol_index = ELF64_R_SYM(table[i].r_info),
        };

        if (r.symbol_index) {
            r.symbol = &module->symtab[r.symbol_index];
            r.name = module->strtab + r.symbol->st_name;
        }
        if (!relocate_one(program, module, &r, &table[i], error_out))
            return false;
    }
    return true;
}

/* DT_RELR: an even entry is the address of a word; an odd one is a bitmap of the 63 words that follow. */
static bool relocate_relr(struct image_program *program, struct image_module *module, const char **error_out)
{
    size_t next = 0;

    for (size_t i = 0; i < module->n_relrs; i++) {
        size_t entry = module->relr[i];
        size_t bits = entry & 1 ? entry >> 1 : 1;
        size_t first = entry & 1 ? next : entry;

        for (size_t at = first; bits; bits >>= 1, at += sizeof(size_t)) {
            unsigned char *slot = bits & 1 ? image_data_at(module, at, sizeof(size_t)) : NULL;
            struct reloc r = {.kind = IMAGE_RELOC_RELATIVE, .vaddr = at};

            if (!(bits & 1))
                continue;
            r.addend = slot ? read_word(slot) : 0;
            if (!relocate_one(program, module, &r, NULL, error_out))
                return false;
        }
        next = first + (entry & 1 ? 63 : 1) * sizeof(size_t);
    }
    return true;
}

/* The dynamic section, in which ld.so relocates addresses, and sets DT_DEBUG: the program may read it. */
static void relocate_dynamic(struct image_program *program, struct image_module *module)
{
    for (const ElfW(Dyn) *d = module->dynamic; d && d->d_tag != DT_NULL; d++) {
        size_t vaddr = (uintptr_t)&d->d_un.d_ptr - module->bias, value = d->d_un.d_ptr;
        unsigned char *slot = image_data_at(module, vaddr, sizeof value);

        if (!slot) /* read-only: not relocated */
            return;
        if (d->d_tag == DT_DEBUG)
            set_constant(slot, value);
        else if (read_word(slot) && value == read_word(slot) + module->bias)
            set_in_copy(program, slot, vaddr + module->copy_shift, value - module->bias + module->copy_shift);
    }
}

bool image_relocate(struct image_program *program, struct image_module *module, const char **error_out)
{
    relocate_dynamic(program, module);
    return relocate_table(program, module, module->rela, module->n_relas, error_out) &&
           relocate_table(program, module, module->plt_rela, module->n_plt_relas, error_out) &&
           relocate_relr(program, module, error_out);
}
