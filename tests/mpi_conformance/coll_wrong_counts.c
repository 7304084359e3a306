/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Reduce_scatter whose ranks pass counts with an equal total, but different ones, accesses no memory but the
 * ranks' buffers: each rank gets MPI_ERR_COUNT, or elements of the result. */
#include <sys/mman.h>

#include "mtest.h"

#define PAGE ((size_t)4096)

/* Memory that ends where the next access would be an error. */
static int *make_ints(size_t n_ints)
{
    size_t n_bytes = (n_ints * sizeof(int) + PAGE - 1) / PAGE * PAGE;
    char *memory = mmap(NULL, n_bytes + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    MTEST_CHECK(memory != MAP_FAILED && mprotect(memory + n_bytes, PAGE, PROT_NONE) == 0, "no memory");
    return (int *)(void *)(memory + n_bytes - n_ints * sizeof(int));
}

static void add(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *len; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

/* Each rank says that it gets all, or (shift is 1) that the next one does. */
static void reduce(int total, int shift, MPI_Op op)
{
    int *in = make_ints((size_t)total), *out = make_ints((size_t)total);
    int *counts = calloc((size_t)mtest_size, sizeof *counts);
    int error, n_wrong = 0;

    counts[(mtest_rank + shift) % mtest_size] = total;
    for (int i = 0; i < total; i++)
        in[i] = i % 1000 + mtest_rank;
    error = MPI_Reduce_scatter(in, out, counts, MPI_INT, op, MPI_COMM_WORLD);
    if (error)
        MTEST_CLASS(error, MPI_ERR_COUNT);
    for (int i = 0; i < total && !error && shift == 0; i++)
        n_wrong += out[i] != i % 1000 * mtest_size + mtest_size * (mtest_size - 1) / 2;
    MTEST_CHECK(n_wrong == 0, "%d of %d elements are wrong, and there is no error", n_wrong, total);
    free(counts);
}

int main(int argc, char **argv)
{
    MPI_Op op;

    mtest_init(&argc, &argv, 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Op_create(add, 1, &op);
    for (int shift = 0; shift < 2; shift++) {
        reduce(50, shift, MPI_SUM);
        reduce(5000, shift, MPI_SUM);
        reduce(3000000, shift, MPI_SUM);
        reduce(50, shift, op);
        reduce(3000000, shift, op);
    }
    MPI_Op_free(&op);
    return mtest_end();
}
