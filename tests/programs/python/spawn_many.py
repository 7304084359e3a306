# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that spawned interpreters that have ended leave the process, although they had a handler of SIGINT (Python's own) and
# had opened extension modules: the memory mappings of the process do not grow. Prints "good".
import ctypes
import signal
import sys

mpi = ctypes.CDLL("libmpi_abi.so.1", ctypes.RTLD_GLOBAL)
self_comm, info_null = ctypes.c_void_p(0x102), ctypes.c_void_p(0x130)
parent, inter = ctypes.c_void_p(), ctypes.c_void_p()
N_SHOWN = 32  # the first copies stay: debuggers know them
SLACK = 12


def spawn(n):
    words = (ctypes.c_char_p * 2)(__file__.encode(), None)
    mpi.MPI_Comm_spawn(sys.executable.encode(), words, n, info_null, 0, self_comm, ctypes.byref(inter), None)
    mpi.MPI_Comm_disconnect(ctypes.byref(inter))


def count_mappings():
    with open("/proc/self/maps") as maps:
        return len(list(maps))


mpi.MPI_Init(None, None)
mpi.MPI_Comm_get_parent(ctypes.byref(parent))
if parent.value != 0x100:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    mpi.MPI_Comm_disconnect(ctypes.byref(parent))
else:
    spawn(N_SHOWN)
    counts = []
    for _ in range(2):
        for _ in range(8):
            spawn(1)
        counts.append(count_mappings())
    print("good" if counts[1] <= counts[0] + SLACK else f"mappings: {counts}")
mpi.MPI_Finalize()
