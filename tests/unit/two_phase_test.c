/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that collective writes and reads of random interleaved pieces of many ranks, on several PEs, some without data and
 * several operations at a time, leave in the file and in memory what a model says; that bytes between the pieces are never
 * written; that overlapping bytes come from one of the writers; and that the end of the file and an error are reported to the
 * ranks whose pieces they concern.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ampi/io/two_phase.h"
#include "mpi_job.h"

#define RANKS_MAX 40
#define FILE_BYTES (256 << 10)
#define PIECES_MAX 10000

/* What a rank transfers. */
struct share {
    struct ampi_disk_piece *pieces;
    unsigned char *memory;
    size_t n_pieces;
    size_t n_bytes;
};

static struct share shares[2][RANKS_MAX]; /* of two operations */
static unsigned char model[FILE_BYTES], found[FILE_BYTES];
static struct ampi_two_phase *shared;
static struct ampi_disk_hints hints = AMPI_DISK_HINTS_DEFAULT;
static int fd, n_ranks;
static unsigned seed;

static unsigned random_below(unsigned n)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 8) % n;
}

static void open_file(void)
{
    char path[] = "./two_phase_test.XXXXXX";

    fd = mkstemp(path);
    ULT_CHECK(fd >= 0 && unlink(path) == 0);
}

static void reset(struct share *share)
{
    if (!share->pieces) {
        share->pieces = malloc(PIECES_MAX * sizeof *share->pieces);
        share->memory = malloc(2 * FILE_BYTES);
    }
    share->n_pieces = 0;
    share->n_bytes = 0;
}

static void add(struct share *share, size_t at, size_t n_bytes)
{
    struct ampi_disk_piece *last = &share->pieces[share->n_pieces - 1];

    if (share->n_pieces == PIECES_MAX || n_bytes == 0)
        return;
    if (share->n_pieces > 0 && last->at + (MPI_Offset)last->n_bytes == (MPI_Offset)at && random_below(2))
        last->n_bytes += n_bytes;
    else
        share->pieces[share->n_pieces++] =
            (struct ampi_disk_piece){(MPI_Offset)at, share->memory + share->n_bytes, n_bytes};
    share->n_bytes += n_bytes;
}

/* Distributes a part of the file to the ranks, in blocks, some of which nobody gets. */
static void distribute(struct share *all, size_t from, size_t to)
{
    static const unsigned sizes[] = {1, 9, 100, 4096, 100000};
    unsigned size = 1 + random_below(sizes[random_below(5)]), holes = random_below(3) * 5,
             n_users = 1 + random_below((unsigned)n_ranks);
    bool is_cyclic = random_below(2);

    for (int r = 0; r < n_ranks; r++)
        reset(&all[r]);
    for (unsigned i = 0; from < to; i++) {
        size_t n = base_min_u64(to - from, is_cyclic ? size : 1 + random_below(size));
        if (holes == 0 || random_below(100) >= holes)
            add(&all[is_cyclic ? i % n_users : random_below(n_users)], from, n);
        from += n;
    }
}

static void transfer(struct ampi_rank *self, bool is_write, struct share *share)
{
    struct ampi_disk_op op = {.fd = fd,
                              .hints = &hints,
                              .is_write = is_write,
                              .pieces = share->pieces,
                              .n_pieces = share->n_pieces};

    ampi_two_phase_run(shared, self->world, &op);
    ULT_CHECK(op.error == 0 && op.done == share->n_bytes);
}

static void count_down(struct ampi_disk_op *op)
{
    ULT_CHECK(op->error == 0);
    op->is_over = true;
}

/* Two operations at a time. */
static void transfer_both(struct ampi_rank *self, bool is_write)
{
    struct ampi_disk_op ops[2];

    for (int k = 0; k < 2; k++) {
        struct share *share = &shares[k][self->world_rank];
        ops[k] = (struct ampi_disk_op){.fd = fd,
                                       .hints = &hints,
                                       .is_write = is_write,
                                       .pieces = share->pieces,
                                       .n_pieces = share->n_pieces,
                                       .complete = count_down};
        ampi_two_phase_start(shared, self->world, &ops[k]);
    }
    while (!ops[0].is_over || !ops[1].is_over)
        ult_yield();
}

static void prepare_write(void)
{
    distribute(shares[0], 0, FILE_BYTES / 2);
    distribute(shares[1], FILE_BYTES / 2, FILE_BYTES);
    for (int k = 0; k < 2; k++)
        for (int r = 0; r < n_ranks; r++) {
            const struct share *share = &shares[k][r];
            for (size_t i = 0; i < share->n_bytes; i++)
                share->memory[i] = (unsigned char)random_below(256);
            for (size_t i = 0; i < share->n_pieces; i++)
                memcpy(model + share->pieces[i].at, share->pieces[i].memory, share->pieces[i].n_bytes);
        }
}

static void check_file(void)
{
    ULT_CHECK(pread(fd, found, FILE_BYTES, 0) == FILE_BYTES && memcmp(found, model, FILE_BYTES) == 0);
}

static void check_memory(const struct share *share)
{
    for (size_t i = 0; i < share->n_pieces; i++)
        if (memcmp(share->pieces[i].memory, model + share->pieces[i].at, share->pieces[i].n_bytes) != 0) {
            ULT_CHECK(!"a rank has read its pieces");
            return;
        }
}

static void random_programs(struct ampi_rank *self)
{
    int me = self->world_rank;

    for (int i = 0; i < 12; i++) {
        if (me == 0)
            prepare_write();
        MPI_Barrier(MPI_COMM_WORLD);
        transfer_both(self, true);
        MPI_Barrier(MPI_COMM_WORLD);
        if (me == 0) {
            check_file();
            distribute(shares[0], 0, FILE_BYTES);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        transfer(self, false, &shares[0][me]);
        check_memory(&shares[0][me]);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void with_file(struct ampi_rank *self, void (*body)(struct ampi_rank *))
{
    if (self->world_rank == 0) {
        MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
        open_file();
        ULT_CHECK(ftruncate(fd, FILE_BYTES) == 0);
        memset(model, 0, sizeof model);
        shared = ampi_two_phase_create(self->world->shared);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    body(self);
    MPI_Barrier(MPI_COMM_WORLD);
    if (self->world_rank == 0) {
        ampi_two_phase_destroy(shared);
        close(fd);
        for (int k = 0; k < 2; k++)
            for (int r = 0; r < RANKS_MAX; r++) {
                free(shares[k][r].pieces);
                free(shares[k][r].memory);
            }
    }
}

static void run_random(struct ampi_rank *self)
{
    with_file(self, random_programs);
}

START_TEST(model_agrees)
{
    seed = (unsigned)_i;
    if (_i == 1)
        hints.cb_buffer_bytes = 100000;
    if (_i == 2)
        hints.cb_read = hints.cb_write = AMPI_DISK_DISABLE;
    mpi_job_start(_i == 3 ? RANKS_MAX : 7, _i == 0 ? 1 : 3, run_random);
}
END_TEST

/* ---- Overlaps ---- */

/* All ranks write the same bytes, each its own value, and then all read all of them. */
static void overlap(struct ampi_rank *self)
{
    struct share *share = &shares[0][self->world_rank];

    for (size_t size = 10; size <= 100000; size *= 100) {
        reset(share);
        for (size_t at = self->world_rank % 3 * size / 2; at + size <= FILE_BYTES && share->n_pieces < 500;
             at += 2 * size)
            add(share, at, size);
        memset(share->memory, 1 + self->world_rank, share->n_bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        transfer(self, true, share);
        MPI_Barrier(MPI_COMM_WORLD);
        if (self->world_rank == 0)
            ULT_CHECK(pread(fd, model, FILE_BYTES, 0) == FILE_BYTES);
        MPI_Barrier(MPI_COMM_WORLD);
        for (size_t i = 0; i < share->n_pieces; i++)
            ULT_CHECK(model[share->pieces[i].at] >= 1 && model[share->pieces[i].at] <= n_ranks);
        transfer(self, false, share);
        check_memory(share);
    }
}

static void run_overlap(struct ampi_rank *self)
{
    with_file(self, overlap);
}

START_TEST(overlaps)
{
    mpi_job_start(6, 2, run_overlap);
}
END_TEST

/* ---- The end of the file, and errors ---- */

/* Rank r has the pieces r, r + n, r + 2n, ... of 1000 bytes. */
static struct ampi_disk_op own_pieces(struct ampi_rank *self, bool is_write, size_t n_pieces)
{
    struct share *share = &shares[0][self->world_rank];

    reset(share);
    for (size_t i = 0; i < n_pieces; i++)
        share->pieces[share->n_pieces++] =
            (struct ampi_disk_piece){(MPI_Offset)((i * (size_t)n_ranks + (size_t)self->world_rank) * 1000),
                                     share->memory + i * 1000, 1000};
    memset(share->memory, 0, n_pieces * 1000);
    return (struct ampi_disk_op){
        .fd = fd, .hints = &hints, .is_write = is_write, .pieces = share->pieces, .n_pieces = n_pieces};
}

static void end_early(struct ampi_rank *self)
{
    struct ampi_disk_op op = own_pieces(self, false, 3);
    struct rlimit before, limit;

    /* The file ends in the second piece of rank 1. */
    if (self->world_rank == 0)
        ULT_CHECK(ftruncate(fd, (n_ranks + 1) * 1000 + 100) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    ampi_two_phase_run(shared, self->world, &op);
    ULT_CHECK(op.error == 0);
    ULT_CHECK(op.done == (self->world_rank == 0 ? 2000 : self->world_rank == 1 ? 1100 : 1000));
    MPI_Barrier(MPI_COMM_WORLD);

    /* The last piece of all ranks but 0 is too far. */
    if (self->world_rank == 0) {
        getrlimit(RLIMIT_FSIZE, &before);
        limit = before;
        limit.rlim_cur = (rlim_t)((2 * n_ranks + 1) * 1000);
        ULT_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    op = own_pieces(self, true, 3);
    ampi_two_phase_run(shared, self->world, &op);
    ULT_CHECK(op.error == (self->world_rank == 0 ? 0 : EFBIG));
    ULT_CHECK(self->world_rank == 0 ? op.done == 3000 : op.done < 3000);
    MPI_Barrier(MPI_COMM_WORLD);
    if (self->world_rank == 0)
        setrlimit(RLIMIT_FSIZE, &before);

    /* A rank without data is over at once; the others wait for it. */
    op = own_pieces(self, true, self->world_rank == 2 ? 0 : 1);
    ampi_two_phase_run(shared, self->world, &op);
    ULT_CHECK(op.error == 0 && op.done == (self->world_rank == 2 ? 0 : 1000));
}

static void run_fail(struct ampi_rank *self)
{
    with_file(self, end_early);
}

START_TEST(failures)
{
    mpi_job_start(4, 2, run_fail);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("two_phase");
    TCase *tcase = tcase_create("one process");

    tcase_set_timeout(tcase, 240);
    tcase_add_loop_test(tcase, model_agrees, 0, 4);
    tcase_add_test(tcase, overlaps);
    tcase_add_test(tcase, failures);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
