/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: a thread that a rank starts belongs to the rank: its thread_local variables begin as the rank's do,
 * it shares the rank's random numbers and exit handlers with the rank's other threads, and the rank's keys
 * are its own, with destructors at the thread's end.
 */
#include "image_test.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <threads.h>

#define N_THREADS 4
#define N_DRAWS 20000
#define N_HANDLERS 200

static int global;
__thread int *address = &global;
static __thread char text[8] = "start";

static void start_and_join(int n, void *(*function)(void *), void *arg)
{
    pthread_t threads[N_THREADS];

    for (int i = 0; i < n; i++)
        CHECK(pthread_create(&threads[i], NULL, function, arg) == 0);
    for (int i = 0; i < n; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* ---- thread_local ---- */

static void *look_at_tls(void *arg)
{
    CHECK(address == &global && strcmp(text, "start") == 0);
    memcpy(text, "thread", 7);
    return NULL;
}

static int look_at_tls_c11(void *arg)
{
    look_at_tls(NULL);
    return *(int *)arg - 1;
}

static void check_tls(void)
{
    thrd_t thread;
    int result = 0, arg = -6;

    memcpy(text, "rank", 5);
    start_and_join(2, look_at_tls, NULL);
    CHECK(thrd_create(&thread, look_at_tls_c11, &arg) == thrd_success);
    CHECK(thrd_join(thread, &result) == thrd_success && result == -7);
    CHECK(strcmp(text, "rank") == 0);
}

/* ---- Random numbers ---- */

static long drawn[N_THREADS * N_DRAWS];
static atomic_int n_drawn;

static int compare(const void *a, const void *b)
{
    long x = *(const long *)a, y = *(const long *)b;

    return (x > y) - (x < y);
}

static void *draw(void *arg)
{
    for (int i = 0; i < N_DRAWS; i++)
        drawn[n_drawn++] = random();
    return NULL;
}

/* Together the threads draw what the rank alone draws from the same seed. */
static void check_random(void)
{
    static long expected[N_THREADS * N_DRAWS];

    srandom(test_id());
    for (int i = 0; i < N_THREADS * N_DRAWS; i++)
        expected[i] = random();
    srandom(test_id());
    start_and_join(N_THREADS, draw, NULL);
    qsort(expected, N_THREADS * N_DRAWS, sizeof *expected, compare);
    qsort(drawn, N_THREADS * N_DRAWS, sizeof *drawn, compare);
    CHECK(memcmp(expected, drawn, sizeof drawn) == 0);
}

/* ---- Keys ---- */

static pthread_key_t key;
static tss_t c11_key;
static atomic_int n_destroyed;
static int values[2];

/* The first call sets the value once more: there is a second one for it. */
static void destroy(void *value)
{
    CHECK(value == &values[0] || value == &values[1]);
    CHECK(address == &global);
    if (value == &values[0])
        CHECK(pthread_setspecific(key, &values[1]) == 0);
    n_destroyed++;
}

static void *use_keys(void *arg)
{
    CHECK(pthread_getspecific(key) == NULL && tss_get(c11_key) == NULL);
    CHECK(pthread_setspecific(key, &values[0]) == 0 && tss_set(c11_key, &values[1]) == thrd_success);
    CHECK(pthread_getspecific(key) == &values[0] && tss_get(c11_key) == &values[1]);
    return NULL;
}

static void check_keys(void)
{
    pthread_key_t many[PTHREAD_KEYS_MAX], other;
    int n = 0;

    CHECK(pthread_key_create(&key, destroy) == 0 && tss_create(&c11_key, destroy) == thrd_success);
    CHECK(pthread_getspecific(key) == NULL);
    CHECK(pthread_setspecific(key, &global) == 0);
    start_and_join(N_THREADS, use_keys, NULL);
    CHECK(n_destroyed == 3 * N_THREADS);
    let_others_run();
    CHECK(pthread_getspecific(key) == &global);

    while (n < PTHREAD_KEYS_MAX && pthread_key_create(&many[n], NULL) == 0)
        n++;
    CHECK(n == PTHREAD_KEYS_MAX - 2 && pthread_key_create(&other, NULL) == EAGAIN);
    CHECK(pthread_key_delete(key) == 0 && pthread_key_delete(key) == EINVAL);
    CHECK(pthread_setspecific(key, &global) == EINVAL && pthread_getspecific(key) == NULL);
    CHECK(pthread_key_create(&other, NULL) == 0 && other == key && pthread_getspecific(other) == NULL);
    while (n-- > 0)
        CHECK(pthread_key_delete(many[n]) == 0);
}

/* ---- Exit handlers ---- */

static int n_called;

static void count(void)
{
    n_called++;
}

static void *add_handlers(void *arg)
{
    for (int i = 0; i < N_HANDLERS; i++)
        CHECK(atexit(count) == 0);
    return NULL;
}

static void check_called(void)
{
    CHECK(n_called == N_THREADS * N_HANDLERS);
    puts("ok");
}

int main(int argc, char **argv)
{
    check_tls();
    check_keys();
    if (argc > 1) { /* many copies: what a thread costs is paid often enough */
        puts("ok");
        return 0;
    }
    check_random();
    atexit(check_called);
    start_and_join(N_THREADS, add_handlers, NULL);
    return 0;
}
