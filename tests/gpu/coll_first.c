/* SPDX-License-Identifier: BSD-3-Clause */
/* The first call that moves data may be a collective on a device buffer, in a program that loaded CUDA's
 * driver after MPI_Init. The argument names the collective. */
#include <dlfcn.h>
#include <stdint.h>

#include "mtest.h"

typedef int (*driver_fn)();

static driver_fn symbol(void *library, const char *name)
{
    driver_fn found;
    void *address = dlsym(library, name);

    MTEST_CHECK(address != NULL, "libcuda has no %s", name);
    memcpy(&found, &address, sizeof found);
    return found;
}

int main(int argc, char **argv)
{
    int rank, size, device;
    void *library, *context;
    unsigned long long memory;
    size_t n_bytes = 1 << 20;
    double *buf, first, expected;

    mtest_init(&argc, &argv, 1);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL); /* global: for the fake driver's kernels */
    if (!library)
        mtest_skip("no libcuda.so.1");
    MTEST_CHECK(symbol(library, "cuInit")(0) == 0, "cuInit");
    MTEST_CHECK(symbol(library, "cuDeviceGet")(&device, 0) == 0, "cuDeviceGet");
    MTEST_CHECK(symbol(library, "cuDevicePrimaryCtxRetain")(&context, device) == 0,
                "cuDevicePrimaryCtxRetain");
    MTEST_CHECK(symbol(library, "cuCtxSetCurrent")(context) == 0, "cuCtxSetCurrent");
    MTEST_CHECK(symbol(library, "cuMemAlloc_v2")(&memory, n_bytes) == 0, "cuMemAlloc");
    first = rank + 1;
    MTEST_CHECK(symbol(library, "cuMemcpyHtoD_v2")(memory, &first, sizeof first) == 0, "cuMemcpyHtoD");
    MTEST_CHECK(symbol(library, "cuCtxSynchronize")() == 0,
                "cuCtxSynchronize"); /* the bytes may be on their way */
    buf = (double *)(uintptr_t)memory;
    expected = 0.5 * size * (size + 1);
    if (strcmp(argv[1], "allreduce") == 0) {
        MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, buf, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    } else if (strcmp(argv[1], "large") == 0) {
        MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, buf, (int)(n_bytes / sizeof *buf), MPI_DOUBLE, MPI_SUM,
                               MPI_COMM_WORLD));
    } else if (strcmp(argv[1], "bcast") == 0) {
        MTEST_OK(MPI_Bcast(buf, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD));
        expected = 1;
    } else {
        MTEST_OK(
            MPI_Gather(rank == 0 ? MPI_IN_PLACE : buf, 1, MPI_DOUBLE, buf, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD));
        expected = rank + 1;
    }
    MTEST_CHECK(symbol(library, "cuMemcpyDtoH_v2")(&first, memory, sizeof first) == 0, "cuMemcpyDtoH");
    MTEST_CHECK(first == expected, "rank %d has %g, expected %g", rank, first, expected);
    return mtest_end();
}
