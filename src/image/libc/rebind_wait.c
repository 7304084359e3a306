/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_wait.c: lets a rank wait for an event that only the kernel knows, while others run.
 *
 * The rank polls with growing pauses: nothing wakes it, but its PE runs other ranks.
 */
#include "image/libc/rebind.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FIRST_YIELDS 10
#define FIRST_PAUSE_NS 20000
#define LONGEST_PAUSE_NS 2000000
#define REPORT_AFTER_NS 60000000000

bool image_can_poll(void)
{
    return image_rebind_client.sleep_ns && image_is_on_rank() && !image_is_forked_child();
}

bool image_can_wait(void)
{
    return image_can_poll() && !image_is_in_handler(image_libc_current());
}

void image_pause_ns(uint64_t duration_ns)
{
    struct image_libc *libc = image_libc_current();

    libc->is_pausing = true;
    image_rebind_client.sleep_ns(duration_ns);
    libc->is_pausing = false;
    image_signals_run_pending();
}

void image_pause_yield(void)
{
    struct image_libc *libc = image_libc_current();

    libc->is_pausing = true;
    image_rebind_client.yield();
    libc->is_pausing = false;
    image_signals_run_pending();
}

/* In a handler of a signal. */
static void block_ns(uint64_t duration_ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)duration_ns}, NULL);
    image_signals_run_pending();
}

static void report(struct image_wait *wait)
{
    char text[512], path[32], target[256];
    ssize_t length;

    snprintf(path, sizeof path, "/proc/self/fd/%d", wait->fd);
    length = readlink(path, target, sizeof target - 1);
    target[length > 0 ? length : 0] = '\0';
    snprintf(text, sizeof text, "has been waiting in %s of descriptor %d%s%s%s for a minute", wait->call,
             wait->fd, length > 0 ? " (" : "", target, length > 0 ? ")" : "");
    image_rebind_client.report(text);
    wait->is_reported = true;
}

void image_wait_pause(struct image_wait *wait)
{
    bool is_in_handler = image_is_in_handler(image_libc_current());
    uint64_t pause_ns = FIRST_PAUSE_NS;

    if (wait->n_pauses == 0)
        wait->handled = image_handled_now();
    if (wait->n_pauses++ < FIRST_YIELDS && image_rebind_client.yield && !is_in_handler) {
        image_pause_yield();
        return;
    }
    for (unsigned i = FIRST_YIELDS; i < wait->n_pauses && pause_ns < LONGEST_PAUSE_NS; i++)
        pause_ns *= 2;
    if (pause_ns > LONGEST_PAUSE_NS)
        pause_ns = LONGEST_PAUSE_NS;
    if (wait->limit_ns && pause_ns > wait->limit_ns)
        pause_ns = wait->limit_ns;
    (is_in_handler ? block_ns : image_pause_ns)(pause_ns);
    wait->paused_ns += pause_ns;
    if (wait->call && !wait->is_reported && wait->paused_ns > REPORT_AFTER_NS && image_rebind_client.report)
        report(wait);
}

struct image_handled image_handled_now(void)
{
    const struct image_libc *libc = image_libc_current();

    return libc ? (struct image_handled){atomic_load(&libc->n_handled), atomic_load(&libc->n_interrupts)}
                : (struct image_handled){0, 0};
}

bool image_wait_is_interrupted(const struct image_wait *wait, bool may_restart)
{
    struct image_handled now = image_handled_now();

    if (wait->n_pauses == 0 || (may_restart ? now.n_interrupts == wait->handled.n_interrupts
                                            : now.n_handled == wait->handled.n_handled))
        return false;
    errno = EINTR;
    return true;
}

pid_t image_wait_for_child(pid_t pid, int *status, int options, struct rusage *usage)
{
    struct image_wait wait = {0};

    while (image_can_wait() && !(options & WNOHANG)) {
        pid_t found = wait4(pid, status, options | WNOHANG, usage);

        if (found != 0)
            return found;
        if (image_wait_is_interrupted(&wait, true))
            return -1;
        image_cancel_point();
        image_wait_pause(&wait);
    }
    return wait4(pid, status, options, usage);
}

/* ---- Calls that block ---- */

#define THREAD_STACK_BYTES ((size_t)256 << 10)

/* A call that a thread makes; on the stack of the rank that waits for it. */
struct call {
    int (*function)(void *arg);
    void *arg;
    int result;
    atomic_bool is_over;
};

static void note_end(void *arg)
{
    atomic_store(&((struct call *)arg)->is_over, true);
}

static void *make_call(void *arg)
{
    struct call *call = arg;

    pthread_cleanup_push(note_end, call);
    call->result = call->function(call->arg);
    pthread_cleanup_pop(1);
    return NULL;
}

int image_start_helper(pthread_t *thread_out, void *(*function)(void *arg), void *arg)
{
    pthread_attr_t attributes;
    sigset_t all, old;
    int error = pthread_attr_init(&attributes);

    if (error)
        return error;
    pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
    pthread_attr_setguardsize(&attributes, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(thread_out, &attributes, function, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

int image_wait_on_thread(int (*function)(void *arg), void *arg)
{
    struct call call = {.function = function, .arg = arg, .result = ECANCELED};
    struct image_wait wait = {0};
    bool is_cancelled = false;
    pthread_t thread;

    if (image_start_helper(&thread, make_call, &call) != 0)
        return function(arg);
    while (!atomic_load(&call.is_over)) {
        if (!is_cancelled && (is_cancelled = image_cancel_is_due()))
            pthread_cancel(thread);
        image_wait_pause(&wait);
    }
    pthread_join(thread, NULL);
    return call.result;
}
