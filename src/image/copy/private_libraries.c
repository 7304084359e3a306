/* SPDX-License-Identifier: BSD-3-Clause
 *
 * private_libraries.c: decides which shared libraries are copied for each rank.
 *
 * A library is shared if one of these rules says so, in this order; else it is the rank's own:
 *   1. its identity: libmpi itself, the machine layer, the library that defines malloc, libraries that
 *      shared_libraries.c always shares
 *   2. the user's list (image_set_private_libraries), which makes a library private or shared
 *   3. the list of shared_libraries.c
 *   4. preloaded, and does not need libmpi, and has no function of a private library. (If it needs libmpi, it is
 *      a PMPI tool between the program and MPI, with state per rank. If it has a function of a private library, it is
 *      a wrapper, which must call the rank's library.)
 *   5. it cannot be copied (image_module_can_copy)
 *   6. a shared library needs it and calls the prototype: with copies for the ranks there would be two
 *      instances. Except dependencies of libmpi, UCX and PMIx only: these use the prototype, and ranks have
 *      copies.
 *   7. neither the program nor a private library needs it: a library's constructor or UCX opened it.
 *      Outside the system's folders it is private nevertheless.
 *
 * By name and not by folder, because the folder says nothing about a library's state; exact names, because
 * a prefix matches too much (libcuda matched libcudart, whose current device belongs to a rank). Libraries
 * with damaged headers, or changed since the start, are refused: sharing them in silence would give wrong
 * results.
 *
 * OPENBLAS_NUM_THREADS is set to the rank's share of the cores unless the user has set a number of threads:
 * each rank's OpenBLAS has a pool of threads. KMP_DUPLICATE_LIB_OK is set, because LLVM's and Intel's
 * OpenMP libraries end a process with two copies of them.
 */
#include "image/copy/private_libraries.h"

#include "base/log.h"
#include "image/copy/lazy_tls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Why a module is shared; NULL: it is private. */
struct decision {
    const char *why;
    const char *damage; /* damage of a private library's file, which keeps the program from running */
    bool is_alone;      /* its dependencies may be private */
    bool is_said;       /* decided by the user's list: rule 6 leaves it private */
};

static const char *user_list; /* of image_set_private_libraries */
static bool *is_private;      /* the decisions, in the order of dl_iterate_phdr */

static bool has_shared; /* libraries are shared other than those that always are */

bool image_has_shared_libraries(void)
{
    return has_shared;
}

void image_set_private_libraries(const char *list)
{
    user_list = list;
}

static const char *const system_folders[] = {"/lib/",       "/lib32/",     "/lib64/",        "/usr/lib/",
                                             "/usr/lib32/", "/usr/lib64/", "/usr/local/cuda"};

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* True if the file is in the folder of this library or in a system folder. */
static bool is_in_system_folder(const char *path)
{
    Dl_info self;
    size_t folder_len;

    for (size_t i = 0; i < BASE_COUNT(system_folders); i++)
        if (has_prefix(path, system_folders[i]))
            return true;
    if (dladdr(&is_private, &self) == 0 || !self.dli_fname || !strrchr(self.dli_fname, '/'))
        return false;
    folder_len = (size_t)(strrchr(self.dli_fname, '/') + 1 - self.dli_fname);
    return strncmp(path, self.dli_fname, folder_len) == 0 && file_name(path) == path + folder_len;
}

/* ---- Lists of names ---- */

/* True if the item names the file: equal up to ".so". */
static bool item_fits(const char *item, size_t item_len, const char *file)
{
    return strncmp(file, item, item_len) == 0 &&
           (file[item_len] == '\0' || file[item_len] == '.' || strncmp(file + item_len, ".so", 3) == 0);
}

/* One item of a list "libfoo,-libbar". */
struct item {
    const char *name;
    size_t len;
    bool is_minus;
};

/* Removes the next item from the list. Returns false if the list is empty. */
static bool next_item(const char **list, struct item *item_out)
{
    const char *at = *list ? *list + strspn(*list, ", ") : "";
    size_t len = strcspn(at, ", ");

    *list = at + len;
    item_out->is_minus = at[0] == '-';
    item_out->name = at + item_out->is_minus;
    item_out->len = len - item_out->is_minus;
    return len > 0;
}

/* The decision of a list about a file: 1 private, -1 shared, 0 none. The last matching item counts. */
static int list_decision(const char *list, const char *file)
{
    struct item item;
    int answer = 0;

    while (next_item(&list, &item))
        if (item.len && item_fits(item.name, item.len, file))
            answer = item.is_minus ? -1 : 1;
    return answer;
}

/* Checks that all libraries in the user's list exist and can be private or shared as it requires. A shared
 * one may be loaded later, by dlopen. */
static bool check_user_list(const struct image_module *modules, size_t count,
                            const struct decision *decisions, const char **error_out)
{
    const char *list = user_list;
    struct item item;

    while (next_item(&list, &item)) {
        size_t i = 1;

        while (i < count && !item_fits(item.name, item.len, file_name(modules[i].name)))
            i++;
        if (i < count && (item.is_minus || !decisions[i].why))
            continue;
        if (i < count)
            *error_out = image_error("+private %.*s: %s is always shared by the ranks: %s", (int)item.len,
                                     item.name, modules[i].name, decisions[i].why);
        else if (item.is_minus)
            base_log("+private -%.*s: no such library is loaded yet", (int)item.len, item.name);
        else
            *error_out = image_error("+private %.*s: the program is not linked with such a library; use the "
                                     "file name up to \".so\", as ldd shows it",
                                     (int)item.len, item.name);
        if (i < count || !item.is_minus)
            return false;
    }
    return true;
}

/* Reduces items of LD_PRELOAD, which may be paths, to file names. Static storage. */
static const char *preloaded_files(void)
{
    static char files[4096];
    const char *list = secure_getenv("LD_PRELOAD");
    size_t used = 0;

    files[0] = '\0';
    while (list && *list) {
        size_t len = strcspn(list, ": ");
        const char *name = list;

        for (size_t i = 0; i < len; i++)
            if (list[i] == '/')
                name = list + i + 1;
        if (used + len + 2 < sizeof files)
            used +=
                (size_t)snprintf(files + used, sizeof files - used, "%.*s,", (int)(list + len - name), name);
        list += len;
        list += strspn(list, ": ");
    }
    return files;
}

/* ---- The rules ---- */

/* Marks a module and all its dependencies. */
static void mark_needed(const struct image_module *modules, size_t count, size_t index, bool *is_marked)
{
    if (is_marked[index])
        return;
    is_marked[index] = true;
    for (size_t i = 1; i < count; i++)
        if (image_module_needs(&modules[index], &modules[i]))
            mark_needed(modules, count, i, is_marked);
}

/* Marks a private module and its private dependencies. */
static void mark_private_needed(const struct image_module *modules, size_t count, size_t index,
                                const struct decision *decisions, bool *is_marked)
{
    if (is_marked[index] || decisions[index].why)
        return;
    is_marked[index] = true;
    for (size_t i = 1; i < count; i++)
        if (image_module_needs(&modules[index], &modules[i]))
            mark_private_needed(modules, count, i, decisions, is_marked);
}

/* Larger segments indicate damage. */
#define SEGMENT_MAX_BYTES ((size_t)1 << 46)

/* The module whose prototype contains the address; 0, the program, if none does. */
static size_t module_of(const struct image_module *modules, size_t count, const void *addr)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < modules[i].n_phdrs; j++) {
            const ElfW(Phdr) *phdr = &modules[i].phdr[j];

            if (phdr->p_type == PT_LOAD && phdr->p_memsz <= SEGMENT_MAX_BYTES &&
                (uintptr_t)addr - modules[i].bias - phdr->p_vaddr < phdr->p_memsz)
                return i;
        }
    return 0;
}

/* Rules 1 to 5, for one module. own: libmpi. */
static struct decision decide(struct image_module *module, const char *preload,
                              const struct image_module *own)
{
    const char *file = file_name(module->name);
    const struct image_shared_library *listed = image_shared_library_find(file);
    struct decision decision = {.is_alone = listed && (listed->flags & IMAGE_SHARED_ALONE)};
    int says = list_decision(user_list, file);

    if (!module->symtab || !module->name[0])
        decision.why = "it is not a file";
    else if (listed && (listed->flags & IMAGE_SHARED_ALWAYS))
        decision.why = listed->why;
    else if (says < 0)
        decision.why = "the option +private says so";
    else if (says == 0 && listed)
        decision.why = listed->why;
    else if (says == 0 && list_decision(preload, file) > 0 && !(own && image_module_needs(module, own)))
        decision.why = "it is preloaded";
    else if (!image_module_can_copy(module, &decision.why, &decision.damage))
        decision.is_said = false;
    else
        decision.is_said = says > 0;
    return decision;
}

/* Rule 4: wrappers of private libraries' functions are private. */
static void own_wrappers(struct image_module *modules, size_t count, struct decision *decisions,
                         const char *preload)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = 1; list_decision(preload, file_name(modules[i].name)) > 0 && j < count; j++)
            if (decisions[i].why && i != j && !decisions[j].why &&
                image_symbols_wrap(&modules[i], &modules[j]))
                decisions[i] = decide(&modules[i], "", NULL);
}

/* Rule 6, to a fixed point. */
static void share_what_shared_need(const struct image_module *modules, size_t count,
                                   struct decision *decisions)
{
    bool is_changed = true;

    while (is_changed) {
        is_changed = false;
        for (size_t i = 1; i < count; i++)
            for (size_t j = 1; decisions[i].why && !decisions[i].is_alone && j < count; j++) {
                if (decisions[j].why || decisions[j].is_said ||
                    !image_module_needs(&modules[i], &modules[j]) ||
                    image_is_private_for_all(modules[j].name))
                    continue;
                decisions[j].why = "a shared library needs it";
                base_log_verbose(1, "the ranks share %s, because %s, which they share, needs it",
                                 file_name(modules[j].name), file_name(modules[i].name));
                is_changed = true;
            }
    }
}

/* Rule 7. */
static void share_unneeded(const struct image_module *modules, size_t count, struct decision *decisions,
                           const bool *is_ours, const char *preload)
{
    bool *is_needed = base_calloc(count, sizeof *is_needed, "the list of libraries");

    for (size_t i = 0; i < count; i++)
        if (i == 0 || decisions[i].is_said || list_decision(preload, file_name(modules[i].name)) > 0)
            mark_private_needed(modules, count, i, decisions, is_needed);
    for (size_t i = 1; i < count; i++)
        if (!decisions[i].why && !is_needed[i] && (is_ours[i] || is_in_system_folder(modules[i].name)))
            decisions[i].why = "neither the program nor a private library needs it";
    free(is_needed);
}

bool image_private_libraries_mark(struct image_module *modules, size_t count, const char **error_out)
{
    const char *preload = preloaded_files();
    struct decision *decisions = base_calloc(count, sizeof *decisions, "the list of libraries");
    bool *is_ours = base_calloc(count, sizeof *is_ours, "the list of libraries");
    size_t own = module_of(modules, count, &is_private), allocator;
    bool is_good;

    for (size_t i = 1; i < count; i++)
        decisions[i] = decide(&modules[i], preload, own ? &modules[own] : NULL);
    if (own)
        decisions[own] = (struct decision){.why = "it is MPI", .is_alone = true};
    own_wrappers(modules, count, decisions, preload);
    for (size_t i = 1; i < count; i++)
        if (i == own || has_prefix(file_name(modules[i].name), "machine_ucx.so"))
            mark_needed(modules, count, i, is_ours);
    /* Memory is allocated by one rank's library calls and freed by another module: one allocator for all. */
    allocator = module_of(modules, count, dlsym(RTLD_DEFAULT, "malloc"));
    if (allocator && !decisions[allocator].why && !decisions[allocator].damage)
        decisions[allocator] = (struct decision){.why = "it defines malloc, and a process has one heap"};
    is_good = check_user_list(modules, count, decisions, error_out);
    share_what_shared_need(modules, count, decisions);
    share_unneeded(modules, count, decisions, is_ours, preload);

    is_private = base_calloc(count, sizeof *is_private, "the list of libraries");
    for (size_t i = 1; i < count; i++) {
        const struct image_shared_library *listed = image_shared_library_find(file_name(modules[i].name));

        is_private[i] = !decisions[i].why;
        if (is_private[i] && decisions[i].damage) {
            *error_out =
                image_error("cannot run as several ranks: the file %s: %s; use +private -LIBRARY to share it",
                            modules[i].name, decisions[i].damage);
            is_good = false;
        }
        has_shared |= modules[i].symtab && decisions[i].why && !is_ours[i] &&
                      !(listed && (listed->flags & (IMAGE_SHARED_ALWAYS | IMAGE_SHARED_ALONE)));
        if (modules[i].symtab)
            base_log_verbose(2, "%s: %s%s", modules[i].name, is_private[i] ? "each rank's own" : "shared: ",
                             is_private[i] ? "" : decisions[i].why);
    }
    free(is_ours);
    free(decisions);
    return is_good;
}

bool image_private_libraries_has(size_t index)
{
    return is_private[index];
}

/* ---- Libraries opened later ---- */

void image_private_libraries_mark_late(struct image_module *modules, size_t count, bool *is_late)
{
    struct decision *decisions = base_calloc(count, sizeof *decisions, "the list of libraries");
    size_t own = module_of(modules, count, &is_private);

    /* Earlier modules are unchanged and need nothing more. */
    for (size_t i = 0; i < count; i++)
        decisions[i] = is_late[i] ? decide(&modules[i], "", own ? &modules[own] : NULL)
                                  : (struct decision){.why = "it is loaded already", .is_alone = true};
    for (size_t i = 0; i < count; i++)
        if (!decisions[i].why && !image_lazy_tls_can(&modules[i]))
            decisions[i].why = "its thread_local variables are accessed at fixed offsets from the thread "
                               "pointer (initial-exec), so the program has to be linked with it";
    share_what_shared_need(modules, count, decisions);
    for (size_t i = 0; i < count; i++) {
        const char *file = file_name(modules[i].name);

        if (!is_late[i])
            continue;
        is_late[i] = !decisions[i].why;
        base_log_verbose(2, "%s: %s%s", modules[i].name,
                         is_late[i] ? "each rank's own" : "shared: ", is_late[i] ? "" : decisions[i].why);
        if (!is_late[i] && !image_shared_library_find(file) && list_decision(user_list, file) == 0)
            base_log("the ranks share the variables of %s, which a rank has opened: %s", modules[i].name,
                     decisions[i].why);
    }
    free(decisions);
}
