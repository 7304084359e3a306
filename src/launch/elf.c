/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Determines the kind of an ELF file from its headers. The file is not trusted: each offset is checked
 * against the file's size. Called by target_program.c.
 */
#include "base/launched.h"
#include "launch/launch.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { OUR_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { OUR_MACHINE = EM_AARCH64 };
#else
#error "unsupported CPU: add its ELF machine number here"
#endif

struct file {
    const char *bytes; /* the mapped file */
    size_t size_bytes; /* its size */
};

/* The bytes at an offset, or NULL if they are not all in the file. */
static const void *at(const struct file *file, uint64_t offset, uint64_t len_bytes)
{
    if (offset > file->size_bytes || len_bytes > file->size_bytes - offset)
        return NULL;
    return file->bytes + offset;
}

/* The value of an entry of the dynamic section; 0: there is none. */
static uint64_t dynamic_value(const struct file *file, const Elf64_Phdr *dynamic, Elf64_Sxword tag)
{
    for (uint64_t done = 0; done + sizeof(Elf64_Dyn) <= dynamic->p_filesz; done += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        const void *source = at(file, dynamic->p_offset + done, sizeof entry);
        if (source == NULL)
            return 0;
        memcpy(&entry, source, sizeof entry);
        if (entry.d_tag == tag)
            return entry.d_un.d_val;
    }
    return 0;
}

/* True if DF_1_PIE is set. It distinguishes a static PIE from a shared library: neither has an
 * interpreter. */
static bool has_pie_flag(const struct file *file, const Elf64_Phdr *dynamic)
{
    return (dynamic_value(file, dynamic, DT_FLAGS_1) & DF_1_PIE) != 0;
}

/* True if a symbol of the program is one of the functions that connect jobs, in C or Fortran. */
static bool has_connection(const struct file *file, const Elf64_Phdr *loaded, const Elf64_Phdr *dynamic)
{
    static const char *const functions[] = {BASE_LAUNCHED_CONNECTIONS};
    uint64_t size = dynamic_value(file, dynamic, DT_STRSZ);
    uint64_t offset = dynamic_value(file, dynamic, DT_STRTAB) - loaded->p_vaddr;
    const char *names = offset < loaded->p_filesz ? at(file, loaded->p_offset + offset, size) : NULL;
    if (names == NULL || size == 0 || names[size - 1] != '\0')
        return false;
    for (const char *name = names; name < names + size; name += strlen(name) + 1)
        for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
            if (strncasecmp(name, "MPI_", 4) == 0 &&
                strncasecmp(name + 4, functions[i], strlen(functions[i])) == 0)
                return true;
    return false;
}

/* Copies a name of at most name_bytes bytes, which may lack its terminator; truncates it to copy_bytes. */
static void copy_name(const char *name, uint64_t name_bytes, char *copy_out, size_t copy_bytes)
{
    size_t len = strnlen(name, name_bytes < copy_bytes ? name_bytes : copy_bytes - 1);
    memcpy(copy_out, name, len);
    copy_out[len] = '\0';
}

static void classify(const struct file *file, struct launch_elf *elf_out)
{
    Elf64_Ehdr header;
    if (at(file, 0, sizeof header) == NULL)
        return;
    memcpy(&header, file->bytes, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return;
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != OUR_MACHINE) {
        elf_out->kind = LAUNCH_ELF_FOREIGN;
        return;
    }
    if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
        return;

    bool has_interpreter = false, is_pie_flagged = false;
    Elf64_Phdr first_loaded = {0}; /* the dynamic symbols' names are there */
    for (int i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        const void *source = at(file, header.e_phoff + (uint64_t)i * header.e_phentsize, sizeof segment);
        if (source == NULL)
            return;
        memcpy(&segment, source, sizeof segment);
        if (segment.p_type == PT_INTERP) {
            const char *name = at(file, segment.p_offset, segment.p_filesz);
            has_interpreter = name != NULL;
            if (name != NULL)
                copy_name(name, segment.p_filesz, elf_out->interpreter, sizeof elf_out->interpreter);
        } else if (segment.p_type == PT_LOAD && first_loaded.p_filesz == 0) {
            first_loaded = segment;
        } else if (segment.p_type == PT_DYNAMIC) {
            is_pie_flagged = has_pie_flag(file, &segment);
            elf_out->connects = has_connection(file, &first_loaded, &segment);
        }
    }
    if (has_interpreter)
        elf_out->kind = header.e_type == ET_EXEC ? LAUNCH_ELF_FIXED : LAUNCH_ELF_PIE;
    else
        elf_out->kind = header.e_type == ET_EXEC || is_pie_flagged ? LAUNCH_ELF_STATIC : LAUNCH_ELF_LIBRARY;
}

bool launch_elf_read(const char *path, struct launch_elf *elf_out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    struct stat status;
    if (fstat(fd, &status) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return false;
    }
    memset(elf_out, 0, sizeof *elf_out);
    elf_out->kind = LAUNCH_ELF_NONE;
    if (status.st_size > 0) {
        struct file file = {NULL, (size_t)status.st_size};
        void *map = mmap(NULL, file.size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map != MAP_FAILED) {
            file.bytes = map;
            classify(&file, elf_out);
            munmap(map, file.size_bytes);
        }
    }
    close(fd);
    return true;
}
