/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Comm_spawn and MPI_Comm_spawn_multiple: spawned ranks have their own MPI_COMM_WORLD, arguments, globals,
 * MPI_APPNUM and MPI_INFO_ENV, exchange messages with their parents, spawn in turn, and outlive the connection. */
#include "mtest.h"

static int global = 7; /* each rank has its own */

static void send_back(MPI_Comm parent, int number)
{
    int value, n_parents;
    MPI_Comm merged;

    MTEST_OK(MPI_Comm_remote_size(parent, &n_parents));
    MTEST_OK(MPI_Recv(&value, 1, MPI_INT, 0, 5, parent, MPI_STATUS_IGNORE));
    value += mtest_rank + 100 * number;
    MTEST_OK(MPI_Send(&value, 1, MPI_INT, 0, 6, parent));
    MTEST_OK(MPI_Intercomm_merge(parent, 1, &merged));
    MPI_Comm_rank(merged, &value);
    MTEST_CHECK(value == n_parents + mtest_rank, "rank %d in the merged communicator", value);
    value = 1;
    MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, merged));
    MTEST_CHECK(value == n_parents + mtest_size, "%d ranks in the merged communicator", value);
    MTEST_OK(MPI_Comm_free(&merged));
}

static void check_info(const char *key, const char *expected)
{
    char value[64] = "";
    int flag, length = sizeof value;

    MTEST_OK(MPI_Info_get_string(MPI_INFO_ENV, key, &length, value, &flag));
    MTEST_CHECK(flag && strcmp(value, expected) == 0, "%s in MPI_INFO_ENV is \"%s\", not %s", key, value,
                expected);
}

/* MPI_INFO_ENV describes the command of the rank's spawn, and not those of the job. */
static void check_env(char **argv)
{
    char arguments[64];

    snprintf(arguments, sizeof arguments, "child %s %s %s", argv[2], argv[3], argv[4]);
    check_info("argv", arguments);
    check_info("maxprocs", argv[4]);
}

/* Only the command of spawn_soft has an info key for it. */
static void check_errhandler(MPI_Comm parent, int is_soft)
{
    MPI_Errhandler wanted = is_soft ? MPI_ERRORS_ABORT : MPI_ERRORS_ARE_FATAL, handler;

    MTEST_OK(MPI_Comm_get_errhandler(parent, &handler));
    MTEST_CHECK(handler == wanted, "the parent's initial error handler");
}

/* A spawned rank: "child NUMBER SIZE MAXPROCS". */
static int be_child(MPI_Comm parent, int argc, char **argv)
{
    int *app_num, flag, sum = 0, number = atoi(argv[2]), length;
    char name[MPI_MAX_OBJECT_NAME];

    MTEST_CHECK(argc == 5 && argv[5] == NULL, "%d arguments", argc);
    MTEST_CHECK(mtest_size == atoi(argv[3]), "%d ranks were spawned, not %s", mtest_size, argv[3]);
    MTEST_CHECK(global++ == 7, "a global variable is %d", global);
    MTEST_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app_num, &flag));
    MTEST_CHECK(flag && *app_num == number, "MPI_APPNUM is %d", *app_num);
    MTEST_OK(MPI_Allreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MTEST_CHECK(sum == mtest_size * (mtest_size - 1) / 2, "the sum in the new world is %d", sum);
    MTEST_CHECK(atoi(getenv("OMPI_COMM_WORLD_SIZE")) == mtest_size &&
                    atoi(getenv("OMPI_COMM_WORLD_RANK")) == mtest_rank,
                "the environment says rank %s of %s", getenv("OMPI_COMM_WORLD_RANK"),
                getenv("OMPI_COMM_WORLD_SIZE"));
    check_env(argv);
    check_errhandler(parent, strcmp(argv[4], "4") == 0);
    MTEST_OK(MPI_Comm_get_name(parent, name, &length));
    MTEST_CHECK(strcmp(name, "MPI_COMM_PARENT") == 0, "the parent is named \"%s\"", name);
    send_back(parent, number);
    MTEST_OK(MPI_Comm_disconnect(&parent));
    MTEST_OK(MPI_Comm_get_parent(&parent));
    MTEST_CHECK(parent == MPI_COMM_NULL, "a parent after MPI_Comm_disconnect");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return mtest_end();
}

/* Rank 0 talks to all children; the first `first` of them are of command 0. */
static void talk(MPI_Comm inter, int first, int n)
{
    MPI_Comm merged;
    int size;

    MTEST_OK(MPI_Comm_remote_size(inter, &size));
    MTEST_CHECK(size == n, "%d children, not %d", size, n);
    for (int i = 0; i < n && mtest_rank == 0; i++) {
        int value = 1000 * i;
        MTEST_OK(MPI_Send(&value, 1, MPI_INT, i, 5, inter));
        MTEST_OK(MPI_Recv(&value, 1, MPI_INT, i, 6, inter, MPI_STATUS_IGNORE));
        MTEST_CHECK(value == 1000 * i + i + (i >= first ? 100 : 0), "child %d answers %d", i, value);
    }
    MTEST_OK(MPI_Intercomm_merge(inter, 0, &merged));
    size = 1;
    MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, &size, 1, MPI_INT, MPI_SUM, merged));
    MTEST_CHECK(size == mtest_size + n, "%d ranks in the merged communicator", size);
    MTEST_OK(MPI_Comm_free(&merged));
    MTEST_OK(MPI_Comm_disconnect(&inter));
}

static void spawn_one(const char *program, int n)
{
    char size[16], *args[] = {"child", "0", size, size, NULL};
    int codes[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    MPI_Comm inter;

    snprintf(size, sizeof size, "%d", n);
    MTEST_OK(MPI_Comm_spawn(program, args, n, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes));
    for (int i = 0; i < 8; i++)
        MTEST_CHECK(codes[i] == (i < n ? MPI_SUCCESS : -1), "error code %d is %d", i, codes[i]);
    talk(inter, n, n);
}

static void spawn_two(char *program)
{
    int root = mtest_size - 1, is_root = mtest_rank == root;
    char *first[] = {"child", "0", "3", "1", NULL}, *second[] = {"child", "1", "3", "2", NULL};
    char **argvs[] = {first, second}, *programs[] = {program, program};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    int counts[] = {1, 2};
    MPI_Comm inter;

    MTEST_OK(MPI_Comm_spawn_multiple(2, is_root ? programs : NULL, is_root ? argvs : NULL,
                                     is_root ? counts : NULL, is_root ? infos : NULL, root, MPI_COMM_WORLD,
                                     &inter, MPI_ERRCODES_IGNORE));
    talk(inter, 1, 3);
}

/* The info key soft gives the numbers that are allowed. */
static void spawn_soft(const char *program)
{
    char *args[] = {"child", "0", "3", "4", NULL};
    MPI_Comm inter;
    MPI_Info info;
    int codes[4];

    MTEST_OK(MPI_Info_create(&info));
    MTEST_OK(MPI_Info_set(info, "soft", "9,2147483647:5:-1,1:3:2,-2147483648:2147483647:5"));
    MTEST_OK(MPI_Info_set(info, "mpi_initial_errhandler", "MPI_errors_abort"));
    MTEST_OK(MPI_Info_set(info, "wdir", "."));
    MTEST_OK(MPI_Comm_spawn(program, args, 4, info, 0, MPI_COMM_WORLD, &inter, codes));
    MTEST_CHECK(codes[2] == MPI_SUCCESS && codes[3] == MPI_ERR_SPAWN, "error codes %d, %d", codes[2],
                codes[3]);
    MTEST_OK(MPI_Info_free(&info));
    talk(inter, 3, 3);
}

static void check_attributes(void)
{
    int *universe, flag;
    MPI_Comm parent;

    MTEST_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &flag));
    MTEST_CHECK(flag && *universe > mtest_size, "MPI_UNIVERSE_SIZE is %d", flag ? *universe : -1);
    MTEST_OK(MPI_Comm_get_parent(&parent));
    MTEST_CHECK(parent == MPI_COMM_NULL, "a parent that was not spawned");
}

static void fail(const char *program)
{
    MPI_Comm inter = MPI_COMM_SELF;
    int codes[2] = {0, 0};
    MPI_Info info;

    MTEST_CLASS(MPI_Comm_spawn("./no such program", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                               &inter, codes),
                MPI_ERR_SPAWN);
    MTEST_CHECK(codes[0] == MPI_ERR_SPAWN && codes[1] == MPI_ERR_SPAWN, "error codes %d, %d", codes[0],
                codes[1]);
    MTEST_CHECK(inter == MPI_COMM_NULL, "a communicator after an error");
    MTEST_CLASS(MPI_Comm_spawn("/", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes),
                MPI_ERR_SPAWN);
    MTEST_CLASS(
        MPI_Comm_spawn("/bin/true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes),
        MPI_ERR_SPAWN);
    MTEST_CLASS(MPI_Comm_spawn(program, MPI_ARGV_NULL, 1 << 20, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                               MPI_ERRCODES_IGNORE),
                MPI_ERR_SPAWN);
    MTEST_CLASS(MPI_Comm_spawn(program, MPI_ARGV_NULL, -1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes),
                MPI_ERR_ARG);
    MTEST_CLASS(
        MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, mtest_size, MPI_COMM_WORLD, &inter, codes),
        MPI_ERR_ROOT);
    MTEST_OK(MPI_Info_create(&info));
    MTEST_OK(MPI_Info_set(info, "host", "no-such-host"));
    MTEST_CLASS(MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, &inter, codes),
                MPI_ERR_SPAWN);
    MTEST_OK(MPI_Info_set(info, "host", "localhost"));
    MTEST_OK(MPI_Info_set(info, "mpi_initial_errhandler", "none"));
    MTEST_CLASS(MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, &inter, codes),
                MPI_ERR_INFO_VALUE);
    MTEST_OK(MPI_Info_delete(info, "mpi_initial_errhandler"));
    MTEST_OK(MPI_Info_set(info, "soft", "1,"));
    MTEST_CLASS(MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, &inter, codes),
                MPI_ERR_INFO_VALUE);
    MTEST_OK(MPI_Info_delete(info, "soft"));
    MTEST_OK(MPI_Info_set(info, "wdir", "/no such folder"));
    MTEST_CLASS(MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, &inter, codes),
                MPI_ERR_SPAWN);
    MTEST_OK(MPI_Info_free(&info));
}

int main(int argc, char **argv)
{
    MPI_Comm parent;

    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_OK(MPI_Comm_get_parent(&parent));
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return be_child(parent, argc, argv);
    global = 8;
    check_attributes();
    fail(argv[0]);
    for (int i = 1; i <= 5; i += 2)
        spawn_one(argv[0], i);
    spawn_two(argv[0]);
    spawn_soft(argv[0]);
    return mtest_end();
}
