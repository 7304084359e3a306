/* SPDX-License-Identifier: BSD-3-Clause
 *
 * call_site.c: see report.h.
 */
#include "ampi/job/report.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>

#include "image/image.h"
#include "ult/arch/ult_arch.h"

/* Depth of the idle loop below the call of MPI in which it runs. */
#define IDLE_BYTES 8192

/* Places that are remembered. */
#define KNOWN_MAX 64

/* A place and its text. */
struct known {
    const char *path; /* of a copy's file; NULL: vaddr is an address in memory */
    size_t vaddr;
    char text[AMPI_CALL_SITE_BYTES]; /* empty: not known */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the next two */
static struct known known[KNOWN_MAX];
static int n_known; /* so far; they replace each other in turn */

/* ---- Addresses ---- */

/* The file of the code at this address; NULL: none. */
static const char *file_of(const void *addr)
{
    size_t vaddr;
    const char *path = image_file_of(addr, &vaddr);
    Dl_info info;

    return path ? path : dladdr(addr, &info) ? info.dli_fname : NULL;
}

/* Libraries between the program's Fortran and this one. */
static bool is_runtime(const char *file)
{
    return strstr(file, "libheddle_mpifort") || strstr(file, "libgfortran");
}

static bool are_in_one_file(const void *a, const void *b)
{
    Dl_info of_a, of_b;

    return dladdr(a, &of_a) && dladdr(b, &of_b) && of_a.dli_fbase == of_b.dli_fbase;
}

static bool is_own(const void *addr)
{
    return are_in_one_file(addr, &lock);
}

bool ampi_call_site_is_in_call(const struct ampi_backtrace *frames)
{
    for (long i = 0; i < frames->n_walked && i < AMPI_FRAMES_NEWEST; i++) {
        if (is_own(frames->code[i]))
            return true;
        if (image_find(frames->code[i]) || are_in_one_file(frames->code[i], (void *)getauxval(AT_ENTRY)))
            return false;
    }
    return false;
}

/* True if the word is the return address of a call in the program. */
static bool is_return(const struct ampi_rank *rank, const char *word)
{
    if (rank->image)
        return image_has_code(rank->image, word) && image_has_code(rank->image, word - 7) &&
               ult_arch_follows_call(word) && !is_runtime(file_of(word));
    return (uintptr_t)word > 4096 && !is_own(word) && file_of(word) && !is_runtime(file_of(word)) &&
           image_is_code(word) && ult_arch_follows_call(word);
}

/* The first return address in the program behind that of `from` (NULL: the first one); NULL: not found. Seldom a remnant of an
 * earlier call is there. */
BASE_NO_SANITIZE static const void *search(const struct ampi_rank *rank, const void *from, const char *lo,
                                           const char *hi)
{
    bool has_passed = !from;
    const char *word;

    for (const char *at = (const char *)((uintptr_t)lo & ~(uintptr_t)7); at + sizeof word <= hi;
         at += sizeof word) {
        word = *(const char *const volatile *)(const void *)at; /* no call that a sanitizer checks */
        if (word == from)
            has_passed = true;
        else if (has_passed && is_return(rank, word))
            return word;
    }
    return NULL;
}

/* lo may be just above the return address `from`, to which the rank goes back directly. A rank that polls, because its PE is idle,
 * does so deeper in its stack than where it was last switched from, or less deep. */
const void *ampi_call_site_of(const struct ampi_rank *rank, const void *from, const char *lo, const char *hi)
{
    const char *file = rank && from ? file_of(from) : NULL;
    const void *found;

    if (!file || (!is_own(from) && !is_runtime(file)))
        return from;
    if (!hi)
        hi = image_mapping_end(lo);
    found = search(rank, from, lo - sizeof from, hi);
    if (!found && rank->ult.stack_lo && lo - rank->ult.stack_lo > IDLE_BYTES)
        found = search(rank, from, lo - IDLE_BYTES, hi);
    if (!found)
        found = search(rank, NULL, lo, hi);
    return found ? found : from;
}

/* ---- Text ---- */

static void describe(const void *from, char text[AMPI_CALL_SITE_BYTES])
{
    struct base_text out = base_text_in(text, AMPI_CALL_SITE_BYTES);
    struct image_place place;

    image_place_find_line((const char *)from - 1, &place); /* `from` may belong to the next line */
    if (place.line)
        ampi_backtrace_add_place(&out, &place, false);
    else if (!image_describe(from, text, AMPI_CALL_SITE_BYTES) && place.file[0])
        ampi_backtrace_add_place(&out, &place, false);
}

bool ampi_call_site_describe(const void *from, char text[AMPI_CALL_SITE_BYTES])
{
    size_t vaddr = (uintptr_t)from;
    const char *path = image_file_of(from, &vaddr);
    struct known *found = NULL;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < KNOWN_MAX && i < n_known && !found; i++)
        if (known[i].vaddr == vaddr && known[i].path == path)
            found = &known[i];
    if (!found) {
        found = &known[n_known++ % KNOWN_MAX];
        found->path = path;
        found->vaddr = vaddr;
        found->text[0] = '\0';
        if (from && !is_own(from))
            describe(from, found->text);
    }
    memcpy(text, found->text, AMPI_CALL_SITE_BYTES);
    pthread_mutex_unlock(&lock);
    return text[0] != '\0';
}
