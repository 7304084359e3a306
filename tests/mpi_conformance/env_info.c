/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_INFO_ENV describes the start of the program and cannot be changed; MPI_Info_create_env does the same
 * for its arguments; MPI_Get_hw_resource_info names kinds of resources that MPI_Comm_split_type takes.
 *
 * usage: env_info one two
 */
#include "mtest.h"

static int has(MPI_Info info, const char *key, char *value, int size)
{
    int flag = 0, len = size;

    MTEST_OK(MPI_Info_get_string(info, key, &len, value, &flag));
    return flag && len <= size;
}

static void check_env(MPI_Info info, const char *arguments)
{
    char value[MPI_MAX_INFO_VAL + 1];

    MTEST_CHECK(has(info, "command", value, sizeof value) && strstr(value, "env_info"), "the command is %s",
                value);
    if (arguments)
        MTEST_CHECK(has(info, "argv", value, sizeof value) && strcmp(value, arguments) == 0, "argv is \"%s\"",
                    value);
    else
        MTEST_CHECK(!has(info, "argv", value, sizeof value), "argv is \"%s\", though there was none", value);
    MTEST_CHECK(has(info, "maxprocs", value, sizeof value) && atoi(value) == mtest_size, "maxprocs is %s",
                value);
    MTEST_CHECK(has(info, "thread_level", value, sizeof value) && strncmp(value, "MPI_THREAD_", 11) == 0,
                "thread_level is %s", value);
    MTEST_CHECK(has(info, "wdir", value, sizeof value) && value[0] == '/', "wdir is %s", value);
}

static void check_env_is_constant(void)
{
    MPI_Info env = MPI_INFO_ENV, copy;

    MTEST_CHECK(MPI_Info_set(MPI_INFO_ENV, "key", "value") != MPI_SUCCESS, "MPI_INFO_ENV was changed");
    MTEST_CHECK(MPI_Info_delete(MPI_INFO_ENV, "command") != MPI_SUCCESS, "MPI_INFO_ENV was changed");
    MTEST_CHECK(MPI_Info_free(&env) != MPI_SUCCESS && env == MPI_INFO_ENV, "MPI_INFO_ENV was freed");
    MTEST_OK(MPI_Info_dup(MPI_INFO_ENV, &copy));
    MTEST_OK(MPI_Info_set(copy, "key", "value"));
    MTEST_OK(MPI_Info_free(&copy));
}

/* Every kind of resource gives communicators, or none, all alike in one of them. */
static void check_resources(void)
{
    char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    int n_keys = -1;
    MPI_Info info, hint;
    MPI_Comm part;

    MTEST_OK(MPI_Get_hw_resource_info(&info));
    MTEST_OK(MPI_Info_get_nkeys(info, &n_keys));
    MTEST_CHECK(n_keys >= 0, "%d keys", n_keys);
    for (int i = 0; i < n_keys; i++) {
        MTEST_OK(MPI_Info_get_nthkey(info, i, key));
        MTEST_CHECK(strstr(key, "://"), "the resource %s is no URI", key);
        MTEST_CHECK(has(info, key, value, sizeof value) &&
                        (!strcmp(value, "true") || !strcmp(value, "false")),
                    "the resource %s is %s", key, value);
        MTEST_OK(MPI_Info_create(&hint));
        MTEST_OK(MPI_Info_set(hint, "mpi_hw_resource_type", key));
        part = MPI_COMM_NULL;
        MTEST_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, mtest_rank, hint, &part));
        MTEST_CHECK(strcmp(value, "true") != 0 || part != MPI_COMM_NULL, "the resource %s is no way to split",
                    key);
        if (part != MPI_COMM_NULL)
            MTEST_OK(MPI_Comm_free(&part));
        MTEST_OK(MPI_Info_free(&hint));
    }
    MTEST_OK(MPI_Info_free(&info));
}

int main(int argc, char **argv)
{
    MPI_Info info;

    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    check_env(MPI_INFO_ENV, "one two");
    argv[1][0] = 'O'; /* later changes of the arguments by the program do not matter */
    check_env(MPI_INFO_ENV, "one two");
    MTEST_OK(MPI_Info_create_env(2, (char *[]){argv[0], (char[]){"three"}, NULL}, &info));
    check_env(info, "three");
    MTEST_OK(MPI_Info_free(&info));
    check_env_is_constant();
    check_resources();
    return mtest_end();
}
