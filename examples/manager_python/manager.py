# SPDX-License-Identifier: BSD-3-Clause
"""Adds up the Collatz lengths of 1 to N: rank 0 hands out blocks of numbers and awaits all other ranks at once, so a slow worker
gets fewer. Usage: mpirun -n 8 python3 manager.py [N]

The other ranks use channels without asyncio. PYTHONPATH=PREFIX/share/heddle/python finds heddle.channel, unless it was
installed with pip.
"""
import asyncio
import sys

from mpi4py import MPI

from heddle.channel import AsyncChannel, Channel, run

BLOCK = 500


def length_of(n):
    """The number of steps from n to 1."""
    length = 0
    while n != 1:
        n = 3 * n + 1 if n % 2 else n // 2
        length += 1
    return length


def work():
    with Channel(0) as manager:
        for block in manager:  # until the manager closes the channel
            manager.send(sum(map(length_of, block)))


async def manage(last, workers):
    blocks = iter([range(n, min(n + BLOCK, last + 1)) for n in range(1, last + 1, BLOCK)])

    async def serve(worker):
        total = 0
        async with AsyncChannel(worker) as channel:
            for block in blocks:  # all tasks take from the same blocks
                await channel.send(block)
                total += await channel.recv()
        return total

    steps = sum(await asyncio.gather(*map(serve, workers)))
    print(f"{len(workers)} workers: {steps} steps")


world = MPI.COMM_WORLD
if world.rank == 0:
    run(manage(int(sys.argv[1]) if len(sys.argv) > 1 else 10000, range(1, world.size)))
else:
    work()
