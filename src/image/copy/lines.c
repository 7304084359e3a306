/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lines.c: reads DWARF line tables (versions 2 to 5) for reports. Safe in a signal handler of a broken process: no lock, no
 * allocation, no call of ld.so; every read is inside of the mapped file. A table that it does not understand has no lines.
 * elfutils' libdw cannot do that: it allocates memory, and loading it takes ld.so's lock, and the crash may have damaged the heap or
 * left either lock held.
 *
 * A table is a list of units. A unit is a header (how to decode its program, its folders and files) and a
 * program, whose run yields rows (address, file, line) in sequences of ascending addresses; a row is valid
 * up to the address of the next one.
 */
#include "image/copy/lines.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Numbers of the DWARF standard. */
enum standard_opcode {
    LNS_COPY = 1,
    LNS_ADVANCE_PC = 2,
    LNS_ADVANCE_LINE = 3,
    LNS_SET_FILE = 4,
    LNS_CONST_ADD_PC = 8,
    LNS_FIXED_ADVANCE_PC = 9
};
enum extended_opcode { LNE_END_SEQUENCE = 1, LNE_SET_ADDRESS = 2 };
enum content_type { LNCT_PATH = 1, LNCT_FOLDER = 2 };
enum form {
    FORM_DATA2 = 0x05,
    FORM_DATA4 = 0x06,
    FORM_DATA8 = 0x07,
    FORM_STRING = 0x08,
    FORM_BLOCK = 0x09,
    FORM_DATA1 = 0x0b,
    FORM_STRP = 0x0e,
    FORM_UDATA = 0x0f,
    FORM_DATA16 = 0x1e,
    FORM_LINE_STRP = 0x1f
};

/* ---- Reading ---- */

/* Bytes to be read; a read past the end yields 0 and sets is_bad. */
struct reader {
    const unsigned char *at, *end;
    bool is_bad;
};

static bool skip(struct reader *r, uint64_t len_bytes)
{
    if (len_bytes > (size_t)(r->end - r->at)) {
        r->at = r->end;
        r->is_bad = true;
        return false;
    }
    r->at += len_bytes;
    return true;
}

static uint64_t take(struct reader *r, unsigned len_bytes)
{
    uint64_t number = 0;

    if (skip(r, len_bytes))
        memcpy(&number, r->at - len_bytes, len_bytes);
    return number;
}

static uint64_t take_uleb(struct reader *r)
{
    uint64_t number = 0, byte = 0x80;

    for (unsigned shift = 0; byte & 0x80; shift += 7) {
        byte = take(r, 1);
        if (shift < 64)
            number |= (byte & 0x7f) << shift;
    }
    return number;
}

static int64_t take_sleb(struct reader *r)
{
    uint64_t number = 0, byte = 0x80;
    unsigned shift = 0;

    for (; byte & 0x80; shift += 7) {
        byte = take(r, 1);
        if (shift < 64)
            number |= (byte & 0x7f) << shift;
    }
    if (shift < 64 && (byte & 0x40))
        number |= ~(uint64_t)0 << shift;
    return (int64_t)number;
}

static const char *take_string(struct reader *r)
{
    const unsigned char *begin = r->at;
    const unsigned char *end = memchr(begin, 0, (size_t)(r->end - begin));

    if (!end) {
        r->is_bad = true;
        r->at = r->end;
        return "";
    }
    r->at = end + 1;
    return (const char *)begin;
}

static const char *string_at(const struct image_section *section, uint64_t offset)
{
    struct reader r = {.at = section->bytes};

    if (!section->bytes)
        return "";
    r.end = r.at + section->len_bytes;
    return skip(&r, offset) ? take_string(&r) : "";
}

/* ---- The file ---- */

static const Elf64_Shdr *section_header(const struct image_lines *lines, const Elf64_Ehdr *header, size_t i)
{
    return (const Elf64_Shdr *)(lines->file + header->e_shoff) + i;
}

static bool is_inside(const struct image_lines *lines, uint64_t offset, uint64_t len_bytes)
{
    return offset <= lines->file_bytes && len_bytes <= lines->file_bytes - offset;
}

/* The bytes of a section; none if it is not inside of the file. */
static struct image_section section_bytes(const struct image_lines *lines, const Elf64_Shdr *section)
{
    if (!is_inside(lines, section->sh_offset, section->sh_size))
        return (struct image_section){.bytes = NULL};
    return (struct image_section){lines->file + section->sh_offset, section->sh_size};
}

static void find_section(struct image_lines *lines, const Elf64_Shdr *section, const char *name)
{
    struct image_section found = section_bytes(lines, section);
    bool is_readable =
        section->sh_type == SHT_PROGBITS && !(section->sh_flags & SHF_COMPRESSED) && found.bytes;

    if (strcmp(name, ".gnu_debuglink") == 0 || (strncmp(name, ".debug_line", 11) == 0 && !is_readable))
        lines->is_elsewhere = true;
    else if (is_readable && strcmp(name, ".debug_line") == 0)
        lines->line = found;
    else if (is_readable && strcmp(name, ".debug_line_str") == 0)
        lines->line_str = found;
    else if (is_readable && strcmp(name, ".debug_str") == 0)
        lines->str = found;
}

static void find_sections(struct image_lines *lines)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)lines->file;
    struct image_section names;

    if (lines->file_bytes < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_shentsize != sizeof(Elf64_Shdr) ||
        header->e_shstrndx >= header->e_shnum || header->e_shoff % _Alignof(Elf64_Shdr) != 0 ||
        !is_inside(lines, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr)))
        return;
    names = section_bytes(lines, section_header(lines, header, header->e_shstrndx));
    for (size_t i = 0; i < header->e_shnum; i++) {
        const Elf64_Shdr *section = section_header(lines, header, i);

        find_section(lines, section, string_at(&names, section->sh_name));
    }
}

bool image_lines_open(int fd, struct image_lines *lines_out)
{
    struct stat about;
    void *file;

    *lines_out = (struct image_lines){.file = NULL};
    if (fstat(fd, &about) != 0 || about.st_size <= 0)
        return false;
    file = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file == MAP_FAILED)
        return false;
    lines_out->file = file;
    lines_out->file_bytes = (size_t)about.st_size;
    find_sections(lines_out);
    return lines_out->line.bytes != NULL;
}

void image_lines_close(struct image_lines *lines)
{
    if (lines->file)
        munmap((void *)lines->file, lines->file_bytes);
    lines->file = NULL;
}

/* ---- A unit ---- */

struct unit {
    const unsigned char *header; /* its first byte */
    struct reader tables;        /* folders and files */
    struct reader program;       /* instructions */
    unsigned version;            /* of DWARF */
    unsigned offset_bytes;       /* of an offset into other sections: 4 or 8 */
    unsigned step_bytes;         /* unit of address advances */
    int line_base;               /* least line advance of a special opcode */
    unsigned line_range;         /* number of their line advances */
    unsigned opcode_base;        /* the first special opcode */
    const unsigned char *n_args; /* numbers of arguments of opcodes 1 .. opcode_base - 1 */
};

/* Reads the header of the unit at r, and moves r behind the unit. Returns false if the rest cannot be read; a unit of another version has
 * no program. */
static bool take_unit(struct reader *r, struct unit *unit)
{
    struct reader body = {.at = r->at};
    uint64_t len_bytes, header_bytes;

    *unit = (struct unit){.header = r->at, .offset_bytes = 4};
    len_bytes = take(r, 4);
    if (len_bytes == 0xffffffff) {
        unit->offset_bytes = 8;
        len_bytes = take(r, 8);
    }
    body.at = r->at;
    if (!skip(r, len_bytes))
        return false;
    body.end = r->at;
    unit->version = (unsigned)take(&body, 2);
    if (unit->version < 2 || unit->version > 5)
        return true;
    if (unit->version == 5)
        take(&body, 2); /* sizes of addresses and of segment selectors */
    header_bytes = take(&body, unit->offset_bytes);
    unit->program = body;
    if (!skip(&unit->program, header_bytes))
        return true;
    unit->step_bytes = (unsigned)take(&body, 1);
    take(&body, unit->version >= 4 ? 2 : 1); /* operations per instruction; the initial is_stmt */
    unit->line_base = (signed char)take(&body, 1);
    unit->line_range = (unsigned)take(&body, 1);
    unit->opcode_base = (unsigned)take(&body, 1);
    unit->n_args = body.at;
    if (!skip(&body, unit->opcode_base ? unit->opcode_base - 1 : 0) || !unit->line_range)
        unit->program.at = unit->program.end; /* damaged */
    unit->tables = body;
    return true;
}

/* ---- Running a unit's program ---- */

/* The addresses to find. */
struct search {
    const size_t *vaddrs;
    struct image_line *found; /* for each of them */
    int n;                    /* number of them */
    size_t lo, hi;            /* the lowest and the highest */
};

/* A row of the table. */
struct row {
    uint64_t address, file;
    int64_t line;
};

/* Records the row for those of the addresses that lie between it and the next row. */
static void match(const struct search *search, const struct unit *unit, const struct row *row, uint64_t next)
{
    if (next <= search->lo || row->address > search->hi)
        return;
    for (int i = 0; i < search->n; i++)
        if (search->vaddrs[i] >= row->address && search->vaddrs[i] < next && row->line > 0)
            search->found[i] = (struct image_line){
                .line = (unsigned)row->line, .file_number = row->file, .unit = unit->header};
}

/* A run of a program. */
struct run {
    const struct search *search;
    const struct unit *unit;
    struct row now;  /* the state's registers */
    struct row last; /* the last row of the sequence */
    bool has_last;   /* there is one */
};

static const struct row first_row = {.file = 1, .line = 1};

static void add_row(struct run *run)
{
    if (run->has_last && run->last.address) /* a sequence at 0 has been removed by the linker */
        match(run->search, run->unit, &run->last, run->now.address);
    run->last = run->now;
    run->has_last = true;
}

static void advance(struct run *run, uint64_t steps)
{
    run->now.address += steps * run->unit->step_bytes;
}

/* Wraps around in a damaged table. */
static void advance_line(struct run *run, int64_t lines)
{
    run->now.line = (int64_t)((uint64_t)run->now.line + (uint64_t)lines);
}

static void do_extended(struct run *run, struct reader *r)
{
    uint64_t len_bytes = take_uleb(r);
    struct reader body = {.at = r->at};
    unsigned opcode;

    if (!skip(r, len_bytes))
        return;
    body.end = r->at;
    opcode = (unsigned)take(&body, 1);
    if (opcode == LNE_END_SEQUENCE) {
        add_row(run);
        run->now = first_row;
        run->has_last = false;
    } else if (opcode == LNE_SET_ADDRESS && len_bytes == 1 + sizeof run->now.address) {
        run->now.address = take(&body, sizeof run->now.address);
    }
}

static void do_standard(struct run *run, struct reader *r, unsigned opcode)
{
    switch (opcode) {
    case LNS_COPY:
        add_row(run);
        break;
    case LNS_ADVANCE_PC:
        advance(run, take_uleb(r));
        break;
    case LNS_ADVANCE_LINE:
        advance_line(run, take_sleb(r));
        break;
    case LNS_SET_FILE:
        run->now.file = take_uleb(r);
        break;
    case LNS_CONST_ADD_PC:
        advance(run, (255 - run->unit->opcode_base) / run->unit->line_range);
        break;
    case LNS_FIXED_ADVANCE_PC:
        run->now.address += take(r, 2);
        break;
    default:
        for (unsigned i = 0; i < run->unit->n_args[opcode - 1]; i++)
            take_uleb(r);
    }
}

static void run_program(const struct unit *unit, const struct search *search)
{
    struct run run = {.search = search, .unit = unit, .now = first_row};
    struct reader r = unit->program;

    while (r.at < r.end) {
        unsigned opcode = *r.at++;

        if (opcode >= unit->opcode_base) {
            unsigned special = opcode - unit->opcode_base;

            advance(&run, special / unit->line_range);
            advance_line(&run, unit->line_base + (int)(special % unit->line_range));
            add_row(&run);
        } else if (opcode == 0) {
            do_extended(&run, &r);
        } else {
            do_standard(&run, &r, opcode);
        }
    }
}

void image_lines_find(const struct image_lines *lines, const size_t *vaddrs, int n,
                      struct image_line *lines_out)
{
    struct search search = {.vaddrs = vaddrs, .found = lines_out, .n = n, .lo = SIZE_MAX};
    struct reader r = {.at = lines->line.bytes, .end = lines->line.bytes + lines->line.len_bytes};
    struct unit unit;

    for (int i = 0; i < n; i++) {
        lines_out[i] = (struct image_line){.line = 0};
        search.lo = vaddrs[i] < search.lo ? vaddrs[i] : search.lo;
        search.hi = vaddrs[i] > search.hi ? vaddrs[i] : search.hi;
    }
    while (r.at < r.end && take_unit(&r, &unit))
        run_program(&unit, &search);
}

/* ---- Names of files ---- */

/* An entry of the tables of folders and files. */
struct entry {
    const char *name;
    uint64_t folder; /* number of its folder */
};

/* One value of an entry; a form that is not known ends the table. */
static void take_value(const struct image_lines *lines, const struct unit *unit, struct reader *r,
                       uint64_t form, const char **string_out, uint64_t *number_out)
{
    static const unsigned char sizes[] = {
        [FORM_DATA1] = 1, [FORM_DATA2] = 2, [FORM_DATA4] = 4, [FORM_DATA8] = 8};

    if (form == FORM_STRING)
        *string_out = take_string(r);
    else if (form == FORM_LINE_STRP)
        *string_out = string_at(&lines->line_str, take(r, unit->offset_bytes));
    else if (form == FORM_STRP)
        *string_out = string_at(&lines->str, take(r, unit->offset_bytes));
    else if (form == FORM_UDATA)
        *number_out = take_uleb(r);
    else if (form == FORM_BLOCK)
        skip(r, take_uleb(r));
    else if (form == FORM_DATA16)
        skip(r, 16);
    else if (form < sizeof sizes && sizes[form])
        *number_out = take(r, sizes[form]);
    else
        r->is_bad = true;
}

/* Reads a table of DWARF 5 and moves r behind it; entry_out: the entry with this number, or unchanged. */
static void take_table(const struct image_lines *lines, const struct unit *unit, struct reader *r,
                       uint64_t number, struct entry *entry_out)
{
    unsigned n_formats = (unsigned)take(r, 1);
    struct reader formats = *r;
    uint64_t n_entries;

    for (unsigned i = 0; i < 2 * n_formats; i++)
        take_uleb(r);
    n_entries = n_formats ? take_uleb(r) : (take_uleb(r), 0);
    for (uint64_t i = 0; i < n_entries && !r->is_bad; i++) {
        struct reader format = formats;
        struct entry entry = {.name = NULL};

        for (unsigned j = 0; j < n_formats; j++) {
            uint64_t type = take_uleb(&format), form = take_uleb(&format), value = 0;
            const char *string = NULL;

            take_value(lines, unit, r, form, &string, &value);
            if (type == LNCT_PATH)
                entry.name = string;
            else if (type == LNCT_FOLDER)
                entry.folder = value;
        }
        if (i == number)
            *entry_out = entry;
    }
}

static struct entry find_file_5(const struct image_lines *lines, const struct unit *unit, uint64_t number,
                                const char **folder_out)
{
    struct reader r = unit->tables, folders = r;
    struct entry file = {.name = NULL}, folder = {.name = NULL};

    take_table(lines, unit, &r, UINT64_MAX, &folder);
    take_table(lines, unit, &r, number, &file);
    if (file.name && file.folder > 0)
        take_table(lines, unit, &folders, file.folder, &folder);
    *folder_out = folder.name;
    return file;
}

/* Tables of DWARF 2 to 4 begin with number 1, and end with an empty name. */
static struct entry find_file_4(const struct unit *unit, uint64_t number, const char **folder_out)
{
    struct reader r = unit->tables, folders = r;
    struct entry file = {.name = NULL};

    while (*take_string(&r))
        ;
    for (uint64_t i = 1; i <= number && !r.is_bad; i++) {
        file.name = take_string(&r);
        file.folder = take_uleb(&r);
        take_uleb(&r); /* time of modification */
        take_uleb(&r); /* length */
        if (!*file.name)
            return (struct entry){.name = NULL};
    }
    for (uint64_t i = 1; i <= file.folder && (i == 1 || **folder_out); i++)
        *folder_out = take_string(&folders);
    return file;
}

const char *image_lines_source(const struct image_lines *lines, const struct image_line *line,
                               const char **folder_out)
{
    struct reader r = {.at = line->unit, .end = lines->line.bytes + lines->line.len_bytes};
    struct unit unit;

    *folder_out = NULL;
    if (!line->line || !take_unit(&r, &unit))
        return NULL;
    return (unit.version == 5 ? find_file_5(lines, &unit, line->file_number, folder_out)
                              : find_file_4(&unit, line->file_number, folder_out))
        .name;
}
