/* SPDX-License-Identifier: BSD-3-Clause */
/* A spawned rank runs while the rank that spawned it, the first one of its PE, waits in C code for a thread of its own, which
 * waits for the spawned rank. The spawned rank's address of a thread_local variable stays valid. */
#include "mtest_threads.h"

static __thread volatile int variable;
static volatile int *volatile address; /* of it; for the main thread */
static MPI_Comm child;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_changed = PTHREAD_COND_INITIALIZER;
static int is_spawned, is_over;

static void await(const int *flag)
{
    pthread_mutex_lock(&lock);
    while (!*flag)
        pthread_cond_wait(&has_changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void set(int *flag)
{
    pthread_mutex_lock(&lock);
    *flag = 1;
    pthread_cond_broadcast(&has_changed);
    pthread_mutex_unlock(&lock);
}

static void *talk(void *arg)
{
    int value = 5;

    await(&is_spawned);
    MPI_Sendrecv_replace(&value, 1, MPI_INT, 0, 0, 0, 0, child, MPI_STATUS_IGNORE);
    mtest_thread_check(1, value == 6);
    set(&is_over);
    return arg;
}

/* The thread comes before the spawned rank. */
static void spawn(const char *program)
{
    pthread_t thread;

    pthread_create(&thread, NULL, talk, NULL);
    MTEST_OK(MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child,
                            MPI_ERRCODES_IGNORE));
    MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 1, child, MPI_STATUS_IGNORE));
    set(&is_spawned);
    await(&is_over);
    pthread_join(thread, NULL);
    MTEST_CHECK(mtest_n_wrong[1] == 0, "the spawned rank's answer is wrong");
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    int value;

    mtest_init_threads(&argc, &argv, 1);
    address = &variable;
    MTEST_OK(MPI_Comm_get_parent(&parent));
    if (parent == MPI_COMM_NULL) {
        *address = 1;
        spawn(argv[0]);
        MTEST_CHECK(variable == 1, "the spawning rank's variable is %d", variable);
        parent = child;
    } else {
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 1, parent));
        MTEST_OK(MPI_Recv(&value, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE));
        *address = 2;
        MTEST_CHECK(variable == 2, "the spawned rank's variable is %d", variable);
        value++;
        MTEST_OK(MPI_Send(&value, 1, MPI_INT, 0, 0, parent));
    }
    MTEST_OK(MPI_Comm_disconnect(&parent));
    return mtest_end();
}
