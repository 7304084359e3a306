/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A module's variable gets the address of memory that another rank is just giving back (the driver has freed it, but the call has
 * not returned): a message of the variable has what cuMemcpyHtoD has put there, although the PE still knows the memory that was
 * there before, and a copy from pageable memory may return before the bytes are there. So does a library's variable, and one that
 * has the address of a variable of an unloaded module.
 */
#include <stdatomic.h>
#include <time.h>

#include "device.h"
#include "fakecuda.h"

#define N 1000
#define ROUNDS 3

enum kind { MODULE, LIBRARY, KINDS };
static const char *const kind_names[KINDS] = {"module", "library"};

/* Rank 0 frees the memory. Rank 1 keeps their PE busy, so that rank 0's call does not return before the last rank, on the other PE,
 * has used the address. */
#define USER 3

/* In memory of rank 0. */
struct shared {
    _Atomic int is_free, is_held, is_seen;
};
static struct shared *shared;
static unsigned numbers[N], got[N];

static void wait_for(_Atomic int *flag)
{
    while (!atomic_load(flag))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* Within cuMemFree, on a thread of the library. */
static void notice_free(void *arg)
{
    struct shared *flags = arg;

    atomic_store(&flags->is_free, 1);
    wait_for(&flags->is_held);
}

static void hold(void)
{
    wait_for(&shared->is_free);
    atomic_store(&shared->is_held, 1);
    while (!atomic_load(&shared->is_seen)) /* without a call that would let rank 0 run */
        ;
}

static void check(CUdeviceptr memory, unsigned value, const char *what)
{
    MPI_Request request;

    for (int i = 0; i < N; i++)
        numbers[i] = value;
    GTEST_CU(cuMemcpyHtoD(memory, numbers, sizeof numbers));
    MTEST_OK(MPI_Irecv(got, N, MPI_UNSIGNED, 0, 0, MPI_COMM_SELF, &request));
    MTEST_OK(MPI_Send((void *)memory, N, MPI_UNSIGNED, 0, 0, MPI_COMM_SELF));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_CHECK(got[0] == value && got[N - 1] == value, "%s: %u and %u instead of %u", what, got[0],
                got[N - 1], value);
}

static CUdeviceptr load(enum kind kind, void **loaded_out)
{
    CUdeviceptr variable = 0;
    size_t n_bytes = 0;

    if (kind == MODULE) {
        GTEST_CU(cuModuleLoadData((CUmodule *)loaded_out, "image"));
        GTEST_CU(cuModuleGetGlobal(&variable, &n_bytes, *(CUmodule *)loaded_out, "numbers"));
    } else {
        GTEST_CU(cuLibraryLoadData((CUlibrary *)loaded_out, "image", NULL, NULL, 0, NULL, NULL, 0));
        GTEST_CU(cuLibraryGetGlobal(&variable, &n_bytes, *(CUlibrary *)loaded_out, "numbers"));
    }
    MTEST_CHECK(n_bytes == sizeof numbers, "a variable of %zu bytes", n_bytes);
    return variable;
}

static void unload(enum kind kind, void *loaded)
{
    GTEST_CU(kind == MODULE ? cuModuleUnload((CUmodule)loaded) : cuLibraryUnload((CUlibrary)loaded));
}

/* While rank 0 is in cuMemFree: `freed` was its memory. */
static void use_variables(CUdeviceptr freed, enum kind kind, unsigned round)
{
    void *loaded = NULL;
    CUdeviceptr variable = load(kind, &loaded);

    MTEST_CHECK(variable == freed, "the %s's variable has another address than the memory had",
                kind_names[kind]);
    check(variable, 100 * round + 1, kind_names[kind]);
    for (unsigned i = 2; i < 4; i++) {
        unload(kind, loaded);
        MTEST_CHECK(load(kind, &loaded) == variable, "the %s's variable has moved", kind_names[kind]);
        check(variable, 100 * round + i, "after unloading");
    }
    unload(kind, loaded);
}

static void test(enum kind kind, unsigned round)
{
    CUdeviceptr memory = 0;

    if (mtest_rank == 0) {
        GTEST_CU(cuMemAlloc(&memory, sizeof numbers));
        *shared = (struct shared){0};
    }
    MTEST_OK(MPI_Bcast(&memory, sizeof memory, MPI_BYTE, 0, MPI_COMM_WORLD));
    if (mtest_rank == USER) /* its PE knows the memory from now on */
        check(memory, round, "memory");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0) {
        fakecuda_on_freed(notice_free, shared);
        GTEST_CU(cuMemFree(memory));
        fakecuda_on_freed(NULL, NULL);
    } else if (mtest_rank == 1) {
        hold();
    } else if (mtest_rank == USER) {
        wait_for(&shared->is_held);
        use_variables(memory, kind, round);
        atomic_store(&shared->is_seen, 1);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 4);
    gtest_init();
    if (!fakecuda_is_here())
        mtest_skip("only the fake driver says when memory is free");
    if (mtest_rank == 0) {
        shared = mtest_alloc(sizeof *shared);
        fakecuda_add_variable("numbers", sizeof numbers);
    }
    MTEST_OK(MPI_Bcast(&shared, sizeof shared, MPI_BYTE, 0, MPI_COMM_WORLD));
    for (unsigned round = 1; round <= ROUNDS; round++)
        for (enum kind kind = MODULE; kind < KINDS; kind++)
            test(kind, round);
    return mtest_end();
}
