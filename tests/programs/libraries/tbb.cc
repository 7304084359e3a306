// SPDX-License-Identifier: BSD-3-Clause
//
// Shows that each rank has its own TBB: its settings, its threads, and tasks that wait for other ranks. libstdc++'s
// parallel algorithms use TBB as well.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <execution>
#include <mpi.h>
#include <numeric>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <vector>

static int n_wrong;
static int rank, size;

static void check(bool is_right, const char *what)
{
    if (!is_right && n_wrong++ < 5)
        std::printf("rank %d: %s\n", rank, what);
}

static void check_setting()
{
    const auto limit = tbb::global_control::max_allowed_parallelism;
    tbb::global_control control(limit, 2 + rank % 2);

    MPI_Barrier(MPI_COMM_WORLD);
    check(tbb::global_control::active_value(limit) == static_cast<std::size_t>(2 + rank % 2), "another rank's setting");
    MPI_Barrier(MPI_COMM_WORLD);
}

static void check_tasks()
{
    tbb::global_control control(tbb::global_control::max_allowed_parallelism, 4);
    std::atomic<int> n_others{0};

    for (int round = 0; round < 20; round++)
        tbb::parallel_for(0, 1000, [&](int) {
            int now = -1;
            MPI_Comm_rank(MPI_COMM_WORLD, &now);
            n_others += now != rank;
        });
    check(n_others == 0, "a task ran in another rank");
}

static void check_waiting_tasks()
{
    for (int round = 0; round < 20; round++) {
        tbb::task_arena arena(1);
        std::atomic<long> sum{0};
        arena.execute([&] {
            MPI_Barrier(MPI_COMM_WORLD);
            tbb::parallel_for(0, 100, [&](int i) { sum += i; });
            MPI_Barrier(MPI_COMM_WORLD);
        });
        check(sum == 4950, "a loop did not run as a whole");
    }
}

static void check_algorithms()
{
    std::vector<double> numbers(20000, rank + 1.0);

    std::for_each(std::execution::par, numbers.begin(), numbers.end(), [&](double &x) {
        if (&x == &numbers[0]) {
            int one = 1, sum = 0;
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            check(sum == size, "a reduction inside of an algorithm");
        }
        x *= 2;
    });
    check(std::reduce(std::execution::par, numbers.begin(), numbers.end()) == 40000.0 * (rank + 1), "a sum");
    std::sort(std::execution::par, numbers.begin(), numbers.end());
}

int main(int argc, char **argv)
{
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check_setting();
    check_tasks();
    check_waiting_tasks();
    check_algorithms();
    MPI_Finalize();
    if (!n_wrong)
        std::puts("ok");
    return n_wrong != 0;
}
