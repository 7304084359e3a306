/* SPDX-License-Identifier: BSD-3-Clause */
/* A fork calls the handlers of pthread_atfork that were registered when it began: one that is registered meanwhile, by a handler or
 * by another thread, is called from the next fork on. */
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mtest.h"

static int n_prepared, n_parent,
    n_child;        /* calls of the handlers that are registered during the first fork */
static int n_forks; /* that have begun */
static sem_t has_begun, is_registered;

static void prepare(void)
{
    n_prepared++;
}

static void in_parent(void)
{
    n_parent++;
}

static void in_child(void)
{
    n_child++;
}

static void add_handlers(void)
{
    MTEST_CHECK(pthread_atfork(prepare, in_parent, in_child) == 0, "no handler");
}

static void *add_by_thread(void *nothing)
{
    sem_wait(&has_begun);
    add_handlers();
    sem_post(&is_registered);
    return nothing;
}

static int start_child(void)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(10 + n_child);
    MTEST_CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "the child ended with status %#x",
                status);
    return WEXITSTATUS(status) - 10;
}

/* During the first fork: a thread and this handler add some, and it forks. */
static void add_before_fork(void)
{
    if (n_forks++ > 0)
        return;
    add_handlers();
    sem_post(&has_begun);
    sem_wait(&is_registered);
    MTEST_CHECK(start_child() == 2 && n_prepared == 2 && n_parent == 2, "fork in a handler: %d, %d calls",
                n_prepared, n_parent);
    n_prepared = n_parent = 0;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int n;

    mtest_init(&argc, &argv, 1);
    sem_init(&has_begun, 0, 0);
    sem_init(&is_registered, 0, 0);
    MTEST_CHECK(pthread_create(&thread, NULL, add_by_thread, NULL) == 0, "no thread");
    MTEST_CHECK(pthread_atfork(add_before_fork, NULL, NULL) == 0, "no handler");
    n = start_child();
    MTEST_CHECK(n == 0 && n_prepared == 0 && n_parent == 0, "the first fork: %d, %d, %d calls", n_prepared,
                n_parent, n);
    n = start_child();
    MTEST_CHECK(n == 2 && n_prepared == 2 && n_parent == 2, "the next fork: %d, %d, %d calls", n_prepared,
                n_parent, n);
    MPI_Barrier(MPI_COMM_WORLD);
    pthread_join(thread, NULL);
    return mtest_end();
}
