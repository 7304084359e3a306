# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a rank spawns scripts by their name: 2 ranks each of the files in the arguments, which are copies of this file with
# an interpreter in the first line. The spawned ranks print their arguments.
import ctypes
import sys

mpi = ctypes.CDLL("libmpi_abi.so.1", ctypes.RTLD_GLOBAL)
self_comm, info_null = ctypes.c_void_p(0x102), ctypes.c_void_p(0x130)
parent, inter = ctypes.c_void_p(), ctypes.c_void_p()
mpi.MPI_Init(None, None)
mpi.MPI_Comm_get_parent(ctypes.byref(parent))
if parent.value != 0x100:
    sys.stdout.write(f"spawned {sys.argv[1:]}\n") # one write, as the ranks share stdout
    sys.stdout.flush()
else:
    for name in sys.argv[1:]:
        words = (ctypes.c_char_p * 3)(b"a", b"-n", None)
        mpi.MPI_Comm_spawn(name.encode(), words, 2, info_null, 0, self_comm, ctypes.byref(inter), None)
mpi.MPI_Finalize()
