/* SPDX-License-Identifier: BSD-3-Clause
 *
 * segments.c: plans the mappings of a copy from a module's segments.
 *
 * Mappings are scarce (vm.max_map_count is 65,530), so a copy uses as few as possible:
 *   - read-only segments (headers, code, constants) share one mapping of the file, if file offset and vaddr
 *     differ by the same amount in all of them, as in ld's layout;
 *   - neighbouring writable segments and .bss share one anonymous mapping, that the initial contents are
 *     copied into: only nonzero pages are touched;
 *   - initial contents that are large and mostly unchanged by relocations are a mapping of the file
 *     instead.
 */
#include "image/copy/program.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Size of nonzero initial contents without relocations above which a mapping of the file (one more mapping
 * per copy) is better than copying them for every rank. */
#define FROM_FILE_BYTES ((size_t)128 * 1024)

/* Initial contents stay in memory as they are if no more than this would be saved. */
#define KEEP_BYTES ((size_t)64 * 1024)

/* Pages of initial contents are allocated by one call from this size on, including gaps up to this size. */
#define POPULATE_BYTES ((size_t)8 * IMAGE_ARCH_PAGE_BYTES)
#define POPULATE_GAP_BYTES ((size_t)4 * IMAGE_ARCH_PAGE_BYTES)

static size_t page_down(size_t n)
{
    return n & ~((size_t)IMAGE_ARCH_PAGE_BYTES - 1);
}

static size_t page_up(size_t n)
{
    return page_down(n + IMAGE_ARCH_PAGE_BYTES - 1);
}

/* ---- Reading ---- */

static bool read_file(const struct image_module *module, unsigned char *to, size_t len_bytes, size_t offset,
                      const char **error_out)
{
    for (size_t done = 0; done < len_bytes;) {
        ssize_t n = pread(module->fd, to + done, len_bytes - done, (off_t)(offset + done));

        if (n <= 0) {
            *error_out = image_error("cannot read the initial contents of %s: %s", module->name,
                                     n < 0 ? strerror(errno) : "the file is too short");
            return false;
        }
        done += (size_t)n;
    }
    return true;
}

/* True if the segment is a range of its own, not part of the range of the writable segment before it: together they cannot be a
 * mapping of the file. Such are the tables that auditwheel moves in libraries of Python's wheels, in several small segments. */
static bool is_apart(const struct image_data *before, const ElfW(Phdr) * phdr)
{
    return phdr->p_filesz && before->file_shift != (ssize_t)(phdr->p_vaddr - phdr->p_offset) &&
           page_down(phdr->p_vaddr) >= before->vaddr_hi;
}

/* Appends a writable segment, to the last range if no other segment is in between. */
static bool add_writable(struct image_module *module, const ElfW(Phdr) * phdr, bool is_neighbour,
                         const char **error_out)
{
    ssize_t file_shift = (ssize_t)(phdr->p_vaddr - phdr->p_offset);
    size_t fill_end = page_up(phdr->p_vaddr + phdr->p_filesz);
    struct image_data *data;

    if (is_neighbour && module->n_data < IMAGE_DATA_MAX)
        is_neighbour = !is_apart(&module->data[module->n_data - 1], phdr);
    if (!is_neighbour) {
        if (module->n_data == IMAGE_DATA_MAX) {
            *error_out =
                image_error("cannot run as several ranks: %s has more than %d separate writable segments",
                            module->name, IMAGE_DATA_MAX);
            return false;
        }
        data = &module->data[module->n_data++];
        *data = (struct image_data){
            .vaddr_lo = page_down(phdr->p_vaddr), .file_shift = file_shift, .is_one_shift = true};
    }
    data = &module->data[module->n_data - 1];
    if (data->file_shift != file_shift)
        data->is_one_shift = false;
    data->vaddr_hi = page_up(phdr->p_vaddr + phdr->p_memsz);
    if (phdr->p_filesz) {
        size_t old_bytes = data->fill_bytes;

        data->fill_bytes = fill_end - data->vaddr_lo;
        data->bytes = base_realloc(data->bytes, data->fill_bytes, "the initial contents of the program");
        memset(data->bytes + old_bytes, 0, data->fill_bytes - old_bytes);
        return read_file(module, data->bytes + (phdr->p_vaddr - data->vaddr_lo), phdr->p_filesz,
                         phdr->p_offset, error_out);
    }
    return true;
}

bool image_segments_read(struct image_module *module, const char **error_out)
{
    bool is_writable_before = false;

    module->vaddr_lo = SIZE_MAX;
    for (size_t i = 0; i < module->n_phdrs; i++) {
        const ElfW(Phdr) *phdr = &module->phdr[i];

        if (phdr->p_type != PT_LOAD || !phdr->p_memsz)
            continue;
        if (page_down(phdr->p_vaddr) < module->vaddr_lo)
            module->vaddr_lo = page_down(phdr->p_vaddr);
        if (page_up(phdr->p_vaddr + phdr->p_memsz) > module->vaddr_hi)
            module->vaddr_hi = page_up(phdr->p_vaddr + phdr->p_memsz);
        if (phdr->p_align > module->align)
            module->align = phdr->p_align;
        if ((phdr->p_flags & PF_W) && !add_writable(module, phdr, is_writable_before, error_out))
            return false;
        is_writable_before = phdr->p_flags & PF_W;
    }
    for (int i = 0; i < module->n_data; i++)
        module->data[i].page_relocated = base_calloc(module->data[i].fill_bytes / IMAGE_ARCH_PAGE_BYTES, 1,
                                                     "the plan of the program's image");
    return true;
}

unsigned char *image_data_at(struct image_module *module, size_t vaddr, size_t n)
{
    for (int i = 0; i < module->n_data; i++) {
        struct image_data *data = &module->data[i];
        size_t offset = vaddr - data->vaddr_lo;

        if (offset >= data->fill_bytes || n > data->fill_bytes - offset)
            continue;
        data->page_relocated[offset / IMAGE_ARCH_PAGE_BYTES] = 1;
        data->page_relocated[(offset + n - 1) / IMAGE_ARCH_PAGE_BYTES] = 1;
        return data->bytes + offset;
    }
    return NULL;
}

/* ---- Planning ---- */

static int protection(unsigned flags)
{
    return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) | (flags & PF_X ? PROT_EXEC : 0);
}

/* Plans mappings of the segments that are never written. */
static void plan_read_only(struct image_program *program, const struct image_module *module)
{
    struct image_mapping *last = NULL;

    for (size_t i = 0; i < module->n_phdrs; i++) {
        const ElfW(Phdr) *phdr = &module->phdr[i];
        size_t end = page_up(phdr->p_vaddr + phdr->p_memsz) + module->copy_shift;
        struct image_mapping mapping = {
            .offset = page_down(phdr->p_vaddr) + module->copy_shift,
            .prot = protection(phdr->p_flags),
            .flags = MAP_PRIVATE,
            .fd = module->fd,
            .file_offset = (off_t)page_down(phdr->p_offset),
        };

        if (phdr->p_type != PT_LOAD || !phdr->p_memsz)
            continue;
        if (phdr->p_flags & PF_W) {
            last = NULL;
            continue;
        }
        if (last && mapping.offset - last->offset == (size_t)(mapping.file_offset - last->file_offset)) {
            last->len_bytes = end - last->offset;
            last->prot |= mapping.prot;
            continue;
        }
        mapping.len_bytes = end - mapping.offset;
        image_array_push(&program->mappings, &program->n_mappings, sizeof mapping, &mapping);
        last = &program->mappings[program->n_mappings - 1];
    }
}

static bool is_zero(const unsigned char *bytes, size_t len_bytes)
{
    return len_bytes == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, len_bytes - 1) == 0);
}

/* Bytes in pages that are neither zero nor changed by relocations. */
static size_t unchanged_bytes(const struct image_data *data)
{
    size_t sum = 0;

    for (size_t offset = 0; offset < data->fill_bytes; offset += IMAGE_ARCH_PAGE_BYTES)
        if (!data->page_relocated[offset / IMAGE_ARCH_PAGE_BYTES] &&
            !is_zero(data->bytes + offset, IMAGE_ARCH_PAGE_BYTES))
            sum += IMAGE_ARCH_PAGE_BYTES;
    return sum;
}

/* Appends the nonzero part of a page, merged with the last fill if adjacent. */
static void plan_fill(struct image_program *program, size_t copy_offset, const unsigned char *bytes)
{
    struct image_fill *last = program->n_fills ? &program->fills[program->n_fills - 1] : NULL;
    size_t lo = 0, hi = IMAGE_ARCH_PAGE_BYTES;
    struct image_fill fill;

    while (hi > 0 && bytes[hi - 1] == 0)
        hi--;
    if (hi == 0)
        return;
    while (bytes[lo] == 0)
        lo++;
    lo &= ~(size_t)63;
    fill = (struct image_fill){.offset = copy_offset + lo, .len_bytes = hi - lo, .bytes = bytes + lo};
    if (last && last->bytes + last->len_bytes == fill.bytes && last->offset + last->len_bytes == fill.offset)
        last->len_bytes += fill.len_bytes;
    else
        image_array_push(&program->fills, &program->n_fills, sizeof fill, &fill);
}

/* Plans to allocate the pages of a range at once (offset: from the mapping's start), unless they are few. */
static void populate(struct image_program *program, struct image_mapping *mapping, struct image_range range)
{
    if (mapping->len_bytes - range.len_bytes <= POPULATE_GAP_BYTES &&
        2 * range.len_bytes >= mapping->len_bytes) {
        mapping->flags |= MAP_POPULATE;
    } else if (range.len_bytes >= POPULATE_BYTES) {
        range.offset += mapping->offset;
        image_array_push(&program->populated, &program->n_populated, sizeof range, &range);
    }
}

/* One call that allocates many pages is cheaper than a page fault for each. Short runs of zero pages
 * between filled ones are included; .bss is not: a rank may never touch it. */
static void plan_population(struct image_program *program, struct image_mapping *mapping,
                            const struct image_data *data)
{
    struct image_range range = {0, 0};

    for (size_t page = 0; page < data->fill_bytes; page += IMAGE_ARCH_PAGE_BYTES) {
        if (is_zero(data->bytes + page, IMAGE_ARCH_PAGE_BYTES))
            continue;
        if (range.len_bytes && page > range.offset + range.len_bytes + POPULATE_GAP_BYTES) {
            populate(program, mapping, range);
            range.len_bytes = 0;
        }
        if (!range.len_bytes)
            range.offset = page;
        range.len_bytes = page + IMAGE_ARCH_PAGE_BYTES - range.offset;
    }
    populate(program, mapping, range);
}

/* Zero pages only: one anonymous mapping, and nonzero contents copied into it. */
static void plan_anonymous(struct image_program *program, const struct image_module *module,
                           const struct image_data *data)
{
    size_t offset = data->vaddr_lo + module->copy_shift;
    struct image_mapping mapping = {
        .offset = offset,
        .len_bytes = data->vaddr_hi - data->vaddr_lo,
        .prot = PROT_READ | PROT_WRITE,
        .flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
        .fd = -1,
    };

    plan_population(program, &mapping, data);
    image_array_push(&program->mappings, &program->n_mappings, sizeof mapping, &mapping);
    for (size_t page = 0; page < data->fill_bytes; page += IMAGE_ARCH_PAGE_BYTES)
        plan_fill(program, offset + page, data->bytes + page);
}

/* Large initial contents: a mapping of the file, then .bss; pages changed by relocations are copied. */
static void plan_from_file(struct image_program *program, const struct image_module *module,
                           const struct image_data *data)
{
    size_t offset = data->vaddr_lo + module->copy_shift;
    size_t last_page = data->fill_bytes - IMAGE_ARCH_PAGE_BYTES;
    struct image_mapping file = {
        .offset = offset,
        .len_bytes = data->fill_bytes,
        .prot = PROT_READ | PROT_WRITE,
        .flags = MAP_PRIVATE | MAP_NORESERVE,
        .fd = module->fd,
        .file_offset = (off_t)data->vaddr_lo - data->file_shift,
    };
    struct image_mapping bss = {
        .offset = offset + data->fill_bytes,
        .len_bytes = data->vaddr_hi - data->vaddr_lo - data->fill_bytes,
        .prot = PROT_READ | PROT_WRITE,
        .flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
        .fd = -1,
    };

    image_array_push(&program->mappings, &program->n_mappings, sizeof file, &file);
    if (bss.len_bytes)
        image_array_push(&program->mappings, &program->n_mappings, sizeof bss, &bss);
    /* The last page also contains the bytes that follow in the file, which must be zero: it is copied
     * whole. */
    for (size_t page = 0; page < data->fill_bytes; page += IMAGE_ARCH_PAGE_BYTES)
        if (page == last_page || data->page_relocated[page / IMAGE_ARCH_PAGE_BYTES]) {
            struct image_fill fill = {
                .offset = offset + page, .len_bytes = IMAGE_ARCH_PAGE_BYTES, .bytes = data->bytes + page};

            image_array_push(&program->fills, &program->n_fills, sizeof fill, &fill);
        }
}

static void plan_relro(struct image_program *program, const struct image_module *module)
{
    for (size_t i = 0; i < module->n_phdrs; i++) {
        const ElfW(Phdr) *phdr = &module->phdr[i];
        size_t lo = page_down(phdr->p_vaddr), hi = page_down(phdr->p_vaddr + phdr->p_memsz);
        struct image_range range = {.offset = lo + module->copy_shift, .len_bytes = hi - lo};

        if (phdr->p_type == PT_GNU_RELRO && hi > lo)
            image_array_push(&program->relros, &program->n_relros, sizeof range, &range);
    }
}

/* Frees the initial contents, except the bytes that the plan's fills from index first_fill on copy into each image. */
static void keep_fills(struct image_program *program, struct image_data *data, size_t first_fill)
{
    size_t len_bytes = 0;
    unsigned char *kept, *next;

    for (size_t i = first_fill; i < program->n_fills; i++)
        len_bytes += program->fills[i].len_bytes;
    if (data->fill_bytes - len_bytes < KEEP_BYTES)
        return;
    next = kept = base_malloc(len_bytes + 1, "the initial contents of the program");
    for (size_t i = first_fill; i < program->n_fills; i++) {
        memcpy(next, program->fills[i].bytes, program->fills[i].len_bytes);
        program->fills[i].bytes = next;
        next += program->fills[i].len_bytes;
    }
    free(data->bytes);
    data->bytes = kept;
    data->fill_bytes = 0; /* image_data_at finds nothing any more */
}

void image_segments_plan(struct image_program *program, struct image_module *module)
{
    plan_read_only(program, module);
    for (int i = 0; i < module->n_data; i++) {
        struct image_data *data = &module->data[i];
        size_t first_fill = program->n_fills;

        if (data->is_one_shift && unchanged_bytes(data) > FROM_FILE_BYTES)
            plan_from_file(program, module, data);
        else
            plan_anonymous(program, module, data);
        keep_fills(program, data, first_fill);
    }
    plan_relro(program, module);
    image_exits_plan(program, module);
}
