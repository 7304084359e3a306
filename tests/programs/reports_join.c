/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For reports_test.sh: rank 0's main thread waits in the C library for its thread, which receives in MPI.
 *
 *   file      from rank 1, which sends when a file exists
 *   never     from the last rank, which receives from rank 0
 *   unknown   from rank 0: two messages of another thread, which calls MPI later
 *   main      the same, but the main thread receives; a thread of UCX ends before (reports_early.c)
 *   reused    the same, and the other thread has the number of UCX's, if the kernel lets this program choose it
 *   chain     as never, but the main thread joins a thread that joins it
 *   helper    as chain, but the main thread receives, too; the joining thread has called MPI before
 *   cancel    the same, from rank 0 itself; another thread cancels the joining one, whose handler sends both messages
 *   pending   from rank 0 itself, which joins threads that are cancelled when they begin to join, and send then
 *   ends      from itself, by the main thread; another thread, which never calls MPI, ends later
 */
#include <dirent.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Ends that thread, if the library is there. */
void early_end(void) __attribute__((weak));

static int data, rank, source, n_messages = 1;
static int wanted_tid;                    /* of the thread that sends; 0: any */
static _Atomic int has_sender, has_other; /* a thread has this number, or another one */

static void *receive(void *arg)
{
    for (int i = 0; i < n_messages; i++)
        MPI_Recv(&data, 1, MPI_INT, source, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* receive */
    return arg;
}

/* Each time the others are blocked for longer than a deadlock needs to be found. */
static void *send(void *arg)
{
    int is_sender = !wanted_tid || syscall(SYS_gettid) == wanted_tid;

    has_sender = is_sender;
    has_other = !is_sender;
    if (!is_sender)
        return arg;
    for (int i = 0; i < n_messages; i++) {
        usleep(1500000);
        MPI_Send(&rank, 1, MPI_INT, rank, 1, MPI_COMM_WORLD);
    }
    return arg;
}

static pthread_t receiver;

static void send_both(void *unused)
{
    usleep(1500000);
    for (int i = 0; i < 2; i++)
        MPI_Send(&rank, 1, MPI_INT, rank, 1, MPI_COMM_WORLD);
}

static void *join(void *calls_before)
{
    if (calls_before)
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pthread_cleanup_push(send_both, NULL);
    pthread_join(receiver, NULL); /* helper */
    pthread_cleanup_pop(0);
    return NULL;
}

static void *cancel(void *helper)
{
    usleep(1500000);
    pthread_cancel(*(pthread_t *)helper);
    return NULL;
}

/* Rank 0, for chain, helper and cancel. */
static void join_helper(const char *how)
{
    int is_main = strcmp(how, "chain") != 0, is_right = strcmp(how, "cancel") == 0;
    pthread_t helper, canceller;

    pthread_create(&receiver, NULL, receive, NULL);
    pthread_create(&helper, NULL, join, is_main ? &rank : NULL);
    if (is_right)
        pthread_create(&canceller, NULL, cancel, &helper);
    if (is_main)
        receive(NULL);
    pthread_join(helper, NULL); /* chain */
    if (is_right) {
        pthread_join(canceller, NULL);
        pthread_join(receiver, NULL);
    }
}

static void send_one(void *unused)
{
    MPI_Send(&rank, 1, MPI_INT, rank, 1, MPI_COMM_WORLD);
    pthread_join(receiver, NULL);
}

static void *join_cancelled(void *arg)
{
    pthread_cancel(pthread_self());
    pthread_cleanup_push(send_one, NULL);
    pthread_join(receiver, NULL);
    pthread_cleanup_pop(0);
    return arg;
}

static void cancel_joins(void)
{
    pthread_t helper;

    for (int i = 0; i < 100; i++) {
        pthread_create(&receiver, NULL, receive, NULL);
        usleep(2000); /* most of the PEs are asleep then */
        pthread_create(&helper, NULL, join_cancelled, NULL);
        pthread_join(helper, NULL);
    }
}

static void *sleep_longer(void *arg)
{
    usleep(1500000);
    return arg;
}

/* Ends UCX's thread, and returns its number; 0: unknown. */
static int end_early(void)
{
    int tids[64], n = 0;
    DIR *tasks = opendir("/proc/self/task");

    for (struct dirent *entry; tasks && n < 64 && (entry = readdir(tasks));)
        if (atoi(entry->d_name) > 0)
            tids[n++] = atoi(entry->d_name);
    closedir(tasks);
    early_end();
    for (int i = 0; i < n; i++)
        if (syscall(SYS_tgkill, getpid(), tids[i], 0) != 0)
            return tids[i];
    return 0;
}

/* Starts threads until one has the number; if the kernel refuses, any one sends. */
static void start_sender(pthread_t *sender)
{
    for (int i = 0; i < 200 && !has_sender; i++) {
        FILE *file = wanted_tid ? fopen("/proc/sys/kernel/ns_last_pid", "w") : NULL;
        int has_failed = !file || fprintf(file, "%d", wanted_tid - 1) < 0;
        if (!file || fclose(file) != 0 || has_failed || i == 199)
            wanted_tid = 0;
        if (i > 0)
            pthread_join(*sender, NULL);
        pthread_create(sender, NULL, send, NULL);
        while (!has_sender && !has_other)
            usleep(100);
        has_other = 0;
    }
}

static void send_later(void)
{
    write(1, "started\n", 8);
    while (access("go", F_OK) != 0)
        usleep(1000);
    MPI_Send(&data, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int is_helper = strcmp(argv[1], "chain") == 0 || strcmp(argv[1], "helper") == 0,
        is_pending = strcmp(argv[1], "pending") == 0, is_cancel = strcmp(argv[1], "cancel") == 0;
    int is_reused = strcmp(argv[1], "reused") == 0, ends = strcmp(argv[1], "ends") == 0;
    int is_main = is_reused || strcmp(argv[1], "main") == 0,
        is_unknown = is_main || strcmp(argv[1], "unknown") == 0;
    int size, level, ended_tid = 0;
    pthread_t thread, sender;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    source = is_unknown || is_cancel || is_pending ? 0 : size - 1;
    if (is_unknown)
        n_messages = 2;
    if (early_end)
        ended_tid = end_early();
    if (is_reused)
        wanted_tid = ended_tid;
    if (rank == 0 && (is_helper || is_cancel)) {
        join_helper(argv[1]);
    } else if (rank == 0 && is_pending) {
        cancel_joins();
    } else if (rank == 0) {
        if (!is_main && !ends)
            pthread_create(&thread, NULL, receive, NULL);
        if (is_unknown)
            start_sender(&sender);
        if (ends)
            pthread_create(&sender, NULL, sleep_longer, NULL);
        if (is_main || ends)
            receive(NULL);
        else
            pthread_join(thread, NULL); /* join */
        if (is_unknown)
            pthread_join(sender, NULL);
    } else if (rank == size - 1 && (is_helper || strcmp(argv[1], "never") == 0)) {
        MPI_Recv(&data, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!is_unknown && !is_cancel && !is_pending) {
        send_later();
    }
    MPI_Finalize();
    return 0;
}
