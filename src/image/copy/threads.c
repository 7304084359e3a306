/* SPDX-License-Identifier: BSD-3-Clause
 *
 * threads.c: the rank of an OS thread, and the end of the thread's per-rank state.
 *
 * At the end of a thread glibc first destroys thread_local objects, then calls the destructors of keys, in
 * up to PTHREAD_DESTRUCTOR_ITERATIONS rounds. A rank's lists are processed at these two points: by a
 * destructor that is registered as the thread's first, and by one key of the process.
 *
 * libmpi exports pthread_create and thrd_create, which every library finds before libc's: a thread belongs
 * to the rank for which it was created, except threads of libraries that serve all ranks (serves_all). A
 * thread of no rank that runs a rank's code (a callback of CUDA's driver) is a visitor: it has such state
 * for each rank that it has visited. Without this, thread_local variables came from the prototype, and
 * pthread keys were the process's 1,024: of 1,500 ranks of a Fortran program 476 had none.
 */
#include "image/copy/threads.h"

#include "base/log.h"
#include "image/copy/instantiate.h"
#include "image/copy/lazy_tls.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

/* In addition to the kernel's signal frame. */
#define SIGNAL_STACK_BYTES 65536

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

__thread struct image_thread *image_thread_own;
static __thread struct image_thread *visiting; /* for other ranks whose code it has run, linked by next */
static __thread int n_rounds;                  /* rounds of key destructors begun at the thread's end */

static pthread_key_t end_key;
static pthread_once_t end_once = PTHREAD_ONCE_INIT;

/* A glibc function: calls fn(arg) when the thread ends; until then the library dso cannot be closed. */
extern int __cxa_thread_atexit_impl(void (*fn)(void *), void *arg, void *dso);
extern void *__dso_handle;

/* ---- The end of a thread ---- */

static void destroy_objects(void *arg)
{
    if (image_thread_own)
        image_handlers_run(&image_thread_own->at_exit, NULL, 0);
    for (struct image_thread *thread = visiting; thread; thread = thread->next)
        image_handlers_run(&thread->at_exit, NULL, 0);
}

static void destroy_thread(struct image_thread *thread)
{
    image_thread_fini(thread);
    free(thread);
}

/* Gives the thread a signal stack: without one there is no room to report a stack overflow. Sanitizers give
 * threads one, too, and unmap the current one at the thread's end. */
static void give_signal_stack(struct image_thread *thread)
{
    static atomic_int has_sanitizer; /* 1: no, 2: yes, 0: not determined yet */
    stack_t stack;

    if (!atomic_load(&has_sanitizer))
        atomic_store(&has_sanitizer, dlsym(RTLD_DEFAULT, "__sanitizer_set_death_callback") ? 2 : 1);
    if (atomic_load(&has_sanitizer) == 2 || sigaltstack(NULL, &stack) != 0 || !(stack.ss_flags & SS_DISABLE))
        return;
    stack = (stack_t){.ss_size = SIGNAL_STACK_BYTES + getauxval(AT_MINSIGSTKSZ)};
    stack.ss_sp = thread->signal_stack = malloc(stack.ss_size);
    if (stack.ss_sp)
        sigaltstack(&stack, NULL);
}

static void take_signal_stack(struct image_thread *thread)
{
    stack_t stack;

    if (thread->signal_stack && sigaltstack(NULL, &stack) == 0 && stack.ss_sp == thread->signal_stack) {
        stack.ss_flags = SS_DISABLE;
        sigaltstack(&stack, NULL);
    }
    free(thread->signal_stack);
}

/* The destructor of end_key. Re-armed until the last round: a destructor may set values again. */
static void destroy_values(void *arg)
{
    if (image_thread_own)
        image_libc_room.destroy_values(image_thread_own);
    for (struct image_thread *thread = visiting; thread; thread = thread->next)
        image_libc_room.destroy_values(thread);
    if (++n_rounds < PTHREAD_DESTRUCTOR_ITERATIONS && pthread_setspecific(end_key, arg) == 0)
        return;
    if (image_thread_own) {
        image_thread_count(image_thread_own->image, -1);
        if (image_rebind_client.thread_ended)
            image_rebind_client.thread_ended();
        take_signal_stack(image_thread_own);
        destroy_thread(image_thread_own);
    }
    image_thread_own = NULL;
    while (visiting) {
        struct image_thread *next = visiting->next;

        destroy_thread(visiting);
        visiting = next;
    }
}

static void make_end_key(void)
{
    if (pthread_key_create(&end_key, destroy_values) != 0)
        base_fatal(1, "no pthread key is left for the ranks' threads");
}

/* Registers for the thread's end. Nothing needs to be undone if it fails half-way. */
static bool watch_end(void)
{
    pthread_once(&end_once, make_end_key);
    return pthread_getspecific(end_key) ||
           (__cxa_thread_atexit_impl(destroy_objects, NULL, &__dso_handle) == 0 &&
            pthread_setspecific(end_key, &end_key) == 0);
}

/* ---- The beginning of a thread ---- */

static struct image_thread *create_thread(struct image *image)
{
    struct image_thread *thread = watch_end() ? calloc(1, sizeof *thread) : NULL;

    if (!thread)
        return NULL;
    thread->image = image;
    atomic_store(&image_libc_of(image)->has_threads, true);
    return thread;
}

/* Gives the thread the program's name if it has inherited that of a PE, such as "PE 1", from the thread that
 * made it. */
static void take_program_name(void)
{
    char name[16] = "";

    if (pthread_getname_np(pthread_self(), name, sizeof name) != 0 || strncmp(name, "PE ", 3) != 0)
        return;
    snprintf(name, sizeof name, "%s", program_invocation_short_name);
    pthread_setname_np(pthread_self(), name);
}

bool image_thread_begin(struct image *image)
{
    image_thread_own = create_thread(image);
    if (!image_thread_own)
        return false;
    take_program_name();
    give_signal_stack(image_thread_own);
    image_tls_init_thread(image);
    return true;
}

void image_thread_count(struct image *image, int n)
{
    atomic_store(&image_libc_of(image)->has_threads, true);
    atomic_fetch_add(&image_libc_of(image)->n_threads, n);
}

/* True for libraries whose threads serve all ranks; by prefix of the file name. */
static bool serves_all(const char *path)
{
    static const char *const names[] = {"libcuda.so", "libnvidia", "libnccl.so", "libuc",
                                        "libpmix",    "libevent",  "libmpi_abi", "machine_ucx.so"};
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    for (size_t i = 0; i < BASE_COUNT(names); i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

struct image *image_thread_heir(const void *caller)
{
    struct image *image = image_of_thread();

    if (!image || image_has_address(image, caller))
        return image;
    return image_thread_serves_all(caller) ? NULL : image;
}

bool image_thread_serves_all(const void *caller)
{
    Dl_info info;

    return dladdr(caller, &info) && info.dli_fname && serves_all(info.dli_fname);
}

int image_count_threads(const struct image *image)
{
    return atomic_load(&image_libc_of((struct image *)image)->n_threads);
}

/* ---- Queries ---- */

/* The image of the running ULT. */
static struct image *running(void)
{
    return image_rebind_client.current ? image_rebind_client.current() : NULL;
}

bool image_is_on_rank(void)
{
    return running() != NULL;
}

void image_thread_stay(void)
{
    struct image *image = running();

    take_program_name();
    if (image)
        image_thread_own = &image_libc_of(image)->main_thread;
}

void *image_main_thread(struct image *image)
{
    return &image_libc_of(image)->main_thread;
}

struct image_thread *image_thread_of(const void *code)
{
    struct image_thread *thread = image_thread_current();
    struct image *image = thread ? NULL : image_find(code);

    if (!image)
        return thread;
    for (thread = visiting; thread; thread = thread->next)
        if (thread->image == image)
            return thread;
    thread = create_thread(image);
    if (!thread)
        base_fatal(1, "out of memory: cannot allocate the state of a thread");
    thread->next = visiting;
    visiting = thread;
    return thread;
}

struct image *image_of_thread(void)
{
    struct image_thread *thread = image_thread_current();

    return thread ? thread->image : NULL;
}

struct image_libc *image_libc_current(void)
{
    struct image_thread *thread = image_thread_current();

    return thread ? image_libc_of(thread->image) : NULL;
}

struct image_libc *image_libc_at(const void *code)
{
    struct image *image = image_of_thread();

    if (!image)
        image = image_find(code);
    return image ? image_libc_of(image) : NULL;
}

void image_thread_fini(struct image_thread *thread)
{
    image_libc_room.free_values(thread);
    image_lazy_tls_free(thread);
    free(thread->at_exit.items);
    thread->at_exit = (struct image_handlers){0};
}

void image_threads_expect(const struct sigevent *event, const void *caller)
{
    struct image *image;

    if (!event || event->sigev_notify != SIGEV_THREAD || image_thread_serves_all(caller))
        return;
    image = image_thread_heir(caller);
    if (image_rebind_client.thread_begins)
        image_rebind_client.thread_begins();
    if (image)
        image_thread_count(image, 1);
}
