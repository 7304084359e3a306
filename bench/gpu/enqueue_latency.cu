/* SPDX-License-Identifier: BSD-3-Clause
 *
 * enqueue_latency: half of a round trip of 8 bytes between the streams of two ranks, on one GPU or two: bare copies chained by
 * events, enqueued sends and receives, and the same in a graph.
 *
 *      nvcc -std=c++17 -O2 -arch=sm_90 -I PREFIX/include enqueue_latency.cu -o enqueue_latency -L PREFIX/lib -lmpi_abi
 *      mpirun -n 2 ./enqueue_latency [--gpus 1|2] [--bytes BYTES] [--repeats REPEATS] +p 1|2
 *
 * Both ranks are in one process. "held": all is submitted while a kernel holds the stream of rank 0, and the time begins when that is let go; else it begins
 * with the first submission. prints: NAME minimum and median of the repeats in us, the median in bare ones, and the part of the messages that the
 * GPUs exchanged without the CPU (heddle_gpu_stream_messages)
 */
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "mpi_check.cuh"

#define ROUND_TRIPS 40 /* 80 operations of a stream, which must have room for all of a held run */

static int rank, n_gpus, n_bytes = 8, repeats = 30;
static unsigned *flag;         /* pinned: lets rank 0's stream go on */
static char *buffers[2];       /* of this rank, on its GPU: sent, received */
static char *peer_received[2]; /* rank 0's: the received one of either rank */
static cudaStream_t stream;
static MPI_Comm comm;
static double bare_us[2]; /* the medians: submitted at once, held */

static MPI_T_pvar_session session;
static MPI_T_pvar_handle counter;

static unsigned long long count()
{
    unsigned long long n = 0;

    MPI_T_pvar_read(session, counter, &n);
    return n;
}

static double now_us()
{
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

__global__ void hold(volatile unsigned *released)
{
    while (!*released)
        ;
}

__global__ void fill(char *to, int n, int value)
{
    for (int i = 0; i < n; i++)
        to[i] = (char)(value + i);
}

/* ---- The ways ---- */

static cudaStream_t bare_streams[2];
static cudaEvent_t events[2];
static cudaGraphExec_t graph;

/* By rank 0 alone: its received buffer has the data in the end. */
static void submit_bare()
{
    int gpus[2] = {0, n_gpus - 1};

    if (rank != 0)
        return;
    for (int i = 0; i < 2 * ROUND_TRIPS; i++) {
        int from = i % 2, to = 1 - from;
        CHECK(cudaMemcpyPeerAsync(peer_received[to], gpus[to], i == 0 ? buffers[0] : peer_received[from],
                                  gpus[from], (size_t)n_bytes, bare_streams[from]));
        CHECK(cudaEventRecord(events[from], bare_streams[from]));
        CHECK(cudaStreamWaitEvent(bare_streams[to], events[from], 0));
    }
}

static void submit_enqueued()
{
    for (int i = 0; i < ROUND_TRIPS; i++)
        if (rank == 0) {
            MPIX_Send_enqueue(i == 0 ? buffers[0] : buffers[1], n_bytes, MPI_BYTE, 1, 1, comm);
            MPIX_Recv_enqueue(buffers[1], n_bytes, MPI_BYTE, 1, 1, comm, MPI_STATUS_IGNORE);
        } else {
            MPIX_Recv_enqueue(buffers[1], n_bytes, MPI_BYTE, 0, 1, comm, MPI_STATUS_IGNORE);
            MPIX_Send_enqueue(buffers[1], n_bytes, MPI_BYTE, 0, 1, comm);
        }
}

static void capture()
{
    cudaGraph_t made;

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    submit_enqueued();
    CHECK(cudaStreamEndCapture(stream, &made));
    CHECK(cudaGraphInstantiateWithFlags(&graph, made, 0));
    CHECK(cudaGraphDestroy(made));
    CHECK(cudaGraphUpload(graph, stream));
    CHECK(cudaStreamSynchronize(stream));
}

static void submit_graph()
{
    CHECK(cudaGraphLaunch(graph, stream));
}

/* ---- Measuring ---- */

static bool is_right()
{
    std::vector<char> got((size_t)n_bytes);
    bool right = true;

    CHECK(cudaMemcpy(got.data(), buffers[1], got.size(), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n_bytes; i++)
        right = right && got[i] == (char)(7 + i);
    return right;
}

/* The time of one run on rank 0, per half of a round trip. */
static double run(void (*submit)(), bool is_bare, bool is_held)
{
    cudaStream_t streams[2] = {is_bare ? bare_streams[0] : stream, is_bare ? bare_streams[1] : stream};
    double begin;

    fill<<<1, 1, 0, stream>>>(buffers[0], n_bytes, rank == 0 ? 7 : 0);
    CHECK(cudaMemsetAsync(buffers[1], 0, (size_t)n_bytes, stream));
    CHECK(cudaStreamSynchronize(stream));
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_held && rank == 0) {
        *(volatile unsigned *)flag = 0;
        hold<<<1, 1, 0, streams[0]>>>(flag);
    }
    begin = now_us();
    submit();
    if (is_held) {
        MPI_Barrier(MPI_COMM_WORLD);
        begin = now_us();
        *(volatile unsigned *)flag = 1;
    }
    if (rank == 0 || !is_bare)
        for (int i = 0; i < 2; i++)
            CHECK(cudaStreamSynchronize(streams[i]));
    MPI_Barrier(MPI_COMM_WORLD);
    double us = (now_us() - begin) / (2 * ROUND_TRIPS);
    if ((rank == 0 || !is_bare) && !is_right()) {
        fprintf(stderr, "enqueue_latency: rank %d has received wrong data\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return us;
}

static void measure(const char *name, void (*submit)(), bool is_bare, bool is_held)
{
    std::vector<double> times;
    unsigned long long before = count();

    for (int i = 0; i < 3 + repeats; i++) {
        double us = run(submit, is_bare, is_held);
        if (i >= 3)
            times.push_back(us);
    }
    std::sort(times.begin(), times.end());
    double median = times[times.size() / 2];
    if (is_bare)
        bare_us[is_held] = median;
    if (rank == 0) {
        printf("%-15s%s min %7.2f median %7.2f us, %.2f bare ones", name, is_held ? ", held:" : ":      ",
               times[0], median, median / bare_us[is_held]);
        if (submit == submit_enqueued)
            printf(", %.0f %% by the GPUs alone",
                   100.0 * (double)(count() - before) / (2.0 * ROUND_TRIPS * (3 + repeats)));
        printf("\n");
        fflush(stdout);
    }
}

static void begin(int gpu)
{
    MPI_Info info;
    MPIX_Stream made;

    CHECK(cudaSetDevice(gpu));
    CHECK(cudaHostAlloc(&flag, sizeof *flag, cudaHostAllocDefault));
    for (char *&buffer : buffers)
        CHECK(cudaMalloc(&buffer, (size_t)n_bytes));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPIX_Info_set_hex(info, "value", &stream, sizeof stream);
    MPIX_Stream_create(info, &made);
    MPI_Info_free(&info);
    MPIX_Stream_comm_create(MPI_COMM_WORLD, made, &comm);
    peer_received[rank] = buffers[1];
    if (rank == 1)
        MPI_Send(&buffers[1], sizeof buffers[1], MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    else
        MPI_Recv(&peer_received[1], sizeof buffers[1], MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (n_gpus == 2) {
        cudaError_t result = cudaDeviceEnablePeerAccess(1 - gpu, 0);
        if (result == cudaErrorPeerAccessAlreadyEnabled)
            cudaGetLastError();
        else
            CHECK(result);
    }
    for (int i = 0; rank == 0 && i < 2; i++) {
        CHECK(cudaSetDevice(i == 0 ? 0 : n_gpus - 1));
        CHECK(cudaStreamCreateWithFlags(&bare_streams[i], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming));
    }
    CHECK(cudaSetDevice(gpu));
}

int main(int argc, char **argv)
{
    int n_ranks, n_present = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    CHECK(cudaGetDeviceCount(&n_present));
    n_gpus = n_present < 2 ? 1 : 2;
    for (int i = 1; i + 1 < argc; i += 2) {
        std::string option = argv[i];
        int value = atoi(argv[i + 1]);
        if (option == "--gpus")
            n_gpus = value;
        else if (option == "--bytes")
            n_bytes = value;
        else if (option == "--repeats")
            repeats = value;
    }
    if (n_ranks != 2 || n_gpus < 1 || n_gpus > 2 || n_gpus > n_present || n_bytes < 1 || repeats < 1) {
        fprintf(stderr, "enqueue_latency: needs 2 ranks, and 1 or 2 GPUs of %d\n", n_present);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    begin(n_gpus == 2 ? rank : 0);
    if (rank == 0)
        printf("%d bytes, %d GPU(s)\n", n_bytes, n_gpus);
    int index = 0, provided, n = 0;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS ||
        MPI_T_pvar_get_index("heddle_gpu_stream_messages", MPI_T_PVAR_CLASS_COUNTER, &index) != MPI_SUCCESS ||
        MPI_T_pvar_session_create(&session) != MPI_SUCCESS ||
        MPI_T_pvar_handle_alloc(session, index, NULL, &counter, &n) != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (bool is_held : {false, true}) {
        measure("bare copies", submit_bare, true, is_held);
        measure("enqueued", submit_enqueued, false, is_held);
    }
    capture();
    MPI_Barrier(MPI_COMM_WORLD);
    measure("in a graph", submit_graph, false, true);
    CHECK(cudaGraphExecDestroy(graph));
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
