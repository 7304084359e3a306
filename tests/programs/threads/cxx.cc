/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows that std::thread and std::async call MPI for their rank; that exceptions pass through frames below which
 * others call MPI; and that the main thread may block in join, in a future and in a condition variable, which
 * the C++ library waits for itself. */
#include <mpi.h>

#include <condition_variable>
#include <cstdio>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static int rank_, size_;
static thread_local std::string name = "unset";

static int exchange(int tag)
{
    int in = -1, out = rank_ * 1000 + tag;

    name = "tag " + std::to_string(tag);
    MPI_Request requests[2];
    MPI_Irecv(&in, 1, MPI_INT, (rank_ + size_ - 1) % size_, tag, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&out, 1, MPI_INT, (rank_ + 1) % size_, tag, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (name != "tag " + std::to_string(tag))
        throw std::logic_error("another thread's variable");
    if (in != (rank_ + size_ - 1) % size_ * 1000 + tag)
        throw std::runtime_error("wrong value");
    return in;
}

/* Goes up and down by exceptions while other threads and ranks do the same. */
static int try_exchange(int tag)
{
    try {
        exchange(tag);
        throw tag;
    } catch (int caught) {
        return exchange(caught + 1000) >= 0 ? 0 : 1;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "rank %d: %s\n", rank_, error.what());
        return 1;
    }
}

int main(int argc, char **argv)
{
    int provided, n_wrong = 0;
    std::mutex mutex;
    std::condition_variable done;
    int n_done = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&, i] {
            int wrong = 0;
            for (int k = 0; k < 10; k++)
                wrong += try_exchange(i * 10 + k);
            std::lock_guard<std::mutex> guard(mutex);
            n_wrong += wrong;
            n_done++;
            done.notify_one();
        });
    {
        std::unique_lock<std::mutex> guard(mutex);
        done.wait(guard, [&] { return n_done == 4; });
    }
    for (auto &thread : threads)
        thread.join();
    auto future = std::async(std::launch::async, try_exchange, 500);
    n_wrong += future.get() + (name != "unset");
    MPI_Allreduce(MPI_IN_PLACE, &n_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank_ == 0)
        std::printf("%s\n", provided == MPI_THREAD_MULTIPLE && n_wrong == 0 ? "ok" : "wrong");
    MPI_Finalize();
    return 0;
}
