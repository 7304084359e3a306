/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A wait of a rank's main thread ends when a thread of the rank cancels it, or sends it a signal whose handler was set without
 * SA_RESTART; with SA_RESTART a semaphore waits on, and so it does if the signal is sent to another thread. A signal to the process ends
 * the wait, too. The thread does so when rank 1 has run. Rank 0 prints "ok" at its end.
 *
 *   ended_waits cancel|signal WAY
 */
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int ends[4]; /* of a pipe to rank 1 and one back */
static const char *kind, *way;
static pthread_t main_id, other;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static atomic_int child; /* that the main thread waits for; 0: none */
static atomic_bool is_over, is_handled, is_cleaned, is_posted;
static bool is_restarting, is_to_other;

static void fail(const char *what)
{
    fprintf(stderr, "wrong: %s %s: %s\n", kind, way, what);
    exit(1);
}

static void await_rank_1(void)
{
    char byte = 0;

    if (write(ends[1], &byte, 1) != 1 || read(ends[2], &byte, 1) != 1)
        fail("the pipes");
}

static void handle(int number)
{
    is_handled = true;
}

static void pause_shortly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* The cancelled main thread has the mutex again, and its handlers run before its thread can be joined. */
static void clean_up(void *arg)
{
    if (strcmp(way, "condition") == 0 && pthread_mutex_trylock(&mutex) != EBUSY)
        fail("the mutex is not held in the handler");
    pthread_mutex_unlock(&mutex);
    is_cleaned = true;
}

static void *cancel_main(void *arg)
{
    void *value;

    await_rank_1();
    pthread_mutex_lock(&mutex); /* held: the main thread waits for the condition variable */
    if (pthread_cancel(main_id) != 0)
        fail("pthread_cancel");
    pthread_mutex_unlock(&mutex);
    if (strcmp(way, "barrier") == 0)
        pthread_barrier_wait(&barrier); /* which cannot be cancelled */
    if (strcmp(way, "join") != 0 &&
        (pthread_join(main_id, &value) != 0 || value != PTHREAD_CANCELED || !is_cleaned))
        fail("the main thread's result");
    if (child)
        kill(child, SIGKILL);
    while (!is_cleaned)
        pause_shortly();
    if (pthread_mutex_trylock(&mutex) != 0)
        fail("the mutex is held for ever");
    puts("ok");
    fflush(stdout);
    return NULL;
}

static void *signal_main(void *arg)
{
    await_rank_1();
    while (!is_over) { /* until it has reached the wait */
        if (strcmp(way, "semaphore_process") == 0)
            kill(getpid(), SIGUSR1);
        else
            pthread_kill(is_to_other ? pthread_self() : main_id, SIGUSR1);
        pause_shortly();
        if (is_handled && (is_restarting || is_to_other)) {
            for (int i = 0; i < 20; i++)
                pause_shortly();
            is_posted = true;
            sem_post(&semaphore);
            return NULL;
        }
    }
    return NULL;
}

static int wait_for_child(void)
{
    siginfo_t info;

    child = fork();
    if (child == 0) {
        alarm(60);
        pause();
    }
    if (strcmp(way, "waitpid") == 0)
        return waitpid(child, NULL, 0);
    return strcmp(way, "waitid") == 0 ? waitid(P_PID, (id_t)child, &info, WEXITED) : wait(NULL);
}

static int wait_here(void)
{
    static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    struct timespec end;
    int pipes[2];
    char byte;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 100;
    if (strcmp(way, "condition") == 0)
        for (;;)
            pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    if (strcmp(way, "semaphore") == 0 || strcmp(way, "semaphore_process") == 0)
        return sem_wait(&semaphore);
    if (strcmp(way, "semaphore_timed") == 0)
        return sem_timedwait(&semaphore, &end);
    if (strcmp(way, "join") == 0)
        return pthread_join(other, NULL);
    if (strcmp(way, "sleep") == 0)
        return nanosleep(&(struct timespec){.tv_sec = 100}, NULL);
    if (strcmp(way, "poll") == 0)
        return poll(NULL, 0, 100000);
    if (strcmp(way, "select") == 0)
        return select(0, NULL, NULL, NULL, &(struct timeval){.tv_sec = 100});
    if (strcmp(way, "barrier") == 0) {
        pthread_barrier_wait(&barrier);
        for (;;)
            pthread_testcancel();
    }
    if (strncmp(way, "wait", 4) == 0)
        return wait_for_child();
    return pipe(pipes) == 0 ? (int)read(pipes[0], &byte, 1) : 0;
}

static void wait_for_signal(void)
{
    struct sigaction action = {.sa_handler = handle}, set;
    int result;

    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR1, NULL, &set);
    if (set.sa_handler != handle)
        fail("sigaction does not return the handler");
    pthread_create(&other, NULL, signal_main, NULL);
    errno = 0;
    pthread_mutex_lock(&mutex);
    result = wait_here();
    if (result != -1 || errno != EINTR || !is_handled)
        fail("it did not end with EINTR");
    is_over = true;
    pthread_join(other, NULL);
    for (int i = 0; strcmp(way, "semaphore") == 0 && i < 2; i++) {
        is_to_other = i == 0;
        is_restarting = i == 1;
        action.sa_flags = is_restarting ? SA_RESTART : 0;
        sigaction(SIGUSR1, &action, NULL);
        is_handled = is_over = is_posted = false;
        pthread_create(&other, NULL, signal_main, NULL);
        if (sem_wait(&semaphore) != 0 || !is_posted)
            fail(is_restarting ? "SA_RESTART" : "a signal to another thread");
        pthread_join(other, NULL);
    }
    puts("ok");
}

int main(int argc, char **argv)
{
    char byte;
    int rank;

    kind = argv[1], way = argv[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && (pipe(ends) != 0 || pipe(ends + 2) != 0))
        fail("pipe");
    MPI_Bcast(ends, 4, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    for (int i = 0; rank == 1 && i <= (strcmp(kind, "signal") == 0 && strcmp(way, "semaphore") == 0 ? 2 : 0);
         i++)
        if (read(ends[0], &byte, 1) != 1 || write(ends[3], &byte, 1) != 1)
            fail("the pipes");
    if (rank == 1)
        return 0;
    main_id = pthread_self();
    sem_init(&semaphore, 0, 0);
    pthread_barrier_init(&barrier, NULL, 2);
    if (strcmp(kind, "signal") == 0) {
        wait_for_signal();
        return 0;
    }
    pthread_cleanup_push(clean_up, NULL);
    pthread_mutex_lock(&mutex);
    pthread_create(&other, NULL, cancel_main, NULL);
    wait_here();
    fail("it was not cancelled");
    pthread_cleanup_pop(0);
    return 0;
}
