/* SPDX-License-Identifier: BSD-3-Clause */
/* Several programs are one MPI_COMM_WORLD: their ranks are numbered in the order of the programs, and MPI_APPNUM is the
 * number of the program (under Slurm: of the executable). MPI_INFO_ENV describes the rank's own program. A program has its own
 * environment variables. */
#include <unistd.h>

#include "../mpi_conformance/mtest.h"

static int env_max_ranks(void)
{
    char value[16] = "";
    int flag, length = sizeof value;

    MTEST_OK(MPI_Info_get_string(MPI_INFO_ENV, "maxprocs", &length, value, &flag));
    return flag ? atoi(value) : -1;
}

/* text: "NAME=VALUE", or "NAME": not set. */
static void check_variable(const char *text)
{
    size_t length = strcspn(text, "=");
    char *name = strndup(text, length), *value = getenv(name);

    MTEST_CHECK(text[length] ? value && strcmp(value, text + length + 1) == 0 : !value, "%s is %s, not %s",
                name, value ? value : "not set", text);
    free(name);
}

/* Arguments: the number of the program (-1: not checked), its first rank, its number of ranks, its folder (our mpirun), and
 * environment variables. */
int main(int argc, char **argv)
{
    int *app_num, *app_nums, flag, sum, next = 0;
    MPI_Comm program;

    mtest_init(&argc, &argv, 2);
    int number = atoi(argv[1]), first = atoi(argv[2]), n_ranks = atoi(argv[3]), size, rank;
    MTEST_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app_num, &flag));
    number = number < 0 && flag ? *app_num : number;
    MTEST_CHECK(flag && *app_num == number, "MPI_APPNUM is %d, not %d", flag ? *app_num : -1, number);
    MTEST_CHECK(mtest_rank >= first && mtest_rank < first + n_ranks, "rank %d is not one of %d from %d",
                mtest_rank, n_ranks, first);
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, first, 0, &program));
    MPI_Comm_size(program, &size);
    MPI_Comm_rank(program, &rank);
    MTEST_CHECK(size == n_ranks && rank == mtest_rank - first, "rank %d of %d in its program", rank, size);
    MTEST_OK(MPI_Comm_free(&program));

    app_nums = mtest_alloc((size_t)mtest_size * sizeof *app_nums);
    MTEST_OK(MPI_Allgather(app_num, 1, MPI_INT, app_nums, 1, MPI_INT, MPI_COMM_WORLD));
    for (int i = 1; i < mtest_size; i++)
        MTEST_CHECK(app_nums[i] >= app_nums[i - 1], "rank %d is of program %d", i, app_nums[i]);
    free(app_nums);
    if (argc > 4) {
        char *dir = getcwd(NULL, 0);
        MTEST_CHECK(strcmp(dir, argv[4]) == 0 && strcmp(getenv("PWD"), dir) == 0,
                    "the folder is %s, PWD is %s", dir, getenv("PWD"));
        MTEST_CHECK(env_max_ranks() == n_ranks, "maxprocs in MPI_INFO_ENV is %d", env_max_ranks());
        free(dir);
    }
    for (int i = 5; i < argc; i++)
        check_variable(argv[i]);
    MTEST_OK(MPI_Allreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MTEST_CHECK(sum == mtest_size * (mtest_size - 1) / 2, "the sum is %d", sum);
    MTEST_OK(MPI_Sendrecv(&mtest_rank, 1, MPI_INT, (mtest_rank + 1) % mtest_size, 0, &next, 1, MPI_INT,
                          (mtest_rank + mtest_size - 1) % mtest_size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MTEST_CHECK(next == (mtest_rank + mtest_size - 1) % mtest_size, "received %d", next);
    if (mtest_rank == 0)
        printf("%d ranks\n", mtest_size);
    return mtest_end();
}
