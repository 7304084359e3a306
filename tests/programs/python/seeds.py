# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers without a seed differ between ranks, those with equal seeds do not; nor do hashes with PYTHONHASHSEED."""
import os
import random
import secrets
import tempfile
import uuid

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
unseeded = {
    "random": random.random(),
    "numpy.random": float(numpy.random.random()),
    "default_rng": float(numpy.random.default_rng().random()),
    "urandom": os.urandom(8),
    "secrets": secrets.token_hex(8),
    "uuid1": uuid.uuid1().hex,
    "uuid4": uuid.uuid4().hex,
    "mktemp": tempfile.mktemp(),
}
for name in unseeded:
    assert len(set(world.allgather(unseeded[name]))) == world.size, name
random.seed(5)
numpy.random.seed(5)
seeded = (random.random(), float(numpy.random.random()), float(numpy.random.default_rng(5).random()), hash("a"))
assert len(set(world.allgather(seeded))) == 1
if world.allreduce(1) == world.size and world.rank == 0:
    print("good", world.size)
