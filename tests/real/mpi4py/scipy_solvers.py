# SPDX-License-Identifier: BSD-3-Clause
"""Each rank solves the same problems with SciPy's sparse, dense, integration and optimization code, scaled by its rank."""
import numpy
import scipy.fft
import scipy.integrate
import scipy.linalg
import scipy.optimize
import scipy.sparse
import scipy.sparse.linalg
import scipy.special
from mpi4py import MPI

world = MPI.COMM_WORLD
scale = world.rank + 1
n = 200
matrix = scipy.sparse.diags([-1, 2.5, -1], [-1, 0, 1], shape=(n, n), format="csc") * scale
right = numpy.arange(n) % 7 + 1.0
results = [scipy.sparse.linalg.spsolve(matrix, right)]  # SuperLU, in C
solution, code = scipy.sparse.linalg.cg(matrix, right, rtol=1e-12)
assert code == 0
results.append(solution)
results.append(scipy.linalg.solve(matrix.toarray(), right))  # LAPACK
largest = scipy.sparse.linalg.eigsh(matrix, k=1, v0=right)[0][0]  # ARPACK, once in Fortran, with state
curve = scipy.integrate.solve_ivp(lambda t, y: -y * scale, (0, 1), [1.0], method="LSODA", rtol=1e-9, atol=1e-12)  # with state
area = scipy.integrate.quad(lambda x: numpy.exp(-scale * x * x), -numpy.inf, numpy.inf)[0]  # QUADPACK calls back
root = scipy.optimize.fsolve(lambda x: x * x - scale, [1.0])[0]  # MINPACK calls back
low = scipy.optimize.minimize(lambda x: ((x - scale) ** 2).sum(), numpy.zeros(3), method="L-BFGS-B").x
spectrum = scipy.fft.ifft(scipy.fft.fft(right))
for result in results:
    assert numpy.allclose(result * scale, world.bcast(results[0]), rtol=1e-6)  # rank 0's scale is 1
assert numpy.isclose(largest, scale * world.bcast(largest))
assert numpy.isclose(curve.y[0, -1], numpy.exp(-scale), rtol=1e-6)
assert numpy.isclose(area, numpy.sqrt(numpy.pi / scale)) and numpy.isclose(root, numpy.sqrt(scale))
assert numpy.allclose(low, scale, atol=1e-4) and numpy.allclose(spectrum, right)
assert numpy.isclose(scipy.special.gamma(scale + 1), float(numpy.prod(numpy.arange(1.0, scale + 1))))
if world.allreduce(1) == world.size and world.rank == 0:
    print("good", world.size)
