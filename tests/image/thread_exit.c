/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: pthread_exit, and pthread_cancel of itself, in a rank's main end the rank as they end a process:
 * cleanup handlers run, then destructors of keys; the rank's other threads finish; then exit(0) runs exit
 * handlers.
 */
#include "image_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char order[16];
static pthread_key_t key;
static pthread_t main_id;
static atomic_int is_exiting;

static void note(char c)
{
    order[strlen(order)] = c;
}

static void at_exit(void)
{
    CHECK(strcmp(order, "mcbakt") == 0);
    puts("ok");
}

static void destroy_value(void *value)
{
    CHECK(value == order);
    note('k');
    is_exiting = 1;
}

static void clean_up(void *arg)
{
    note(*(const char *)arg);
    let_others_run();
}

/* Goes on when the main thread is over, whose value it gets. */
static void *outlive(void *arg)
{
    void *value = NULL;

    while (!is_exiting)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    CHECK(pthread_join(main_id, &value) == 0);
    CHECK(value == arg);
    note('t');
    return NULL;
}

static void end(const char *how)
{
    int old;

    if (strcmp(how, "exit") == 0)
        pthread_exit(order);
    if (strcmp(how, "sleep") == 0) {
        CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old) == 0 && old == PTHREAD_CANCEL_ENABLE);
        CHECK(pthread_cancel(pthread_self()) == 0);
        usleep(1000);
        CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old) == 0 && old == PTHREAD_CANCEL_DISABLE);
        usleep(1000); /* a cancellation point */
    }
    CHECK(pthread_cancel(pthread_self()) == 0);
    pthread_testcancel();
    CHECK(!"reached");
}

static void nested(const char *how)
{
    pthread_cleanup_push(clean_up, "b");
    let_others_run();
    pthread_cleanup_push(clean_up, "c");
    end(how);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "exit";
    pthread_t thread;

    atexit(at_exit);
    main_id = pthread_self();
    CHECK(pthread_key_create(&key, destroy_value) == 0 && pthread_setspecific(key, order) == 0);
    CHECK(pthread_create(&thread, NULL, outlive, strcmp(how, "exit") == 0 ? order : PTHREAD_CANCELED) == 0);
    note('m');
    pthread_cleanup_push(clean_up, "x");
    let_others_run();
    pthread_cleanup_pop(0);
    pthread_cleanup_push(clean_up, "a");
    nested(how);
    pthread_cleanup_pop(0);
    return 1;
}
