/* SPDX-License-Identifier: BSD-3-Clause
 *
 * takeover.c: gets control before the program's main, and before its constructors.
 *
 * _start of every dynamically linked program calls __libc_start_main with the address of main. This
 * library's definition comes before libc's in the order of look-up. It asks the layer above whether to run
 * the program as several ranks. If not, all arguments go to libc unchanged. If so, libc gets
 *   - Heddle's main, which runs the job;
 *   - an empty init. NULL would make glibc 2.34+ run the constructors of the program; older programs
 *     contain their own __libc_csu_init, which is skipped as well;
 *   - no fini, which older programs have.
 * At exit ld.so runs the destructors of all modules. The prototype's objects were never constructed, so the
 * functions in its DT_FINI_ARRAY are replaced by an empty one; those of the libraries run as usual.
 *
 * This file is part of the shared library only, never of a unit test.
 */
#include "image/copy/deferred.h"
#include "image/copy/program.h"

#include "base/log.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#define EXPORT __attribute__((visibility("default")))

typedef int (*start_main_fn)(image_main_fn main, int argc, char **argv, void (*init)(void),
                             void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

static image_main_fn prototype_main;

static void do_nothing(void) {}

static int run_job(int argc, char **argv, char **envp)
{
    return image_client.run(prototype_main, argc, argv, envp);
}

/* Callback for the first module, the program. */
static int drop_destructors(struct dl_phdr_info *info, size_t size, void *arg)
{
    size_t *array = NULL;
    size_t count = 0;

    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        for (ElfW(Dyn) *d = (ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr); d->d_tag != DT_NULL;
             d++) {
            if (d->d_tag == DT_FINI_ARRAY)
                array = (size_t *)(info->dlpi_addr + d->d_un.d_ptr);
            if (d->d_tag == DT_FINI_ARRAYSZ)
                count = d->d_un.d_val / sizeof *array;
        }
    }
    for (size_t i = 0; array && i < count; i++)
        image_patch_word(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum, &array[i], (size_t)do_nothing);
    return 1;
}

/* Removes as many arguments from the front of argv as the client has removed from its end: programs look
 * for envp at argv + argc + 1. Returns the new argv. */
static char **close_gap(char **argv, int old_argc, int argc)
{
    int removed = old_argc - argc;

    if (removed <= 0)
        return argv;
    for (int i = argc; i-- > 0;)
        argv[i + removed] = argv[i];
    argv[old_argc] = NULL;
    return argv + removed;
}

EXPORT int __libc_start_main(image_main_fn main, int argc, char **argv, void (*init)(void),
                             void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

/* Sanitizers are not initialised yet when this library's constructor runs first, and the libc functions
 * they replace would crash. */
extern __attribute__((weak)) void __asan_init(void), __tsan_init(void), __msan_init(void);

/* ld.so runs this before the constructors of all other libraries. Not if libmpi is loaded by dlopen: then
 * libc's __libc_start_main has already run, and is found first. */
__attribute__((constructor)) static void defer_constructors(int argc, char **argv, char **envp)
{
    if (__asan_init || __tsan_init || __msan_init)
        return;
    if (!getauxval(AT_SECURE) && image_client.may_want_images(argc, argv, envp) &&
        dlsym(RTLD_DEFAULT, "__libc_start_main") == (void *)__libc_start_main)
        image_deferred_begin(envp);
}

int __libc_start_main(image_main_fn main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end)
{
    start_main_fn real = (start_main_fn)dlsym(RTLD_NEXT, "__libc_start_main");
    int old_argc = argc;

    if (!real)
        base_fatal(1, "the C library has no __libc_start_main; is this glibc?");
    prototype_main = main;
    image_deferred_end(argc, argv, argv + argc + 1);
    if (!image_client.wants_images(&argc, argv)) {
        image_deferred_run_all();
        return real(main, argc, close_gap(argv, old_argc, argc), init, fini, rtld_fini, stack_end);
    }
    dl_iterate_phdr(drop_destructors, NULL);
    return real(run_job, argc, close_gap(argv, old_argc, argc), do_nothing, NULL, rtld_fini, stack_end);
}
