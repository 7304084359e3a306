/* SPDX-License-Identifier: BSD-3-Clause */
/* Derived datatypes on messages: the same signature leaves in one layout and arrives in another, byte for
 * byte. */
#include "mtest.h"

enum { INTS = 4096, KINDS = 5 };

static int out[INTS], in[INTS];

/* A type that holds 60 ints in an own layout; map[i] is where its i-th int lies. */
static MPI_Datatype make(int kind, int *map)
{
    MPI_Datatype type, inner;
    int n = 0;
    switch (kind) {
    case 0:
        MTEST_OK(MPI_Type_contiguous(60, MPI_INT, &type));
        for (int i = 0; i < 60; i++)
            map[n++] = i;
        break;
    case 1:
        MTEST_OK(MPI_Type_vector(20, 3, 7, MPI_INT, &type));
        for (int i = 0; i < 60; i++)
            map[n++] = i / 3 * 7 + i % 3;
        break;
    case 2: { /* blocks of 1, 2, ..., 10, 5 going backwards */
        int lens[11], displs[11];
        for (int i = 0; i < 11; i++) {
            lens[i] = i < 10 ? i + 1 : 5;
            displs[i] = 200 - i * 20;
            for (int j = 0; j < lens[i]; j++)
                map[n++] = displs[i] + j;
        }
        MTEST_OK(MPI_Type_indexed(11, lens, displs, MPI_INT, &type));
        break;
    }
    case 3: { /* a struct of a block of ints, a strided type and bytes of ints again */
        MTEST_OK(MPI_Type_vector(10, 2, 3, MPI_INT, &inner));
        int lens[3] = {20, 1, 20};
        MPI_Aint displs[3] = {400, 0, 600};
        MPI_Datatype types[3] = {MPI_INT, inner, MPI_INT};
        MTEST_OK(MPI_Type_create_struct(3, lens, displs, types, &type));
        MTEST_OK(MPI_Type_free(&inner));
        for (int i = 0; i < 20; i++)
            map[n++] = 100 + i;
        for (int i = 0; i < 20; i++)
            map[n++] = i / 2 * 3 + i % 2;
        for (int i = 0; i < 20; i++)
            map[n++] = 150 + i;
        break;
    }
    default:                                                 /* vector of vectors */
        MTEST_OK(MPI_Type_vector(3, 2, 4, MPI_INT, &inner)); /* 0 1 4 5 8 9, extent 10 */
        MTEST_OK(MPI_Type_vector(5, 2, 3, inner, &type));
        MTEST_OK(MPI_Type_free(&inner));
        for (int block = 0; block < 5; block++)
            for (int j = 0; j < 2; j++)
                for (int k = 0; k < 6; k++)
                    map[n++] = (block * 3 + j) * 10 + k / 2 * 4 + k % 2;
        break;
    }
    MTEST_CHECK(n == 60, "the test is wrong: %d", n);
    MTEST_OK(MPI_Type_commit(&type));
    return type;
}

int main(int argc, char **argv)
{
    MPI_Datatype types[KINDS];
    int maps[KINDS][60], extents[KINDS];
    mtest_init(&argc, &argv, 1);
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    for (int kind = 0; kind < KINDS; kind++) {
        int size;
        MPI_Aint lb, extent;
        types[kind] = make(kind, maps[kind]);
        MTEST_OK(MPI_Type_size(types[kind], &size));
        MTEST_CHECK(size == 240, "kind %d has size %d", kind, size);
        MTEST_OK(MPI_Type_get_extent(types[kind], &lb, &extent));
        extents[kind] = (int)(extent / 4);
        int least = INTS, most = 0;
        for (int i = 0; i < 60; i++) {
            least = maps[kind][i] < least ? maps[kind][i] : least;
            most = maps[kind][i] > most ? maps[kind][i] : most;
        }
        MTEST_CHECK(lb == 4 * least && extent == 4 * (most + 1 - least), "kind %d: lb %ld extent %ld", kind,
                    (long)lb, (long)extent);
    }
    for (int s = 0; s < KINDS; s++) {
        for (int r = 0; r < KINDS; r++) {
            for (int count = 1; count <= 9; count += 4) {
                MPI_Status status;
                MPI_Request request;
                int got;
                for (int i = 0; i < INTS; i++) {
                    out[i] = mtest_rank * INTS + i;
                    in[i] = -1;
                }
                MTEST_OK(MPI_Irecv(in, count, types[r], prev, 1, MPI_COMM_WORLD, &request));
                MTEST_OK(MPI_Send(out, count, types[s], next, 1, MPI_COMM_WORLD));
                MTEST_OK(MPI_Wait(&request, &status));
                MTEST_OK(MPI_Get_count(&status, types[r], &got));
                MTEST_CHECK(got == count, "%d to %d: count %d, expected %d", s, r, got, count);
                MTEST_OK(MPI_Get_count(&status, MPI_INT, &got));
                MTEST_CHECK(got == 60 * count, "%d to %d: %d ints", s, r, got);
                static int want[INTS];
                memset(want, 0xff, sizeof want);
                for (int i = 0; i < 60 * count; i++)
                    want[i / 60 * extents[r] + maps[r][i % 60]] =
                        prev * INTS + i / 60 * extents[s] + maps[s][i % 60];
                for (int i = 0; i < INTS; i++)
                    if (in[i] != want[i]) {
                        MTEST_CHECK(0, "%d to %d, count %d: int %d is %d, expected %d", s, r, count, i, in[i],
                                    want[i]);
                        break;
                    }
            }
        }
    }
    for (int kind = 0; kind < KINDS; kind++)
        MTEST_OK(MPI_Type_free(&types[kind]));
    return mtest_end();
}
