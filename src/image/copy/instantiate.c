/* SPDX-License-Identifier: BSD-3-Clause
 *
 * instantiate.c: creates copies of the program by the plan, runs them and ends them.
 *
 * A copy is created in the state in which ld.so hands a program over: relocated, no constructor run. Its
 * life:
 *
 *   1 created    image_create
 *   2 running    image_run: constructors in dependency order, then main
 *   3 ended      image_finish: thread_local destructors, atexit handlers, destructors, early handlers.
 *
 * As in a process, functions for exit that constructors of libraries have registered (destructors of static objects) are early
 * ones: they run when the library's destructor functions have run, which may use such objects. The last of these functions
 * calls __cxa_finalize for the library's own.
 *
 * A handler may call exit(), which re-enters image_finish: each step is removed from its list before it
 * runs, so the inner call continues where the outer one stopped.
 *
 *   4 unmapped   image_unmap: only of copies that nothing refers to. The struct stays for the next copy at that
 *                address, because threads may be reading the list of images.
 */
#include "image/copy/instantiate.h"
#include "image/copy/groups.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Entries of the auxiliary vector that are passed on; Linux has some 25. */
enum { AUXILIARY_MAX = 63 };

static _Atomic(struct image *) all_images;                  /* every image, the newest first */
static atomic_uintptr_t images_lo = UINTPTR_MAX, images_hi; /* all are in [lo, hi) */
static atomic_int n_unmapped;                               /* images without a copy */

/* ---- Making a copy ---- */

static bool map_all(const struct image_program *program, char *base)
{
    for (size_t i = 0; i < program->n_mappings; i++) {
        const struct image_mapping *m = &program->mappings[i];
        char *want = base + m->offset;
        char *got = mmap(want, m->len_bytes, m->prot, m->flags | MAP_FIXED_NOREPLACE, m->fd, m->file_offset);

        if (got == want)
            continue;
        if (got != MAP_FAILED) { /* kernels before 4.17 treat the address as a hint */
            munmap(got, m->len_bytes);
            errno = EEXIST;
        }
        for (int saved_errno = errno; i-- > 0; errno = saved_errno)
            munmap(base + program->mappings[i].offset, program->mappings[i].len_bytes);
        return false;
    }
    return true;
}

/* Allocates the pages that fill_all will write. Without this (before Linux 5.14) each one costs a page
 * fault. */
static void populate_all(const struct image_program *program, char *base)
{
    for (size_t i = 0; i < program->n_populated; i++)
        madvise(base + program->populated[i].offset, program->populated[i].len_bytes, MADV_POPULATE_WRITE);
}

/* Copies the libraries' value into the copy's variable. */
static void copy_variable(const struct image *image, const struct image_variable *variable)
{
    const void *from = variable->is_private ? image->base + variable->source : variable->prototype;

    if (!variable->is_zeroed)
        memcpy(image->base + variable->offset, from, variable->len_bytes);
    if (variable->is_stream)
        image_stream_translate(image, image->base + variable->offset, variable->len_bytes);
}

/* Copies the initial contents and relocates them. */
static void fill_all(const struct image_program *program, struct image *image)
{
    char *base = image->base;

    for (size_t i = 0; i < program->n_fills; i++)
        memcpy(base + program->fills[i].offset, program->fills[i].bytes, program->fills[i].len_bytes);
    for (size_t i = 0; i < program->n_adds; i++) {
        char *at = base + program->adds[i];
        uintptr_t word;

        memcpy(&word, at, sizeof word);
        word += (uintptr_t)base;
        memcpy(at, &word, sizeof word);
    }
    for (size_t i = 0; i < program->n_libc_refs; i++) {
        uintptr_t word = (uintptr_t)&image->libc + program->libc_refs[i].field_offset;

        memcpy(base + program->libc_refs[i].offset, &word, sizeof word);
    }
    image_streams_fill(program, image);
    for (int i = 0; i < IMAGE_LIBC_FIELDS && program == program->root; i++)
        image->libc.variables[i] = (char *)&image->libc + image_libc_field_offset(i);
    for (size_t i = 0; i < program->n_variables; i++) {
        const struct image_variable *variable = &program->variables[i];

        copy_variable(image, variable);
        if (variable->libc_field >= 0)
            image->libc.variables[variable->libc_field] = base + variable->offset;
    }
}

static bool protect_all(const struct image_program *program, const char *base)
{
    for (size_t i = 0; program->is_relro_protected && i < program->n_relros; i++)
        if (mprotect((void *)(base + program->relros[i].offset), program->relros[i].len_bytes, PROT_READ) !=
            0)
            return false;
    return true;
}

/* Publishes the image for image_find. */
static void enlist(struct image *image)
{
    uintptr_t lo = (uintptr_t)image->base, hi = lo + image_program.reserved_bytes;
    uintptr_t old_lo = atomic_load(&images_lo), old_hi = atomic_load(&images_hi);

    while (lo < old_lo && !atomic_compare_exchange_weak(&images_lo, &old_lo, lo))
        ;
    while (hi > old_hi && !atomic_compare_exchange_weak(&images_hi, &old_hi, hi))
        ;
    image->next = atomic_load_explicit(&all_images, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&all_images, &image->next, image))
        ;
}

bool image_fill(struct image *image, const struct image_program *program)
{
    if (!map_all(program, image->base))
        return false;
    populate_all(program, image->base);
    fill_all(program, image);
    image_exits_fill(program, image->base);
    if (protect_all(program, image->base)) {
        image_show_debugger(image, program);
        return true;
    }
    for (size_t i = 0; i < program->n_mappings; i++)
        munmap(image->base + program->mappings[i].offset, program->mappings[i].len_bytes);
    errno = ENOMEM;
    return false;
}

/* An entry of the kernel's list of robust mutexes, without the bit that marks those with priority inheritance. */
static const struct robust_list *untagged(const struct robust_list *entry)
{
    return (const struct robust_list *)((uintptr_t)entry & ~(uintptr_t)1);
}

/* True if the calling thread holds a robust mutex in the copy: the C library and the kernel write to it in their list. */
static bool has_robust_lock(const struct image *image)
{
    const struct robust_list_head *head = NULL;
    const struct robust_list *at;
    size_t len;

    if (syscall(SYS_get_robust_list, 0, &head, &len) != 0 || !head)
        return false;
    for (at = untagged(head->list.next); at != &head->list && !image_has_address(image, at);
         at = untagged(at->next))
        ;
    return at != &head->list;
}

bool image_can_be_unmapped(const struct image *image)
{
    return image->modules_to_end == 0 && !image->is_shown && image_libc_room.is_unused(&image->libc) &&
           !image_program_lends_code(image->program) && !image_groups_lend_code(image) &&
           !has_robust_lock(image);
}

void image_unmap(struct image *image)
{
    struct image fresh = {.base = image->base,
                          .next = image->next,
                          .is_shown = image->is_shown,          /* only of one that did not run */
                          .libc.signals = image->libc.signals}; /* in a list of rebind_signal.c */

    atomic_store(&image->is_unmapped, true);
    munmap(image->base, image_program.reserved_bytes);
    image_libc_room.free(image);
    image_groups_free(image);
    free(image->arguments);
    atomic_init(&fresh.is_unmapped, true);
    memcpy(image, &fresh, sizeof fresh);
    atomic_fetch_add(&n_unmapped, 1);
}

/* The struct of an unmapped copy at this address; NULL: none. */
static struct image *find_unmapped(const char *base)
{
    struct image *image = atomic_load(&n_unmapped) > 0 ? atomic_load(&all_images) : NULL;

    while (image && (image->base != base || !atomic_load(&image->is_unmapped)))
        image = image->next;
    return image;
}

struct image *image_create(char *base, struct image_program *program)
{
    struct image *image = find_unmapped(base);
    bool is_new = !image;

    if (is_new)
        image = calloc(1, sizeof *image);
    BASE_ASSERT(program->is_open && (uintptr_t)base % image_program.align == 0);
    if (!image)
        return NULL;
    image->base = base;
    image->program = program;
    atomic_init(&image->is_unmapped, true); /* nothing finds it before it is complete */
    if (!image_fill(image, program)) {
        if (is_new)
            free(image);
        return NULL;
    }
    image_libc_room.init(&image->libc);
    image->libc.main_thread.image = image;
    image->modules_to_end = program->n_modules;
    if (is_new)
        enlist(image);
    else
        atomic_fetch_sub(&n_unmapped, 1);
    atomic_store(&image->is_unmapped, false);
    return image;
}

/* ---- Running and ending it ---- */

/* Bracket constructors and destructors of copies: those of other ranks wait, except while this one waits.
 * May switch. */
static void begin_exclusive(void)
{
    if (image_rebind_client.begin_exclusive)
        image_rebind_client.begin_exclusive();
}

static void end_exclusive(void)
{
    if (image_rebind_client.end_exclusive)
        image_rebind_client.end_exclusive();
}

typedef void (*constructor_fn)(int argc, char **argv, char **envp);
typedef void (*destructor_fn)(void);

/* The i-th entry of an array of function pointers in a copy. */
static void *array_entry(const struct image *image, const struct image_module *module, size_t array_vaddr,
                         size_t i)
{
    return ((void **)(image->base + module->copy_shift + array_vaddr))[i];
}

void image_construct(struct image *image, const struct image_module *module)
{
    char **envp = image_libc_room.environment(&image->libc);

    begin_exclusive();
    if (module->init_vaddr)
        ((constructor_fn)(image->base + module->copy_shift + module->init_vaddr))(image->argc, image->argv,
                                                                                  envp);
    for (size_t i = 0; i < module->n_inits; i++)
        ((constructor_fn)array_entry(image, module, module->init_array_vaddr, i))(image->argc, image->argv,
                                                                                  envp);
    end_exclusive();
}

/* The process's auxiliary vector, with its end. */
static struct {
    ElfW(auxv_t) entries[AUXILIARY_MAX + 1];
    size_t n; /* entries, with the end */
} auxiliary;

static void read_auxiliary(void)
{
    int fd = open("/proc/self/auxv", O_RDONLY | O_CLOEXEC);
    ssize_t n_bytes = fd >= 0 ? read(fd, auxiliary.entries, AUXILIARY_MAX * sizeof *auxiliary.entries) : -1;
    size_t n = 0;

    if (fd >= 0)
        close(fd);
    while (n_bytes > 0 && n < (size_t)n_bytes / sizeof *auxiliary.entries &&
           auxiliary.entries[n].a_type != AT_NULL)
        n++;
    auxiliary.entries[n] = (ElfW(auxv_t)){.a_type = AT_NULL};
    auxiliary.n = n + 1;
}

/* Sets an entry of the process's auxiliary vector to the value of the rank. */
static void set_auxiliary(const struct image *image, ElfW(auxv_t) * entry)
{
    const struct image_module *program = &image->program->modules[0];
    bool is_own = image->program == &image_program;
    uintptr_t value = entry->a_un.a_val;

    if (entry->a_type == AT_PHDR)
        value = (uintptr_t)image_translate(image, is_own ? (const void *)value : program->phdr);
    else if (entry->a_type == AT_ENTRY)
        value = (uintptr_t)image_translate(
            image, (const void *)(is_own ? value : program->bias + image->program->entry_vaddr));
    else if (entry->a_type == AT_PHNUM && !is_own)
        value = program->n_phdrs;
    else if (entry->a_type == AT_EXECFN && !is_own)
        value = (uintptr_t)program->name;
    entry->a_un.a_val = value;
}

/* The arguments as a process finds them on its stack: followed by the environment and the auxiliary vector. */
static char **with_auxiliary(struct image *image, int argc, char **argv, struct image_arguments *room)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char **envp = image_libc_room.environment(&image->libc), **block;
    size_t n_env = 0, n_pointers = (size_t)argc + 1, n_bytes;
    ElfW(auxv_t) * entries;

    pthread_once(&once, read_auxiliary);
    while (envp && envp[n_env])
        n_env++;
    n_bytes = (n_pointers + n_env + 1) * sizeof *block + auxiliary.n * sizeof *entries;
    if (n_bytes > sizeof *room)
        image->arguments = base_malloc(n_bytes, "a rank's arguments");
    block = image->arguments ? image->arguments : (char **)room->words;
    memcpy(block, argv, (size_t)argc * sizeof *block);
    block[argc] = NULL;
    if (n_env)
        memcpy(block + n_pointers, envp, n_env * sizeof *block);
    block[n_pointers + n_env] = NULL;
    entries = (ElfW(auxv_t) *)(block + n_pointers + n_env + 1);
    memcpy(entries, auxiliary.entries, auxiliary.n * sizeof *entries);
    for (size_t i = 0; i < auxiliary.n; i++)
        set_auxiliary(image, &entries[i]);
    image_libc_room.move_environment(&image->libc, block + n_pointers, n_env);
    return block;
}

int image_run(struct image *image, int argc, char **argv, struct image_arguments *room)
{
    const struct image_program *program = image->program;
    const struct image_module *main_module = &program->modules[0];
    char **envp;

    argv = with_auxiliary(image, argc, argv, room);
    envp = image_libc_room.environment(&image->libc);
    image->argc = argc;
    image->argv = argv;
    image->libc.main_id = pthread_self();
    image_libc_room.begin(&image->libc);
    begin_exclusive();
    for (size_t i = 0; i < main_module->n_preinits; i++)
        ((constructor_fn)array_entry(image, main_module, main_module->preinit_array_vaddr, i))(argc, argv,
                                                                                               envp);
    for (size_t i = 0; i < program->n_modules; i++) {
        if (program->init_order[i] == 0)
            image_handlers_begin(&image->libc.at_exit);
        image_construct(image, &program->modules[program->init_order[i]]);
    }
    end_exclusive();
    return ((image_main_fn)(image->base + program->main_offset))(argc, argv, envp);
}

/* Runs the destructors of the current module; image->finis_done counts those that have run or are running. */
void image_destruct(struct image *image, const struct image_module *module)
{
    while (image->finis_done < module->n_finis) {
        size_t i = module->n_finis - ++image->finis_done;

        ((destructor_fn)array_entry(image, module, module->fini_array_vaddr, i))();
    }
    if (!image->is_fini_done && module->fini_vaddr) {
        image->is_fini_done = true;
        ((destructor_fn)(image->base + module->copy_shift + module->fini_vaddr))();
    }
    image->finis_done = 0;
    image->is_fini_done = false;
}

void image_finish(struct image *image)
{
    const struct image_program *program = image->program;
    struct image_libc *libc = &image->libc;

    begin_exclusive();
    image_handlers_run(&libc->main_thread.at_exit, NULL, libc->exit_status);
    image_handlers_run(&libc->at_exit, NULL, libc->exit_status);
    image_groups_finish(image);
    while (image->modules_to_end > 0) {
        image_destruct(image, &program->modules[program->init_order[image->modules_to_end - 1]]);
        image->modules_to_end--;
    }
    image_handlers_run_all(&libc->at_exit, libc->exit_status);
    end_exclusive();
    image_libc_room.fini(libc);
}

/* ---- Queries ---- */

void *image_translate(const struct image *image, const void *prototype_addr)
{
    const struct image_module *module = image_module_of(image->program, (uintptr_t)prototype_addr);

    if (!module)
        return (void *)prototype_addr;
    return image->base + module->copy_shift + ((uintptr_t)prototype_addr - module->bias);
}

/* The initial values of a module's thread_local variables in this copy. */
static void init_tls_block(const struct image *image, const struct image_module *module, void *block)
{
    memcpy(block, image->base + module->copy_shift + module->tls_vaddr, module->tls_file_bytes);
    memset((char *)block + module->tls_file_bytes, 0, module->tls_bytes - module->tls_file_bytes);
}

/* Sets the bytes of a region of the static TLS block, which is that of a module of the process's program, to their initial
 * values in the copy: of the same library or, for the first module, of the image's program. */
static void init_region(const struct image *image, size_t i, char *region)
{
    const struct image_module *owner = &image_program.modules[i], *module = owner;
    const struct image_program *program = image->program;

    if (program != &image_program) {
        size_t index =
            i == 0 ? 0 : image_modules_index(program->modules, program->n_modules, owner->link_map);

        module = index < program->n_modules ? &program->modules[index] : NULL;
        memset(region, 0, owner->tls_bytes);
    }
    if (module && module->tls_bytes)
        init_tls_block(image, module, region + (module->tls_offset - owner->tls_offset));
}

void image_tls_init(const struct image *image, unsigned char *save)
{
    for (size_t i = 0; i < image_program.n_modules; i++) {
        const struct image_module *module = &image_program.modules[i];

        if (!module->tls_bytes || module->tls_lazy)
            continue;
        init_region(image, i, (char *)save);
        save += module->tls_bytes;
    }
    image_swapped_tls_init(save);
}

void image_tls_init_thread(const struct image *image)
{
    for (size_t i = 0; i < image_program.n_modules; i++)
        if (image_program.modules[i].tls_bytes && !image_program.modules[i].tls_lazy)
            init_region(image, i, (char *)__builtin_thread_pointer() + image_program.modules[i].tls_offset);
}

bool image_has_address(const struct image *image, const void *addr)
{
    return (uintptr_t)addr - (uintptr_t)image->base < image_program.reserved_bytes;
}

const struct image_module *image_module_at(const struct image *image, const void *addr)
{
    size_t offset = (size_t)((const char *)addr - image->base);
    size_t n_groups = atomic_load_explicit(&image_n_groups, memory_order_acquire);

    for (size_t number = 0; number < n_groups; number++)
        for (size_t i = 0; i < image_groups[number]->n_modules; i++) {
            const struct image_module *module = &image_groups[number]->modules[i];

            if (offset - module->copy_offset < module->vaddr_hi - module->vaddr_lo)
                return image_has_group(image, number) ? module : NULL;
        }
    return NULL;
}

struct image *image_find(const void *addr)
{
    struct image *image = image_rebind_client.current ? image_rebind_client.current() : NULL;

    if (image && image_has_address(image, addr))
        return image;
    if ((uintptr_t)addr < atomic_load(&images_lo) || (uintptr_t)addr >= atomic_load(&images_hi))
        return NULL;
    for (image = atomic_load(&all_images); image; image = image->next)
        if (image_has_address(image, addr) && !atomic_load(&image->is_unmapped))
            return image;
    return NULL;
}

struct image_libc *image_libc_of(struct image *image)
{
    return &image->libc;
}

char *image_base(const struct image *image)
{
    return image->base;
}
