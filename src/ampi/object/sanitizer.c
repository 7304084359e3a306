/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sanitizer.c: informs the program's sanitizers of ranks, and ranks of sanitizers.
 */
#include "ampi/object/sanitizer.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ampi/object/error.h"
#include "ampi/object/rank.h"
#include "base/log.h"

/* LeakSanitizer's function; NULL: absent. */
static void (*register_root_region)(const void *lo, size_t size_bytes);

/* Called when a sanitizer ends the process: its report has the error and its location, but not the rank. */
static void name_rank(void)
{
    const struct ult *u = ult_self();

    if (u && u->world_rank >= 0)
        ampi_report((const struct ampi_rank *)u, "the sanitizer's report above concerns this rank");
}

void ampi_sanitizer_init(void)
{
    void (*set_death_callback)(void (*callback)(void));

    if (dlsym(RTLD_DEFAULT, "__tsan_init"))
        base_fatal(1, "ThreadSanitizer does not support several ranks in a process, because its address "
                      "space layout has no room for the ranks' copies of the program: give each rank a "
                      "process (mpirun --procs N -n N)");
    *(void **)&register_root_region = dlsym(RTLD_DEFAULT, "__lsan_register_root_region");
    *(void **)&set_death_callback = dlsym(RTLD_DEFAULT, "__sanitizer_set_death_callback");
    if (set_death_callback)
        set_death_callback(name_rank);
}

void ampi_sanitizer_prepare_ucx(void)
{
    /* UCX hooks madvise, which the C library calls at the end of a thread; ThreadSanitizer has dropped the
     * thread by then, and crashes in the hook's lock. */
    if (dlsym(RTLD_DEFAULT, "__tsan_init"))
        setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 0);
}

void ampi_sanitizer_add_roots(const void *lo, size_t size_bytes)
{
    if (register_root_region)
        register_root_region(lo, size_bytes);
}

/* ---- valgrind ---- */

static int is_valgrinds(struct dl_phdr_info *module, size_t size_bytes, void *arg)
{
    return strstr(module->dlpi_name, "/vgpreload_") != NULL;
}

bool ampi_sanitizer_is_valgrind(void)
{
    static atomic_int answer; /* 1: no, 2: yes, 0: not determined yet */

    if (atomic_load(&answer) == 0)
        atomic_store(&answer, dl_iterate_phdr(is_valgrinds, NULL) ? 2 : 1);
    return atomic_load(&answer) == 2;
}

/* valgrind takes what a system call has written for initialised, and does not look at what this one reads. */
uint64_t ampi_sanitizer_hide(uint64_t value)
{
    uint64_t hidden = 0;
    struct iovec to = {&hidden, sizeof hidden}, from = {&value, sizeof value};

    if (BASE_LIKELY(!ampi_sanitizer_is_valgrind()))
        return value;
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)sizeof hidden ? hidden : 0;
}
