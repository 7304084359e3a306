/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: a library's thread_local variables are private to the rank, and to each thread that it starts, in
 * every access model; dlsym finds them, too. Compiled with -DREFERS the program uses one itself.
 */
#include "image_test.h"
#include "libtls.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

static int *rank_address;

static void check_fresh(void)
{
    CHECK(*tls_counter_address() == 77 && *tls_aligned_address() == 3 && tls_is_pointer_right());
    CHECK((uintptr_t)tls_aligned_address() % 64 == 0);
    CHECK(tls_big_address()[0] == 0 && tls_big_address()[189999] == 0);
}

static void *run_thread(void *arg)
{
    check_fresh();
    CHECK(tls_counter_address() != rank_address);
    *tls_counter_address() = -1;
    tls_big_address()[189999] = 1;
    return arg;
}

int main(void)
{
    pthread_t thread;
    int value = (int)(test_id() % 1000000);

    check_fresh();
    rank_address = tls_counter_address();
    *rank_address = value;
    *tls_aligned_address() = value + 1;
    tls_big_address()[100000] = (char)(value & 0x7f);
    let_others_run();
    CHECK(pthread_create(&thread, NULL, run_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(tls_counter_address() == rank_address && *rank_address == value);
    CHECK(*tls_aligned_address() == value + 1 && tls_is_pointer_right());
    CHECK(tls_big_address()[100000] == (char)(value & 0x7f) && tls_big_address()[189999] == 0);
    CHECK(dlsym(RTLD_DEFAULT, "tls_counter") == rank_address);
#ifdef REFERS
    CHECK(&tls_counter == rank_address && tls_counter == value);
#endif
    puts("ok");
    return 0;
}
