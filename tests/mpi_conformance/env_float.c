/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's rounding direction, its flushing of denormal numbers and its traps are its own, as those of a process are. */
#define _GNU_SOURCE
#include "mtest.h"

#include <fenv.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

static const int directions[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};

/* Rounded to the nearest number, as the compiler does, 1/3 is rounded down as double and up as long double of x86. */
static void check(int direction)
{
    volatile double one = 1, three = 3;
    volatile long double long_one = 1, long_three = 3;

    MTEST_CHECK(fegetround() == direction, "the rounding direction is %d, not %d", fegetround(), direction);
    MTEST_CHECK((one / three > 1.0 / 3) == (direction == FE_UPWARD), "1/3 is not rounded in direction %d",
                direction);
#if defined(__x86_64__)
    MTEST_CHECK((long_one / long_three < 1.0L / 3) ==
                    (direction == FE_DOWNWARD || direction == FE_TOWARDZERO),
                "1/3 as long double is not rounded in direction %d", direction);
#endif
}

/* Some ranks flush denormal numbers to zero, as -ffast-math does. */
static void check_flushing(void)
{
#if defined(__SSE2__)
    volatile double small = 1e-308, ten = 10;

    if (mtest_rank % 3 == 1)
        _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_CHECK((small / ten == 0) == (mtest_rank % 3 == 1), "a denormal number is %g", small / ten);
    MPI_Barrier(MPI_COMM_WORLD);
    _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_OFF);
#endif
}

/* An exception that one rank raises and does not trap is no trap in a rank that traps it. */
static void check_traps(void)
{
#if defined(__x86_64__) && defined(__GLIBC__)
    volatile long double zero = 0, result;

    feclearexcept(FE_ALL_EXCEPT);
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank % 2 == 1)
        feenableexcept(FE_INVALID);
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank % 2 == 0)
        result = zero / zero;
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank % 2 == 0)
        MTEST_CHECK(fetestexcept(FE_INVALID), "the exception of 0/0 is lost");
    result = zero + 1;
    MTEST_CHECK(result == 1, "0 + 1 is %Lg", result);
    MTEST_CHECK(fegetexcept() == (mtest_rank % 2 == 1 ? FE_INVALID : 0), "exceptions %#x are trapped",
                fegetexcept());
    MPI_Barrier(MPI_COMM_WORLD);
    fedisableexcept(FE_INVALID);
#endif
}

int main(int argc, char **argv)
{
    int direction;

    mtest_init(&argc, &argv, 1);
    MTEST_CHECK(fegetround() == FE_TONEAREST, "a rank begins with the rounding direction %d", fegetround());
    direction = directions[mtest_rank % 4];
    fesetround(direction);
    for (int i = 0; i < 10; i++) {
        int from = (mtest_rank + 1) % mtest_size, to = (mtest_rank + mtest_size - 1) % mtest_size, got;

        MPI_Barrier(MPI_COMM_WORLD);
        check(direction);
        MPI_Sendrecv(&mtest_rank, 1, MPI_INT, to, 0, &got, 1, MPI_INT, from, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        check(direction);
    }
    check_flushing();
    check_traps();
    check(direction);
    return mtest_end();
}
