/* SPDX-License-Identifier: BSD-3-Clause */
/* A spawned rank ends, and its PE waits on its stack. Then a rank ends that has kept its own OS thread, because it waited for its
 * thread outside MPI. The next spawn does not free the stack on which the PE waits. */
#include "mtest_threads.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

/* More than the images that are kept for debuggers. */
enum { N_ROUNDS = 40 };

static MPI_Comm parent;
static atomic_int is_done;

/* A system call of its own: the PE does not know that the rank waits. */
static void pause_outside(void)
{
    struct timespec ms = {.tv_nsec = 1000000};

    syscall(SYS_nanosleep, &ms, NULL);
}

static MPI_Comm spawn(char *program, char *mode)
{
    char *args[] = {mode, NULL};
    MPI_Comm child = MPI_COMM_NULL;

    MTEST_OK(MPI_Comm_spawn(program, args, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child, MPI_ERRCODES_IGNORE));
    MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 1, child, MPI_STATUS_IGNORE));
    return child;
}

/* The brief rank's memory is freed by the first spawn of the next round. */
static void *spawn_in_turn(void *program)
{
    for (int i = 0; i < N_ROUNDS; i++) {
        MPI_Comm bound = spawn(program, "bound"), brief = spawn(program, "brief");
        MPI_Comm_disconnect(&brief);
        for (int k = 0; k < 4; k++) /* it ends */
            pause_outside();
        MPI_Send(NULL, 0, MPI_INT, 0, 2, bound);
        MPI_Comm_disconnect(&bound);
        for (int k = 0; k < 4; k++)
            pause_outside();
    }
    MPI_Send(NULL, 0, MPI_INT, 0, 3, MPI_COMM_SELF);
    return NULL;
}

static void *talk(void *arg)
{
    MPI_Send(NULL, 0, MPI_INT, 0, 1, parent);
    MPI_Recv(NULL, 0, MPI_INT, 0, 2, parent, MPI_STATUS_IGNORE);
    MPI_Comm_disconnect(&parent);
    atomic_store(&is_done, 1);
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    mtest_init_threads(&argc, &argv, 1);
    MTEST_OK(MPI_Comm_get_parent(&parent));
    if (parent == MPI_COMM_NULL) {
        MTEST_CHECK(pthread_create(&thread, NULL, spawn_in_turn, argv[0]) == 0, "no thread");
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 3, MPI_COMM_SELF, MPI_STATUS_IGNORE));
        pthread_join(thread, NULL);
    } else if (strcmp(argv[1], "brief") == 0) {
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 1, parent));
        MTEST_OK(MPI_Comm_disconnect(&parent));
    } else {
        MTEST_CHECK(pthread_create(&thread, NULL, talk, NULL) == 0, "no thread");
        while (!atomic_load(&is_done))
            pause_outside();
        pthread_join(thread, NULL);
    }
    return mtest_end();
}
