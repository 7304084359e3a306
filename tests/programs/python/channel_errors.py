# SPDX-License-Identifier: BSD-3-Clause
"""Shows that heddle.channel loses nothing when a step fails: memory is short, a message is too long, an array cannot be sent;
and that signals, several threads and several event loops are served. Rank 0 prints "good N"."""
import asyncio
import os
import signal
import subprocess
import threading
from unittest import mock

import numpy
from mpi4py import MPI

from heddle.channel import AsyncChannel, Channel, run

world = MPI.COMM_WORLD
rank = world.rank


class Device:
    """A device array whose description may be wrong."""

    def __init__(self, array, **wrong):
        about = array.__array_interface__
        self.array, self.shape = array, array.shape
        self.__cuda_array_interface__ = {"shape": about["shape"], "typestr": about["typestr"], "data": about["data"], "version": 3, **wrong}


class Unreadable:
    shape = (5000,)

    @property
    def __cuda_array_interface__(self):
        raise LookupError("no device")


async def fails(kind, awaitable):
    try:
        await awaitable
    except kind:
        return
    raise AssertionError(f"no {kind}")


def raises(kind, function):
    try:
        function()
    except kind:
        return
    raise AssertionError(f"no {kind}")


async def short_of_memory(pair, _):
    """A receive without memory for the array fails; the next one has the message."""
    sent = asyncio.create_task(pair.send(numpy.arange(5000)))
    with mock.patch("numpy.empty", side_effect=MemoryError):
        await fails(MemoryError, pair.recv())
    assert (await pair.recv()).sum() == 5000 * 4999 // 2
    await sent


async def bad_arrays(pair, _):
    """An array that cannot be sent, or be received into, changes nothing."""
    await fails(Exception, pair.send(Device(numpy.zeros(5000), data=(0, "no flag", 1))))
    await fails(Exception, pair.send(Device(numpy.zeros(5000), mask=numpy.zeros(5000))))
    sent = asyncio.create_task(pair.send(numpy.full(5000, 3)))
    await fails(LookupError, pair.recv(Unreadable()))
    assert (await pair.recv()).sum() == 15000
    await sent


async def foreign(pair, tag):
    """A message that is not the channel's is an error, and is not taken for one of the channel's."""
    world.Send([bytearray(5000), MPI.BYTE], rank, tag)
    await fails(MPI.Exception, pair.recv())
    await asyncio.gather(pair.send("after"), pair.recv())


async def one_of_many(tag):
    """The error of one request is that of the task that waits for it."""
    channels = [AsyncChannel(rank, tag=tag + i) for i in range(5)]
    tasks = [asyncio.create_task(channel.recv()) for channel in channels]
    await asyncio.sleep(0)
    await channels[4].send(4)
    world.Send([bytearray(5000), MPI.BYTE], rank, tag + 2)
    await channels[0].send(0)
    await asyncio.wait([tasks[0], tasks[2], tasks[4]])
    assert isinstance(tasks[2].exception(), MPI.Exception) and (tasks[0].result(), tasks[4].result()) == (0, 4)
    await asyncio.gather(channels[1].send(1), channels[3].send(3))
    assert (await tasks[1], await tasks[3]) == (1, 3)
    await asyncio.gather(*(channel.close() for channel in channels))


async def signals():
    """A signal's handler runs although the task waits for a message only."""
    channel = AsyncChannel(rank, tag=50)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, lambda: loop.create_task(channel.send("signal")))
    process = os.readlink("/proc/self")
    if world.allgather(process).index(process) == rank:  # one signal to each process
        subprocess.run(["sh", "-c", f"kill -USR1 {process}"], check=True)
    assert await channel.recv() == "signal"
    await channel.close()


async def crowd(channel, n):
    """Several tasks use a channel at once."""
    results = await asyncio.gather(*(channel.recv() for _ in range(n)), *(channel.send(i) for i in range(n)))
    assert results[:n] == list(range(n))


def blocking():
    """The same between the blocking calls of two ranks."""
    pair = Channel(rank ^ 1, tag=80)
    if rank & 1:
        with mock.patch("numpy.empty", side_effect=MemoryError):
            raises(MemoryError, pair.recv)
        assert pair.recv().sum() == 5000 * 4999 // 2
        raises(MPI.Exception, pair.recv)
        assert pair.recv() == "after"
    else:
        pair.send(numpy.arange(5000))
        world.Send([bytearray(5000), MPI.BYTE], rank ^ 1, 80)
        pair.send("after")
    pair.close()


async def errors():
    for tag, function in enumerate((short_of_memory, bad_arrays, foreign)):
        pair = AsyncChannel(rank, tag=tag)
        await function(pair, tag)
        await pair.close()


def main():
    if world.size % 2 == 0:
        blocking()
    run(errors())
    run(one_of_many(10))
    run(signals())
    # One channel in several event loops, one after the other; several loops at once.
    channel = AsyncChannel(rank, tag=60)
    for _ in range(2):
        run(crowd(channel, 5))
    run(channel.close())
    threads = [threading.Thread(target=lambda tag=tag: run(crowd(AsyncChannel(rank, tag=tag), 5))) for tag in range(70, 74)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    n = world.reduce(1)
    if rank == 0:
        print("good", n)


main()
