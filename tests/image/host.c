/* SPDX-License-Identifier: BSD-3-Clause
 *
 * host.c: the smallest layer above src/image, to test it without ULTs and MPI.
 *
 * Built with src/image into libimage_host.so, which the test programs are linked with in place of libmpi_abi.
 * Environment variables:
 *   IMAGE_COPIES=N   run main in N copies, round robin: sched_yield() and the sleeps switch to the next copy.
 *                    Not set: the program runs as it is.
 *   IMAGE_RELRO=0    do not protect RELRO
 *   IMAGE_PRIVATE    for image_set_private_libraries
 *   IMAGE_JOINED=1   all private libraries of a copy are one mapping
 *   IMAGE_VERBOSE=N  prints log lines up to level N
 *   IMAGE_STATS=1    print on stderr what the copies cost
 *
 * The process exits with the largest exit code of a copy.
 */
#include "base/log.h"
#include "image/image.h"
#include "ult/ult.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)64 * 1024)

struct copy {
    struct image *image;
    struct ult ult;     /* only its thread_state and stack */
    ucontext_t context; /* where it continues */
    unsigned char *tls; /* its thread_local bytes while it does not run */
    bool is_ended;
};

static struct {
    struct copy *copies;
    int n_copies;
    int current; /* -1: no copy runs */
    int n_ended;
    int exit_code;
    int argc;
    char **argv;
    image_main_fn main; /* the prototype's */
    ucontext_t back;    /* the host's own context */
    struct ult_tls_region regions[ULT_TLS_REGIONS_MAX];
    int n_regions;
    size_t tls_bytes;
} host = {.current = -1};

/* The work of src/ult in the real library. */
__thread struct ult *ult_current __attribute__((tls_model("initial-exec")));

void ult_tls_set_regions(const struct ult_tls_region *regions, int n_regions)
{
    memcpy(host.regions, regions, (size_t)n_regions * sizeof *regions);
    host.n_regions = n_regions;
    for (int i = 0; i < n_regions; i++)
        host.tls_bytes += regions[i].size_bytes;
}

static void save_tls(unsigned char *to)
{
    for (int i = 0; i < host.n_regions; to += host.regions[i++].size_bytes)
        memcpy(to, (char *)__builtin_thread_pointer() + host.regions[i].tp_offset,
               host.regions[i].size_bytes);
}

static void restore_tls(const unsigned char *from)
{
    for (int i = 0; i < host.n_regions; from += host.regions[i++].size_bytes)
        memcpy((char *)__builtin_thread_pointer() + host.regions[i].tp_offset, from,
               host.regions[i].size_bytes);
}

static void switch_to_next(void)
{
    struct copy *from = &host.copies[host.current];
    int next = host.current;

    do
        next = (next + 1) % host.n_copies;
    while (host.copies[next].is_ended && next != host.current);
    if (next == host.current) /* the only one left */
        return;
    save_tls(from->tls);
    host.current = next;
    ult_current = &host.copies[next].ult;
    restore_tls(host.copies[next].tls);
    swapcontext(&from->context, &host.copies[next].context);
}

static void end_copy(int code) BASE_NORETURN;
static void end_copy(int code)
{
    if (code > host.exit_code)
        host.exit_code = code;
    host.copies[host.current].is_ended = true;
    if (++host.n_ended < host.n_copies)
        switch_to_next();
    setcontext(&host.back);
    abort();
}

static void run_copy(void)
{
    struct image *image = host.copies[host.current].image;
    struct image_arguments room;
    int code = image_run(image, host.argc, host.argv, &room);

    image_finish(image);
    if (image_is_forked_child())
        exit(code);
    end_copy(code);
}

static __thread bool runs_copies; /* the calling thread does */

static struct image *current_image(void)
{
    return runs_copies && host.current >= 0 ? host.copies[host.current].image : NULL;
}

static void sleep_ns(uint64_t duration_ns)
{
    struct timespec start, now;

    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        switch_to_next();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((uint64_t)(now.tv_sec - start.tv_sec) * 1000000000u + (uint64_t)now.tv_nsec -
                 (uint64_t)start.tv_nsec <
             duration_ns);
}

static void abort_all(void) BASE_NORETURN;
static void abort_all(void)
{
    char where[256];

    image_describe(image_translate(host.copies[host.current].image, (const void *)host.main), where,
                   sizeof where);
    base_fatal(134, "copy %d called abort; its main is %s", host.current, where);
}

/* A forked process runs no copies. */
static void forget_copies(void)
{
    runs_copies = false;
    ult_current = NULL;
}

const struct image_rebind_client image_rebind_client = {
    .current = current_image,
    .exit = end_copy,
    .quick_exit = end_copy,
    .abort = abort_all,
    .sleep_ns = sleep_ns,
    .yield = switch_to_next,
    .forked = forget_copies,
};

/* ---- The job ---- */

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int count_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    int lines = 0, c;

    while (maps && (c = getc(maps)) != EOF)
        lines += c == '\n';
    if (maps)
        fclose(maps);
    return lines;
}

static long status_kib(const char *field)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long kib = 0;

    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, field, strlen(field)) == 0)
            kib = atol(line + strlen(field) + 1);
    if (status)
        fclose(status);
    return kib;
}

static long page_faults(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static bool wants_images(int *argc, char **argv)
{
    const char *copies = getenv("IMAGE_COPIES");

    host.n_copies = copies ? atoi(copies) : 0;
    return host.n_copies > 0;
}

static char *reserve(size_t bytes, size_t align)
{
    char *lo = mmap(NULL, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (lo == MAP_FAILED)
        base_fatal(1, "no address space for %zu bytes", bytes);
    munmap(lo, bytes + align);
    return (char *)(((uintptr_t)lo + align - 1) / align * align);
}

static int run(image_main_fn main, int argc, char **argv, char **envp)
{
    bool has_stats = getenv("IMAGE_STATS") != NULL;
    const char *error;
    char *area, *stacks;
    unsigned char *tls_saves; /* made before the area: malloc could map them there */
    double open_us, t0, t1, t2;
    int maps_before;
    long anon_before, rss_before, faults_before, rss_created, faults_created;

    if (getenv("IMAGE_RELRO") && strcmp(getenv("IMAGE_RELRO"), "0") == 0)
        image_set_protect_relro(false);
    if (getenv("IMAGE_VERBOSE"))
        base_log_set_verbosity(atoi(getenv("IMAGE_VERBOSE")));
    image_set_private_libraries(getenv("IMAGE_PRIVATE"));
    t0 = now_us();
    if (!image_program_open(main, &error))
        base_fatal(3, "%s", error);
    open_us = now_us() - t0;
    if (getenv("IMAGE_JOINED") && !image_join_libraries())
        base_fatal(6, "the libraries cannot be joined: %m");

    host.main = main;
    host.argc = argc;
    host.argv = argv;
    host.copies = base_calloc((size_t)host.n_copies, sizeof *host.copies, "copies");
    stacks = mmap(NULL, (size_t)host.n_copies * STACK_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    tls_saves = base_malloc((size_t)host.n_copies * host.tls_bytes + 1, "thread_local bytes");
    area = reserve((size_t)host.n_copies * image_span_bytes(), image_align_bytes());
    maps_before = count_mappings();
    rss_before = status_kib("VmRSS:");
    anon_before = status_kib("RssAnon:");
    faults_before = page_faults();
    t0 = now_us();
    for (int i = 0; i < host.n_copies; i++) {
        struct copy *copy = &host.copies[i];

        copy->image = image_create(area + (size_t)i * image_span_bytes(), &image_program);
        if (!copy->image)
            base_fatal(4, "cannot create copy %d: %m", i);
        copy->ult.thread_state = image_main_thread(copy->image);
        copy->ult.stack_lo = stacks + (size_t)i * STACK_BYTES;
        copy->ult.stack_hi = copy->ult.stack_lo + STACK_BYTES;
        copy->tls = tls_saves + (size_t)i * host.tls_bytes;
        image_tls_init(copy->image, copy->tls);
        getcontext(&copy->context);
        copy->context.uc_stack.ss_sp = stacks + (size_t)i * STACK_BYTES;
        copy->context.uc_stack.ss_size = STACK_BYTES;
        makecontext(&copy->context, run_copy, 0);
    }
    t1 = now_us();
    if (has_stats && count_mappings() - maps_before > host.n_copies * image_mappings_per_copy())
        base_fatal(5, "%d mappings more for %d copies, expected %d each", count_mappings() - maps_before,
                   host.n_copies, image_mappings_per_copy());
    rss_created = status_kib("VmRSS:");
    faults_created = page_faults();

    host.current = 0;
    runs_copies = true;
    ult_current = &host.copies[0].ult;
    restore_tls(host.copies[0].tls);
    t2 = now_us();
    swapcontext(&host.back, &host.copies[0].context);
    host.current = -1;
    ult_current = NULL;
    if (has_stats) {
        double n = host.n_copies;

        base_log("%d copies of %zu bytes, %d mappings each: open %.0f us; create %.2f us, %.1f KiB resident, "
                 "%.2f page faults; "
                 "run %.2f us, %.1f KiB, %.2f page faults; %.1f KiB of all this not shared",
                 host.n_copies, image_span_bytes(), image_mappings_per_copy(), open_us, (t1 - t0) / n,
                 (double)(rss_created - rss_before) / n, (double)(faults_created - faults_before) / n,
                 (now_us() - t2) / n, (double)(status_kib("VmRSS:") - rss_created) / n,
                 (double)(page_faults() - faults_created) / n,
                 (double)(status_kib("RssAnon:") - anon_before) / n);
    }
    return host.exit_code;
}

static bool may_want_images(int argc, char **argv, char **envp)
{
    for (; *envp; envp++)
        if (strncmp(*envp, "IMAGE_COPIES=", 13) == 0)
            return true;
    return false;
}

const struct image_client image_client = {
    .may_want_images = may_want_images, .wants_images = wants_images, .run = run};
