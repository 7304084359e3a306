/* SPDX-License-Identifier: BSD-3-Clause */
/* Globals and statics as message buffers: each rank has its own, including pointers to them and initialized
 * tables. */
#include "mtest.h"

int counter = 100;
static double table[1000];
int *pointer_to_counter = &counter;
static struct node {
    struct node *next;
    int value;
} second = {NULL, 2}, first = {&second, 1};
static const char *names[3] = {"one", "two", "three"};
static int (*function_pointer)(int);

static int add_static(int x)
{
    static int sum = 1000;
    return sum += x;
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    MPI_Request request;
    function_pointer = add_static;
    counter += mtest_rank;
    first.next->value = 10 * mtest_rank;
    names[1] = mtest_rank % 2 ? "odd" : "even";
    for (int i = 0; i < 1000; i++)
        table[i] = mtest_rank + i / 1000.0;
    for (int i = 0; i <= mtest_rank; i++)
        function_pointer(1);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD)); /* all have written */
    MTEST_CHECK(counter == 100 + mtest_rank && *pointer_to_counter == counter &&
                    pointer_to_counter == &counter,
                "counter is %d, through the pointer %d", counter, *pointer_to_counter);
    MTEST_CHECK(second.value == 10 * mtest_rank, "list node is %d", second.value);
    MTEST_CHECK(strcmp(names[1], mtest_rank % 2 ? "odd" : "even") == 0, "names[1] is %s", names[1]);
    MTEST_CHECK(add_static(0) == 1001 + mtest_rank, "function static is %d", add_static(0));
    /* From the rank's global into the neighbour's global of the same name. */
    static int counter_of_prev;
    MTEST_OK(MPI_Isend(&counter, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &request));
    MTEST_OK(MPI_Recv(&counter_of_prev, 1, MPI_INT, prev, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_CHECK(counter_of_prev == 100 + prev && counter == 100 + mtest_rank, "got %d, own %d",
                counter_of_prev, counter);
    MTEST_OK(
        MPI_Sendrecv_replace(table, 1000, MPI_DOUBLE, next, 2, prev, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 1000; i++)
        if (table[i] != prev + i / 1000.0) {
            MTEST_CHECK(0, "table[%d] is %g", i, table[i]);
            break;
        }
    return mtest_end();
}
