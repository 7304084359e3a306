# SPDX-License-Identifier: BSD-3-Clause
"""Heat in a square plate with one hot edge, by numpy slices: each rank has a band of rows.

usage: mpirun -n RANKS python3 heat.py [CELLS [STEPS [PICTURE.png]]]     a picture needs matplotlib
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
cells = int(sys.argv[1]) if len(sys.argv) > 1 else 512
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
if cells < size:
    sys.exit(f"{cells} rows are too few for {size} ranks")

# The rows of this rank, between one row of each neighbor; the edges of the plate keep their temperature.
first, last = cells * rank // size, cells * (rank + 1) // size
band = np.zeros((last - first + 2, cells + 2))
if rank == 0:
    band[0, :] = 100
up = rank - 1 if rank > 0 else MPI.PROC_NULL
down = rank + 1 if rank < size - 1 else MPI.PROC_NULL

comm.Barrier()
start = MPI.Wtime()
for _ in range(steps):
    comm.Sendrecv(band[1], dest=up, recvbuf=band[-1], source=down)
    comm.Sendrecv(band[-2], dest=down, recvbuf=band[0], source=up)
    band[1:-1, 1:-1] = 0.25 * (band[:-2, 1:-1] + band[2:, 1:-1] + band[1:-1, :-2] + band[1:-1, 2:])
elapsed = comm.allreduce(MPI.Wtime() - start, MPI.MAX)
heat = comm.allreduce(band[1:-1, 1:-1].sum())
if rank == 0:
    print(f"{size} ranks, {cells} x {cells} cells, {steps} steps: mean temperature {heat / cells**2:.6f}, {elapsed:.3f} s")

if len(sys.argv) > 3:
    bands = comm.gather(band[1:-1, 1:-1])
    if rank == 0:
        from matplotlib import image  # draws without a display

        image.imsave(sys.argv[3], np.vstack(bands), cmap="inferno")
