# SPDX-License-Identifier: BSD-3-Clause
"""Each rank draws a picture; the picture that it draws of its neighbour's data is the neighbour's."""
import io

import matplotlib
import numpy
from mpi4py import MPI

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 (after the choice of the backend)

world = MPI.COMM_WORLD
x = numpy.linspace(0, 10, 200)


def draw(k, kind):
    figure, axes = plt.subplots(figsize=(3, 2))
    axes.plot(x, numpy.sin(x + k))
    axes.imshow(numpy.outer(x, x), extent=(0, 10, -1, 1))
    axes.set_title("rank %d $\\alpha^2$" % k)
    picture = io.BytesIO()
    figure.savefig(picture, format=kind)
    plt.close(figure)
    return picture.getvalue()


pictures = world.allgather(draw(world.rank, "png"))
assert len(set(pictures)) == world.size
neighbour = (world.rank + 1) % world.size
assert draw(neighbour, "png") == pictures[neighbour]
assert draw(0, "pdf").startswith(b"%PDF") and b"</svg>" in draw(0, "svg")
if world.allreduce(1) == world.size and world.rank == 0:
    print("good", world.size)
