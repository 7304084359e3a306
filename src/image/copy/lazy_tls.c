/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lazy_tls.c: allocates thread_local variables of copied modules at their first use, per rank and thread.
 *
 * The program's own thread_local block, at a fixed distance from the thread pointer, is swapped at every
 * switch (src/ult/tls.c). A library's code calls __tls_get_addr to find its block, unless it was compiled
 * for the initial-exec model, so nothing needs to be swapped: in a copy, __tls_get_addr is
 * image_tls_get_addr, and the module number in the GOT is assigned by this file. A rank that never uses the
 * library's variables pays nothing for them.
 *
 * A module is static, and swapped, if it is the program, or if any copied module has a TPOFF64 word that
 * points into its block. These words are the only fixed distances in a library's code; ld.so also writes
 * them into TLS descriptors, but those are replaced (tls_descriptors.c).
 *
 * Copying 190 KB at a switch takes 7 us, the switch itself 18 ns. The thread pointer is switched only in programs that start
 * threads (src/ult/lender.c): it needs an OS thread per rank, and pthread_self, owners of mutexes, malloc's cache and the
 * kernel's robust list depend on it. Of 1,609 libraries of a machine 152 have thread_local data; 18 of them use the initial-exec model,
 * for 136 bytes at most, and the 22 with more than 500 bytes all call __tls_get_addr. Measured with
 * bench/thread_data.
 *
 * Rejected for what is at fixed distances: a distance per copy in its GOT (right on one OS thread only);
 * protecting the pages (a fault costs 2.9 us, and system calls fail with EFAULT); moving pages with mremap
 * (2.7 us for 188 KiB, and TLB shootdowns on other PEs' cores).
 */
#include "image/copy/lazy_tls.h"

#include "base/log.h"
#include "image/copy/groups.h"
#include "image/copy/instantiate.h"
#include "image/copy/threads.h"
#include "image/copy/tls_descriptors.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Numbers assigned here have this bit; ld.so counts from 1. */
#define OURS ((size_t)1 << (8 * sizeof(size_t) - 2))

enum { LAZY_MAX = 4096 };

/* The lazy modules by number. Written under ld.so's lock or before the first rank; the count publishes
 * entries. */
static const struct image_module *lazy[LAZY_MAX];
static atomic_size_t n_lazy;

extern void *__tls_get_addr(const struct image_tls_index *index);

/* ---- Which modules are lazy ---- */

/* The program's module whose static block contains this offset from the thread pointer. */
static struct image_module *static_owner(struct image_program *program, size_t tp_offset)
{
    char *addr = (char *)__builtin_thread_pointer() + tp_offset;

    for (size_t i = 0; i < program->n_modules; i++) {
        struct image_module *module = &program->modules[i];

        if (module->tls_block && (size_t)(addr - (char *)module->tls_block) < module->tls_bytes)
            return module;
    }
    return NULL;
}

/* Records the modules that a table's relocations address at fixed offsets. */
static void note_fixed(struct image_program *program, const struct image_module *module,
                       const ElfW(Rela) * table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct image_module *owner;
        size_t word;

        if (image_arch_reloc_kind(ELF64_R_TYPE(table[i].r_info)) != IMAGE_RELOC_TLS)
            continue;
        memcpy(&word, (const char *)module->bias + table[i].r_offset, sizeof word);
        owner = static_owner(program, word);
        if (owner)
            owner->is_tls_static = true;
    }
}

/* With descriptors that cannot be replaced, any module may be addressed at fixed offsets. */
static void note_descriptors(struct image_program *program)
{
    bool is_clear = true;

    for (size_t i = 0; i < program->n_modules; i++)
        is_clear &= image_tls_descriptors_are_bound(&program->modules[i]);
    for (size_t i = 0; !is_clear && i < program->n_modules; i++)
        program->modules[i].is_tls_static = true;
}

void image_lazy_tls_find(struct image_program *program)
{
    char *thread_pointer = __builtin_thread_pointer();

    program->modules[0].is_tls_static = true;
    for (size_t i = 0; i < program->n_modules; i++) {
        struct image_module *module = &program->modules[i];

        if (module->tls_block)
            module->tls_offset = (char *)module->tls_block - thread_pointer;
        note_fixed(program, module, module->rela, module->n_relas);
        note_fixed(program, module, module->plt_rela, module->n_plt_relas);
    }
    note_descriptors(program);
    for (size_t i = 0; i < program->n_modules; i++)
        image_lazy_tls_add(&program->modules[i]);
}

/* True if the table has fixed offsets of the module's own variables. */
static bool has_fixed(const struct image_module *module, const ElfW(Rela) * table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        enum image_reloc_kind kind = image_arch_reloc_kind(ELF64_R_TYPE(table[i].r_info));
        size_t symbol_index = ELF64_R_SYM(table[i].r_info);

        if (kind == IMAGE_RELOC_TLS && (!symbol_index || module->symtab[symbol_index].st_shndx != SHN_UNDEF))
            return true;
    }
    return false;
}

bool image_lazy_tls_can(const struct image_module *module)
{
    return !module->tls_bytes ||
           !(module->has_static_tls || has_fixed(module, module->rela, module->n_relas) ||
             has_fixed(module, module->plt_rela, module->n_plt_relas) ||
             !image_tls_descriptors_are_bound(module));
}

void image_lazy_tls_add(struct image_module *module)
{
    size_t index = atomic_load_explicit(&n_lazy, memory_order_relaxed);

    if (!module->tls_bytes || module->is_tls_static)
        return;
    if (index == LAZY_MAX)
        base_fatal(1, "more than %d libraries with thread_local variables", LAZY_MAX);
    lazy[index] = module;
    module->tls_lazy = OURS | index;
    atomic_store_explicit(&n_lazy, index + 1, memory_order_release);
    base_log_verbose(2, "%s: %zu bytes of thread_local variables, allocated at their first use", module->name,
                     module->tls_bytes);
}

size_t image_lazy_tls_index(const struct image_module *module)
{
    return module->tls_lazy & ~OURS;
}

static const struct image_module *find_number(const struct image_program *program, size_t number)
{
    for (size_t i = 0; i < program->n_modules; i++)
        if (program->modules[i].tls_lazy && program->modules[i].tls_number == number)
            return &program->modules[i];
    return NULL;
}

const struct image_module *image_lazy_tls_find_number(const struct image_program *program, size_t number)
{
    size_t n_groups = atomic_load(&image_n_groups);
    const struct image_module *module = find_number(program, number);

    for (size_t group = 0; program->number > 0 && group < n_groups && !module; group++)
        if (image_groups[group]->root == program->root)
            module = find_number(image_groups[group], number);
    return module;
}

/* ---- Their blocks ---- */

/* Extends the table to hold the module's block. */
static struct image_lazy_blocks *grow(struct image_thread *thread, size_t index)
{
    size_t old_count = thread->lazy_tls ? thread->lazy_tls->count : 0;
    size_t count = atomic_load_explicit(&n_lazy, memory_order_acquire);
    struct image_lazy_blocks *table = thread->lazy_tls;

    BASE_ASSERT(index < count);
    table = base_realloc(table, sizeof *table + count * sizeof table->blocks[0],
                         "a thread's thread_local variables");
    memset(&table->blocks[old_count], 0, (count - old_count) * sizeof table->blocks[0]);
    table->count = count;
    thread->lazy_tls = table;
    return table;
}

char *image_lazy_tls_peek(const struct image_thread *thread, const struct image_module *module)
{
    size_t index = image_lazy_tls_index(module);

    return thread && thread->lazy_tls && index < thread->lazy_tls->count ? thread->lazy_tls->blocks[index]
                                                                         : NULL;
}

BASE_COLD char *image_lazy_tls_block(struct image_thread *thread, const struct image_module *module)
{
    size_t index = image_lazy_tls_index(module);
    struct image_lazy_blocks *table = thread->lazy_tls;
    size_t align = module->tls_align > 2 * sizeof(void *) ? module->tls_align : 2 * sizeof(void *);
    char *room, *block = image_lazy_tls_peek(thread, module);

    if (block)
        return block;
    if (!table || index >= table->count)
        table = grow(thread, index);
    room = calloc(1, module->tls_bytes + 2 * align); /* calloc does not touch pages that stay zero */
    if (!room)
        base_fatal(1, "out of memory: cannot allocate the thread_local variables of %s (%zu bytes)",
                   module->name, module->tls_bytes);
    block = room + align - (uintptr_t)room % align; /* at least two words after room */
    block += module->tls_vaddr % align; /* as in the file: some linkers do not align the segment */
    ((char **)(void *)block)[-1] = room;
    memcpy(block, thread->image->base + module->copy_shift + module->tls_vaddr, module->tls_file_bytes);
    table->blocks[index] = block;
    return block;
}

void *image_tls_address(const struct image_tls_index *index, const void *in_copy)
{
    struct image_thread *thread = image_thread_of(in_copy);

    if (!thread)
        base_fatal(1, "a rank's thread_local variable was used outside of ranks; please report it");
    return image_lazy_tls_block(thread, lazy[index->module & ~OURS]) + index->offset;
}

/* Code from old compilers calls it with a misaligned stack. */
static BASE_COLD __attribute__((noinline, force_align_arg_pointer)) void *
find_slowly(const struct image_tls_index *index)
{
    return image_tls_address(index, index); /* the index is in the copy's GOT */
}

void *image_tls_get_addr(const struct image_tls_index *index)
{
    size_t number = index->module & ~OURS;
    const struct image_thread *thread;

    if (!(index->module & OURS))
        return __tls_get_addr(index);
    thread = image_thread_current();
    if (BASE_UNLIKELY(!thread || !thread->lazy_tls || number >= thread->lazy_tls->count ||
                      !thread->lazy_tls->blocks[number]))
        return find_slowly(index);
    return (char *)thread->lazy_tls->blocks[number] + index->offset;
}

const struct image_module *image_lazy_tls_of(const void *prototype_addr, size_t *offset_out)
{
    size_t count = atomic_load_explicit(&n_lazy, memory_order_acquire);

    for (size_t i = 0; i < count; i++) {
        void *prototype = NULL; /* NULL: this OS thread has no block of it */

        if (!lazy[i]->link_map || dlinfo((void *)lazy[i]->link_map, RTLD_DI_TLS_DATA, &prototype) != 0 ||
            !prototype)
            continue;
        *offset_out = (size_t)((const char *)prototype_addr - (char *)prototype);
        if (*offset_out < lazy[i]->tls_bytes)
            return lazy[i];
    }
    return NULL;
}

void image_lazy_tls_free(struct image_thread *thread)
{
    for (size_t i = 0; thread->lazy_tls && i < thread->lazy_tls->count; i++)
        if (thread->lazy_tls->blocks[i])
            free(((char **)thread->lazy_tls->blocks[i])[-1]);
    free(thread->lazy_tls);
    thread->lazy_tls = NULL;
}
