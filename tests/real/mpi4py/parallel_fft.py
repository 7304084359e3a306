# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py-fft transforms arrays in slabs and pencils, also on parts of the ranks, to what numpy computes of the whole array."""
import numpy
from mpi4py import MPI
from mpi4py_fft import PFFT, newDistArray

world = MPI.COMM_WORLD
shape = (17, 24, 20)  # no multiple of the number of ranks
whole = numpy.random.default_rng(7).standard_normal(shape)


def check(comm, kind, **options):
    transform = PFFT(comm, shape, axes=(0, 1, 2), dtype=kind, **options)
    values = newDistArray(transform, False)
    values[:] = whole[values.local_slice()] * (1 if kind == "d" else 1j)
    spectrum = newDistArray(transform, True)
    transform.forward(values, spectrum)
    if kind == "d":
        expected = numpy.fft.rfftn(whole) / whole.size
    else:
        expected = 1j * numpy.fft.fftn(whole) / whole.size
    assert spectrum.global_shape == expected.shape
    assert numpy.allclose(spectrum, expected[spectrum.local_slice()], atol=1e-13)
    back = newDistArray(transform, False)
    transform.backward(spectrum, back)
    assert numpy.allclose(back, values, atol=1e-13)
    turned = values.redistribute(0).redistribute(2)  # Alltoallw of subarrays
    assert numpy.array_equal(turned, whole[turned.local_slice()] * (1 if kind == "d" else 1j))
    transform.destroy()


for kind in "dD":
    check(world, kind, slab=True)
    check(world, kind, slab=False)
part = world.Split(world.rank % 2)
check(part, "d")
if world.allreduce(1) == world.size and world.rank == 0:
    print("good", world.size)
