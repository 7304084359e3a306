/* SPDX-License-Identifier: BSD-3-Clause
 *
 * interpose.c: gives the program replacements of the driver's functions; see guard.h.
 *
 * A function of the driver can have two addresses: that of its symbol, and the result of cuGetProcAddress.
 * Both are looked up once for each function that is replaced. cuGetProcAddress identifies a function by its
 * name up to the first '_', and by the requested version of CUDA.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/loader_lock.h"
#include "base/log.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/driver_symbols.h"
#include "gpu/driver/imports.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/guard_calls.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/repeats.h"
#include "gpu/rank/streams.h"

typedef CUresult(CUDAAPI *find_1_fn)(const char *, void **, int, cuuint64_t);
typedef CUresult(CUDAAPI *find_2_fn)(const char *, void **, int, cuuint64_t,
                                     CUdriverProcAddressQueryResult *);

static CUresult CUDAAPI call_find_1(const char *name, void **function, int version, cuuint64_t flags);
static CUresult CUDAAPI call_find_2(const char *name, void **function, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *status);
static CUresult CUDAAPI call_find_2_ptsz(const char *name, void **function, int version, cuuint64_t flags,
                                         CUdriverProcAddressQueryResult *status);

static struct {
    find_1_fn find_1;
    find_2_fn find_2;
    find_2_fn find_2_ptsz;
} real;

/* ---- The table ---- */

static const struct gpu_guarded finders[] = {
    {"cuGetProcAddress", (void *)call_find_1, 11030, "gives the others", (void **)&real.find_1},
    {"cuGetProcAddress_v2", (void *)call_find_2, 12000, "gives the others", (void **)&real.find_2},
    {"cuGetProcAddress_v2_ptsz", (void *)call_find_2_ptsz, 12000, "gives the others",
     (void **)&real.find_2_ptsz},
};

static const struct {
    const struct gpu_guarded *functions;
    const size_t *n;
} parts[] = {
    {finders, &(const size_t){BASE_COUNT(finders)}},   {gpu_context_functions, &gpu_n_context_functions},
    {gpu_waiting_functions, &gpu_n_waiting_functions}, {gpu_stream_functions, &gpu_n_stream_functions},
    {gpu_visible_functions, &gpu_n_visible_functions}, {gpu_blocking_functions, &gpu_n_blocking_functions},
};

size_t gpu_guarded_count(void)
{
    size_t n = 0;

    for (size_t i = 0; i < BASE_COUNT(parts); i++)
        n += *parts[i].n;
    return n;
}

const struct gpu_guarded *gpu_guarded_at(size_t i)
{
    size_t part = 0;

    for (; i >= *parts[part].n; part++)
        i -= *parts[part].n;
    return &parts[part].functions[i];
}

/* ---- Finding by name and by address ---- */

#define BUCKETS 1024

/* An entry of one of the two tables, which are filled once and read-only afterwards. */
struct entry {
    const struct gpu_guarded *guarded;
    void *address; /* by_address: the driver's address */
    struct entry *next;
};

static struct entry *by_name[BUCKETS], *by_address[BUCKETS];

static size_t hash_name(const char *name)
{
    uint32_t hash = 2166136261u;

    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash % BUCKETS;
}

static size_t hash_address(const void *address)
{
    return (size_t)(((uintptr_t)address >> 4) * 0x9e3779b97f4a7c15u >> 40) % BUCKETS;
}

static void add(struct entry **bucket, const struct gpu_guarded *guarded, void *address)
{
    struct entry *made = base_malloc(sizeof *made, "the table of CUDA's functions");

    *made = (struct entry){guarded, address, *bucket};
    *bucket = made;
}

static const struct gpu_guarded *find_name(const char *name)
{
    const struct entry *entry = by_name[hash_name(name)];

    while (entry && strcmp(entry->guarded->name, name) != 0)
        entry = entry->next;
    return entry ? entry->guarded : NULL;
}

/* The replacement of a function of the driver. */
static void *replace(void *function)
{
    const struct entry *entry = by_address[hash_address(function)];

    while (entry && entry->address != function)
        entry = entry->next;
    return entry && function ? entry->guarded->function : function;
}

/* ---- Looking up the driver's functions ---- */

static void *ask_for(const char *name, int version)
{
    bool is_twin = strstr(name, "_ptsz") || strstr(name, "_ptds");
    char base[64] = "";
    void *function = NULL;

    strncpy(base, name, base_min_u64(strcspn(name, "_"), sizeof base - 1));
    return real.find_2 && real.find_2(base, &function, version,
                                      is_twin ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                              : CU_GET_PROC_ADDRESS_DEFAULT,
                                      NULL) == CUDA_SUCCESS
               ? function
               : NULL;
}

/* A driver older than the version returns the previous version of the function: that one has an entry
 * already. */
static void look_up_one(void *driver, const struct gpu_guarded *guarded, int driver_version)
{
    void *symbol = gpu_symbol(driver, guarded->name), *given = NULL;

    *guarded->real = symbol;
    if (symbol)
        add(&by_address[hash_address(symbol)], guarded, symbol);
    if (guarded->version <= driver_version)
        given = ask_for(guarded->name, guarded->version);
    if (given && given != symbol && replace(given) == given)
        add(&by_address[hash_address(given)], guarded, given);
    if (!symbol)
        *guarded->real = given;
}

/* The driver is present, and stays. */
static void look_up(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CUresult(CUDAAPI * get_version)(int *);
    int version = 0;

    for (size_t i = 0; i < gpu_guarded_count(); i++)
        add(&by_name[hash_name(gpu_guarded_at(i)->name)], gpu_guarded_at(i), NULL);
    if (!driver)
        return;
    get_version = (CUresult(CUDAAPI *)(int *))gpu_symbol(driver, "cuDriverGetVersion");
    if (!get_version || get_version(&version) != CUDA_SUCCESS)
        version = CUDA_VERSION;
    real.find_2 = (find_2_fn)gpu_symbol(driver, "cuGetProcAddress_v2");
    for (size_t i = 0; i < gpu_guarded_count(); i++)
        look_up_one(driver, gpu_guarded_at(i), version);
}

static void prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, look_up);
}

void gpu_guard_find(void)
{
    static _Atomic bool is_done;

    if (BASE_LIKELY(atomic_load_explicit(&is_done, memory_order_acquire)))
        return;
    prepare();
    (void)gpu_driver_open(NULL); /* not inside pthread_once: it gets here itself */
    atomic_store_explicit(&is_done, true, memory_order_release);
}

void gpu_guard_prepare(void)
{
    gpu_guard_find();
    gpu_repeats_break();
}

/* A function that waits for a stream was given, by this library's dlsym or by cuGetProcAddress. */
static _Atomic bool has_given;

static void *give(const char *name, void *function, void *given)
{
    if (given != function && strncmp(name, "cuStreamSynchronize", 19) == 0)
        atomic_store_explicit(&has_given, true, memory_order_relaxed);
    return given;
}

/* True if code other than the driver's, tools' and UCX's is linked with the driver: with one rank in the process its calls are not
 * intercepted. */
static bool is_called_directly(void)
{
    static const char *const waits[] = {"cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize"};
    bool is_found = false;

    base_loader_lock();
    for (const struct link_map *map = gpu_imports_first_library(); map && !is_found; map = map->l_next)
        for (size_t i = 0; i < BASE_COUNT(waits) && !gpu_symbol_is_for_driver(map->l_name); i++)
            is_found |= gpu_imports_has(map, waits[i]);
    base_loader_unlock();
    return is_found;
}

bool gpu_guard_sees_waits(void)
{
    return atomic_load_explicit(&has_given, memory_order_relaxed) && !is_called_directly();
}

void *gpu_guard(const char *name, void *function)
{
    const struct gpu_guarded *guarded;

    if (!function || strncmp(name, "cu", 2) != 0)
        return function;
    prepare();
    guarded = find_name(name);
    if (!guarded)
        return function;
    return give(name, function, function == *guarded->real ? guarded->function : replace(function));
}

static bool is_part(const struct gpu_guarded *guarded, const struct gpu_guarded *functions, size_t n)
{
    return guarded >= functions && guarded < functions + n;
}

void *gpu_guard_library(const char *name, void *function)
{
    const struct gpu_guarded *guarded;

    prepare();
    guarded = find_name(name);
    if (!guarded || is_part(guarded, finders, BASE_COUNT(finders)))
        return function;
    if (guarded->function == (void *)gpu_rank_retain)
        return (void *)gpu_guard_retain;
    if (strcmp(name, "cuCtxSynchronize") == 0)
        return (void *)gpu_guard_synchronize;
    return is_part(guarded, gpu_waiting_functions, gpu_n_waiting_functions) ? replace(function) : function;
}

/* ---- cuGetProcAddress ---- */

static CUresult CUDAAPI call_find_1(const char *name, void **function, int version, cuuint64_t flags)
{
    CUresult result;

    prepare();
    result = real.find_1(name, function, version, flags);
    if (result == CUDA_SUCCESS)
        *function = give(name, *function, replace(*function));
    return result;
}

/* Functions with a stream have twins for the per-thread default stream. One that has no replacement is newer than this
 * library: the driver's default stream is not the rank's. */
static void report_unknown(find_2_fn finder, const char *name, int version)
{
    static _Atomic bool is_done;
    void *legacy = NULL, *twin = NULL;

    if (!gpu_streams_are_private || atomic_load(&is_done) ||
        finder(name, &legacy, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL) != CUDA_SUCCESS ||
        finder(name, &twin, version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL) != CUDA_SUCCESS ||
        legacy == twin || replace(legacy) != legacy || atomic_exchange(&is_done, true))
        return;
    base_log_verbose(
        1,
        "%s of this CUDA driver takes a stream and is not known to Heddle: it uses the default stream "
        "of the process, not the rank's; there may be more such functions",
        name);
}

static CUresult find(find_2_fn finder, const char *name, void **function, int version, cuuint64_t flags,
                     CUdriverProcAddressQueryResult *status)
{
    CUresult result = finder(name, function, version, flags, status);
    void *given = result == CUDA_SUCCESS ? replace(*function) : NULL;

    if (result != CUDA_SUCCESS)
        return result;
    if (given == *function)
        report_unknown(finder, name, version);
    *function = give(name, *function, given);
    return result;
}

static CUresult CUDAAPI call_find_2(const char *name, void **function, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *status)
{
    prepare();
    return find(real.find_2, name, function, version, flags, status);
}

static CUresult CUDAAPI call_find_2_ptsz(const char *name, void **function, int version, cuuint64_t flags,
                                         CUdriverProcAddressQueryResult *status)
{
    prepare();
    return find(real.find_2_ptsz, name, function, version, flags, status);
}
