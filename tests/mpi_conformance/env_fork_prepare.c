/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers of pthread_atfork, before and after, take a mutex that a thread of the rank holds while it makes texts of errors and
 * changes the locale: the fork waits for the thread, not the thread for the fork. */
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mtest.h"

enum { CHILDREN = 10, CALLS = 20 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int is_over;

static void lock(void)
{
    pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

static void lock_and_unlock(void)
{
    lock();
    unlock();
}

static int call(void)
{
    return strerror(ENOENT) && setlocale(LC_CTYPE, "C.UTF-8") && setlocale(LC_CTYPE, "C");
}

static void *call_all_the_time(void *nothing)
{
    while (!atomic_load(&is_over)) {
        lock();
        for (int i = 0; i < CALLS; i++)
            MTEST_CHECK(call(), "a call was wrong");
        unlock();
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* mutexes are not fair */
    }
    return nothing;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    mtest_init(&argc, &argv, 1);
    MTEST_CHECK(pthread_atfork(lock, unlock, unlock) == 0, "no handler");
    MTEST_CHECK(pthread_atfork(NULL, lock_and_unlock, NULL) == 0, "no handler");
    MTEST_CHECK(pthread_create(&thread, NULL, call_all_the_time, NULL) == 0, "no thread");
    for (int i = 0; i < CHILDREN; i++) {
        int status = -1;
        pid_t pid = fork();

        if (pid == 0)
            _exit(call() ? 3 : 4);
        MTEST_CHECK(waitpid(pid, &status, 0) == pid, "no child %d", (int)pid);
        MTEST_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3, "the child ended with status %#x", status);
    }
    atomic_store(&is_over, 1);
    pthread_join(thread, NULL);
    return mtest_end();
}
