/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: a library's thread_local variables are private to the rank, and to each thread that it starts, in
 * every access model; they are aligned, their first use changes no registers, dlsym and dl_iterate_phdr find
 * them, a forked child keeps them, and they are freed with their thread. Compiled with -DREFERS the program
 * uses one itself.
 */
#include "image_test.h"
#include "libtls.h"

#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#define BIG_BYTES 190000

static int *rank_address;

static void check_fresh(void)
{
    /* The first use in this thread. */
    CHECK(tls_sum(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14) == 1 + 204 + 259);
    CHECK(*tls_counter_address() == 77 && *tls_aligned_address() == 3 && tls_is_pointer_right());
    CHECK((uintptr_t)tls_aligned_address() % 64 == 0);
    CHECK((uintptr_t)tls_page_address() % 4096 == 0 && *tls_page_address() == 4);
    CHECK(tls_big_address()[0] == 0 && tls_big_address()[BIG_BYTES - 1] == 0);
}

static void *run_thread(void *arg)
{
    check_fresh();
    CHECK(tls_counter_address() != rank_address);
    CHECK(dlsym(RTLD_DEFAULT, "tls_counter") == tls_counter_address());
    *tls_counter_address() = -1;
    tls_big_address()[BIG_BYTES - 1] = 1;
    return arg;
}

static void start_and_join(void)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, run_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

static size_t allocated_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* The blocks of ended threads would be 19 MB. */
static void check_freed(void)
{
    size_t before = allocated_bytes();

    for (int i = 0; i < 100; i++)
        start_and_join();
    CHECK(allocated_bytes() < before + 20 * (size_t)BIG_BYTES);
}

static void check_fork(int value)
{
    pid_t child = fork();
    int status;

    if (child == 0)
        _exit(tls_counter_address() == rank_address && *rank_address == value && *tls_page_address() == 4
                  ? 0
                  : 1);
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* True at the library whose code this program calls, if its thread_local data is the calling thread's. */
static int is_reported(struct dl_phdr_info *info, size_t size, void *arg)
{
    uintptr_t code = (uintptr_t)tls_counter_address - info->dlpi_addr;
    uintptr_t variable = (uintptr_t)tls_counter_address() - (uintptr_t)info->dlpi_tls_data;
    int has_code = 0, has_variable = 0;

    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];

        has_code |= phdr->p_type == PT_LOAD && code - phdr->p_vaddr < phdr->p_memsz;
        has_variable |= phdr->p_type == PT_TLS && variable < phdr->p_memsz;
    }
    return has_code && has_variable;
}

int main(void)
{
    int value = (int)(test_id() % 1000000);

    check_fresh();
    rank_address = tls_counter_address();
    *rank_address = value;
    *tls_aligned_address() = value + 1;
    tls_big_address()[100000] = (char)(value & 0x7f);
    let_others_run();
    start_and_join();
    CHECK(tls_counter_address() == rank_address && *rank_address == value);
    CHECK(*tls_aligned_address() == value + 1 && tls_is_pointer_right());
    CHECK(tls_big_address()[100000] == (char)(value & 0x7f) && tls_big_address()[BIG_BYTES - 1] == 0);
    CHECK(dlsym(RTLD_DEFAULT, "tls_counter") == rank_address);
    CHECK(dl_iterate_phdr(is_reported, NULL) == 1);
#ifdef REFERS
    CHECK(&tls_counter == rank_address && tls_counter == value);
#endif
    check_fork(value);
    check_freed();
    puts("ok");
    return 0;
}
