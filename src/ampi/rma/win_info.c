/* SPDX-License-Identifier: BSD-3-Clause
 *
 * win_info.c: hints on windows (MPI 5.0, section 12.2.7). Known hints are kept and returned;
 * `accumulate_ordering` changes the library's behaviour, `no_locks` what +check usage reports.
 */
#include "ampi/datatype/program_memory.h"
#include "ampi/rma/win.h"

#include <string.h>

/* Known hints and their defaults; NULL: not returned by default. */
static const struct {
    const char *key;
    const char *usual;
    bool is_boolean;
} hints[] = {
    {"no_locks", "false", true},
    {"accumulate_ordering", "rar,raw,war,waw", false},
    {"accumulate_ops", "same_op_no_op", false},
    {"mpi_accumulate_granularity", "0", false},
    {"same_size", "false", true},
    {"same_disp_unit", "false", true},
    {"alloc_shared_noncontig", NULL, true},
    {"mpi_minimum_memory_alignment", NULL, false},
    {"mpi_assert_memory_alloc_kinds", NULL, false},
};

static bool is_boolean(const char *value)
{
    return strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
}

/* "none", or a comma-separated list of rar, raw, war and waw. */
static bool is_ordering(const char *value)
{
    static const char *const words[] = {"rar", "raw", "war", "waw"};

    if (strcmp(value, "none") == 0)
        return true;
    while (true) {
        bool is_known = false;
        for (size_t i = 0; i < BASE_COUNT(words); i++)
            is_known |= strncmp(value, words[i], 3) == 0;
        if (!is_known || (value[3] && value[3] != ','))
            return false;
        if (!value[3])
            return true;
        value += 4;
    }
}

static bool is_valid(size_t hint, const char *value)
{
    if (hints[hint].is_boolean)
        return is_boolean(value);
    if (strcmp(hints[hint].key, "accumulate_ordering") == 0)
        return is_ordering(value);
    if (strcmp(hints[hint].key, "accumulate_ops") == 0)
        return strcmp(value, "same_op") == 0 || strcmp(value, "same_op_no_op") == 0;
    if (strcmp(hints[hint].key, "mpi_assert_memory_alloc_kinds") == 0)
        return ampi_program_memory_are_kinds(value);
    return value[0] && value[strspn(value, "0123456789")] == '\0';
}

struct ampi_info *ampi_win_info_filter(const struct ampi_info *old, const struct ampi_info *info)
{
    struct ampi_info *kept = ampi_info_dup(old);

    for (size_t i = 0; i < BASE_COUNT(hints); i++) {
        const char *value = ampi_info_get(info, hints[i].key);
        if (value && is_valid(i, value))
            ampi_info_set(kept, hints[i].key, value);
        else if (!old && hints[i].usual)
            ampi_info_set(kept, hints[i].key, hints[i].usual);
    }
    return kept;
}

void ampi_win_apply_hints(struct ampi_win *win)
{
    const char *ordering = ampi_info_get(win->info, "accumulate_ordering");

    win->has_no_locks = ampi_info_is_true(win->info, "no_locks");
    win->is_unordered = ordering && strcmp(ordering, "none") == 0;
}

AMPI_EXPORT(Win_set_info);
int PMPI_Win_set_info(MPI_Win win, MPI_Info info)
{
    struct ampi_rank *self = ampi_enter("MPI_Win_set_info");
    struct ampi_win *object = ampi_win_of(win);
    const struct ampi_info *given = ampi_info_of(self, info);
    struct ampi_info *kept;

    if (!object)
        return ampi_win_raise_invalid(win);
    if (!given)
        return ampi_win_raise(object, MPI_ERR_INFO, "%p is not a valid info object", (void *)info);
    kept = ampi_win_info_filter(object->info, given);
    ampi_info_destroy(object->info);
    object->info = kept;
    ampi_win_apply_hints(object);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Win_get_info);
int PMPI_Win_get_info(MPI_Win win, MPI_Info *info_used)
{
    struct ampi_win *object;
    struct ampi_info *used;

    ampi_enter("MPI_Win_get_info");
    object = ampi_win_of(win);
    if (!object)
        return ampi_win_raise_invalid(win);
    if (!info_used)
        return ampi_win_raise(object, MPI_ERR_ARG, "info_used is NULL");
    used = ampi_info_dup(object->info);
    if (object->shared->flavor == MPI_WIN_FLAVOR_SHARED && !ampi_info_get(used, "alloc_shared_noncontig"))
        ampi_info_set(used, "alloc_shared_noncontig", "false");
    ampi_program_memory_add_kinds(used);
    *info_used = (MPI_Info)used;
    return MPI_SUCCESS;
}
