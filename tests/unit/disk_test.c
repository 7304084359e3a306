/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that lists of pieces are read and written as a model says, for random sizes, holes and overlaps, on a disk and in
 * memory; that the end of the file, a full disk and the limit of `ulimit -f` are reported with the bytes done; that bytes
 * between pieces are written only under a lock; and that other ranks of the PE run meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ampi/io/disk.h"
#include "ult_job.h"

#define FILE_BYTES 300000
#define PIECES_MAX 3000

static unsigned char model[FILE_BYTES], memory[2 * FILE_BYTES], expected[2 * FILE_BYTES], found[FILE_BYTES];
static struct ampi_disk_piece pieces[PIECES_MAX];
static unsigned seed;

static unsigned random_below(unsigned n)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 8) % n;
}

static int open_file(const char *folder)
{
    char path[256];
    int fd;

    snprintf(path, sizeof path, "%s/disk_test.XXXXXX", folder);
    fd = mkstemp(path);
    if (fd >= 0)
        unlink(path);
    return fd;
}

/* Pieces whose offsets ascend; writes: without overlaps. Returns their number. */
static size_t choose_pieces(bool is_write, size_t *n_bytes_out)
{
    static const unsigned sizes[] = {1, 8, 200, 5000, 70000}, holes[] = {1, 1, 16, 900, 30000};
    unsigned size = sizes[random_below(5)], hole = holes[random_below(5)],
             n_max = 1 + random_below(PIECES_MAX);
    size_t at = random_below(2000), used = 0, n = 0;

    while (n < n_max && at < FILE_BYTES) {
        size_t n_bytes = random_below(size + 1);
        n_bytes = n_bytes < FILE_BYTES - at ? n_bytes : FILE_BYTES - at;
        if (used + n_bytes > sizeof memory)
            break;
        pieces[n++] = (struct ampi_disk_piece){(MPI_Offset)at, memory + used, n_bytes};
        used += n_bytes;
        at += random_below(4) ? n_bytes : n_bytes + random_below(hole);
        if (!is_write && n_bytes && random_below(20) == 0)
            at -= random_below((unsigned)n_bytes);
    }
    *n_bytes_out = used;
    return n;
}

static const struct ampi_disk_hints small_buffers = {.ind_rd_buffer_bytes = 3000,
                                                     .ind_wr_buffer_bytes = 2000};

static void write_and_read(int fd)
{
    static const struct ampi_disk_hints sieve = {.ds_write = AMPI_DISK_ENABLE,
                                                 .ind_rd_buffer_bytes = 100000,
                                                 .ind_wr_buffer_bytes = 100000},
                                        none = {.ds_write = AMPI_DISK_DISABLE,
                                                .ds_read = AMPI_DISK_DISABLE,
                                                .ind_rd_buffer_bytes = 1,
                                                .ind_wr_buffer_bytes = 1};
    const struct ampi_disk_hints *all[] = {NULL, &small_buffers, &sieve, &none};
    struct ampi_disk_op op = {.fd = fd, .pieces = pieces};
    size_t n_bytes;

    op.hints = all[random_below(4)];
    op.is_write = random_below(2);
    op.is_locked = random_below(2);
    op.n_pieces = choose_pieces(op.is_write, &n_bytes);
    for (size_t i = 0; i < n_bytes; i++)
        expected[i] = memory[i] = (unsigned char)random_below(256);
    for (size_t i = 0, used = 0; i < op.n_pieces; used += pieces[i++].n_bytes) {
        if (op.is_write)
            memcpy(model + pieces[i].at, memory + used, pieces[i].n_bytes);
        else
            memcpy(expected + used, model + pieces[i].at, pieces[i].n_bytes);
    }
    ampi_disk_run(&op);
    ULT_CHECK(op.error == 0);
    ULT_CHECK(op.done == n_bytes);
    ULT_CHECK(memcmp(memory, expected, n_bytes) == 0);
    ULT_CHECK(pread(fd, found, FILE_BYTES, 0) == FILE_BYTES && memcmp(found, model, FILE_BYTES) == 0);
}

static void random_accesses(void *arg)
{
    const char *folder = *(const char **)arg;
    int fd = open_file(folder);

    if (fd >= 0) {
        ULT_CHECK(ftruncate(fd, FILE_BYTES) == 0);
        memset(model, 0, sizeof model);
        for (int i = 0; i < 300; i++)
            write_and_read(fd);
        close(fd);
    }
    ult_end();
}

static const char *folders[] = {".", "/dev/shm"};
static int folder_index;

static void random_entry(void *arg)
{
    (void)arg;
    random_accesses(&folders[folder_index]);
}

START_TEST(model_agrees)
{
    seed = (unsigned)_i;
    folder_index = _i;
    ult_job_start(1, 1, random_entry);
}
END_TEST

/* ---- The end of the file and errors ---- */

static void read_beyond_end(void *arg)
{
    int fd = open_file(".");
    struct ampi_disk_op op = {.fd = fd, .pieces = pieces, .n_pieces = 4};

    (void)arg;
    ULT_CHECK(pwrite(fd, "0123456789", 10, 0) == 10);
    for (int i = 0; i < 4; i++)
        pieces[i] = (struct ampi_disk_piece){4 * i, memory + 4 * i, 3}; /* 0-2, 4-6, 8-10, 12-14 */
    for (int with_hints = 0; with_hints < 2; with_hints++) {
        static const struct ampi_disk_hints none = {.ds_read = AMPI_DISK_DISABLE, .ind_rd_buffer_bytes = 1};
        memset(memory, 'x', 16);
        op.hints = with_hints ? &none : NULL;
        ampi_disk_run(&op);
        ULT_CHECK(op.error == 0 && op.done == 8);
        ULT_CHECK(memcmp(memory, "012x456x89xxxxxx", 16) == 0);
    }
    close(fd);
    ult_end();
}

static void write_errors(void *arg)
{
    struct rlimit before, limit = {.rlim_cur = 100000, .rlim_max = RLIM_INFINITY};
    int full = open("/dev/full", O_RDWR), fd = open_file(".");
    struct ampi_disk_op op = {.fd = full, .is_write = true, .pieces = pieces, .n_pieces = 1};

    (void)arg;
    pieces[0] = (struct ampi_disk_piece){0, memory, 1000};
    ampi_disk_run(&op);
    ULT_CHECK(op.error == ENOSPC && op.done == 0);

    ULT_CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    limit.rlim_max = before.rlim_max;
    ULT_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    op.fd = fd;
    op.n_pieces = 2;
    pieces[0] = (struct ampi_disk_piece){99000, memory, 500};
    pieces[1] = (struct ampi_disk_piece){99600, memory, 1000};
    ampi_disk_run(&op);
    ULT_CHECK(op.error == EFBIG && op.done == 900);
    setrlimit(RLIMIT_FSIZE, &before);

    op.fd = -1;
    ampi_disk_run(&op);
    ULT_CHECK(op.error == EBADF && op.done == 0);
    close(full);
    close(fd);
    ult_end();
}

START_TEST(end_of_file)
{
    ult_job_start(1, 1, read_beyond_end);
}
END_TEST

START_TEST(errors)
{
    ult_job_start(1, 1, write_errors);
}
END_TEST

/* ---- Holes ---- */

/* Another process's write into a hole, while the operation is in progress, is not lost without a lock: the operation does
 * not read at all, which a descriptor for writing shows. */
static void write_with_holes(void *arg)
{
    char path[64];
    int fd = open_file("."), only;
    struct ampi_disk_op op = {.is_write = true, .is_locked = true, .pieces = pieces, .n_pieces = 100};

    (void)arg;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    op.fd = only = open(path, O_WRONLY);
    memset(memory, 'a', 100);
    for (int i = 0; i < 100; i++)
        pieces[i] = (struct ampi_disk_piece){10 * i, memory + i, 1};
    ampi_disk_run(&op);
    ULT_CHECK(op.error == 0 && op.done == 100);
    ULT_CHECK(pread(fd, found, FILE_BYTES, 0) == 991 && found[0] == 'a' && found[1] == 0 &&
              found[990] == 'a');
    close(only);
    close(fd);
    ult_end();
}

START_TEST(descriptor_for_writing)
{
    ult_job_start(1, 1, write_with_holes);
}
END_TEST

/* ---- Other ranks ---- */

static int ends[2];

static int read_pipe(struct ampi_disk_call *call)
{
    char byte;

    (void)call;
    return read(ends[0], &byte, 1) == 1 && byte == 'x' ? ENOTTY : 0;
}

static void wait_for_neighbor(void *arg)
{
    struct ampi_disk_call call = {.function = read_pipe};

    if ((intptr_t)arg == 0)
        ULT_CHECK(ampi_disk_call_run(&call) == ENOTTY);
    else
        ULT_CHECK(write(ends[1], "x", 1) == 1);
    ult_end();
}

START_TEST(neighbor_runs)
{
    ck_assert_int_eq(pipe(ends), 0);
    ult_job_start(1, 2, wait_for_neighbor);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("disk");
    TCase *tcase = tcase_create("pieces");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, model_agrees, 0, 2);
    tcase_add_test(tcase, end_of_file);
    tcase_add_test(tcase, errors);
    tcase_add_test(tcase, descriptor_for_writing);
    tcase_add_test(tcase, neighbor_runs);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
