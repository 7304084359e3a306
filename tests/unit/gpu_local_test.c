/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that copies within a GPU arrive on every path; that small ones bypass the GPU's kernels, and so do
 * larger ones after a slow one; and that a device buffer gets the attribute for synchronous copies when it is
 * first seen. On the fake CUDA driver, or with LD_LIBRARY_PATH on a real one.
 */
#include <string.h>

#include "fakecuda.h"
#include "gpu/copy/queue.h"
#include "gpu_device.h"

#define N_BYTES ((size_t)3 << 20)

static char *from, *to;
static struct gpu_queue *queue;
static unsigned char sent[N_BYTES], seen[N_BYTES];

static void prepare(void)
{
    int error = 0;

    device_open();
    from = device_alloc(N_BYTES);
    to = device_alloc(N_BYTES);
    random_fill(sent, N_BYTES);
    device_write(from, sent, N_BYTES);
    queue = gpu_queue_of(0, GPU_STREAM_LOCAL, &error);
    ULT_CHECK(queue != NULL);
}

static void copy(size_t offset, size_t n_bytes)
{
    ULT_CHECK(gpu_queue_copy_local(queue, to + offset, from + offset, n_bytes) == 0);
}

/* Copies of all sizes in a row, without waiting in between, share the queue's buffer. */
static void all_sizes(void *arg)
{
    size_t done = 0;

    prepare();
    for (size_t n = 1; done + n <= N_BYTES; n = n * 3 / 2 + 1) {
        copy(done, n);
        done += n;
        if (n % 5 == 0)
            ULT_CHECK(gpu_queue_wait(queue) == 0);
    }
    ULT_CHECK(gpu_queue_wait(queue) == 0);
    device_read(seen, to, done);
    ULT_CHECK(done > N_BYTES / 4 && memcmp(sent, seen, done) == 0);
}

START_TEST(copies_of_all_sizes_arrive)
{
    ult_job_start(1, 1, all_sizes);
}
END_TEST

/* The number of the driver's copies for one of Heddle's. */
static int copies_for(size_t n_bytes)
{
    int before = fakecuda_calls("cuMemcpyAsync");

    copy(0, n_bytes);
    ULT_CHECK(gpu_queue_wait(queue) == 0);
    return fakecuda_calls("cuMemcpyAsync") - before;
}

static void ways(void *arg)
{
    int n_direct = 0;

    prepare();
    ULT_CHECK(copies_for(8) == 2);
    ULT_CHECK(copies_for(4096) == 2);
    /* Some take longer than a copy on an idle GPU does; and what has been learned is forgotten after a while,
     * which a busy CPU may need for the next copy. */
    for (int i = 0; i < 50 && copies_for(65536) == 1; i++)
        n_direct++;
    ULT_CHECK(n_direct < 50);
    ULT_CHECK(copies_for(N_BYTES) == 1);
}

START_TEST(larger_copies_go_around_a_busy_gpu)
{
    setenv("FAKECUDA_DELAY_US", "300", 1);
    ult_job_start(1, 1, ways);
}
END_TEST

static void first_sight(void *arg)
{
    prepare();
    ULT_CHECK(gpu_find(from)->memory == GPU_MEMORY_DEVICE);
    ULT_CHECK(!fakecuda_is_here() || fakecuda_calls("cuPointerSetAttribute") > 0);
}

START_TEST(synchronous_copies_into_buffers_that_mpi_has_seen_are_synchronous)
{
    ult_job_start(1, 1, first_sight);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_local");
    TCase *tcase = tcase_create("local");

    tcase_set_timeout(tcase, 200);
    tcase_add_test(tcase, copies_of_all_sizes_arrive);
    if (fakecuda_is_here())
        tcase_add_test(tcase, larger_copies_go_around_a_busy_gpu);
    else
        printf("skipped: larger_copies_go_around_a_busy_gpu needs the fake driver\n");
    tcase_add_test(tcase, synchronous_copies_into_buffers_that_mpi_has_seen_are_synchronous);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
