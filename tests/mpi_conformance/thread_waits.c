/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of a rank wait at the same time for different requests, by all forms of Wait and Test, which other
 * threads have started; probe on one communicator, where each message is received once; and wait for a
 * generalized request that another thread completes. */
#include "mtest.h"
#include <pthread.h>

#define THREADS 4
#define EACH 8
#define MESSAGES 60

static MPI_Request requests[THREADS][EACH];
static int in[THREADS][EACH];
static int left, right;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int n_wrong, n_seen[MESSAGES];

static void check(int is_right)
{
    pthread_mutex_lock(&lock);
    n_wrong += !is_right;
    pthread_mutex_unlock(&lock);
}

/* Waits for its requests as the number of the thread says. */
static void *wait_for_own(void *arg)
{
    int thread = (int)(intptr_t)arg, index, n = 0, flag = 0, indices[EACH];
    MPI_Status statuses[EACH];

    switch (thread) {
    case 0:
        check(MPI_Waitall(EACH, requests[0], statuses) == MPI_SUCCESS);
        break;
    case 1:
        for (int i = 0; i < EACH; i++)
            check(MPI_Waitany(EACH, requests[1], &index, statuses) == MPI_SUCCESS && index >= 0 &&
                  statuses->MPI_TAG == EACH + index);
        break;
    case 2:
        for (int done = 0; done < EACH; done += n)
            MPI_Waitsome(EACH, requests[2], &n, indices, statuses);
        break;
    default:
        while (!flag)
            MPI_Testall(EACH, requests[thread], &flag, statuses);
    }
    for (int i = 0; i < EACH; i++)
        check(in[thread][i] == left * 1000 + thread * EACH + i && requests[thread][i] == MPI_REQUEST_NULL);
    return NULL;
}

static void *send_all(void *arg)
{
    (void)arg;
    for (int i = THREADS * EACH; i-- > 0;) {
        int value = mtest_rank * 1000 + i;
        MPI_Send(&value, 1, MPI_INT, right, i, MPI_COMM_WORLD);
    }
    return NULL;
}

/* Each takes messages until it gets one that says that there are no more. */
static void *take_some(void *arg)
{
    for (int value = 0; value >= 0;) {
        MPI_Message message;
        MPI_Status status;
        if ((intptr_t)arg % 2) {
            MPI_Mprobe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
        } else {
            int flag = 0;
            while (!flag)
                MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
        }
        MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        check(status.MPI_TAG == (value < 0 ? MESSAGES : value));
        pthread_mutex_lock(&lock);
        if (value >= 0)
            n_seen[value]++;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

/* Receives with its own tag behind a probe, while others probe for theirs. */
static void *probe_own(void *arg)
{
    int tag = (int)(intptr_t)arg, value = -1;
    MPI_Status status;

    for (int i = 0; i < 20; i++) {
        MPI_Probe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
        MPI_Recv(&value, 1, MPI_INT, left, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(value == i && status.MPI_SOURCE == left);
    }
    return NULL;
}

static void start(pthread_t *threads, void *(*function)(void *))
{
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, function, (void *)(intptr_t)i);
}

static void join(const pthread_t *threads)
{
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static int query(void *state, MPI_Status *status)
{
    MPI_Status_set_elements(status, MPI_INT, *(int *)state);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int release(void *state)
{
    ++*(int *)state;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
    (void)state;
    (void)complete;
    return MPI_SUCCESS;
}

static void *complete(void *arg)
{
    MPI_Grequest_complete(*(MPI_Request *)arg);
    return NULL;
}

static void wait_for_thread(void)
{
    MPI_Request request, copy;
    MPI_Status status;
    pthread_t thread;
    int state = 3, count = -1;

    MPI_Grequest_start(query, release, cancel, &state, &request);
    copy = request;
    pthread_create(&thread, NULL, complete, &copy);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    pthread_join(thread, NULL);
    MTEST_CHECK(count == 3 && state == 4, "count %d, state %d", count, state);
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS], sender;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mtest_learn_world(1);
    right = (mtest_rank + 1) % mtest_size;
    left = (mtest_rank + mtest_size - 1) % mtest_size;
    for (int i = 0; i < THREADS * EACH; i++)
        MPI_Irecv(&in[i / EACH][i % EACH], 1, MPI_INT, left, i, MPI_COMM_WORLD,
                  &requests[i / EACH][i % EACH]);
    start(threads, wait_for_own);
    pthread_create(&sender, NULL, send_all, NULL);
    pthread_join(sender, NULL);
    join(threads);
    MTEST_CHECK(n_wrong == 0, "waits: %d wrong", n_wrong);
    MPI_Barrier(MPI_COMM_WORLD);

    start(threads, take_some);
    for (int i = 0; i < MESSAGES; i++)
        MPI_Send(&i, 1, MPI_INT, right, i, MPI_COMM_WORLD);
    for (int i = 0; i < THREADS; i++)
        MPI_Send(&(int){-1}, 1, MPI_INT, right, MESSAGES, MPI_COMM_WORLD);
    join(threads);
    for (int i = 0; i < MESSAGES; i++)
        MTEST_CHECK(n_seen[i] == 1, "message %d was received %d times", i, n_seen[i]);
    MPI_Barrier(MPI_COMM_WORLD);

    start(threads, probe_own);
    for (int i = 0; i < 20 * THREADS; i++)
        MPI_Send(&(int){i / THREADS}, 1, MPI_INT, right, i % THREADS, MPI_COMM_WORLD);
    join(threads);
    MTEST_CHECK(n_wrong == 0, "probes: %d wrong", n_wrong);
    wait_for_thread();
    return mtest_end();
}
