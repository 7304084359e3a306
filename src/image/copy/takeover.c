/* SPDX-License-Identifier: BSD-3-Clause
 *
 * takeover.c: gets control before the program's main, and before its constructors.
 *
 * _start of every dynamically linked program calls __libc_start_main with the address of main. This
 * library's constructor binds that call to this library's definition, if the order of look-up has not. It asks the layer above whether to run
 * the program as several ranks. If not, all arguments go to libc unchanged. If so, libc gets
 *   - Heddle's main, which runs the job;
 *   - an empty init. NULL would make glibc 2.34+ run the constructors of the program; older programs
 *     contain their own __libc_csu_init, which is skipped as well;
 *   - no fini, which older programs have.
 * At exit ld.so runs the destructors of all modules. The prototype's objects were never constructed, so the
 * functions in its DT_FINI_ARRAY are replaced by an empty one; those of the libraries run as usual.
 *
 * A process with one rank that ends by _exit leaves its job in an orderly way, too.
 *
 * This file is part of the shared library only, never of a unit test.
 */
#include "image/copy/deferred.h"
#include "image/copy/precedence.h"
#include "image/copy/program.h"

#include "base/log.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef int (*start_main_fn)(image_main_fn main, int argc, char **argv, void (*init)(void),
                             void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

static image_main_fn prototype_main;

static void do_nothing(void) {}

static int run_job(int argc, char **argv, char **envp)
{
    return image_client.run(prototype_main, argc, argv, envp);
}

/* Callback for the first module, the program: reads its headers. */
static int read_program(struct dl_phdr_info *info, size_t size, void *module)
{
    *(struct image_module *)module = (struct image_module){
        .name = "", .bias = info->dlpi_addr, .phdr = info->dlpi_phdr, .n_phdrs = info->dlpi_phnum};
    image_module_read(module);
    return 1;
}

static void drop_destructors(const struct image_module *program)
{
    size_t *array = (size_t *)(program->bias + program->fini_array_vaddr);

    for (size_t i = 0; i < program->n_finis; i++)
        image_patch_word(program->bias, program->phdr, program->n_phdrs, &array[i], (size_t)do_nothing);
}

/* The strings of the environment that follows the arguments. */
static size_t count_environment(char **argv, int argc)
{
    size_t n = 0;

    while (argv[(size_t)argc + 1 + n])
        n++;
    return n;
}

/* Programs look for envp at argv + argc + 1, and for the auxiliary vector behind it. So the strings that the client has left move
 * towards the end: those of the environment, which had n_env, and the arguments. Returns the new argv. */
static char **close_gap(char **argv, int old_argc, int argc, size_t n_env)
{
    char **envp = argv + old_argc + 1;
    size_t n = environ == envp ? count_environment(argv, old_argc) : n_env, shift = n_env - n;

    if (shift) {
        memmove(envp + shift, envp, n * sizeof *envp);
        environ = envp + shift;
    }
    shift += (size_t)(old_argc - argc);
    if (!shift)
        return argv;
    memmove(argv + shift, argv, (size_t)argc * sizeof *argv);
    argv[(size_t)argc + shift] = NULL;
    return argv + shift;
}

EXPORT int __libc_start_main(image_main_fn main, int argc, char **argv, void (*init)(void),
                             void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

/* Sanitizers are not initialised yet when this library's constructor runs first, and the libc functions
 * they replace would crash. */
extern __attribute__((weak)) void __asan_init(void), __tsan_init(void), __msan_init(void);

/* A preloaded tool that uses MPI is in every process, a shell for example: only programs that need MPI themselves become
 * ranks. */
static bool is_preloaded_only(char **envp)
{
    for (; *envp; envp++)
        if (strncmp(*envp, "LD_PRELOAD=", 11) == 0)
            return !image_precedence_is_needed();
    return false;
}

/* ld.so runs this before the constructors of all other libraries, and before the C library's own: there is no environ.
 * If libmpi is loaded by dlopen, environ is what ld.so passes. */
__attribute__((constructor)) static void take_over(int argc, char **argv, char **envp)
{
    extern char **environ;
    bool is_first = !environ && envp;
    struct image_module program;

    if (__asan_init || __tsan_init || __msan_init || !envp)
        return;
    if (dlsym(RTLD_DEFAULT, "__libc_start_main") != (void *)__libc_start_main && is_preloaded_only(envp))
        return;
    image_start_function = (void *)__libc_start_main;
    dl_iterate_phdr(read_program, &program);
    image_precedence_bind(&program, "__libc_start_main",
                          (void *)__libc_start_main); /* harmless after the start */
    if (is_first && !getauxval(AT_SECURE) && image_client.may_want_images(argc, argv, envp))
        image_deferred_begin(envp);
}

/* The definition to call next. A tool in front of this library comes first; when the tool has called this
 * library's definition, which sets has_begun, the next one is the C library's. */
static start_main_fn find_next(bool has_begun)
{
    void *first = dlsym(RTLD_DEFAULT, "__libc_start_main");

    if (has_begun || first == (void *)__libc_start_main)
        first = dlsym(RTLD_NEXT, "__libc_start_main");
    if (!first)
        base_fatal(1, "the C library has no __libc_start_main; is this glibc?");
    return (start_main_fn)first;
}

int __libc_start_main(image_main_fn main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end)
{
    extern char **environ;
    static bool has_begun;
    start_main_fn next = find_next(has_begun);
    struct image_module program;
    int old_argc = argc;
    size_t n_env;

    image_start_end(main); /* of a further program there is nothing but main */
    if (has_begun)
        return next(main, argc, argv, init, fini, rtld_fini, stack_end);
    has_begun = true;
    n_env = count_environment(argv, argc);
    prototype_main = main;
    image_deferred_end(argc, argv, argv + argc + 1);
    image_precedence_begin();
    if (!image_client.wants_images(&argc, argv)) {
        image_precedence_unload(environ);
        image_deferred_run_all();
        return next(main, argc, close_gap(argv, old_argc, argc, n_env), init, fini, rtld_fini, stack_end);
    }
    dl_iterate_phdr(read_program, &program);
    drop_destructors(&program);
    return next(run_job, argc, close_gap(argv, old_argc, argc, n_env), do_nothing, NULL, rtld_fini,
                stack_end);
}

/* ---- _exit ---- */

EXPORT void _exit(int status)
{
    if (image_rebind_client.process_ends)
        image_rebind_client.process_ends(status);
    for (;;)
        syscall(SYS_exit_group, status);
}

EXPORT void _Exit(int status) __attribute__((alias("_exit")));
