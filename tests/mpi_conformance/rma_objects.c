/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Windows as objects: results of the creating calls, predefined and user attributes with their callbacks,
 * names, groups, hints, error handlers, and shared memory.
 */
#include "mtest.h"

static int deletes;

static int delete_fn(MPI_Win win, int keyval, void *value, void *extra)
{
    (void)win;
    (void)keyval;
    MTEST_CHECK(value == (void *)0x1234 && extra == &deletes, "the delete callback got other values");
    deletes++;
    return MPI_SUCCESS;
}

static void check_attributes(MPI_Win win, void *base, MPI_Aint size, int disp_unit, int flavor)
{
    void *got;
    MPI_Aint *size_got;
    int *int_got, flag = 0;

    MTEST_OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &got, &flag));
    MTEST_CHECK(flag && (got == base || size == 0), "MPI_WIN_BASE is %p, not %p", got, base);
    MTEST_OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &size_got, &flag));
    MTEST_CHECK(flag && *size_got == size, "MPI_WIN_SIZE is %ld", (long)*size_got);
    MTEST_OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &int_got, &flag));
    MTEST_CHECK(flag && *int_got == disp_unit, "MPI_WIN_DISP_UNIT is %d", *int_got);
    MTEST_OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &int_got, &flag));
    MTEST_CHECK(flag && *int_got == flavor, "MPI_WIN_CREATE_FLAVOR is %d", *int_got);
    MTEST_OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &int_got, &flag));
    MTEST_CHECK(flag && (*int_got == MPI_WIN_UNIFIED || *int_got == MPI_WIN_SEPARATE), "MPI_WIN_MODEL is %d",
                *int_got);
}

static void check_own_attributes(MPI_Win win)
{
    int keyval, flag = 1;
    void *value;

    MTEST_OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete_fn, &keyval, &deletes));
    MTEST_OK(MPI_Win_get_attr(win, keyval, &value, &flag));
    MTEST_CHECK(!flag, "an attribute that was never set is there");
    MTEST_OK(MPI_Win_set_attr(win, keyval, (void *)0x1234));
    MTEST_OK(MPI_Win_get_attr(win, keyval, &value, &flag));
    MTEST_CHECK(flag && value == (void *)0x1234, "the attribute has another value");
    MTEST_OK(MPI_Win_delete_attr(win, keyval));
    MTEST_CHECK(deletes == 1, "the delete callback ran %d times", deletes);
    MTEST_OK(MPI_Win_set_attr(win, keyval, (void *)0x1234));
    MTEST_OK(MPI_Win_free_keyval(&keyval));
    MTEST_CHECK(keyval == MPI_KEYVAL_INVALID, "the key is still set");
}

static void check_name(MPI_Win win)
{
    char name[MPI_MAX_OBJECT_NAME] = "x";
    int length = -1;

    MTEST_OK(MPI_Win_get_name(win, name, &length));
    MTEST_OK(MPI_Win_set_name(win, "temperature"));
    MTEST_OK(MPI_Win_get_name(win, name, &length));
    MTEST_CHECK(strcmp(name, "temperature") == 0 && length == 11, "the name is '%s'", name);
}

static void check_group(MPI_Win win, MPI_Comm comm)
{
    MPI_Group group, members;
    int result;

    MTEST_OK(MPI_Win_get_group(win, &group));
    MPI_Comm_group(comm, &members);
    MPI_Group_compare(group, members, &result);
    MTEST_CHECK(result == MPI_IDENT, "the group of the window is another one than the communicator's");
    MPI_Group_free(&group);
    MPI_Group_free(&members);
}

/* The hints that have a default are there. */
static void check_info(MPI_Win win)
{
    static const char *const usual[][2] = {{"no_locks", "false"},
                                           {"accumulate_ordering", "rar,raw,war,waw"},
                                           {"accumulate_ops", "same_op_no_op"},
                                           {"mpi_accumulate_granularity", "0"},
                                           {"same_size", "false"},
                                           {"same_disp_unit", "false"}};
    MPI_Info info;
    char value[64];
    int has;

    MTEST_OK(MPI_Win_get_info(win, &info));
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        MPI_Info_get(info, usual[i][0], (int)sizeof value - 1, value, &has);
        MTEST_CHECK(has && strcmp(value, usual[i][1]) == 0, "%s is '%s'", usual[i][0], has ? value : "");
    }
    MPI_Info_get(info, "mpi_memory_alloc_kinds", (int)sizeof value - 1, value, &has);
    MTEST_CHECK(has && strstr(value, "mpi") && strstr(value, "system"), "the kinds of memory are '%s'",
                has ? value : "");
    MTEST_OK(MPI_Win_set_info(win, info));
    MPI_Info_free(&info);
}

static int raised, raised_on;

static void handler(MPI_Win *win, int *code, ...)
{
    raised = mtest_class(*code);
    raised_on = *win != MPI_WIN_NULL;
}

static void check_errhandler(MPI_Win win)
{
    MPI_Errhandler own, got;

    MTEST_OK(MPI_Win_get_errhandler(win, &got));
    MTEST_CHECK(got == MPI_ERRORS_ARE_FATAL, "errors are not fatal from the beginning");
    MPI_Errhandler_free(&got);
    MTEST_OK(MPI_Win_create_errhandler(handler, &own));
    MTEST_OK(MPI_Win_set_errhandler(win, own));
    MTEST_OK(MPI_Win_get_errhandler(win, &got));
    MTEST_CHECK(got == own, "another error handler came back");
    MPI_Errhandler_free(&got);
    MPI_Errhandler_free(&own);
    MTEST_OK(MPI_Win_call_errhandler(win, MPI_ERR_OTHER));
    MTEST_CHECK(raised == MPI_ERR_OTHER && raised_on, "the handler got class %d", raised);
    MPI_Win_lock(MPI_LOCK_SHARED, mtest_size, 0, win);
    MTEST_CHECK(raised == MPI_ERR_RANK, "the handler got class %d", raised);
    MTEST_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
}

static void check_all(MPI_Win *win, MPI_Comm comm, void *base, MPI_Aint size, int disp_unit, int flavor)
{
    deletes = 0;
    check_attributes(*win, base, size, disp_unit, flavor);
    check_own_attributes(*win);
    check_name(*win);
    check_group(*win, comm);
    check_info(*win);
    check_errhandler(*win);
    MTEST_OK(MPI_Win_free(win));
    MTEST_CHECK(*win == MPI_WIN_NULL, "the handle is still set");
    MTEST_CHECK(deletes == 2, "freeing the window ran the delete callback %d times", deletes - 1);
}

/* Every rank writes into its own part and reads the next one's with loads. */
static void check_shared(MPI_Comm node, const char *noncontig)
{
    MPI_Win win;
    MPI_Info info;
    int rank, size, *own, unit, has;
    MPI_Aint bytes;
    char value[8];

    MPI_Comm_rank(node, &rank);
    MPI_Comm_size(node, &size);
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", noncontig);
    MTEST_OK(
        MPI_Win_allocate_shared((rank + 1) * (MPI_Aint)sizeof(int), sizeof(int), info, node, &own, &win));
    MPI_Info_free(&info);
    MTEST_OK(MPI_Win_get_info(win, &info));
    MPI_Info_get(info, "alloc_shared_noncontig", (int)sizeof value - 1, value, &has);
    MTEST_CHECK(has && strcmp(value, noncontig) == 0, "alloc_shared_noncontig is '%s'", has ? value : "");
    MPI_Info_free(&info);
    MTEST_OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
    for (int i = 0; i <= rank; i++)
        own[i] = rank * 1000 + i;
    MTEST_OK(MPI_Win_sync(win));
    MPI_Barrier(node);
    MTEST_OK(MPI_Win_sync(win));
    char *end = NULL;
    for (int r = 0; r < size; r++) {
        int *other;
        MTEST_OK(MPI_Win_shared_query(win, r, &bytes, &unit, &other));
        MTEST_CHECK(bytes == (r + 1) * (MPI_Aint)sizeof(int) && unit == (int)sizeof(int),
                    "rank %d has %ld bytes", r, (long)bytes);
        for (int i = 0; i <= r; i++)
            MTEST_CHECK(other[i] == r * 1000 + i, "element %d of rank %d is %d", i, r, other[i]);
        MTEST_CHECK(strcmp(noncontig, "true") == 0 || !end || (char *)other == end,
                    "the memory of rank %d does not follow its predecessor's", r);
        end = (char *)other + bytes;
    }
    int *first;
    MTEST_OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &first));
    MTEST_CHECK(first[0] == 0 && bytes == (MPI_Aint)sizeof(int),
                "MPI_PROC_NULL does not give the first rank's memory");
    MPI_Barrier(node);
    MTEST_OK(MPI_Win_unlock_all(win));
    MTEST_OK(MPI_Win_free(&win));
}

/* MPI_PROC_NULL stands for the first rank with memory, whether or not that can be accessed from here, in a window of any
 * memory. */
static void check_first(void)
{
    MPI_Win win;
    MPI_Aint size, expected;
    int cell = mtest_rank, unit, first = mtest_size > 1, *memory, *other;

    MTEST_OK(
        MPI_Win_create(&cell, mtest_rank >= first ? sizeof cell : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MTEST_OK(MPI_Win_shared_query(win, first, &expected, &unit, &other));
    MTEST_OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &memory));
    MTEST_CHECK(size == expected && memory == other, "%ld bytes, but rank %d has %ld", (long)size, first,
                (long)expected);
    MTEST_CHECK(size == 0 || *memory == first, "the memory of rank %d", *memory);
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_free(&win));
}

/* The hint on the alignment is obeyed for every rank's memory; if the memory is contiguous, for the first one's. */
static void check_alignment(const char *noncontig)
{
    MPI_Win win;
    MPI_Info info;
    MPI_Comm node;
    char *memory;
    int rank;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_minimum_memory_alignment", "65536");
    MPI_Info_set(info, "alloc_shared_noncontig", noncontig);
    MTEST_OK(MPI_Win_allocate(100, 1, info, MPI_COMM_WORLD, &memory, &win));
    MTEST_CHECK((uintptr_t)memory % 65536 == 0, "MPI_Win_allocate: %p", (void *)memory);
    MTEST_OK(MPI_Win_free(&win));
    MTEST_OK(MPI_Win_allocate_shared(100, 1, info, node, &memory, &win));
    MTEST_CHECK((rank > 0 && strcmp(noncontig, "true") != 0) || (uintptr_t)memory % 65536 == 0,
                "MPI_Win_allocate_shared, noncontiguous %s: %p", noncontig, (void *)memory);
    memory[0] = memory[99] = 1;
    MTEST_OK(MPI_Win_free(&win));
    MPI_Info_free(&info);
    MPI_Comm_free(&node);
}

int main(int argc, char **argv)
{
    MPI_Comm comm, node;
    MPI_Win win;
    char memory[64], *base;
    int is_shared;

    mtest_init(&argc, &argv, 1);
    is_shared = argc > 1 && strcmp(argv[1], "shared") == 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MTEST_OK(MPI_Win_create(memory, mtest_rank % 2 ? 0 : (MPI_Aint)sizeof memory, 1 + mtest_rank,
                            MPI_INFO_NULL, comm, &win));
    check_all(&win, comm, memory, mtest_rank % 2 ? 0 : (MPI_Aint)sizeof memory, 1 + mtest_rank,
              MPI_WIN_FLAVOR_CREATE);
    MTEST_OK(MPI_Win_allocate(mtest_rank * 100, 4, MPI_INFO_NULL, comm, &base, &win));
    check_all(&win, comm, base, mtest_rank * 100, 4, MPI_WIN_FLAVOR_ALLOCATE);
    MTEST_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win));
    check_all(&win, comm, MPI_BOTTOM, 0, 1, MPI_WIN_FLAVOR_DYNAMIC);
    if (is_shared) {
        MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
        check_shared(node, "false");
        check_shared(node, "true");
        check_first();
        check_alignment("false");
        check_alignment("true");
        MPI_Comm_free(&node);
    }
    MPI_Comm_free(&comm);
    return mtest_end();
}
