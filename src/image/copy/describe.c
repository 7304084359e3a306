/* SPDX-License-Identifier: BSD-3-Clause
 *
 * describe.c: the file, function and source line of an address, for reports. Safe in a signal handler: it does not call
 * ld.so or the C library, whose locks may be held. It reads symbols from the file, and addresses of shared
 * libraries from /proc/self/maps.
 */
#include "image/copy/instantiate.h"
#include "image/copy/lines.h"
#include "image/copy/private_libraries.h"

#include "base/text.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* ---- Symbols of a file ---- */

struct best_symbol {
    ElfW(Sym) symbol;
    bool is_found;
};

static bool read_at(int fd, void *to, size_t len_bytes, size_t offset)
{
    return pread(fd, to, len_bytes, (off_t)offset) == (ssize_t)len_bytes;
}

/* Keeps the symbol if it is a function that contains vaddr or, if it has no size, starts closer before it
 * than the best so far. */
static void consider(struct best_symbol *best, const ElfW(Sym) * symbol, size_t vaddr)
{
    int type = ELF64_ST_TYPE(symbol->st_info);

    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol->st_shndx == SHN_UNDEF ||
        symbol->st_value > vaddr || (symbol->st_size && vaddr - symbol->st_value >= symbol->st_size))
        return;
    if (best->is_found && symbol->st_value < best->symbol.st_value)
        return;
    best->symbol = *symbol;
    best->is_found = true;
}

/* The file's largest symbol table: .symtab, or .dynsym if it was stripped. */
static bool find_symbols(int fd, const ElfW(Ehdr) * header, ElfW(Shdr) * symbols_out)
{
    bool is_found = false;

    for (size_t i = 0; i < header->e_shnum; i++) {
        ElfW(Shdr) section;

        if (!read_at(fd, &section, sizeof section, header->e_shoff + i * sizeof section))
            return is_found;
        if (section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM)
            continue;
        *symbols_out = section;
        is_found = true;
        if (section.sh_type == SHT_SYMTAB)
            return true;
    }
    return is_found;
}

/* Finds the function that contains the address, and the address's offset in it. Returns false, with an empty name, if the
 * file has no symbol for it. */
static bool find_function(int fd, size_t vaddr, char *name, size_t size_bytes, size_t *offset_out)
{
    struct best_symbol best = {.is_found = false};
    ElfW(Sym) chunk[64];
    ElfW(Shdr) symbols, strings;
    ElfW(Ehdr) header;

    memset(name, 0, size_bytes);
    if (!read_at(fd, &header, sizeof header, 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_shentsize != sizeof symbols || !find_symbols(fd, &header, &symbols))
        return false;
    for (size_t done = 0; done < symbols.sh_size; done += sizeof chunk) {
        size_t len_bytes = symbols.sh_size - done < sizeof chunk ? symbols.sh_size - done : sizeof chunk;

        if (!read_at(fd, chunk, len_bytes, symbols.sh_offset + done))
            return false;
        for (size_t i = 0; i < len_bytes / sizeof chunk[0]; i++)
            consider(&best, &chunk[i], vaddr);
    }
    if (!best.is_found || symbols.sh_link >= header.e_shnum ||
        !read_at(fd, &strings, sizeof strings, header.e_shoff + symbols.sh_link * sizeof strings) ||
        pread(fd, name, size_bytes - 1, (off_t)(strings.sh_offset + best.symbol.st_name)) <= 0)
        return false;
    *offset_out = vaddr - best.symbol.st_value;
    return name[0] != '\0';
}

/* Adds " (function+0x10)" if the file has a symbol for the address. */
static void add_function(struct base_text *text, int fd, size_t vaddr)
{
    char name[200];
    size_t offset;

    if (!find_function(fd, vaddr, name, sizeof name, &offset))
        return;
    base_text_add(text, " (");
    base_text_add(text, name);
    base_text_add(text, "+");
    base_text_add_hex(text, offset);
    base_text_add(text, ")");
}

static void add_place(struct base_text *text, const char *file, size_t vaddr)
{
    base_text_add(text, file);
    base_text_add(text, "+");
    base_text_add_hex(text, vaddr);
}

/* ---- Copies of the program ---- */

bool image_describe(const void *addr, char *bytes, size_t size_bytes)
{
    struct image *image = image_find(addr);
    const struct image_module *module = image ? image_module_at(image, addr) : NULL;
    struct base_text text = base_text_in(bytes, size_bytes);
    size_t vaddr;

    if (!module)
        return false;
    vaddr = (size_t)((const char *)addr - image->base) - module->copy_shift;
    add_place(&text, module->name, vaddr);
    add_function(&text, module->fd, vaddr);
    return true;
}

bool image_has_code(const struct image *image, const void *addr)
{
    const struct image_module *module = image_has_address(image, addr) ? image_module_at(image, addr) : NULL;
    size_t vaddr;

    if (!module)
        return false;
    vaddr = (size_t)((const char *)addr - image->base) - module->copy_shift;
    for (size_t i = 0; i < module->n_phdrs; i++)
        if (module->phdr[i].p_type == PT_LOAD && (module->phdr[i].p_flags & PF_X) &&
            vaddr - module->phdr[i].p_vaddr < module->phdr[i].p_memsz)
            return true;
    return false;
}

/* ---- Shared libraries ---- */

/* A mapping, from /proc/self/maps. */
struct place {
    uintptr_t lo, hi;
    uintptr_t file_lo; /* start of the file's mappings */
    bool is_code;      /* its permissions let the CPU execute it */
    char path[256];    /* empty: no file */
};

/* Parses the next hexadecimal number of a line. */
static uintptr_t take_hex(const char **at)
{
    uintptr_t number = 0;

    for (;; (*at)++) {
        char c = **at;

        if (c >= '0' && c <= '9')
            number = number * 16 + (uintptr_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            number = number * 16 + (uintptr_t)(c - 'a' + 10);
        else
            return number;
    }
}

/* Reads a line "lo-hi perms offset device inode   path" into *place; the mapping before it may be of the same
 * file. */
static void parse_line(const char *line, struct place *place)
{
    const char *path = strchr(line, '/');
    uintptr_t lo = take_hex(&line);

    line++;
    place->lo = lo;
    place->hi = take_hex(&line);
    place->is_code = strlen(line) > 3 && line[3] == 'x'; /* " r-xp" */
    if (!path || strncmp(path, place->path, sizeof place->path - 1) != 0)
        place->file_lo = lo;
    place->path[0] = '\0';
    if (path) {
        struct base_text text = base_text_in(place->path, sizeof place->path);

        base_text_add(&text, path);
    }
}

/* Finds the mapping that contains the address. */
static bool find_place(uintptr_t addr, struct place *place)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    char bytes[1024], line[400];
    size_t len = 0;
    ssize_t n = 0;

    place->path[0] = '\0';
    place->lo = place->hi = 0;
    while (fd >= 0 && place->hi <= addr && (n = read(fd, bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < n && place->hi <= addr; i++) {
            if (bytes[i] != '\n') {
                if (len + 1 < sizeof line)
                    line[len++] = bytes[i];
                continue;
            }
            line[len] = '\0';
            len = 0;
            parse_line(line, place);
        }
    if (fd >= 0)
        close(fd);
    return addr >= place->lo && addr < place->hi;
}

/* The vaddr of the file's first segment. */
static size_t first_vaddr(int fd)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) segment;

    if (!read_at(fd, &header, sizeof header, 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return 0;
    for (size_t i = 0; i < header.e_phnum; i++)
        if (read_at(fd, &segment, sizeof segment, header.e_phoff + i * sizeof segment) &&
            segment.p_type == PT_LOAD)
            return segment.p_vaddr & ~((size_t)IMAGE_ARCH_PAGE_BYTES - 1);
    return 0;
}

/* Adds advice if the library is shared but each rank could have its own copy. */
static void add_advice(struct base_text *text, const char *path)
{
    const struct image_shared_library *row = image_shared_library_find(path);
    const char *name = strrchr(path, '/') + 1;
    const char *end = strstr(name, ".so");
    char stem[100];
    struct base_text short_name = base_text_in(stem, sizeof stem);

    if (!end || (row && row->flags))
        return;
    base_text_add(&short_name, name);
    if ((size_t)(end - name) < sizeof stem)
        stem[end - name] = '\0';
    base_text_add(text, ", which all ranks share (+private ");
    base_text_add(text, stem);
    base_text_add(text, " gives each its own)");
}

/* Opens the file of a shared library's address, which is vaddr in it. Returns -1 if that is not possible. */
static int open_shared(const struct place *place, const void *addr, size_t *vaddr_out)
{
    int fd = open(place->path, O_RDONLY | O_CLOEXEC);

    *vaddr_out = (uintptr_t)addr - place->file_lo + (fd >= 0 ? first_vaddr(fd) : 0);
    return fd;
}

bool image_describe_shared(const void *addr, char *bytes, size_t size_bytes)
{
    struct base_text text = base_text_in(bytes, size_bytes);
    struct place place;
    size_t vaddr;
    int fd;

    if (!find_place((uintptr_t)addr, &place) || !place.path[0])
        return false;
    fd = open_shared(&place, addr, &vaddr);
    add_place(&text, strrchr(place.path, '/') + 1, vaddr);
    if (fd >= 0) {
        add_function(&text, fd, vaddr);
        close(fd);
    }
    add_advice(&text, place.path);
    return true;
}

const void *image_mapping_end(const void *addr)
{
    struct place place;

    return find_place((uintptr_t)addr, &place) ? (const void *)place.hi : NULL;
}

bool image_is_code(const void *addr)
{
    struct place place;

    return find_place((uintptr_t)addr, &place) && place.is_code;
}

/* ---- Places with source lines ---- */

static void set_text(char *bytes, size_t size_bytes, const char *value)
{
    struct base_text text = base_text_in(bytes, size_bytes);

    base_text_add(&text, value);
}

static void set_file(struct image_place *place, const char *path, size_t vaddr)
{
    const char *slash = strrchr(path, '/');

    set_text(place->file, sizeof place->file, slash ? slash + 1 : path);
    place->vaddr = vaddr;
}

/* The file and function of an address. */
static void find_code(const void *addr, struct image_place *place)
{
    struct image *image = image_find(addr);
    const struct image_module *module = image ? image_module_at(image, addr) : NULL;
    struct place mapping;
    size_t vaddr;
    int fd;

    *place = (struct image_place){.module = module};
    if (module) {
        set_file(place, module->name, (size_t)((const char *)addr - image->base) - module->copy_shift);
        place->path = module->name;
        find_function(module->fd, place->vaddr, place->function, sizeof place->function, &place->offset);
    } else if (find_place((uintptr_t)addr, &mapping) && mapping.path[0]) {
        fd = open_shared(&mapping, addr, &vaddr);
        set_file(place, mapping.path, vaddr);
        if (fd >= 0) {
            find_function(fd, vaddr, place->function, sizeof place->function, &place->offset);
            close(fd);
        }
    }
}

static void set_source(const struct image_lines *lines, const struct image_line *line,
                       struct image_place *place)
{
    struct base_text text = base_text_in(place->source, sizeof place->source);
    const char *folder;
    const char *name = image_lines_source(lines, line, &folder);

    if (!name || !*name)
        return;
    if (folder && *folder && *name != '/') {
        base_text_add(&text, folder);
        base_text_add(&text, "/");
    }
    base_text_add(&text, name);
    place->line = line->line;
}

/* The source lines of all places that are in this module. */
static void find_lines(const struct image_module *module, struct image_place *places, int n)
{
    size_t vaddrs[IMAGE_PLACES_MAX];
    struct image_line found[IMAGE_PLACES_MAX];
    struct image_lines lines;
    int n_found = 0;

    if (image_lines_open(module->fd, &lines)) {
        for (int i = 0; i < n; i++)
            if (places[i].module == module)
                vaddrs[n_found++] = places[i].vaddr;
        image_lines_find(&lines, vaddrs, n_found, found);
    }
    for (int i = 0, j = 0; i < n; i++)
        if (places[i].module == module) {
            if (j < n_found)
                set_source(&lines, &found[j++], &places[i]);
            places[i].is_line_elsewhere = !places[i].line && lines.is_elsewhere;
            places[i].module = NULL;
        }
    image_lines_close(&lines);
}

void image_places_find(const void *const *addrs, int n, struct image_place *places_out)
{
    for (int i = 0; i < n; i++)
        find_code(addrs[i], &places_out[i]);
    for (int i = 0; i < n; i++)
        if (places_out[i].module)
            find_lines(places_out[i].module, places_out, n);
}

void image_place_find(const void *addr, struct image_place *place_out)
{
    find_code(addr, place_out);
    place_out->module = NULL;
}

void image_place_find_line(const void *addr, struct image_place *place_out)
{
    struct image_module module = {.fd = -1};
    struct place mapping;
    size_t vaddr;

    image_places_find(&addr, 1, place_out);
    if (place_out->path || !find_place((uintptr_t)addr, &mapping) || !mapping.path[0])
        return;
    module.fd = open_shared(&mapping, addr, &vaddr);
    place_out->module = &module;
    if (module.fd >= 0) {
        find_lines(&module, place_out, 1);
        close(module.fd);
    }
    place_out->module = NULL;
}

const char *image_file_of(const void *addr, size_t *vaddr_out)
{
    const struct image *image = image_find(addr);
    const struct image_module *module = image ? image_module_at(image, addr) : NULL;

    if (!module)
        return NULL;
    *vaddr_out = (size_t)((const char *)addr - image->base) - module->copy_shift;
    return module->name;
}
