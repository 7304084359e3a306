// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks of one PE at MPI_THREAD_FUNNELED whose main thread waits for a thread of its own: others run, which the thread relies on. Rank 0's
// thread ends the wait when rank 1 has set a word in shared memory. Prints "ok".
//
//   waits condition|pthread|semaphore|barrier|mutex|future|join
#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>

static std::atomic<int> *word; // of rank 0, in a shared window

static void await_others()
{
    while (word->load() == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
}

template <typename Wait>
static void with_thread(Wait wait)
{
    std::mutex mutex;
    std::condition_variable condition;
    bool is_over = false;
    std::thread thread([&] {
        await_others();
        std::lock_guard<std::mutex> lock(mutex);
        is_over = true;
        condition.notify_all();
    });
    {
        std::unique_lock<std::mutex> lock(mutex);
        while (!is_over)
            wait(condition, lock);
    }
    thread.join();
}

static void wait_as(const char *how)
{
    using lock = std::unique_lock<std::mutex>;

    if (strcmp(how, "condition") == 0) {
        with_thread([](std::condition_variable &condition, lock &held) { condition.wait(held); });
    } else if (strcmp(how, "pthread") == 0) {
        with_thread([](std::condition_variable &condition, lock &held) {
            pthread_cond_wait(condition.native_handle(), held.mutex()->native_handle());
        });
    } else if (strcmp(how, "semaphore") == 0) {
        sem_t semaphore;
        sem_init(&semaphore, 0, 0);
        std::thread thread([&] { await_others(), sem_post(&semaphore); });
        sem_wait(&semaphore);
        thread.join();
    } else if (strcmp(how, "barrier") == 0) {
        pthread_barrier_t barrier;
        pthread_barrier_init(&barrier, nullptr, 2);
        std::thread thread([&] { await_others(), pthread_barrier_wait(&barrier); });
        pthread_barrier_wait(&barrier);
        thread.join();
    } else if (strcmp(how, "mutex") == 0) {
        std::mutex mutex;
        std::atomic<bool> is_locked{false};
        std::thread thread([&] {
            std::lock_guard<std::mutex> held(mutex);
            is_locked = true;
            await_others();
        });
        while (!is_locked)
            std::this_thread::yield();
        mutex.lock();
        mutex.unlock();
        thread.join();
    } else if (strcmp(how, "future") == 0) {
        std::promise<void> promise;
        std::thread thread([&] { await_others(), promise.set_value(); });
        promise.get_future().get();
        thread.join();
    } else {
        std::thread(await_others).join();
    }
}

int main(int argc, char **argv)
{
    int provided, rank;
    MPI_Win window;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate_shared(rank == 0 ? sizeof *word : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &window);
    if (rank > 0) {
        MPI_Aint n_bytes;
        int unit;
        MPI_Win_shared_query(window, 0, &n_bytes, &unit, &word);
    } else {
        word->store(0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Send(nullptr, 0, MPI_INT, 1, 0, MPI_COMM_WORLD);
        wait_as(argv[1]);
    } else if (rank == 1) {
        MPI_Recv(nullptr, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        word->store(1);
    }
    MPI_Win_free(&window);
    if (rank == 0)
        puts("ok");
    MPI_Finalize();
    return 0;
}
