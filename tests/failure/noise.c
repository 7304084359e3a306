/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that UCX's error reports appear as long as no process has failed, and not afterwards, because then
 * the library reports the failure. Rank 0 makes UCX report errors before rank 1's process ends, when it has ended,
 * which the library may not know yet, and when the library knows.
 */
#include <dlfcn.h>
#include <mpi-ext.h>
#include <signal.h>
#include <ucs/config/types.h>
#include <unistd.h>

#include "../mpi_conformance/mtest.h"

typedef void (*dispatch_fn)(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                            const ucs_log_component_config_t *config, const char *format, ...);

static void report(const char *text)
{
    static const ucs_log_component_config_t config = {UCS_LOG_LEVEL_WARN, "UCX"};
    void *ucs = dlopen("libucs.so.0", RTLD_LAZY | RTLD_NOLOAD);
    dispatch_fn dispatch = ucs ? (dispatch_fn)dlsym(ucs, "ucs_log_dispatch") : NULL;
    MTEST_CHECK(dispatch, "UCX is not here");
    if (dispatch)
        dispatch(__FILE__, __LINE__, __func__, UCS_LOG_LEVEL_ERROR, &config, "%s", text);
}

/* Both processes of the node are connected; returns rank 1's process id. */
static int exchange_pid(void)
{
    int own = (int)getpid(), pid = own;

    if (mtest_rank < 2)
        MPI_Sendrecv(&own, 1, MPI_INT, 1 - mtest_rank, 1, &pid, 1, MPI_INT, 1 - mtest_rank, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    return pid;
}

/* Does not call MPI. */
static void await_end(int pid)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/fd/0", pid);
    while (access(path, F_OK) == 0)
        usleep(100);
}

int main(int argc, char **argv)
{
    int pid;

    mtest_init(&argc, &argv, 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (mtest_rank == 0)
        report("before the loss");
    pid = exchange_pid();
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == 1)
        kill(getpid(), SIGKILL);
    if (mtest_rank == 0) {
        await_end(pid);
        report("at the loss");
    }
    MTEST_CLASS(MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_PROC_FAILED);
    if (mtest_rank == 0)
        report("after the loss");
    return mtest_end();
}
