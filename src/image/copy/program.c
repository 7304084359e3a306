/* SPDX-License-Identifier: BSD-3-Clause
 *
 * program.c: analyses the prototype once and computes the plan for making copies.
 *
 * Called by the layer above before the first rank exists. The steps: find the modules (modules.c), read
 * their segments (segments.c), assign their places in a copy, relocate the initial contents (reloc.c), turn
 * them into a plan, and tell src/ult the TLS regions of the program.
 */
#include "image/copy/program.h"
#include "image/copy/groups.h"
#include "image/copy/lazy_tls.h"
#include "image/copy/libc_state.h"
#include "image/copy/scope.h"

#include "base/log.h"
#include "ult/ult.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct image_program image_program = {
    .root = &image_program, .scope.root = &image_program, .is_relro_protected = true};

void image_array_push(void *array_ptr, size_t *count, size_t item_bytes, const void *item)
{
    char **array = array_ptr;

    /* Capacities are powers of two: the array is full when the count is one. */
    if ((*count & (*count - 1)) == 0)
        *array =
            base_realloc(*array, (*count ? *count * 2 : 1) * item_bytes, "the plan of the program's image");
    memcpy(*array + *count * item_bytes, item, item_bytes);
    (*count)++;
}

const char *image_error(const char *fmt, ...)
{
    static char sentence[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, args);
    va_end(args);
    return sentence;
}

/* What gives a rank more address space for opened libraries. */
static const char *more_late_bytes = "fewer ranks";

void image_set_late_bytes(size_t bytes, const char *remedy)
{
    more_late_bytes = remedy;
    image_program.reserved_bytes =
        image_program.span_bytes + bytes / image_program.align * image_program.align;
}

size_t image_late_bytes(void)
{
    return image_program.reserved_bytes - image_program.span_bytes;
}

/* Places the modules one after the other in a copy. Groups have the alignment of the program's copies:
 * larger alignments of libraries only serve the largest page size of some CPU. */
static void lay_out(struct image_program *program)
{
    size_t end = program->number == 0 ? 0 : image_groups[program->number - 1]->span_bytes;

    program->align = program->number == 0 ? IMAGE_ARCH_PAGE_BYTES : image_program.align;
    for (size_t i = 0; i < program->n_modules; i++) {
        struct image_module *module = &program->modules[i];
        size_t align = program->number > 0 && module->align > program->align ? program->align : module->align;

        /* The first byte must be congruent to vaddr_lo modulo the alignment. */
        module->group = program->number;
        module->is_late = program->root != program;
        module->copy_offset = base_round_up(end, align) + module->vaddr_lo % align;
        module->copy_shift = module->copy_offset - module->vaddr_lo;
        end = module->copy_offset + (module->vaddr_hi - module->vaddr_lo);
        if (align > program->align)
            program->align = align;
    }
    program->span_bytes = base_round_up(end, program->align);
    program->reserved_bytes = program->span_bytes;
}

static int compare_offsets(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;

    return (x > y) - (x < y);
}

/* thread_local blocks from this size on are reported if they are copied at each switch. */
#define LARGE_TLS_BYTES 4096

/* Tells src/ult the regions of the static TLS block that belong to the copied modules. */
static bool set_tls_regions(struct image_program *program, const char **error_out)
{
    struct ult_tls_region regions[ULT_TLS_REGIONS_MAX];
    int n = 0;

    for (size_t i = 0; i < program->n_modules; i++) {
        struct image_module *module = &program->modules[i];

        if (!module->tls_bytes || module->tls_lazy)
            continue;
        BASE_ASSERT(module->tls_block);
        if (n == ULT_TLS_REGIONS_MAX) {
            *error_out =
                image_error("cannot give each rank its own thread_local variables: more than %d modules have "
                            "such variables; share some of the program's libraries (+private -LIB)",
                            ULT_TLS_REGIONS_MAX);
            return false;
        }
        if (module->tls_bytes >= LARGE_TLS_BYTES)
            base_log_verbose(
                1, "%s: %zu bytes of thread_local variables are copied at each switch of ranks: %s",
                module->name, module->tls_bytes,
                i == 0 ? "they are the program's own, not a library's"
                       : "code reaches them at fixed offsets from the thread pointer (initial-exec)");
        regions[n].tp_offset = module->tls_offset;
        regions[n].size_bytes = module->tls_bytes;
        n++;
    }
    n = image_swapped_tls_find(regions, n, ULT_TLS_REGIONS_MAX);
    ult_tls_set_regions(regions, n);
    return true;
}

/* The constructor of std::ios_base::Init. */
static const char init_name[] = "_ZNSt8ios_base4InitC1Ev";

/* If the program has its own space for std::cout and similar objects, the first copy's constructors would
 * run too late: libstdc++ constructs these objects in the prototype, which is the source of every copy's
 * bytes. */
void image_construct_streams(const struct image_program *program)
{
    static char init_object; /* std::ios_base::Init has no data */
    const struct image_module *root = &program->modules[0];
    struct image_definition definition;
    void (*construct)(void *) = NULL;

    if (image_scope_find_in(&program->scope, program, root->scope, root->n_scope, init_name, NULL,
                            &definition))
        construct = (void (*)(void *))image_definition_value(&definition, init_name, NULL);
    if (construct && program->n_variables)
        construct(&init_object);
}

bool image_program_plan(struct image_program *program, const char **error_out)
{
    for (size_t i = 0; i < program->n_modules; i++)
        if (!image_segments_read(&program->modules[i], error_out))
            return false;
    lay_out(program);
    if (program->number > 0 && program->span_bytes > image_program.reserved_bytes) {
        *error_out = image_error(
            "%s takes %zu MiB, and less is left of the %zu MiB of address space that each "
            "rank has for opened libraries and other programs%s%s",
            program->modules[0].name, (program->modules[0].vaddr_hi - program->modules[0].vaddr_lo) >> 20,
            image_late_bytes() >> 20, program->root == program ? "" : "; use ",
            program->root == program ? "" : more_late_bytes);
        return false;
    }
    for (size_t i = 0; i < program->n_modules; i++)
        if (!image_relocate(program, &program->modules[i], error_out))
            return false;
    for (size_t i = 0; i < program->n_modules; i++)
        image_segments_plan(program, &program->modules[i]);
    if (program->n_adds)
        qsort(program->adds, program->n_adds, sizeof *program->adds, compare_offsets);
    return true;
}

bool image_program_open(image_main_fn main, const char **error_out)
{
    struct image_program *program = &image_program;
    struct image_module *main_module;

    image_libc_room.open();
    if (!image_modules_find(program, error_out))
        return false;
    image_lazy_tls_find(program);
    if (!image_program_plan(program, error_out))
        return false;
    if (!set_tls_regions(program, error_out))
        return false;
    image_construct_streams(program);
    image_cxx_new_open(program);
    image_cxx_waits_open(program);

    main_module = image_module_of(program, (uintptr_t)main);
    if (!main_module) {
        *error_out = image_error("cannot run as several ranks: main is not part of the program %s",
                                 program->modules[0].name);
        return false;
    }
    program->main_offset = (uintptr_t)main - main_module->bias + main_module->copy_shift;
    program->is_open = true;
    return true;
}

size_t image_span_bytes(void)
{
    return image_program.reserved_bytes;
}

size_t image_align_bytes(void)
{
    return image_program.align;
}

int image_mappings_per_copy(void)
{
    const struct image_program *program = &image_program;
    int count = (int)program->n_mappings;

    /* Protecting a part of a mapping splits it at both ends of the part. */
    for (size_t i = 0; program->is_relro_protected && i < program->n_relros; i++)
        for (size_t j = 0; j < program->n_mappings; j++) {
            const struct image_mapping *mapping = &program->mappings[j];
            size_t lo = program->relros[i].offset - mapping->offset, hi = lo + program->relros[i].len_bytes;

            count += lo > 0 && lo < mapping->len_bytes;
            count += hi > 0 && hi < mapping->len_bytes && hi > program->relros[i].len_bytes - 1;
        }
    return count;
}

void image_set_protect_relro(bool on)
{
    image_program.is_relro_protected = on;
}
