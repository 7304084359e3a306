/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The hint mpi_memory_alloc_kinds: the first kind of its list that there is is taken, unknown ones are passed over, and
 * a list of kinds that CUDA would have to provide is an error in a program without CUDA; at all members of a window,
 * even if only one has given the hint.
 */
#include "mtest.h"

static MPI_Info info;

static void set(const char *kinds)
{
    MPI_Info_set(info, "mpi_memory_alloc_kinds", kinds);
}

static void check_given(const char *kinds)
{
    char *memory;
    MPI_Win win;

    set(kinds);
    MTEST_OK(MPI_Alloc_mem(100, info, &memory));
    memset(memory, 1, 100);
    MTEST_OK(MPI_Free_mem(memory));
    MTEST_OK(MPI_Win_allocate(100, 1, info, MPI_COMM_WORLD, &memory, &win));
    memset(memory, 1, 100);
    MTEST_OK(MPI_Win_free(&win));
}

static void check_refused(const char *kinds)
{
    char *memory;
    MPI_Win win;

    set(kinds);
    MTEST_CLASS(MPI_Alloc_mem(100, info, &memory), MPI_ERR_NO_MEM);
    MTEST_CLASS(
        MPI_Win_allocate(100, 1, mtest_rank == 0 ? info : MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win),
        MPI_ERR_NO_MEM);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    MPI_Info_create(&info);
    check_given("system");
    check_given("mpi:alloc_mem");
    check_given("cuda:device,system");
    check_given("rocm:device,level_zero");
    check_given("");
    check_given(",,cud,systems,");
    check_refused("cuda");
    check_refused("cuda:device");
    check_refused("unknown,cuda:managed,cuda:host");
    MPI_Info_free(&info);
    return mtest_end();
}
