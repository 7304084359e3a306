# SPDX-License-Identifier: BSD-3-Clause
"""All ranks write one HDF5 file through h5py and read it back: rows, columns, single elements and chunks, independently and
together, and in atomic mode; then each rank opens the file alone. Argument: the file's name."""
import sys

import h5py
import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
ROWS, COLUMNS = 3, 40
SHAPE = (ROWS * size, COLUMNS)


def value(row, column):
    return 1000.0 * row + column


def expect(is_right, what):
    if not is_right:
        print(f"FAILED: rank {rank} of {size}: {what}", flush=True)
        comm.Abort(1)


def whole():
    return value(numpy.arange(SHAPE[0])[:, None], numpy.arange(COLUMNS)[None, :])


def write(name):
    with h5py.File(name, "w", driver="mpio", comm=comm) as file:
        expect(file.driver == "mpio", "the driver")
        file.attrs["ranks"] = size
        rows = file.create_dataset("rows", SHAPE, dtype="f8")
        columns = file.create_dataset("group/columns", SHAPE, dtype="i4")
        chunks = file.create_dataset("chunks", SHAPE, dtype=">f4", chunks=(2, 7))
        mine = slice(rank * ROWS, (rank + 1) * ROWS)
        rows[mine] = whole()[mine]
        with columns.collective:
            columns[:, rank::size] = whole()[:, rank::size]
        with chunks.collective:
            chunks[mine] = whole()[mine]
        file.atomic = True
        rows[mine.start, 0] = -rank
        file.atomic = False
        comm.Barrier()
        expect(rows[(rank + 1) % size * ROWS, 0] == -((rank + 1) % size), "an element of another rank")


def check(file):
    rows = whole()
    rows[::ROWS, 0] = -numpy.arange(size)
    expect(file.attrs["ranks"] == size, "the attribute")
    expect(numpy.array_equal(file["rows"][...], rows), "the rows")
    expect(numpy.array_equal(file["group/columns"][...], whole()), "the columns")
    expect(numpy.array_equal(file["chunks"][...], whole()), "the chunks")


expect(h5py.get_config().mpi, "h5py was built without MPI")
write(sys.argv[1])
with h5py.File(sys.argv[1], "r", driver="mpio", comm=comm) as shared:
    check(shared)
    with shared["chunks"].collective:
        expect(numpy.array_equal(shared["chunks"][:, rank % 2::2], whole()[:, rank % 2::2]), "every other column")
with h5py.File(sys.argv[1], "r") as alone:
    check(alone)
comm.Barrier()
if rank == 0:
    print(f"{size} ranks: all data is right")
