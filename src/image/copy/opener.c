/* SPDX-License-Identifier: BSD-3-Clause
 *
 * opener.c: loads a library for a rank without running its constructors, which must run in the rank's copy.
 *
 * ld.so has no such function, but it has DF_1_INITFIRST: a module with this flag is constructed before all
 * others of the same dlopen. So instead of the library we open a module that is generated on the spot (the
 * opener). It has the flag, needs the library (DT_NEEDED), and has one constructor: a function of this
 * file. This function replaces the constructors of the private libraries that are being loaded by an empty
 * one; shared libraries keep theirs. The opener's DT_RUNPATH or DT_RPATH is the search list of the calling
 * module, so that ld.so searches as it would for the prototype. Once the library is loaded, the opener is
 * closed.
 */
#include "image/copy/groups.h"
#include "image/copy/instantiate.h"

#include "base/log.h"
#include "image/copy/deferred.h"
#include "image/copy/precedence.h"
#include "image/copy/private_libraries.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Changing ld.so's data of a module ---- */

static void do_nothing(void) {}

static void patch(const struct image_module *module, size_t *word, size_t value)
{
    image_patch_word(module->bias, module->phdr, module->n_phdrs, word, value);
}

/* Sets the entries of an array of functions: to values[], or to do_nothing if values is NULL. */
static void set_array(const struct image_module *module, size_t vaddr, size_t count, const size_t *values)
{
    size_t *array = (size_t *)(module->bias + vaddr);

    for (size_t i = 0; i < count; i++)
        patch(module, &array[i], values ? values[i] : (size_t)do_nothing);
}

/* Sets an entry of the dynamic section, by its tag, to the address of a function. */
static void set_entry(const struct image_module *module, ElfW(Sxword) tag, size_t vaddr)
{
    for (const ElfW(Dyn) *d = module->dynamic; d->d_tag != DT_NULL; d++)
        if (d->d_tag == tag)
            patch(module, (size_t *)&d->d_un.d_ptr, vaddr);
}

/* ---- While ld.so loads ---- */

/* A module whose constructors are held back, and their addresses. */
struct deferred {
    struct image_module module;
    size_t *inits;
};

/* The dlopen in progress; under the lock of rebind_dlopen.c. */
static struct {
    char path[IMAGE_MEMORY_PATH_MAX]; /* of the opener */
    struct deferred *deferred;
    size_t count;
} opening;

/* In ld.so's list the opener precedes the libraries that it loaded. */
static bool is_new(const struct link_map *map)
{
    for (map = map->l_prev; map; map = map->l_prev)
        if (strcmp(map->l_name, opening.path) == 0)
            return true;
    return false;
}

static void defer(const struct image_module *module)
{
    struct deferred deferred = {.module = *module};
    const size_t *inits = (const size_t *)(module->bias + module->init_array_vaddr);

    deferred.inits = base_calloc(module->n_inits + 1, sizeof *inits, "the constructors of a library");
    memcpy(deferred.inits, inits, module->n_inits * sizeof *inits);
    set_array(module, module->init_array_vaddr, module->n_inits, NULL);
    if (module->init_vaddr)
        set_entry(module, DT_INIT, (size_t)do_nothing - module->bias);
    image_array_push(&opening.deferred, &opening.count, sizeof deferred, &deferred);
}

/* The first definition after the program's own. NULL: none. */
static const char *copied_definition(const struct image_module *program, size_t symbol_index)
{
    for (size_t i = 1; i < program->n_scope; i++) {
        struct image_module module = {.name = program->scope[i]->l_name, .bias = program->scope[i]->l_addr};
        const ElfW(Sym) * symbol;

        image_module_read_dynamic(&module, program->scope[i]->l_ld);
        symbol = image_symbol_find(&module, program->strtab + program->symtab[symbol_index].st_name,
                                   image_symbol_version(program, symbol_index));
        if (symbol)
            return (const char *)module.bias + symbol->st_value;
    }
    return NULL;
}

/* Carries out a program's COPY relocations: ld.so, which loads it as a library, finds the program's own variables. */
static void copy_variables(const struct image_module *program)
{
    for (size_t i = 0; i < program->n_relas; i++) {
        size_t symbol_index = ELF64_R_SYM(program->rela[i].r_info), word;
        char *to = (char *)program->bias + program->rela[i].r_offset;
        const char *from = image_arch_reloc_kind(ELF64_R_TYPE(program->rela[i].r_info)) == IMAGE_RELOC_COPY
                               ? copied_definition(program, symbol_index)
                               : NULL;

        for (size_t at = 0, end = program->symtab[symbol_index].st_size; from && at < end;
             at += sizeof word) {
            memcpy(&word, to + at, sizeof word);
            memcpy(&word, from + at, end - at < sizeof word ? end - at : sizeof word);
            patch(program, (size_t *)(void *)(to + at), word);
        }
    }
}

/* The opener's constructor: ld.so calls it after all relocations and before all other constructors. */
static void before_constructors(void)
{
    struct image_module *modules;
    size_t count;
    bool *is_late;

    image_modules_list(true, &modules, &count);
    is_late = base_calloc(count, sizeof *is_late, "the list of libraries");
    for (size_t i = 0; i < count; i++)
        is_late[i] = modules[i].link_map && is_new(modules[i].link_map);
    image_private_libraries_mark_late(modules, count, is_late);
    for (size_t i = 0; i < count; i++)
        if (is_late[i]) {
            image_modules_set_scope(modules, count, i, false);
            copy_variables(&modules[i]);
            defer(&modules[i]);
        }
    image_modules_free(modules, count, is_late);
    free(is_late);
}

/* Restores the prototypes' constructors from the file. */
static void restore(void)
{
    for (size_t i = 0; i < opening.count; i++) {
        const struct deferred *deferred = &opening.deferred[i];

        set_array(&deferred->module, deferred->module.init_array_vaddr, deferred->module.n_inits,
                  deferred->inits);
        if (deferred->module.init_vaddr)
            set_entry(&deferred->module, DT_INIT, deferred->module.init_vaddr);
    }
}

/* ---- The opener ---- */

enum { NAMES_MAX = 64, N_DYNS = NAMES_MAX + 9 };

struct opener {
    ElfW(Ehdr) header;
    ElfW(Phdr) segments[3];
    ElfW(Dyn) dynamic[N_DYNS];
    ElfW(Sym) symbol; /* the null symbol */
    void (*constructor)(void);
};

static void add_dyn(ElfW(Dyn) * *next, ElfW(Sxword) tag, size_t value)
{
    (*next)->d_tag = tag;
    (*next)->d_un.d_val = value;
    (*next)++;
}

/* Writes the module into a memfd. strings: its dynamic string table, with the n names one after the other from offset 1 on.
 * -1: failed. */
static int write_opener(const char *strings, size_t strings_bytes, size_t n_names, size_t search_at,
                        ElfW(Sxword) search_tag)
{
    struct opener opener = {
        .header =
            {
                .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, IMAGE_ARCH_ELF_CLASS,
                            __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB,
                            EV_CURRENT},
                .e_type = ET_DYN,
                .e_machine = IMAGE_ARCH_ELF_MACHINE,
                .e_version = EV_CURRENT,
                .e_phoff = offsetof(struct opener, segments),
                .e_ehsize = sizeof(ElfW(Ehdr)),
                .e_phentsize = sizeof(ElfW(Phdr)),
                .e_phnum = 3,
            },
        .constructor = before_constructors, /* an absolute address, not relocated */
    };
    size_t file_bytes = sizeof opener + strings_bytes;
    ElfW(Dyn) *next = opener.dynamic;
    int fd = memfd_create("heddle-dlopen", MFD_CLOEXEC);
    size_t name_at = 1;

    opener.segments[0] = (ElfW(Phdr)){.p_type = PT_LOAD,
                                      .p_flags = PF_R | PF_W,
                                      .p_filesz = file_bytes,
                                      .p_memsz = file_bytes,
                                      .p_align = IMAGE_ARCH_PAGE_BYTES};
    opener.segments[1] = (ElfW(Phdr)){.p_type = PT_DYNAMIC,
                                      .p_flags = PF_R | PF_W,
                                      .p_offset = offsetof(struct opener, dynamic),
                                      .p_vaddr = offsetof(struct opener, dynamic),
                                      .p_paddr = offsetof(struct opener, dynamic),
                                      .p_filesz = sizeof opener.dynamic,
                                      .p_memsz = sizeof opener.dynamic,
                                      .p_align = sizeof(void *)};
    opener.segments[2] = (ElfW(Phdr)){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W};
    for (size_t i = 0; i < n_names; i++, name_at += strlen(strings + name_at) + 1)
        add_dyn(&next, DT_NEEDED, name_at);
    add_dyn(&next, DT_STRTAB, sizeof opener);
    add_dyn(&next, DT_STRSZ, strings_bytes);
    add_dyn(&next, DT_SYMTAB, offsetof(struct opener, symbol));
    add_dyn(&next, DT_SYMENT, sizeof opener.symbol);
    add_dyn(&next, DT_INIT_ARRAY, offsetof(struct opener, constructor));
    add_dyn(&next, DT_INIT_ARRAYSZ, sizeof opener.constructor);
    add_dyn(&next, DT_FLAGS_1, DF_1_INITFIRST);
    if (search_at)
        add_dyn(&next, search_tag, search_at);
    add_dyn(&next, DT_NULL, 0);
    if (fd >= 0 && (write(fd, &opener, sizeof opener) != (ssize_t)sizeof opener ||
                    write(fd, strings, strings_bytes) != (ssize_t)strings_bytes)) {
        close(fd);
        return -1;
    }
    return fd;
}

void image_memory_path(int fd, char *path_out)
{
    static unsigned count;
    int length = snprintf(path_out, IMAGE_MEMORY_PATH_MAX, "/proc/self");

    for (unsigned bits = ++count; bits; bits >>= 1)
        length += snprintf(path_out + length, IMAGE_MEMORY_PATH_MAX - (size_t)length, bits & 1 ? "/." : "/");
    snprintf(path_out + length, IMAGE_MEMORY_PATH_MAX - (size_t)length, "/fd/%d", fd);
}

/* The length of the folder of an image_memory_path at the start of the path; 0: another path. */
static size_t memory_folder(const char *path)
{
    size_t length = strncmp(path, "/proc/self/", 11) == 0 ? 10 + strspn(path + 10, "./") : 0;

    return length && strncmp(path + length, "fd", 2) == 0 ? length + 2 : 0;
}

/* Appends the folders that ld.so searches for the module, without those it searches for every module,
 * separated by ':'. The folder of a program's copy stands for the program's. NULL: none; free() it. */
static char *search_list(const struct image_module *module)
{
    const char *slash = strrchr(module->name, '/');
    Dl_serinfo size, *list;
    FILE *stream;
    char *folders = NULL;
    size_t len = 0;

    if (dlinfo((void *)module->link_map, RTLD_DI_SERINFOSIZE, &size) != 0 || !(list = malloc(size.dls_size)))
        return NULL;
    *list = size;
    stream = open_memstream(&folders, &len);
    if (stream && dlinfo((void *)module->link_map, RTLD_DI_SERINFO, list) == 0)
        for (unsigned i = 0; i < list->dls_cnt && !(list->dls_serpath[i].dls_flags & LA_SER_DEFAULT); i++) {
            const char *folder = list->dls_serpath[i].dls_name;
            size_t skip = slash ? memory_folder(folder) : 0;

            fprintf(stream, "%s%.*s%s", i ? ":" : "", skip ? (int)(slash - module->name) : 0, module->name,
                    folder + skip);
        }
    if (stream)
        fclose(stream);
    free(list);
    return folders;
}

/* The caller's DT_RPATH precedes LD_LIBRARY_PATH and also applies to the library's dependencies; DT_RUNPATH
 * does not. */
static ElfW(Sxword) search_tag_of(const struct image_module *module)
{
    for (const ElfW(Dyn) *d = module->dynamic; d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_RUNPATH)
            return DT_RUNPATH;
    return DT_RPATH;
}

static int make_opener(const char *const *names, size_t n_names, const char *folders, ElfW(Sxword) search_tag)
{
    size_t end = 1, folders_bytes = folders && folders[0] ? strlen(folders) + 1 : 0;
    char *strings;
    int fd;

    if (n_names > NAMES_MAX)
        n_names = NAMES_MAX;
    for (size_t i = 0; i < n_names; i++)
        end += strlen(names[i]) + 1;
    strings = base_calloc(end + folders_bytes, 1, "the name of a library");
    end = 1;
    for (size_t i = 0; i < n_names; i++) {
        memcpy(strings + end, names[i], strlen(names[i]) + 1);
        end += strlen(names[i]) + 1;
    }
    if (folders_bytes)
        memcpy(strings + end, folders, folders_bytes);
    fd = write_opener(strings, end + folders_bytes, n_names, folders_bytes ? end : 0, search_tag);
    free(strings);
    return fd;
}

/* Binds all symbols now if possible; a symbol may be missing that is needed only at its first call. */
static void *open_bound(const char *path, int mode)
{
    void *handle = dlopen(path, (mode & ~RTLD_LAZY) | RTLD_NOW);

    return !handle && (mode & RTLD_LAZY) ? dlopen(path, mode) : handle;
}

/* The first file of this name in a list of folders, separated by ':'; path_out has PATH_MAX bytes. */
static bool find_file(const char *folders, const char *name, char *path_out, struct stat *status_out)
{
    for (size_t n; *folders; folders += n + (folders[n] == ':')) {
        n = strcspn(folders, ":");
        if (snprintf(path_out, PATH_MAX, "%.*s/%s", (int)n, folders, name) < PATH_MAX &&
            stat(path_out, status_out) == 0)
            return true;
    }
    return false;
}

/* ld.so takes a loaded library of the name that a module needs before it searches the module's folders. In a process of this
 * rank alone it would not, if only other ranks have loaded that library. Returns a sentence about such a library; NULL: there
 * is none. searched: the module with the search list; image: NULL: of a program without ranks. */
static const char *find_stranger(const struct image_module *module, const struct image_module *searched,
                                 const struct image *image)
{
    char *folders = search_list(searched);
    char *path = base_malloc(PATH_MAX, "the path of a library"); /* ranks may have small stacks */
    const char *found = NULL;
    struct stat wanted, loaded;

    for (size_t i = 0; folders && !found && i < module->n_needed; i++) {
        const struct link_map *map = module->needed[i];
        struct image_module other = {.name = map->l_name, .bias = map->l_addr};
        const struct image_module *copied =
            image ? image_module_of(image->program, (uintptr_t)map->l_ld) : NULL;

        image_module_read_dynamic(&other, map->l_ld);
        if (other.soname && image_module_is_private(map) &&
            !(copied && image_has_group(image, copied->group)) &&
            find_file(folders, other.soname, path, &wanted) && stat(map->l_name, &loaded) == 0 &&
            (wanted.st_ino != loaded.st_ino || wanted.st_dev != loaded.st_dev))
            found = image_error("%s needs %s, but gets %s of the same name, which another rank has loaded",
                                searched == module ? module->name : "it", path, map->l_name);
    }
    free(path);
    free(folders);
    return found;
}

/* Reports a stranger to the rank, or if a program is being loaded, to the caller. The opener is still there: it has the
 * program's search list. */
static void report_strangers(void *opener, bool is_program, struct image_loaded *loaded)
{
    const struct image_module searched = {.name = "", .link_map = opener};
    const struct image *image = is_program ? NULL : image_of_thread();
    const char *found;

    for (size_t i = 0; i < opening.count && (image || is_program) && !loaded->stranger; i++) {
        const struct image_module *module = &opening.deferred[i].module;

        found = find_stranger(module, is_program && memory_folder(module->name) ? &searched : module, image);
        if (is_program)
            loaded->stranger = found;
        else if (found)
            base_log("%s; use one rank per process (mpirun --procs N -n N)", found);
    }
}

void *image_opener_open(const struct image_module *caller, const char *name, int mode,
                        struct image_loaded *loaded_out)
{
    char *folders = caller && caller->link_map ? search_list(caller) : NULL;
    void *handle = image_opener_open_all(&name, 1, folders, caller ? search_tag_of(caller) : DT_RUNPATH, mode,
                                         false, loaded_out);

    free(folders);
    return handle;
}

void *image_opener_open_all(const char *const *names, size_t n_names, const char *folders,
                            ElfW(Sxword) search_tag, int mode, bool is_program,
                            struct image_loaded *loaded_out)
{
    int fd = make_opener(names, n_names, folders, search_tag);
    const char *name = names[0];
    void *opener, *handle = NULL;

    *loaded_out = (struct image_loaded){NULL, 0, NULL};
    if (fd < 0) {
        base_log("the ranks share %s: it cannot be opened for one of them (memfd_create: %s)", name,
                 strerror(errno));
        return dlopen(name, mode);
    }
    opening.count = 0;
    opening.deferred = NULL;
    image_memory_path(fd, opening.path);
    opener = open_bound(opening.path, mode);
    close(fd);
    if (!opener)
        return NULL;
    restore();
    handle = dlopen(name, mode | RTLD_NOLOAD); /* by its name now, wherever it was found */
    BASE_ASSERT(handle);
    report_strangers(opener, is_program, loaded_out);
    dlclose(opener);
    for (size_t i = 0; i < opening.count; i++) {
        opening.deferred[i].module.is_pristine = true;
        image_precedence_bind_all(&opening.deferred[i].module, 1);
        image_array_push(&loaded_out->modules, &loaded_out->count, sizeof opening.deferred[i].module,
                         &opening.deferred[i].module);
        free(opening.deferred[i].inits);
    }
    free(opening.deferred);
    return handle;
}

/* ---- After loading ---- */

void image_opener_construct(const struct image_loaded *loaded)
{
    typedef void (*constructor_fn)(int argc, char **argv, char **envp);
    extern char **environ;

    /* Last first: ld.so's list has a library before its dependencies. */
    for (size_t i = loaded->count; i-- > 0;) {
        const struct image_module *module = &loaded->modules[i];
        const size_t *inits = (const size_t *)(module->bias + module->init_array_vaddr);

        if (module->init_vaddr)
            ((constructor_fn)(module->bias + module->init_vaddr))(0, NULL, environ);
        for (size_t j = 0; j < module->n_inits; j++)
            ((constructor_fn)inits[j])(0, NULL, environ);
    }
}

void image_opener_drop_destructors(const struct image_loaded *loaded)
{
    for (size_t i = 0; i < loaded->count; i++) {
        const struct image_module *module = &loaded->modules[i];

        set_array(module, module->fini_array_vaddr, module->n_finis, NULL);
        if (module->fini_vaddr)
            set_entry(module, DT_FINI, (size_t)do_nothing - module->bias);
    }
}
