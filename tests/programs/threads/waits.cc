// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks of one PE at MPI_THREAD_FUNNELED whose main thread waits for a thread of its own: others run, which the thread relies on. Rank 0's
// thread ends the wait when rank 1 has set a word in shared memory. Prints "ok".
//
//   waits WAY
#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>
#include <threads.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <thread>

static std::atomic<int> *word; // of rank 0, in a shared window

static void await_others()
{
    while (word->load() == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
}

static void expect(bool is_so, const char *what)
{
    if (is_so)
        return;
    fprintf(stderr, "wrong: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static timespec after(clockid_t clock, int ms)
{
    timespec end;

    clock_gettime(clock, &end);
    end.tv_sec += ms / 1000;
    end.tv_nsec += ms % 1000 * 1000000L;
    if (end.tv_nsec >= 1000000000)
        end.tv_sec++, end.tv_nsec -= 1000000000;
    return end;
}

// More than any wait takes if others run.
constexpr auto limit = std::chrono::seconds(30);
constexpr int limit_ms = 30000;

template <typename Condition = std::condition_variable, typename Wait>
static void with_thread(Wait wait)
{
    std::mutex mutex;
    Condition condition;
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

// The thread holds a lock until others have run. Takes it in this way, and releases it.
template <typename Lock, typename Take>
static void with_held(Lock &lock, Take take)
{
    std::atomic<bool> is_held{false};
    std::thread thread([&] {
        lock.lock();
        is_held = true;
        await_others();
        lock.unlock();
    });
    while (!is_held) // without a call: it would let rank 1 run
        ;
    take();
    thread.join();
}

// Errors and time limits are those of the C library while a thread holds the locks.
static void check_results()
{
    pthread_mutex_t checking, held_mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_rwlock_t own_lock = PTHREAD_RWLOCK_INITIALIZER, held_lock = PTHREAD_RWLOCK_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    std::recursive_mutex recursive;
    std::atomic<bool> is_held{false}, is_over{false};
    pthread_mutexattr_t attributes;
    sem_t semaphore;
    timespec end, real;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checking, &attributes);
    sem_init(&semaphore, 0, 0);
    std::thread thread([&] {
        pthread_mutex_lock(&held_mutex);
        pthread_rwlock_wrlock(&held_lock);
        is_held = true;
        while (!is_over)
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        pthread_rwlock_unlock(&held_lock);
        pthread_mutex_unlock(&held_mutex);
    });
    while (!is_held)
        ;
    pthread_mutex_lock(&checking);
    expect(pthread_mutex_lock(&checking) == EDEADLK, "an error-checking mutex locked twice");
    pthread_rwlock_wrlock(&own_lock);
    expect(pthread_rwlock_wrlock(&own_lock) == EDEADLK, "a read-write lock written twice");
    expect(pthread_rwlock_rdlock(&own_lock) == EDEADLK, "a read-write lock read by its writer");
    recursive.lock(), recursive.lock();
    recursive.unlock(), recursive.unlock();
    end = after(CLOCK_MONOTONIC, 5), real = after(CLOCK_REALTIME, 5);
    expect(pthread_mutex_clocklock(&held_mutex, CLOCK_MONOTONIC, &end) == ETIMEDOUT, "mutex, clock");
    expect(pthread_mutex_timedlock(&held_mutex, &real) == ETIMEDOUT, "mutex, time");
    expect(pthread_mutex_clocklock(&held_mutex, CLOCK_BOOTTIME, &end) == EINVAL, "mutex, wrong clock");
    end = after(CLOCK_MONOTONIC, 5), real = after(CLOCK_REALTIME, 5);
    expect(pthread_rwlock_clockrdlock(&held_lock, CLOCK_MONOTONIC, &end) == ETIMEDOUT, "reader, clock");
    expect(pthread_rwlock_timedwrlock(&held_lock, &real) == ETIMEDOUT, "writer, time");
    end = after(CLOCK_MONOTONIC, 5), real = after(CLOCK_REALTIME, 5);
    expect(pthread_rwlock_clockwrlock(&held_lock, CLOCK_MONOTONIC, &end) == ETIMEDOUT, "writer, clock");
    expect(pthread_rwlock_timedrdlock(&held_lock, &real) == ETIMEDOUT, "reader, time");
    end = after(CLOCK_MONOTONIC, 5);
    expect(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &end) == -1 && errno == ETIMEDOUT, "semaphore, clock");
    end = after(CLOCK_MONOTONIC, 5);
    is_over = true;
    pthread_mutex_lock(&held_mutex);
    expect(pthread_cond_clockwait(&condition, &held_mutex, CLOCK_MONOTONIC, &end) == ETIMEDOUT, "condition");
    pthread_mutex_unlock(&held_mutex);
    thread.join();
}

struct checking {
    pthread_mutex_t mutex;

    checking()
    {
        pthread_mutexattr_t attributes;

        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
        pthread_mutex_init(&mutex, &attributes);
    }
    void lock()
    {
        expect(pthread_mutex_lock(&mutex) == 0, "lock");
    }
    void unlock()
    {
        expect(pthread_mutex_unlock(&mutex) == 0, "unlock");
    }
};

// Waits for a condition variable whose mutex knows its owner.
static void wait_as_owner(int kind)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t mutex;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    bool is_over = false;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, kind);
    pthread_mutex_init(&mutex, &attributes);
    std::thread thread([&] {
        await_others();
        expect(pthread_mutex_lock(&mutex) == 0, "the mutex is free");
        is_over = true;
        pthread_cond_signal(&condition);
        expect(pthread_mutex_unlock(&mutex) == 0, "it is the thread's");
    });
    expect(pthread_mutex_lock(&mutex) == 0, "lock");
    while (!is_over)
        expect(pthread_cond_wait(&condition, &mutex) == 0, "condition");
    expect(pthread_mutex_unlock(&mutex) == 0, "the mutex is the main thread's again");
    expect(pthread_cond_wait(&condition, &mutex) == EPERM, "condition without the mutex");
    thread.join();
}

// The waits of C11.
static void wait_as_c11(bool is_timed)
{
    timespec end = after(CLOCK_REALTIME, 30000);
    mtx_t mutex;
    cnd_t condition;
    bool is_over = false;
    std::atomic<bool> is_held{false};

    mtx_init(&mutex, mtx_timed);
    cnd_init(&condition);
    std::thread thread([&] {
        mtx_lock(&mutex);
        is_held = true;
        await_others();
        mtx_unlock(&mutex);
        word->store(0); // rank 1 sets it again
        await_others();
        mtx_lock(&mutex);
        is_over = true;
        cnd_signal(&condition);
        mtx_unlock(&mutex);
    });
    while (!is_held)
        ;
    expect((is_timed ? mtx_timedlock(&mutex, &end) : mtx_lock(&mutex)) == thrd_success, "mtx_lock");
    while (!is_over)
        expect((is_timed ? cnd_timedwait(&condition, &mutex, &end) : cnd_wait(&condition, &mutex)) ==
                   thrd_success,
               "cnd_wait");
    mtx_unlock(&mutex);
    thread.join();
}

static void *await_others_once(void *)
{
    await_others();
    return nullptr;
}

static void join_as(const char *how)
{
    timespec end = after(CLOCK_REALTIME, 5), later = after(CLOCK_MONOTONIC, 30000);
    pthread_t number;

    pthread_create(&number, nullptr, await_others_once, nullptr);
    expect(pthread_tryjoin_np(number, nullptr) == EBUSY, "tryjoin");
    expect(pthread_tryjoin_np(pthread_self(), nullptr) == EBUSY, "tryjoin of itself");
    if (strcmp(how, "join_timed") == 0) {
        while (pthread_timedjoin_np(number, nullptr, &end) == ETIMEDOUT)
            end = after(CLOCK_REALTIME, 5);
    } else {
        expect(pthread_clockjoin_np(number, nullptr, CLOCK_MONOTONIC, &later) == 0, "clockjoin");
    }
}

struct joined : std::thread {
    using thread::thread;
    ~joined()
    {
        join();
    }
};

static const char *const how_long = "waited 30 s: other ranks did not run";

static void wait_as(const char *how)
{
    using lock = std::unique_lock<std::mutex>;

    if (strcmp(how, "condition") == 0) {
        with_thread([](std::condition_variable &condition, lock &held) { condition.wait(held); });
    } else if (strcmp(how, "pthread") == 0) {
        with_thread([](std::condition_variable &condition, lock &held) {
            pthread_cond_wait(condition.native_handle(), held.mutex()->native_handle());
        });
    } else if (strcmp(how, "for") == 0) {
        with_thread([](std::condition_variable &condition, lock &held) {
            expect(condition.wait_for(held, limit) == std::cv_status::no_timeout, how_long);
        });
    } else if (strcmp(how, "any") == 0) {
        with_thread<std::condition_variable_any>([](std::condition_variable_any &condition, lock &held) {
            expect(condition.wait_for(held, limit) == std::cv_status::no_timeout, how_long);
        });
    } else if (strncmp(how, "semaphore", 9) == 0) {
        timespec end = after(CLOCK_MONOTONIC, limit_ms);
        sem_t semaphore;
        sem_init(&semaphore, 0, 0);
        std::thread thread([&] { await_others(), sem_post(&semaphore); });
        expect((how[9] ? sem_clockwait(&semaphore, CLOCK_MONOTONIC, &end) : sem_wait(&semaphore)) == 0,
               how_long);
        thread.join();
    } else if (strcmp(how, "barrier") == 0) {
        pthread_barrier_t barrier;
        pthread_barrier_init(&barrier, nullptr, 2);
        std::thread thread([&] { await_others(), pthread_barrier_wait(&barrier); });
        pthread_barrier_wait(&barrier);
        thread.join();
    } else if (strcmp(how, "mutex") == 0) {
        std::mutex mutex;
        with_held(mutex, [&] { mutex.lock(), mutex.unlock(); });
    } else if (strcmp(how, "recursive") == 0) {
        std::recursive_mutex mutex;
        with_held(mutex, [&] { mutex.lock(), mutex.lock(), mutex.unlock(), mutex.unlock(); });
    } else if (strcmp(how, "checking") == 0) {
        struct checking mutex;
        with_held(mutex, [&] { mutex.lock(), mutex.unlock(); });
    } else if (strncmp(how, "timed", 5) == 0) {
        std::timed_mutex mutex;
        with_held(mutex, [&] {
            expect(how[5] ? mutex.try_lock_until(std::chrono::system_clock::now() + limit)
                          : mutex.try_lock_for(limit),
                   how_long);
            mutex.unlock();
        });
    } else if (strncmp(how, "read", 4) == 0) {
        std::shared_timed_mutex mutex;
        with_held(mutex, [&] {
            bool is_locked = true;
            if (strcmp(how, "read") == 0)
                mutex.lock_shared();
            else if (strcmp(how, "read_for") == 0)
                is_locked = mutex.try_lock_shared_for(limit);
            else
                is_locked = mutex.try_lock_shared_until(std::chrono::system_clock::now() + limit);
            expect(is_locked, how_long);
            mutex.unlock_shared();
        });
    } else if (strncmp(how, "write", 5) == 0) {
        std::shared_timed_mutex mutex;
        with_held(mutex, [&] {
            bool is_locked = true;
            if (strcmp(how, "write") == 0)
                mutex.lock();
            else if (strcmp(how, "write_for") == 0)
                is_locked = mutex.try_lock_for(limit);
            else
                is_locked = mutex.try_lock_until(std::chrono::system_clock::now() + limit);
            expect(is_locked, how_long);
            mutex.unlock();
        });
    } else if (strcmp(how, "condition_recursive") == 0) {
        wait_as_owner(PTHREAD_MUTEX_RECURSIVE);
    } else if (strcmp(how, "condition_checking") == 0) {
        wait_as_owner(PTHREAD_MUTEX_ERRORCHECK);
    } else if (strncmp(how, "c11", 3) == 0) {
        wait_as_c11(how[3]);
    } else if (strncmp(how, "join_", 5) == 0) {
        join_as(how);
    } else if (strcmp(how, "spin") == 0) {
        struct {
            pthread_spinlock_t spin;
            void lock() { pthread_spin_lock(&spin); }
            void unlock() { pthread_spin_unlock(&spin); }
        } lock;
        pthread_spin_init(&lock.spin, PTHREAD_PROCESS_PRIVATE);
        with_held(lock, [&] { lock.lock(), lock.unlock(); });
    } else if (strcmp(how, "atomic") == 0) {
        std::atomic<int> value{0};
        joined thread([&] { await_others(), value = 1, value.notify_one(); });
        value.wait(0);
    } else if (strcmp(how, "std_semaphore_for") == 0) {
        std::counting_semaphore<4> semaphore{0};
        joined thread([&] { await_others(), semaphore.release(); });
        expect(semaphore.try_acquire_for(limit), how_long);
    } else if (strcmp(how, "results") == 0) {
        check_results();
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
        if (strncmp(argv[1], "c11", 3) == 0) {
            while (word->load() != 0)
                MPI_Iprobe(0, 0, MPI_COMM_WORLD, &provided, MPI_STATUS_IGNORE);
            word->store(1);
        }
    }
    MPI_Win_free(&window);
    if (rank == 0)
        puts("ok");
    MPI_Finalize();
    return 0;
}
