/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a copy between two GPUs, which begins with cached facts about its buffers, is right if these are
 * stale: a freed buffer is an error, and a buffer that has taken its place is examined as if it were new; and
 * that neither the copy nor waiting for it needs the thread's current context. On the fake CUDA driver.
 */
#include <string.h>

#include "fakecuda.h"
#include "gpu_device.h"

#define N_BYTES ((size_t)4096)

static unsigned char sent[N_BYTES], seen[N_BYTES];

static void make_current(int device)
{
    CUcontext context;

    ULT_CHECK(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
    ULT_CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

static char *alloc_on(int device)
{
    char *made;

    make_current(device);
    made = device_alloc(N_BYTES);
    make_current(0);
    return made;
}

static void free_block(char *block)
{
    ULT_CHECK(cuMemFree((CUdeviceptr)block) == CUDA_SUCCESS);
}

static int move(char *to, char *from)
{
    struct gpu_data dst = {.buf = to, .count = 1, .extent_bytes = N_BYTES, .size_bytes = N_BYTES};
    struct gpu_data src = {.buf = from, .count = 1, .extent_bytes = N_BYTES, .size_bytes = N_BYTES};

    return gpu_move_wait(&dst, &src, N_BYTES);
}

static void check_moves(char *to, char *from)
{
    random_fill(sent, N_BYTES);
    device_write(from, sent, N_BYTES);
    ULT_CHECK(move(to, from) == 0);
    device_read(seen, to, N_BYTES);
    ULT_CHECK(memcmp(sent, seen, N_BYTES) == 0);
}

/* ---- Buffers that come and go ---- */

/* A new buffer at the place of an old one; NULL: the driver has put it elsewhere. */
static char *replace(char *old, int device)
{
    char *made;

    free_block(old);
    made = alloc_on(device);
    return made == old ? made : NULL;
}

static void replaced(void *arg)
{
    char *from, *to;
    int n_before;

    device_open();
    from = alloc_on(0);
    to = alloc_on(1);
    check_moves(to, from);
    check_moves(to, from);
    n_before = fakecuda_calls("cuPointerSetAttribute");
    check_moves(to, from);
    ULT_CHECK(fakecuda_calls("cuPointerSetAttribute") == n_before);
    ULT_CHECK(replace(from, 0) && replace(to, 1));
    check_moves(to, from);
    ULT_CHECK(fakecuda_calls("cuPointerSetAttribute") == n_before + 2);
}

START_TEST(buffers_in_the_place_of_others_are_seen_as_new)
{
    ult_job_start(1, 1, replaced);
}
END_TEST

static void freed(void *arg)
{
    char *from, *to;

    device_open();
    from = alloc_on(0);
    to = alloc_on(1);
    check_moves(to, from);
    check_moves(to, from);
    free_block(from);
    ULT_CHECK(move(to, from) == CUDA_ERROR_INVALID_VALUE);
    from = alloc_on(0);
    check_moves(to, from);
    free_block(to);
    ULT_CHECK(move(to, from) == CUDA_ERROR_INVALID_VALUE);
}

START_TEST(freed_buffers_are_errors)
{
    ult_job_start(1, 1, freed);
}
END_TEST

/* ---- The current context ---- */

static void other_contexts(void *arg)
{
    char *from, *to;
    CUcontext now = NULL;

    device_open();
    from = alloc_on(0);
    to = alloc_on(1);
    random_fill(sent, N_BYTES);
    device_write(from, sent, N_BYTES);
    ULT_CHECK(move(to, from) == 0);
    ULT_CHECK(cuCtxSetCurrent(NULL) == CUDA_SUCCESS);
    ULT_CHECK(move(to, from) == 0);
    ULT_CHECK(cuCtxGetCurrent(&now) == CUDA_SUCCESS && !now);
    make_current(2);
    fakecuda_break_context(CUDA_ERROR_ILLEGAL_ADDRESS);
    ULT_CHECK(move(to, from) == 0);
    make_current(0);
    check_moves(to, from);
}

START_TEST(no_context_and_a_broken_one_do_no_harm)
{
    setenv("FAKECUDA_DEVICES", "3", 1);
    ult_job_start(1, 1, other_contexts);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_move");
    TCase *tcase = tcase_create("move");

    tcase_set_timeout(tcase, 200);
    tcase_add_test(tcase, buffers_in_the_place_of_others_are_seen_as_new);
    tcase_add_test(tcase, freed_buffers_are_errors);
    tcase_add_test(tcase, no_context_and_a_broken_one_do_no_harm);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
