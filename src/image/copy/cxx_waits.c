/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cxx_waits.c: std::condition_variable, std::future and std::atomic wait inside the C++ library, which all ranks share. Its
 * references to the C library's functions for this are bound to those of ranks (libc/rebind_sync.c). Mutexes are not: the library
 * has some of its own, and ranks of one PE would exchange places while one holds them.
 */
#include "image/copy/program.h"
#include "image/copy/libc_state.h"
#include "image/copy/precedence.h"

#include <string.h>

static bool is_cxx_library(const struct image_module *module)
{
    return module->dynamic && module->soname &&
           (strncmp(module->soname, "libstdc++.so.", 13) == 0 ||
            strncmp(module->soname, "libc++.so.", 10) == 0);
}

void image_cxx_waits_open(const struct image_program *program)
{
    static const char *const names[] = {"pthread_cond_wait", "pthread_cond_timedwait",
                                        "pthread_cond_clockwait", "syscall"};
    struct image_module *modules;
    size_t count;

    image_modules_list(false, &modules, &count);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; is_cxx_library(&modules[i]) && j < BASE_COUNT(names); j++)
            if (image_modules_index(program->modules, program->n_modules, modules[i].link_map) ==
                program->n_modules)
                image_precedence_bind(&modules[i], names[j], image_libc_room.find(names[j])->replacement);
    image_modules_free(modules, count, NULL);
}
