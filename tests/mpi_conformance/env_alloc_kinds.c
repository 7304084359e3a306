/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The hint mpi_memory_alloc_kinds: the first kind of its list that there is is taken, unknown ones are passed over, and
 * a list of kinds that CUDA would have to provide is an error in a program without CUDA; at all members of a window,
 * even if only one has given the hint. MPI_INFO_ENV, sessions, communicators, windows and files list the supported
 * kinds, the requested ones first (of MPI_Session_init's info, of mpirun's -memory-alloc-kinds), and communicators, windows
 * and files keep mpi_assert_memory_alloc_kinds if it names such kinds.
 */
#include "mtest.h"

static MPI_Info info;
static const char *job_kinds; /* the supported ones if a session requests none */

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

/* Frees the info of an object. asserted NULL: it has no assertion. */
static void check_told(const char *of, MPI_Info used, const char *expected, const char *asserted)
{
    char kinds[100] = "", assertion[100] = "";
    int has_kinds, has_assertion;

    MPI_Info_get(used, "mpi_memory_alloc_kinds", 99, kinds, &has_kinds);
    MPI_Info_get(used, "mpi_assert_memory_alloc_kinds", 99, assertion, &has_assertion);
    MTEST_CHECK(has_kinds && strcmp(kinds, expected) == 0, "the kinds of %s: '%s'", of, kinds);
    MTEST_CHECK(asserted ? has_assertion && strcmp(assertion, asserted) == 0 : !has_assertion,
                "the assertion of %s: '%s'", of, assertion);
    if (used != MPI_INFO_ENV)
        MPI_Info_free(&used);
}

static void check_comm(const char *of, MPI_Comm comm, const char *asserted)
{
    MPI_Info used;

    MTEST_OK(MPI_Comm_get_info(comm, &used));
    check_told(of, used, job_kinds, asserted);
}

static void check_win(const char *of, MPI_Win win, const char *asserted)
{
    MPI_Info used;

    MTEST_OK(MPI_Win_get_info(win, &used));
    check_told(of, used, job_kinds, asserted);
}

static void check_file(const char *of, MPI_File file, const char *asserted)
{
    MPI_Info used;

    MTEST_OK(MPI_File_get_info(file, &used));
    check_told(of, used, job_kinds, asserted);
}

static void check_objects(const char *session_kinds)
{
    MPI_Session session;
    MPI_Comm comm, copy;
    MPI_Info used, asserting;
    MPI_Win win;
    MPI_File file;
    void *memory;

    set("system,unknown:kind,mpi:win_allocate,system");
    MTEST_OK(MPI_Session_init(info, MPI_ERRORS_RETURN, &session));
    MTEST_OK(MPI_Session_get_info(session, &used));
    check_told("a session", used, session_kinds, NULL);
    check_told("MPI_INFO_ENV", MPI_INFO_ENV, job_kinds, NULL);
    MTEST_OK(MPI_Session_finalize(&session));
    check_comm("MPI_COMM_WORLD", MPI_COMM_WORLD, NULL);
    check_comm("MPI_COMM_SELF", MPI_COMM_SELF, NULL);
    MPI_Info_create(&asserting);
    MPI_Info_set(asserting, "mpi_assert_memory_alloc_kinds", "system,mpi:alloc_mem");
    MTEST_OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, asserting, &comm));
    check_comm("a communicator", comm, "system,mpi:alloc_mem");
    MTEST_OK(MPI_Comm_dup(comm, &copy));
    check_comm("its copy, which has no hints", copy, NULL);
    MTEST_OK(MPI_Win_allocate(100, 1, asserting, comm, &memory, &win));
    check_win("a window", win, "system,mpi:alloc_mem");
    MTEST_OK(MPI_File_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDONLY, asserting, &file));
    check_file("a file", file, "system,mpi:alloc_mem");
    MPI_Info_set(asserting, "mpi_assert_memory_alloc_kinds", "system");
    MTEST_OK(MPI_Win_set_info(win, asserting));
    check_win("a window", win, "system");
    for (int i = 0; i < 3; i++) { /* not kinds that there are: ignored */
        MPI_Info_set(asserting, "mpi_assert_memory_alloc_kinds",
                     i == 0   ? "cuda:device"
                     : i == 1 ? "system,unknown"
                              : "mpi,");
        MTEST_OK(MPI_Win_set_info(win, asserting));
        MTEST_OK(MPI_Comm_set_info(comm, asserting));
        MTEST_OK(MPI_File_set_info(file, asserting));
    }
    check_win("a window", win, "system");
    check_comm("a communicator", comm, "system,mpi:alloc_mem");
    check_file("a file", file, "system,mpi:alloc_mem");
    MTEST_OK(MPI_File_close(&file));
    MTEST_OK(MPI_Win_free(&win));
    MTEST_OK(MPI_Win_allocate(100, 1, MPI_INFO_NULL, comm, &memory, &win));
    check_win("a window without the hint", win, NULL);
    MTEST_OK(MPI_Win_free(&win));
    MPI_Info_free(&asserting);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    job_kinds = argc > 1 ? argv[1] : "mpi,system";
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
    check_objects(argc > 1 ? argv[2] : "system,mpi:win_allocate,mpi");
    MPI_Info_free(&info);
    return mtest_end();
}
