/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_handlers.c: std::set_terminate, std::set_new_handler and std::set_unexpected for each rank.
 *
 * The C++ runtime has one handler of each kind per process, and calls it itself. At the first call of these functions by a rank,
 * functions of this file become the runtime's handlers. They call the handler of the rank that runs, or else do what the runtime
 * did before.
 */
#include "image/libc/rebind.h"

#include "base/loader_lock.h"
#include "base/log.h"

#include <dlfcn.h>
#include <stdlib.h>

static void call_terminate(void);
static void call_new_handler(void);
static void call_unexpected(void);

/* The runtime's functions that set handlers, and its handlers before the ranks' were installed. */
static struct {
    const char *set_name;
    image_cxx_handler_fn dispatch;
    image_cxx_handler_fn before; /* of the process; may be NULL for operator new */
} kinds[IMAGE_CXX_HANDLERS] = {
    [IMAGE_CXX_TERMINATE] = {"_ZSt13set_terminatePFvvE", call_terminate, NULL},
    [IMAGE_CXX_NEW] = {"_ZSt15set_new_handlerPFvvE", call_new_handler, NULL},
    [IMAGE_CXX_UNEXPECTED] = {"_ZSt14set_unexpectedPFvvE", call_unexpected, NULL},
};
static void (*throw_bad_alloc)(void);
static pthread_once_t install_once = PTHREAD_ONCE_INIT;

/* The handler of the rank that runs; may be NULL for operator new. */
static image_cxx_handler_fn of_rank(const struct image_libc *libc, int kind)
{
    return libc && libc->is_cxx_handler_set[kind] ? libc->cxx_handlers[kind] : kinds[kind].before;
}

/* ---- What the runtime calls ---- */

static void call_terminate(void)
{
    of_rank(image_libc_current(), IMAGE_CXX_TERMINATE)();
}

static void call_unexpected(void)
{
    of_rank(image_libc_current(), IMAGE_CXX_UNEXPECTED)();
}

/* Without a handler, operator new throws. */
static void call_new_handler(void)
{
    image_cxx_handler_fn handler = of_rank(image_libc_current(), IMAGE_CXX_NEW);

    (handler ? handler : throw_bad_alloc)();
}

/* ---- What a rank calls ---- */

/* The C++ runtime is loaded: code of a rank refers to it. */
static void install(void)
{
    void *library;

    base_loader_lock();
    library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
    *(void **)&throw_bad_alloc = dlsym(library ? library : RTLD_DEFAULT, "_ZSt17__throw_bad_allocv");
    if (!throw_bad_alloc)
        throw_bad_alloc = abort;
    for (int kind = 0; kind < IMAGE_CXX_HANDLERS; kind++) {
        image_cxx_handler_fn (*set)(image_cxx_handler_fn handler);

        *(void **)&set = dlsym(library ? library : RTLD_DEFAULT, kinds[kind].set_name);
        if (!set)
            base_fatal(1, "the C++ runtime lacks %s", kinds[kind].set_name);
        kinds[kind].before = set(kinds[kind].dispatch);
    }
    if (library)
        dlclose(library);
    base_loader_unlock();
}

static image_cxx_handler_fn get_handler(int kind, const void *caller)
{
    pthread_once(&install_once, install);
    return of_rank(image_libc_at(caller), kind);
}

static image_cxx_handler_fn set_handler(int kind, image_cxx_handler_fn handler, const void *caller)
{
    struct image_libc *libc = image_libc_at(caller);
    image_cxx_handler_fn old = get_handler(kind, caller);

    if (libc) {
        libc->cxx_handlers[kind] = handler;
        libc->is_cxx_handler_set[kind] = true;
    }
    return old;
}

#define HANDLES(kind, what, set_name, get_name)                                     \
    static image_cxx_handler_fn image_libc_set_##what(image_cxx_handler_fn handler) \
    {                                                                               \
        return set_handler(kind, handler, __builtin_return_address(0));             \
    }                                                                               \
    IMAGE_REBINDS(image_libc_set_##what, set_name);                                 \
    static image_cxx_handler_fn image_libc_get_##what(void)                         \
    {                                                                               \
        return get_handler(kind, __builtin_return_address(0));                      \
    }                                                                               \
    IMAGE_REBINDS(image_libc_get_##what, get_name)

HANDLES(IMAGE_CXX_TERMINATE, terminate, "_ZSt13set_terminatePFvvE", "_ZSt13get_terminatev");
HANDLES(IMAGE_CXX_NEW, new_handler, "_ZSt15set_new_handlerPFvvE", "_ZSt15get_new_handlerv");
HANDLES(IMAGE_CXX_UNEXPECTED, unexpected, "_ZSt14set_unexpectedPFvvE", "_ZSt14get_unexpectedv");
