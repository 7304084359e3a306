/* SPDX-License-Identifier: BSD-3-Clause
 *
 * swapped_tls.c: thread_local data of a shared library that is switched with the rank, like the program's
 * own.
 *
 * An OpenMP library keeps its thread team in thread_local data of the thread that began the parallel region: the
 * PE's thread. It is the rank's own as a rule, but the user (+private -libgomp), or a shared library that needs it,
 * can make it shared. With one block for all ranks of a PE, a rank would then use another rank's threads, and a rank
 * that waits for a message inside a parallel region would find its team changed. So each rank has its own block, and
 * with it its own threads.
 */
#include "image/copy/program.h"
#include "ult/ult.h"

#include <string.h>

/* The libraries, by prefix of the file name. */
static const char *const library_names[] = {"libgomp.so", "libomp.so", "libiomp5.so"};

static struct swapped {
    const void *init; /* initial contents, of init_bytes; the rest is zero */
    size_t init_bytes, bytes;
} swapped[BASE_COUNT(library_names)];
static int n_swapped;

struct search {
    struct ult_tls_region *regions;
    int n, max;
};

static bool is_listed(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    for (size_t i = 0; i < BASE_COUNT(library_names); i++)
        if (strncmp(name, library_names[i], strlen(library_names[i])) == 0)
            return true;
    return false;
}

static int add_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct search *search = arg;
    bool is_private = false;

    if (!is_listed(info->dlpi_name) || !info->dlpi_tls_data || search->n == search->max ||
        n_swapped == (int)BASE_COUNT(swapped))
        return 0;
    for (size_t i = 0; i < image_program.n_modules; i++)
        is_private |= image_program.modules[i].bias == info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum && !is_private; i++) {
        const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];

        if (phdr->p_type != PT_TLS || phdr->p_memsz == 0)
            continue;
        swapped[n_swapped++] =
            (struct swapped){(const void *)(info->dlpi_addr + phdr->p_vaddr), phdr->p_filesz, phdr->p_memsz};
        search->regions[search->n++] = (struct ult_tls_region){
            (char *)info->dlpi_tls_data - (char *)__builtin_thread_pointer(), phdr->p_memsz};
    }
    return 0;
}

int image_swapped_tls_find(struct ult_tls_region *regions, int n, int max)
{
    struct search search = {regions, n, max};

    dl_iterate_phdr(add_library, &search);
    return search.n;
}

void image_swapped_tls_init(unsigned char *save)
{
    for (int i = 0; i < n_swapped; i++) {
        memcpy(save, swapped[i].init, swapped[i].init_bytes);
        memset(save + swapped[i].init_bytes, 0, swapped[i].bytes - swapped[i].init_bytes);
        save += swapped[i].bytes;
    }
}
