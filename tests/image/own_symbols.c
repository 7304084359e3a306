/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: dlsym, dlvsym, dladdr, dladdr1, dlinfo and dl_iterate_phdr return the rank's own functions and
 * variables; its dynamic section is relocated, and argv is followed by the environment and the auxiliary vector; backtrace_symbols and backtrace_symbols_fd name them.
 */
#include "image_test.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) int exported_variable;

__attribute__((visibility("default"))) unsigned exported_function(void)
{
    return test_id();
}

static int covers_self(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            (char *)arg - (char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr) >= 0 &&
            (char *)arg - (char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr) <
                (long)info->dlpi_phdr[i].p_memsz)
            return 1;
    return 0;
}

/* How dl_iterate_phdr reports the program. */
struct reported {
    int n_modules;        /* so far */
    int is_first;         /* the first one contains this program's variables */
    int n_with_variables; /* those that contain them */
    int n_programs;       /* those with as many headers and as much memory as the program */
    ElfW(Half) n_phdrs;   /* of the first one */
    size_t vaddr;         /* of its last header */
};

static int count_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct reported *reported = arg;
    int has = covers_self(info, size, &image_test_self);

    if (reported->n_modules++ == 0) {
        reported->is_first = has;
        reported->n_phdrs = info->dlpi_phnum;
        reported->vaddr = info->dlpi_phdr[info->dlpi_phnum - 1].p_vaddr;
    }
    reported->n_with_variables += has;
    reported->n_programs += info->dlpi_phnum == reported->n_phdrs &&
                            info->dlpi_phdr[info->dlpi_phnum - 1].p_vaddr == reported->vaddr;
    return 0;
}

/* The program is reported once, and first. */
static void check_modules(void)
{
    struct reported reported = {.n_modules = 0};

    CHECK(dl_iterate_phdr(count_module, &reported) == 0 && reported.n_modules > 2);
    CHECK(reported.is_first && reported.n_with_variables == 1 && reported.n_programs == 1);
}

/* The dynamic section, as runtimes of other languages read it. */
static void check_dynamic(const struct link_map *map)
{
    const char *strings = NULL;
    size_t needed = 0;
    int has_debug = 0;

    for (const ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_STRTAB)
            strings = (const char *)d->d_un.d_ptr;
        if (d->d_tag == DT_NEEDED)
            needed = d->d_un.d_val;
        if (d->d_tag == DT_DEBUG) /* _r_debug itself may be a copy (COPY relocation) */
            has_debug = d->d_un.d_ptr && ((const struct r_debug *)d->d_un.d_ptr)->r_map;
    }
    CHECK(has_debug && strings > (const char *)map->l_addr && strings < &image_test_self);
    CHECK(strstr(strings + needed, ".so"));
}

static size_t is_near(size_t address)
{
    return address > (size_t)&image_test_self - (1u << 20) && address < (size_t)&image_test_self;
}

/* What a process finds on its stack behind its arguments. */
static void check_stack(int argc, char **argv)
{
    extern char **environ;
    char **env = argv + argc + 1;
    const ElfW(auxv_t) * entry;
    size_t page_bytes = 0, has_headers = 0;

    CHECK(!argv[argc] && env[0] && env[0] == environ[0]);
    while (*env)
        env++;
    for (entry = (const void *)(env + 1); entry->a_type != AT_NULL; entry++) {
        if (entry->a_type == AT_PAGESZ)
            page_bytes = entry->a_un.a_val;
        if (entry->a_type == AT_PHDR)
            has_headers = is_near(entry->a_un.a_val);
    }
    CHECK(page_bytes == (size_t)sysconf(_SC_PAGESIZE) && has_headers);
}

/* The module's descriptor: by dlinfo, by dladdr1, and as a member of the list. */
static void check_descriptor(void *self)
{
    struct link_map *map = NULL, *same = NULL;
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;

    CHECK(dlinfo(self, RTLD_DI_LINKMAP, &map) == 0 && map);
    CHECK(dladdr1((void *)exported_function, &info, (void **)&same, RTLD_DL_LINKMAP) && same == map);
    CHECK(dladdr1((void *)exported_function, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol);
    CHECK((char *)map->l_addr + symbol->st_value == (char *)exported_function);
    CHECK(info.dli_saddr == (void *)exported_function && info.dli_fbase <= info.dli_saddr);
    CHECK((ElfW(Dyn) *)map->l_ld == _DYNAMIC);
    check_dynamic(map);
    CHECK(map->l_next && map->l_next->l_prev);
    CHECK(dlsym(map, "exported_function") == (void *)exported_function);
    CHECK(dlvsym(RTLD_DEFAULT, "exported_function", "NO_1.0") == NULL ||
          dlvsym(RTLD_DEFAULT, "exported_function", "NO_1.0") == (void *)exported_function);
    CHECK(dlvsym(RTLD_DEFAULT, "strtol", "GLIBC_2.2.5") == dlsym(RTLD_DEFAULT, "strtol"));
}

/* Are "(function+0x10)" and "[0x1234]" in the text, with this address? */
static int names(const char *text, const char *function, const void *addr)
{
    char expected[300];

    snprintf(expected, sizeof expected, "(%s+0x", function);
    if (!strstr(text, expected))
        return 0;
    snprintf(expected, sizeof expected, "[%p]", addr);
    return strstr(text, expected) != NULL;
}

/* The rank's own frames and, of the C library, one address. */
__attribute__((noinline, visibility("default"))) void check_backtrace(void)
{
    void *frames[20], *found[3];
    char **texts, line[5000] = "";
    int n = backtrace(frames, 20), ends[2];

    CHECK(n >= 2);
    found[0] = frames[0];
    found[1] = frames[1];
    found[2] = dlsym(RTLD_DEFAULT, "strtol");
    texts = backtrace_symbols(found, 3);
    CHECK(texts && names(texts[0], "check_backtrace", found[0]) && names(texts[1], "main", found[1]));
    CHECK(strstr(texts[2], "libc") && strchr(texts[2], '['));
    free(texts);
    CHECK(pipe(ends) == 0);
    backtrace_symbols_fd(found, 3, ends[1]);
    CHECK(read(ends[0], line, sizeof line - 1) > 0);
    CHECK(names(line, "check_backtrace", found[0]) && names(line, "main", found[1]) && strstr(line, "libc"));
    close(ends[0]);
    close(ends[1]);
}

int main(int argc, char **argv)
{
    unsigned (*found)(void) = (unsigned (*)(void))dlsym(RTLD_DEFAULT, "exported_function");
    void *self = dlopen(NULL, RTLD_NOW);
    Dl_info info;

    let_others_run();
    CHECK(found == exported_function && found() == test_id());
    CHECK(dlsym(self, "exported_variable") == &exported_variable);
    CHECK(dlsym(RTLD_NEXT, "strtol") != NULL && dlsym(RTLD_NEXT, "exported_function") == NULL);
    CHECK(dladdr((void *)exported_function, &info) && strcmp(info.dli_sname, "exported_function") == 0);
    CHECK(info.dli_saddr == (void *)exported_function);
    check_descriptor(self);
    CHECK(dl_iterate_phdr(covers_self, &image_test_self) == 1);
    check_modules();
    check_stack(argc, argv);
    check_backtrace();
    puts("ok");
    return 0;
}
