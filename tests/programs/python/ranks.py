# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the interpreter is a rank: MPI by ctypes, variables of modules, threads, a child. Prints one line for all ranks.
import ctypes
import os
import subprocess
import sys
import threading

mpi = ctypes.CDLL("libmpi_abi.so.1", ctypes.RTLD_GLOBAL)
world, type_int, op_sum = (ctypes.c_void_p(n) for n in (0x101, 0x209, 0x21))
rank, size = ctypes.c_int(), ctypes.c_int()
provided = ctypes.c_int()
mpi.MPI_Init_thread(None, None, 3, ctypes.byref(provided))
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
os.environ["OF_RANK"] = str(rank.value)


def total(value):
    result = ctypes.c_int()
    mpi.MPI_Allreduce(ctypes.byref(ctypes.c_int(value)), ctypes.byref(result), 1, type_int, op_sum, world)
    return result.value


values = []
threads = [threading.Thread(target=values.append, args=(i,)) for i in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
is_good = len(values) == 3 and int(os.environ["OF_RANK"]) == rank.value
is_good &= not any(name in os.environ for name in ("LD_PRELOAD", "HEDDLE_LIBPYTHON", "HEDDLE_HOST"))
if rank.value == 0:
    child = subprocess.run([sys.executable, "-c", "import os; print(os.environ['OF_RANK'])"], stdout=subprocess.PIPE)
    is_good &= child.stdout == b"0\n"
sum_ranks, n_good = total(rank.value), total(is_good)
if rank.value == 0:
    print(size.value, "ranks, sum", sum_ranks, "good", n_good, sys.executable, sys.prefix, sys.argv[1:])
mpi.MPI_Finalize()
