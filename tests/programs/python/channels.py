# SPDX-License-Identifier: BSD-3-Clause
"""Shows that heddle.channel carries objects and arrays of any size in order, loses nothing when a task is cancelled, and ends
cleanly, blocking and with asyncio. All ranks send to all; every rank prints nothing, rank 0 prints "good N"."""
import asyncio
import threading

import numpy
from mpi4py import MPI

from heddle.channel import AsyncChannel, Channel, ChannelClosed, run

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
right, left = (rank + 1) % size, (rank - 1) % size


class Device:
    """An array that only says what a device array says."""

    def __init__(self, array):
        self.array, self.shape = array, array.shape

    @property
    def __cuda_array_interface__(self):
        about = self.array.__array_interface__
        return {"shape": about["shape"], "typestr": about["typestr"], "data": about["data"], "strides": about["strides"], "version": 3}


class NotReadable:
    def __reduce__(self):
        return int, ("no number",)


def fails(kind, function, *arguments):
    try:
        function(*arguments)
    except kind as error:
        return str(error)
    raise AssertionError(f"{function} did not raise {kind}")


def values():
    yield from (None, "text", {"a": [1, 2.5]}, b"x" * 2035, b"x" * 100000, Ellipsis)
    for shape in (0, 1, 100, 5000, (3, 1000), (1000, 0), ()):
        for dtype in ("f8", "u1", "M8[s]", [("a", "i4"), ("b", "f8", 3)]):
            yield numpy.zeros(shape, dtype)
    yield numpy.arange(20000).reshape(100, 200)[::2, ::3]
    yield numpy.asfortranarray(numpy.arange(20000.0).reshape(100, 200))
    yield numpy.array([{}, 1], dtype=object)


def same(a, b):
    if isinstance(a, numpy.ndarray):
        bits = numpy.ndarray.tolist if a.dtype.hasobject else numpy.ndarray.tobytes
        return a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b)
    return a == b


def blocking():
    """Even ranks send and odd ranks send back; then arrays come into arrays that exist."""
    pair = Channel(rank ^ 1)
    for value in values():
        if rank & 1:
            pair.send(pair.recv())
        else:
            pair.send(value)
            assert same(pair.recv(), value), value
    # The same array again, and one of another size in between; it can be changed after each send.
    array, out = numpy.zeros(5000), numpy.empty(5000)
    shape = (10, 40)
    big = Device(numpy.zeros(3000))
    if rank & 1:
        for step in range(5):
            assert pair.recv(out) is out and (out == step).all()
            assert (pair.recv() == numpy.full(1000 * step, step)).all()
        target = Device(numpy.zeros(shape))
        assert pair.recv(target) is target and (target.array == 3).all()
        assert (pair.recv() == 3).all() and pair.recv().shape == (0,)
        assert "shape" in fails(ValueError, pair.recv, numpy.empty(3))
        assert pair.recv(numpy.empty(shape, "f4")).sum() == 1200
        assert pair.recv(big) is big and big.array.sum() == 3000
        fails(ValueError, pair.recv)
        assert pair.recv() == "after"
    else:
        for step in range(5):
            array[:] = step
            pair.send(array)
            pair.send(array[: 1000 * step])
        device = Device(numpy.full(shape, 3.0))
        for item in (device, device, Device(numpy.zeros(0)), device, numpy.ones(3000), NotReadable(), "after"):
            pair.send(item)
        assert "contiguous" in fails(ValueError, pair.send, Device(numpy.zeros((4, 4)).T))
        fails(Exception, pair.send, threading.Lock())
    with pair:
        pair.send("never read")
        if rank & 1:
            assert list(pair) == ["never read"]
    fails(ChannelClosed, pair.send, 1)
    fails(ChannelClosed, pair.recv)


async def many(tags):
    """Each rank sends to each, itself too, over several channels; the tasks wait at once."""
    channels = {(peer, tag): AsyncChannel(peer, tag=tag) for peer in range(size) for tag in range(2, 2 + tags)}

    async def talk(peer, tag, channel):
        for step in range(3):
            length = 10 ** (step + 2)
            sent = asyncio.create_task(channel.send(numpy.full(length, rank + tag * 1000)))
            got = await channel.recv()
            assert len(got) == length and (got == peer + tag * 1000).all()
            await sent
        await channel.close()

    await asyncio.gather(*(talk(peer, tag, channel) for (peer, tag), channel in channels.items()))


async def cancelled():
    """A recv that is cancelled before, during and after the arrival of a message loses nothing."""
    to = AsyncChannel(right, tag=8)
    back = to if left == right else AsyncChannel(left, tag=8)

    async def sender():
        for step in range(40):
            await to.send(numpy.full(3000, step))
            if step % 8 == 0:
                await asyncio.sleep(0.002)

    task = asyncio.create_task(sender())
    n_cancelled = step = 0
    out = numpy.zeros(3000, int)
    while step < 40:
        try:
            got = await asyncio.wait_for(back.recv(out if step & 1 else None), 0.0002 * (step % 4))
            assert (got == step).all(), (got, step)
            step += 1
        except asyncio.TimeoutError:
            n_cancelled += 1
            if n_cancelled > 2 * step + 10:
                assert (await back.recv() == step).all()
                step += 1
    await task
    assert n_cancelled
    # A send that is cancelled goes on.
    task = asyncio.create_task(to.send(numpy.full(100000, 7)))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, to.send("next"), receive_both(back), return_exceptions=True)
    await asyncio.gather(to.close(), *([] if to is back else [back.close()]))


async def receive_both(back):
    first = await back.recv()
    # Cancelled before it began: then only the second was sent.
    if not isinstance(first, str):
        assert len(first) == 100000 and await back.recv() == "next"


async def shared():
    """Two tasks that wait on one channel get the messages in the order of their calls; the end wakes both."""
    channel = AsyncChannel(rank, tag=20)
    tasks = [asyncio.create_task(channel.recv()) for _ in range(3)]
    await asyncio.sleep(0)
    await channel.send("first")
    await channel.send("second")
    assert await asyncio.gather(*tasks[:2]) == ["first", "second"]
    tasks[2].cancel()
    ended = AsyncChannel(right, tag=21) if size == 2 else AsyncChannel(rank, tag=21)
    if size == 2 and rank == 1:
        await ended.close()
    elif size == 2:
        got = await asyncio.gather(ended.recv(), ended.recv(), return_exceptions=True)
        assert [type(one) for one in got] == [ChannelClosed] * 2, got
        await ended.close()
    await channel.close()


async def read_and_closed():
    """close() on both sides ends the tasks on both sides that wait for a message."""
    channel = AsyncChannel(rank ^ 1 if size % 2 == 0 else rank, tag=22)
    tasks = [asyncio.create_task(channel.recv()) for _ in range(2)]
    await asyncio.sleep(0)
    await channel.close()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ends] == [ChannelClosed] * 2, ends


async def others():
    """Timers, threads and descriptors are served while a task waits for a message."""
    channel = AsyncChannel(rank, tag=30)
    task = asyncio.create_task(channel.recv())
    loop = asyncio.get_running_loop()
    await asyncio.sleep(0.01)
    assert await loop.run_in_executor(None, lambda: 5) == 5
    process = await asyncio.create_subprocess_exec("/bin/echo", "child", stdout=asyncio.subprocess.PIPE)
    assert (await process.communicate())[0] == b"child\n"
    assert not task.done()
    await channel.send("last")
    assert await task == "last"
    await channel.close()
    async with AsyncChannel(rank ^ 1 if size > 1 else 0, tag=31) as pair:  # without them: the rank blocks in MPI
        await asyncio.gather(pair.send(rank), pair.recv())


async def elsewhere():
    """Another event loop is an error."""
    channel = AsyncChannel(rank, tag=40)
    try:
        await channel.recv()
    except RuntimeError as error:
        return "heddle.channel.run" in str(error)


def main():
    if size % 2 == 0:
        blocking()
    run(many(3))
    run(cancelled())
    run(shared())
    run(read_and_closed())
    run(others())
    assert asyncio.run(elsewhere())
    n = world.reduce(1)
    if rank == 0:
        print("good", n)


main()
