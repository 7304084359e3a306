# SPDX-License-Identifier: BSD-3-Clause
"""Each rank compiles functions with Numba, also for several threads, and gets what numpy computes."""
import numba
import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD


@numba.njit
def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@numba.njit(parallel=True)
def total(values):
    result = 0.0
    for i in numba.prange(values.size):
        result += values[i]
    return result


@numba.vectorize(["float64(float64)"])
def square_plus_one(x):
    return x * x + 1


values = numpy.arange(10000.0) * (world.rank + 1)
assert total(values) == values.sum()  # sums of integers are exact
assert (square_plus_one(values) == values * values + 1).all()
assert [collatz(27 + world.rank % 2), collatz(97)] == [[111, 18][world.rank % 2], 118]
if world.allreduce(1) == world.size and world.rank == 0:
    print("good", world.size)
