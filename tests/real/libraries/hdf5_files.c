/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: each rank writes and reads a file of its own with the system's serial HDF5, whose tables of
 * identifiers and free lists have no lock; a rank's setting for the printing of errors affects only that
 * rank.
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 40, COLUMNS = 25 };

static int rank, n_errors;

#define CHECK(cond)                                                  \
    do {                                                             \
        if (!(cond)) {                                               \
            printf("rank %d: line %d: %s\n", rank, __LINE__, #cond); \
            MPI_Abort(MPI_COMM_WORLD, 3);                            \
        }                                                            \
    } while (0)

static herr_t count_error(hid_t stack, void *arg)
{
    (void)stack;
    (*(int *)arg)++;
    return 0;
}

static void write_file(const char *path, int round)
{
    hsize_t dims[2] = {ROWS, COLUMNS}, chunk[2] = {8, 25};
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t group = H5Gcreate2(file, "/results", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(2, dims, NULL), scalar = H5Screate(H5S_SCALAR);
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE), data, attribute;
    double values[ROWS][COLUMNS];

    CHECK(file >= 0 && group >= 0 && space >= 0 && plist >= 0);
    CHECK(H5Pset_chunk(plist, 2, chunk) >= 0);
    data = H5Dcreate2(group, "field", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    attribute = H5Acreate2(data, "rank", H5T_NATIVE_INT, scalar, H5P_DEFAULT, H5P_DEFAULT);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            values[i][j] = rank * 1000 + round * 100 + i + j / 100.0;
    CHECK(H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    CHECK(H5Awrite(attribute, H5T_NATIVE_INT, &rank) >= 0);
    H5Aclose(attribute);
    H5Dclose(data);
    H5Pclose(plist);
    H5Sclose(scalar);
    H5Sclose(space);
    H5Gclose(group);
    CHECK(H5Fclose(file) >= 0);
}

static void read_file(const char *path, int round)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t data = H5Dopen2(file, "/results/field", H5P_DEFAULT);
    hid_t attribute = H5Aopen(data, "rank", H5P_DEFAULT);
    double values[ROWS][COLUMNS];
    int writer = -1;

    CHECK(H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    CHECK(H5Aread(attribute, H5T_NATIVE_INT, &writer) >= 0 && writer == rank);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            CHECK(values[i][j] == rank * 1000 + round * 100 + i + j / 100.0);
    n_errors = 0;
    CHECK(H5Dopen2(file, "/missing", H5P_DEFAULT) < 0);
    CHECK(n_errors == 1);
    H5Aclose(attribute);
    H5Dclose(data);
    CHECK(H5Fclose(file) >= 0);
}

int main(int argc, char **argv)
{
    const char *folder = getenv("TMPDIR");
    char path[512];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof path, "%s/heddle-hdf5-%ld-%d.h5", folder ? folder : "/tmp", (long)getpid(), rank);
    CHECK(H5Eset_auto2(H5E_DEFAULT, count_error, &n_errors) >= 0);
    for (int round = 0; round < 3; round++) {
        write_file(path, round);
        MPI_Barrier(MPI_COMM_WORLD);
        read_file(path, round);
    }
    unlink(path);
    if (rank == 0)
        puts("ok");
    MPI_Finalize();
    return 0;
}
