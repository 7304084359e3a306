# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that pools of mpi4py work: on spawned ranks if there is one rank, else on the ranks of the job.
from mpi4py import MPI
from mpi4py.futures import MPICommExecutor, MPIPoolExecutor


def square(x):
    return x * x


if __name__ == "__main__":
    if MPI.COMM_WORLD.size == 1:
        with MPIPoolExecutor(3) as pool:
            print(list(pool.map(square, range(6))))
    else:
        with MPICommExecutor(MPI.COMM_WORLD) as pool:
            if pool is not None:
                print(list(pool.map(square, range(6))))
