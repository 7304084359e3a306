/* SPDX-License-Identifier: BSD-3-Clause
 *
 * files: collective accesses to one file, beside one thread's pwrite and pread of the same bytes in pieces of 4 MiB, in turns in
 * one run; and opening and closing the file. A block of 4 KiB of each rank follows one of the rank before.
 *
 * usage: files [-M bytes_of_the_file] [-c bytes_per_rank] FOLDER
 * -M: the default is 1 GiB. -c: no interleaving; each rank has one block of this size, and the file is as large as all
 * prints: files.write, files.read, files.write.thread, files.read.thread value MB/s; files.write.ratio,
 *         files.read.ratio value 1 (collective / thread); files.open value ms (open and close); the medians of 5 rounds
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

#define BLOCK ((size_t)4096)
#define PIECE ((size_t)4 << 20)
#define ROUNDS 5

static char name[4096];
static size_t file_bytes = (size_t)1 << 30, own_bytes, block_bytes;
static char *data;  /* of this rank */
static char *piece; /* of rank 0's thread */
static int fd = -1; /* of rank 0 */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, compare_doubles);
    return values[ROUNDS / 2];
}

/* The time of the last rank. */
static double last(double seconds)
{
    double all;

    MPI_Allreduce(&seconds, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static double open_and_close(void)
{
    MPI_File file;
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = bench_now();
    if (MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file) !=
        MPI_SUCCESS)
        bench_fail("MPI_File_open");
    MPI_File_close(&file);
    return last(bench_now() - start);
}

static double collective(MPI_File file, int is_write)
{
    MPI_Status status;
    double start;
    int n = -1;

    MPI_Barrier(MPI_COMM_WORLD);
    start = bench_now();
    if (is_write)
        MPI_File_write_at_all(file, 0, data, (int)own_bytes, MPI_BYTE, &status);
    else
        MPI_File_read_at_all(file, 0, data, (int)own_bytes, MPI_BYTE, &status);
    start = bench_now() - start;
    MPI_Get_count(&status, MPI_BYTE, &n);
    if (n != (int)own_bytes)
        bench_fail("a collective access is incomplete");
    return last(start);
}

/* Rank 0 alone. */
static double thread(int is_write)
{
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = bench_now();
    for (size_t at = 0; fd >= 0 && at < file_bytes; at += PIECE) {
        size_t n = file_bytes - at < PIECE ? file_bytes - at : PIECE;
        ssize_t done = is_write ? pwrite(fd, piece, n, (off_t)at) : pread(fd, piece, n, (off_t)at);
        if (done != (ssize_t)n)
            bench_fail("pwrite or pread");
    }
    return last(bench_now() - start);
}

static void set_view(MPI_File file)
{
    int size = bench_comm_size();
    MPI_Datatype filetype;

    MPI_Type_vector((int)(own_bytes / block_bytes), (int)block_bytes, (int)(block_bytes * (size_t)size),
                    MPI_BYTE, &filetype);
    MPI_Type_commit(&filetype);
    MPI_File_set_view(file, (MPI_Offset)((size_t)bench_comm_rank() * block_bytes), MPI_BYTE, filetype,
                      "native", MPI_INFO_NULL);
    MPI_Type_free(&filetype);
}

static void measure(int is_write)
{
    const char *what = is_write ? "write" : "read";
    double with_all[ROUNDS], alone[ROUNDS], ratios[ROUNDS], mega = (double)file_bytes / 1e6;
    MPI_File file;

    if (MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file) != MPI_SUCCESS)
        bench_fail("MPI_File_open");
    set_view(file);
    for (int i = 0; i < ROUNDS; i++) {
        with_all[i] = mega / collective(file, is_write);
        alone[i] = mega / thread(is_write);
        ratios[i] = with_all[i] / alone[i];
    }
    MPI_File_close(&file);
    if (bench_comm_rank() != 0)
        return;
    printf("files.%s %.0f MB/s\nfiles.%s.thread %.0f MB/s\n", what, median(with_all), what, median(alone));
    printf("files.%s.ratio %.3f 1\n", what, median(ratios));
}

int main(int argc, char **argv)
{
    size_t per_rank = 0;
    double opens[ROUNDS];
    int option;

    MPI_Init(&argc, &argv);
    while ((option = getopt(argc, argv, "M:c:")) != -1)
        if (option == 'M')
            file_bytes = strtoull(optarg, NULL, 0);
        else if (option == 'c')
            per_rank = strtoull(optarg, NULL, 0);
        else
            bench_fail("usage: files [-M bytes_of_the_file] [-c bytes_per_rank] FOLDER");
    block_bytes = per_rank ? per_rank : BLOCK;
    own_bytes = per_rank ? per_rank : file_bytes / (size_t)bench_comm_size() / BLOCK * BLOCK;
    file_bytes = own_bytes * (size_t)bench_comm_size();
    if (own_bytes == 0 || optind + 1 != argc)
        bench_fail("usage: files [-M bytes_of_the_file] [-c bytes_per_rank] FOLDER");
    snprintf(name, sizeof name, "%s/heddle_bench_files", argv[optind]);
    data = malloc(own_bytes);
    memset(data, 1, own_bytes);
    for (int i = 0; i < ROUNDS; i++)
        opens[i] = open_and_close();
    if (bench_comm_rank() == 0) {
        fd = open(name, O_RDWR);
        piece = malloc(PIECE);
        memset(piece, 1, PIECE);
        printf("files.open %.3f ms\n", 1e3 * median(opens));
    }
    /* The file's pages exist. A page's second write costs more, too: the kernel lists it as in use. */
    thread(1);
    thread(1);
    measure(1);
    measure(0);
    if (bench_comm_rank() == 0)
        unlink(name);
    MPI_Finalize();
    return 0;
}
