/* SPDX-License-Identifier: BSD-3-Clause
 *
 * threads: threads that communicate. Rank i and rank i + ranks/2 are a pair; thread t of one exchanges messages with
 * thread t of the other, each on a communicator of its own, while the main threads wait in pthread_join. Half a round
 * trip of 8 bytes, and 8-byte messages per second of all threads (windows of 64, as msgrate has them). The time is that from
 * the start of the first thread to the end of the last: threads that share a core may run one after the other.
 *
 * usage: threads [-k THREADS] [-n ITERATIONS] [-r SAMPLES] [-l 0|1] [-s 0|1]
 *        with -k 0 the main thread does it alone, and -l says whether it has asked for MPI_THREAD_MULTIPLE; with -s 1 each
 *        communicator has an MPIX_Stream (MPICH's extension)
 * prints: threads.latency.K value us, threads.rate.K value million/s, each the median of the samples
 */
#include <pthread.h>

#include "bench.h"

#define THREADS_MAX 64
#define SAMPLES_MAX 101
#define WINDOW 64

struct bench_thread {
    pthread_t id;
    int number;
    MPI_Comm comm;
    double begin, end; /* when its messages began, and ended, by bench_now */
};

static struct bench_thread threads[THREADS_MAX];
static pthread_barrier_t start;
static int rank, half, iterations, is_rate;

static void ping_pong(MPI_Comm comm, int peer)
{
    char data[8] = {0};

    for (int i = 0; i < iterations; i++) {
        if (rank < half)
            MPI_Send(data, 8, MPI_BYTE, peer, 1, comm);
        MPI_Recv(data, 8, MPI_BYTE, peer, 1, comm, MPI_STATUS_IGNORE);
        if (rank >= half)
            MPI_Send(data, 8, MPI_BYTE, peer, 1, comm);
    }
}

static void send_windows(MPI_Comm comm, int peer)
{
    MPI_Request requests[WINDOW];
    char data[WINDOW][64] = {{0}};

    for (int i = 0; i < iterations / WINDOW; i++) {
        for (int k = 0; k < WINDOW; k++)
            if (rank < half)
                MPI_Isend(data[k], 8, MPI_BYTE, peer, 1, comm, &requests[k]);
            else
                MPI_Irecv(data[k], 8, MPI_BYTE, peer, 1, comm, &requests[k]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank < half)
            MPI_Recv(NULL, 0, MPI_BYTE, peer, 2, comm, MPI_STATUS_IGNORE);
        else
            MPI_Send(NULL, 0, MPI_BYTE, peer, 2, comm);
    }
}

static void *run(void *arg)
{
    struct bench_thread *thread = arg;
    int peer = rank < half ? rank + half : rank - half;

    pthread_barrier_wait(&start);
    MPI_Barrier(thread->comm);
    thread->begin = bench_now();
    if (is_rate)
        send_windows(thread->comm, peer);
    else
        ping_pong(thread->comm, peer);
    thread->end = bench_now();
    return NULL;
}

/* The seconds from the first thread's start to the last one's end, for the slowest rank. */
static double sample(int n_threads)
{
    double seconds, slowest, begin, end;

    if (n_threads == 0)
        run(&threads[0]);
    for (int i = 0; i < n_threads; i++)
        if (pthread_create(&threads[i].id, NULL, run, &threads[i]) != 0)
            bench_fail("no thread");
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i].id, NULL);
    begin = threads[0].begin;
    end = threads[0].end;
    for (int i = 1; i < n_threads; i++) {
        if (threads[i].begin < begin)
            begin = threads[i].begin;
        if (threads[i].end > end)
            end = threads[i].end;
    }
    seconds = end - begin;
    MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static int compare(const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

static double median(int n_threads, int n_samples)
{
    double seconds[SAMPLES_MAX];

    sample(n_threads);
    for (int i = 0; i < n_samples; i++)
        seconds[i] = sample(n_threads);
    qsort(seconds, (size_t)n_samples, sizeof *seconds, compare);
    return seconds[n_samples / 2];
}

#ifdef MPIX_STREAM_NULL
static MPIX_Stream streams[THREADS_MAX];

static void make_comm(int i, int has_stream)
{
    if (!has_stream) {
        MPI_Comm_dup(MPI_COMM_WORLD, &threads[i].comm);
        return;
    }
    MPIX_Stream_create(MPI_INFO_NULL, &streams[i]);
    MPIX_Stream_comm_create(MPI_COMM_WORLD, streams[i], &threads[i].comm);
}

static void free_comm(int i, int has_stream)
{
    MPI_Comm_free(&threads[i].comm);
    if (has_stream)
        MPIX_Stream_free(&streams[i]);
}
#else
static void make_comm(int i, int has_stream)
{
    if (has_stream)
        bench_fail("this MPI has no MPIX_Stream");
    MPI_Comm_dup(MPI_COMM_WORLD, &threads[i].comm);
}

static void free_comm(int i, int has_stream)
{
    (void)has_stream;
    MPI_Comm_free(&threads[i].comm);
}
#endif

int main(int argc, char **argv)
{
    int provided, n_threads = 2, n_samples = 11, level = 1, n_callers, has_streams;
    double latency, rate;

    n_threads = (int)bench_option_long(argc, argv, "-k", 2);
    level = (int)bench_option_long(argc, argv, "-l", 1);
    has_streams = (int)bench_option_long(argc, argv, "-s", 0);
    iterations = (int)bench_option_long(argc, argv, "-n", 6400);
    n_samples = (int)bench_option_long(argc, argv, "-r", 11);
    MPI_Init_thread(&argc, &argv, n_threads || level ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    rank = bench_comm_rank();
    half = bench_comm_size() / 2;
    if (n_threads > THREADS_MAX || n_samples > SAMPLES_MAX || half < 1 || bench_comm_size() % 2)
        bench_fail("threads needs an even number of ranks, at most 64 threads (-k) and 101 samples (-r)");
    if (n_threads && provided < MPI_THREAD_MULTIPLE)
        bench_fail("this MPI has no MPI_THREAD_MULTIPLE");
    n_callers = n_threads ? n_threads : 1;
    pthread_barrier_init(&start, NULL, (unsigned)n_callers);
    for (int i = 0; i < n_callers; i++)
        make_comm(i, has_streams);
    latency = median(n_threads, n_samples) / iterations / 2 * 1e6;
    is_rate = 1;
    rate = (double)(iterations / WINDOW * WINDOW) * n_callers * half / median(n_threads, n_samples) / 1e6;
    if (rank == 0)
        printf("threads.latency.%d %.3f us\nthreads.rate.%d %.3f million/s\n", n_threads, latency, n_threads,
               rate);
    for (int i = 0; i < n_callers; i++)
        free_comm(i, has_streams);
    MPI_Finalize();
    return 0;
}
