/* SPDX-License-Identifier: BSD-3-Clause
 *
 * load_program.c: loads further programs into the process, whose ranks run beside those of the process's program.
 *
 * A program is a load group (groups.h) that is the root of other groups: its ranks have it in the place of group 0, and what they
 * open is planned for it. Its libraries that ranks of other programs have, too, are in both groups, with plans of their own,
 * because the order of look-up is another one.
 *
 * ld.so loads the prototype as it loads a library that a rank opens (opener.c), in three respects differently:
 *   - ld.so refuses a program (DF_1_PIE). So it gets a copy of the file, in memory, without this flag.
 *   - ld.so would look for the program's libraries as if the copy were the program. So the opener needs them as well, and has
 *     the program's search list with the file's folder instead of $ORIGIN.
 *   - ld.so's order of look-up begins with the process's program. So all symbols are looked up again (scope.c).
 *
 * The address of main is what the program's _start passes to __libc_start_main: it runs on the prototype until there.
 *
 * The code of a program reaches its thread_local variables at fixed distances from the thread pointer, where the process has
 * those of its own program. So a program can have as many bytes of them as the process's program has; their bytes are switched
 * with the ranks.
 */
#include "image/copy/groups.h"

#include "base/loader_lock.h"
#include "base/log.h"
#include "image/copy/precedence.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef DF_1_PIE
#define DF_1_PIE 0x08000000
#endif

enum { START_STACK_BYTES = 64 * 1024 };

/* A requested program; under base_loader_lock. */
struct known {
    dev_t device; /* the file */
    ino_t inode;
    struct timespec changed;
    struct image_program *program; /* NULL: it cannot be loaded */
    char *error;                   /* then: the reason */
    struct known *next;            /* link of the list */
};
static struct known *known_programs;

/* A program file in memory. */
struct file {
    const char *path; /* without symbolic links; never freed */
    int fd, copy_fd;
    char *bytes; /* of the copy */
    size_t n_bytes;
    const ElfW(Ehdr) * header;
    const ElfW(Phdr) * segments;
};

/* ---- The file ---- */

/* The bytes at this vaddr, of which at least n are in the file; NULL: none. */
static void *at_vaddr(const struct file *file, size_t vaddr, size_t n)
{
    for (int i = 0; i < file->header->e_phnum; i++) {
        const ElfW(Phdr) *segment = &file->segments[i];
        size_t offset = vaddr - segment->p_vaddr;

        if (segment->p_type == PT_LOAD && offset < segment->p_filesz && n <= segment->p_filesz - offset &&
            segment->p_offset < file->n_bytes && segment->p_filesz <= file->n_bytes - segment->p_offset)
            return file->bytes + segment->p_offset + offset;
    }
    return NULL;
}

static const ElfW(Phdr) * find_segment(const struct file *file, unsigned type)
{
    for (int i = 0; i < file->header->e_phnum; i++)
        if (file->segments[i].p_type == type)
            return &file->segments[i];
    return NULL;
}

/* True if the thread_local variables lie where those of the process's program do, which are switched with the ranks. */
static bool tls_fits(const ElfW(Phdr) * tls)
{
    const struct image_module *own = &image_program.modules[0];
    size_t align = tls->p_align ? tls->p_align : 1;
    size_t below = base_round_up(tls->p_memsz, align),
           own_below = (size_t)-own->tls_offset; /* the thread pointer */

    return tls->p_vaddr % align == 0 && own->tls_bytes && below <= own_below &&
           below - tls->p_memsz >= own_below - own->tls_bytes;
}

/* The reason why the file is not a program that can be copied; NULL: it may be one. */
static const char *check_file(struct file *file)
{
    const ElfW(Ehdr) *header = file->header;
    const ElfW(Phdr) * tls;

    if (file->n_bytes < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return "it is a script, or a file of another kind, not a program linked with MPI; name the program "
               "itself";
    if (header->e_machine != IMAGE_ARCH_ELF_MACHINE || header->e_ident[EI_CLASS] != IMAGE_ARCH_ELF_CLASS)
        return "it was built for another CPU";
    file->segments = (const void *)(file->bytes + header->e_phoff);
    if (header->e_phoff > file->n_bytes ||
        header->e_phnum > (file->n_bytes - header->e_phoff) / sizeof *tls || !find_segment(file, PT_LOAD))
        return "the file is damaged";
    if (header->e_type != ET_DYN)
        return "it is not position-independent (linked with -no-pie); recompile and link it with this mpicc";
    if (!find_segment(file, PT_INTERP) || !find_segment(file, PT_DYNAMIC))
        return "it is statically linked, or a library; recompile and link it with this mpicc, without "
               "-static";
    tls = find_segment(file, PT_TLS);
    if (tls && tls->p_memsz && !tls_fits(tls))
        return image_error(
            "its code expects %zu bytes of thread_local variables at the thread pointer, and those of the "
            "process's program have %zu; put them into a shared library, or start the program with mpirun",
            (size_t)tls->p_memsz, image_program.modules[0].tls_bytes);
    return NULL;
}

/* Makes a copy of the open file in memory. False: with the reason; *is_final_out: it lies in the file. */
static bool read_file(struct file *file, const char **why_out, bool *is_final_out)
{
    struct stat status;
    ssize_t n = 1;

    file->copy_fd = memfd_create("heddle-program", MFD_CLOEXEC);
    if (file->copy_fd < 0 || fstat(file->fd, &status) != 0 || ftruncate(file->copy_fd, status.st_size) != 0) {
        *why_out = strerror(errno);
        return false;
    }
    file->n_bytes = (size_t)status.st_size;
    file->bytes = mmap(NULL, file->n_bytes + 1, PROT_READ | PROT_WRITE, MAP_SHARED, file->copy_fd, 0);
    for (size_t at = 0; file->bytes != MAP_FAILED && n > 0 && at < file->n_bytes; at += (size_t)n)
        n = pread(file->fd, file->bytes + at, file->n_bytes - at, (off_t)at);
    if (file->bytes == MAP_FAILED || n <= 0) {
        *why_out = n == 0 ? "the file is being changed" : strerror(errno);
        return false;
    }
    file->header = (const void *)file->bytes;
    *why_out = check_file(file);
    *is_final_out = *why_out != NULL;
    return !*why_out;
}

static void close_file(struct file *file)
{
    if (file->bytes && file->bytes != MAP_FAILED)
        munmap(file->bytes, file->n_bytes + 1);
    if (file->copy_fd >= 0)
        close(file->copy_fd);
}

/* ---- Its libraries ---- */

/* What the opener needs. */
struct wanted {
    const char **names; /* the program's copy, and its libraries */
    size_t n_names;
    char *folders; /* malloc'ed; NULL: none */
    ElfW(Sxword) search_tag;
};

/* Replaces $ORIGIN by the program's folder; malloc'ed. */
static char *expand(const struct file *file, const char *folders)
{
    int origin_len = (int)(strrchr(file->path, '/') - file->path);
    char *expanded = NULL;
    size_t n_bytes;
    FILE *stream = open_memstream(&expanded, &n_bytes);

    while (stream && *folders) {
        size_t skip = strncmp(folders, "$ORIGIN", 7) == 0 ? 7 : strncmp(folders, "${ORIGIN}", 9) == 0 ? 9 : 0;

        if (skip)
            fprintf(stream, "%.*s", origin_len, file->path);
        else
            fputc(*folders, stream);
        folders += skip ? skip : 1;
    }
    if (stream)
        fclose(stream);
    return expanded;
}

/* True if the library is the runtime of a sanitizer that the process does not have, and that would end it. */
static bool is_missing_sanitizer(const char *name)
{
    static const char *const sanitizers[] = {"libasan.", "libtsan.", "liblsan.", "libhwasan.",
                                             "libclang_rt."};
    bool is_one = false;
    void *handle = NULL;

    for (size_t i = 0; i < BASE_COUNT(sanitizers); i++)
        is_one |= strncmp(name, sanitizers[i], strlen(sanitizers[i])) == 0;
    if (is_one && (handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD)))
        dlclose(handle);
    return is_one && !handle;
}

/* Reads the dynamic section, and clears the flag that makes the file a program. Returns why it cannot be loaded, or NULL. */
static const char *read_dynamic(const struct file *file, struct wanted *wanted)
{
    const ElfW(Phdr) *segment = find_segment(file, PT_DYNAMIC);
    ElfW(Dyn) *dynamic = at_vaddr(file, segment->p_vaddr, segment->p_filesz);
    size_t n_dynamic = segment->p_filesz / sizeof *dynamic, strings_bytes = 0, strings_vaddr = 0;
    const char *strings;

    for (size_t i = 0; dynamic && i < n_dynamic && dynamic[i].d_tag != DT_NULL; i++) {
        if (dynamic[i].d_tag == DT_STRTAB)
            strings_vaddr = dynamic[i].d_un.d_val;
        else if (dynamic[i].d_tag == DT_STRSZ)
            strings_bytes = dynamic[i].d_un.d_val;
        else if (dynamic[i].d_tag == DT_FLAGS_1)
            dynamic[i].d_un.d_val &= ~(size_t)DF_1_PIE;
    }
    strings = at_vaddr(file, strings_vaddr, strings_bytes);
    if (!dynamic || !strings || !strings_bytes || strings[strings_bytes - 1])
        return "the file is damaged";
    for (size_t i = 0; i < n_dynamic && dynamic[i].d_tag != DT_NULL; i++) {
        const char *text = strings + dynamic[i].d_un.d_val;
        ElfW(Sxword) tag = dynamic[i].d_tag;

        if ((tag != DT_NEEDED && tag != DT_RPATH && tag != DT_RUNPATH) ||
            dynamic[i].d_un.d_val >= strings_bytes)
            continue;
        if (tag == DT_NEEDED && is_missing_sanitizer(text))
            return image_error("it was built with a sanitizer (%s), and the process's program was not", text);
        if (tag == DT_NEEDED) {
            image_array_push(&wanted->names, &wanted->n_names, sizeof text, &text);
        } else if (!wanted->folders || tag == DT_RUNPATH) {
            free(wanted->folders);
            wanted->folders = expand(file, text);
            wanted->search_tag = tag;
        }
    }
    return NULL;
}

/* ---- main ---- */

/* The look for main that is in progress; under base_loader_lock. */
static struct {
    ucontext_t back;
    image_main_fn main; /* NULL: not found yet */
    bool is_running;
} start;

void *image_start_function;

void image_start_end(image_main_fn main)
{
    if (!start.is_running)
        return;
    start.is_running = false;
    start.main = main;
    setcontext(&start.back);
}

/* Runs the prototype's _start until it calls __libc_start_main; returns the address of main. */
static image_main_fn find_main(const struct image_module *module, size_t entry_vaddr)
{
    ucontext_t context;
    char *stack = base_malloc(START_STACK_BYTES, "the start of a program");

    image_precedence_bind(module, "__libc_start_main", image_start_function);
    start.main = NULL;
    start.is_running = true;
    getcontext(&context);
    context.uc_stack = (stack_t){.ss_sp = stack, .ss_size = START_STACK_BYTES};
    context.uc_link = &start.back;
    makecontext(&context, (void (*)(void))(module->bias + entry_vaddr), 0);
    swapcontext(&start.back, &context);
    start.is_running = false;
    free(stack);
    return start.main;
}

/* ---- Loading ---- */

/* True if the program's order of look-up has this library, which is moved in front of the C library. */
static bool needs_mpi(struct image_module *program)
{
    Dl_info info;
    struct link_map *own = NULL, *c_library = NULL;
    size_t at = 0, libc_at = 0;

    if (!dladdr1((const void *)image_program_load, &info, (void **)&own, RTLD_DL_LINKMAP) ||
        !dladdr1((const void *)gnu_get_libc_version, &info, (void **)&c_library, RTLD_DL_LINKMAP))
        return false;
    while (at < program->n_scope && program->scope[at] != own)
        at++;
    while (libc_at < at && program->scope[libc_at] != c_library)
        libc_at++;
    if (at == program->n_scope)
        return false;
    memmove(&program->scope[libc_at + 1], &program->scope[libc_at],
            (at - libc_at) * sizeof program->scope[0]);
    program->scope[libc_at] = own;
    return true;
}

/* Makes the loaded modules a program. */
static struct image_program *add_program(const struct file *file, const struct link_map *map,
                                         const struct image_loaded *loaded, const char **why_out)
{
    struct image_module *modules;
    struct image_program *program = NULL;
    image_main_fn main = NULL;
    size_t count;

    image_groups_collect(NULL, map, loaded->modules, loaded->count, &modules, &count);
    if (count == 0 || modules[0].link_map != map)
        *why_out = "it has relocations in its code, because parts of it were not compiled with -fPIE; "
                   "recompile all of it "
                   "with this mpicc";
    else if (!needs_mpi(&modules[0]))
        *why_out = "it is not linked with this MPI library; recompile and link it with this mpicc";
    else if (image_symbol_find(&modules[0], "malloc", NULL))
        *why_out = "it contains its own malloc, which the ranks of a process cannot share; link it as a "
                   "shared library";
    else if (!(main = find_main(&modules[0], file->header->e_entry)))
        *why_out = "its main was not found; recompile and link it with this mpicc";
    else {
        modules[0].name = file->path;
        modules[0].fd = file->fd;
        modules[0].is_tls_static = true;
        modules[0].tls_offset = -(
            ptrdiff_t)(modules[0].tls_bytes ? base_round_up(modules[0].tls_bytes, modules[0].tls_align) : 0);
        if (image_group_add_program(modules, count, &program, why_out)) {
            const struct image_module *owner = image_module_of(program, (uintptr_t)main); /* or a library */

            *why_out = "its main is not part of it, or of a library of which each rank has a copy";
            program->main_offset = owner ? (uintptr_t)main - owner->bias + owner->copy_shift : 0;
            program->entry_vaddr = file->header->e_entry;
            image_construct_streams(program);
            program = owner ? program : NULL;
        }
    }
    free(modules);
    return program;
}

/* *is_final_out: another try would fail, too. */
static struct image_program *load(const struct file *file, const char **why_out, bool *is_final_out)
{
    struct wanted wanted = {.search_tag = DT_RUNPATH};
    struct image_loaded loaded = {NULL, 0, NULL};
    struct image_program *program = NULL;
    char copy_path[IMAGE_MEMORY_PATH_MAX];
    const char *name = copy_path;
    struct link_map *map;

    image_memory_path(file->copy_fd, copy_path);
    image_array_push(&wanted.names, &wanted.n_names, sizeof name, &name);
    if ((*why_out = read_dynamic(file, &wanted))) {
        *is_final_out = true;
    } else if (!(map = image_opener_open_all(wanted.names, wanted.n_names, wanted.folders, wanted.search_tag,
                                             RTLD_NOW | RTLD_LOCAL, true, &loaded))) {
        *why_out = dlerror();
    } else {
        *is_final_out = true; /* it stays loaded */
        BASE_ASSERT(strcmp(map->l_name, copy_path) == 0);
        map->l_name = strdup(file->path); /* for reports, gdb and dladdr */
        image_opener_drop_destructors(&loaded);
        *why_out = loaded.stranger;
        program = loaded.stranger ? NULL : add_program(file, map, &loaded, why_out);
    }
    free(loaded.modules);
    free(wanted.names);
    free(wanted.folders);
    return program;
}

/* Loads the program, and remembers the outcome, except for a failure that may pass (a library or memory is missing). */
static struct image_program *load_new(int fd, const struct stat *status, const char *path,
                                      const char **why_out)
{
    struct file file = {.path = realpath(path, NULL), .fd = fd, .copy_fd = -1};
    struct image_program *program = NULL;
    bool is_final = false;

    *why_out = "out of memory";
    if (file.path && read_file(&file, why_out, &is_final))
        program = load(&file, why_out, &is_final);
    if (program || is_final) {
        struct known *known = base_malloc(sizeof *known, "a program");

        *known = (struct known){.device = status->st_dev,
                                .inode = status->st_ino,
                                .changed = status->st_mtim,
                                .program = program,
                                .error = program ? NULL : strdup(*why_out),
                                .next = known_programs};
        known_programs = known;
    }
    if (!program)
        close(fd);
    close_file(&file);
    return program;
}

struct image_program *image_program_load(const char *path, const char **error_out)
{
    struct image_program *program;
    struct known *known = NULL;
    struct stat status, own;
    const char *why;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &status) != 0) {
        *error_out = image_error("%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    if (stat("/proc/self/exe", &own) == 0 && own.st_dev == status.st_dev && own.st_ino == status.st_ino) {
        close(fd);
        return &image_program;
    }
    base_loader_lock();
    known = known_programs;
    while (known && (known->device != status.st_dev || known->inode != status.st_ino ||
                     memcmp(&known->changed, &status.st_mtim, sizeof known->changed) != 0))
        known = known->next;
    if (known) {
        close(fd);
        program = known->program;
        why = known->error;
    } else {
        program = load_new(fd, &status, path, &why);
    }
    if (!program) { /* why may be image_error's */
        char *text = strdup(why ? why : "out of memory");

        *error_out = image_error("%s cannot run in this process: %s", path, text ? text : "out of memory");
        free(text);
    }
    base_loader_unlock();
    return program;
}
