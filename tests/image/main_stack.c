/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: pthread_getattr_np and __libc_stack_end give the stack on which the rank's main runs, to main and to the rank's
 * other threads.
 */
#include "image_test.h"

#include <pthread.h>

extern void *__libc_stack_end;

static char *in_main; /* an address on main's stack */

/* True if the stack of a thread has the address. */
static int has_address(pthread_t thread, const char *address)
{
    pthread_attr_t attributes;
    void *lo;
    size_t n_bytes;

    CHECK(pthread_getattr_np(thread, &attributes) == 0);
    CHECK(pthread_attr_getstack(&attributes, &lo, &n_bytes) == 0);
    pthread_attr_destroy(&attributes);
    return address > (char *)lo && address < (char *)lo + n_bytes;
}

static void *run(void *main_thread)
{
    char local = 0;

    CHECK(has_address(pthread_self(), &local) && !has_address(pthread_self(), in_main));
    CHECK(has_address(*(pthread_t *)main_thread, in_main));
    return NULL;
}

int main(void)
{
    pthread_t self = pthread_self(), thread;
    char local = 0;

    in_main = &local;
    CHECK(has_address(self, &local));
    CHECK((char *)__libc_stack_end > &local && has_address(self, (char *)__libc_stack_end - 1));
    let_others_run();
    CHECK(has_address(self, &local));
    CHECK(pthread_create(&thread, NULL, run, &self) == 0 && pthread_join(thread, NULL) == 0);
    puts("ok");
    return 0;
}
