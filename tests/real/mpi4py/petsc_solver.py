# SPDX-License-Identifier: BSD-3-Clause
#
# petsc4py: the heat in a rod (a tridiagonal system) by conjugate gradients, with the ranks' own PETSc: its options, objects and
# error messages. The solution is known.
import sys

import petsc4py

petsc4py.init(sys.argv[:1])
from mpi4py import MPI
from petsc4py import PETSc

world = MPI.COMM_WORLD
assert PETSc.COMM_WORLD.getSize() == world.size and PETSc.COMM_WORLD.getRank() == world.rank
n = 20 * world.size
matrix = PETSc.Mat().createAIJ([n, n], nnz=3)
first, last = matrix.getOwnershipRange()
for row in range(first, last):
    for column, value in ((row - 1, -1.0), (row, 2.0), (row + 1, -1.0)):
        if 0 <= column < n:
            matrix[row, column] = value
matrix.assemble()
x, b = matrix.createVecs()
exact = x.duplicate()
exact.setArray([1.0 + row % 7 for row in range(first, last)])
matrix.mult(exact, b)
# Options are each rank's own.
PETSc.Options()["own_number"] = world.rank
solver = PETSc.KSP().create()
solver.setOperators(matrix)
solver.setType("cg")
solver.getPC().setType("jacobi")
solver.setTolerances(rtol=1e-12, max_it=10 * n)
solver.solve(b, x)
x.axpy(-1.0, exact)
assert solver.getConvergedReason() > 0 and x.norm() < 1e-6, (solver.getConvergedReason(), x.norm())
assert PETSc.Options().getInt("own_number") == world.rank
# A vector that all ranks hold, and a matrix's product in a communicator of one rank.
scatter, all_values = PETSc.Scatter.toAll(exact)
scatter.scatter(exact, all_values)
assert all_values.getArray().tolist() == [1.0 + row % 7 for row in range(n)]
single = PETSc.Vec().createSeq(world.rank + 1, comm=PETSc.COMM_SELF)
single.set(2.0)
assert single.sum() == 2.0 * (world.rank + 1)
# An error is an exception of this rank.
try:
    matrix.mult(PETSc.Vec().createMPI(n + world.size), b)
    raise AssertionError("no exception")
except PETSc.Error as error:
    assert error.ierr == 60, error  # sizes do not fit
n_good = world.reduce(1)
if world.rank == 0:
    print("good", n_good)
