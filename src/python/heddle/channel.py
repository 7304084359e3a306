# SPDX-License-Identifier: BSD-3-Clause
"""Channels between two ranks, on top of mpi4py: objects, numpy arrays and device arrays, blocking or with asyncio.

    channel = Channel(peer)             # both ranks create it; tag chooses one of several
    channel.send(array)                 # on return the array can be changed
    array = channel.recv()              # or recv(out): into an array that exists

    async def main():                   # one rank can wait for many
        channels = [AsyncChannel(rank) for rank in range(1, comm.size)]
        print(await asyncio.gather(*(channel.recv() for channel in channels)))
    run(main())                         # an event loop that also waits for messages

A message is a slot of fixed size, which a persistent request sends and receives: a small pickled object, or what follows it.
Larger objects and arrays follow as a second message. If the same array is sent or received (out) again, that message is a
persistent request, too; so a channel keeps its last arrays until it is closed.

Invariants:
 1. All messages of a direction have one tag. The receive for the next slot starts after the receive of the current body.
 2. No message is lost: what a cancelled recv had begun is the state of the channel (_is_armed, _body, _ready), and the next
    recv continues it. A cancelled send goes on; the next send waits for it first. Until then its array must not change.
 3. _send_steps, _recv_steps, ... yield requests to wait for, and change the state only after such a wait, whose
    error is thrown into them. A wait for a request that has completed is allowed: it is inactive.

A channel is used by one thread. Several tasks may use an AsyncChannel: they send and receive in the order of their calls.
"""
import asyncio
import functools
import pickle
import selectors
import struct
import threading
import time

from mpi4py import MPI

try:
    import numpy
except ImportError:  # objects only
    numpy = None

SLOT_BYTES = 2048
HEAD = struct.Struct("<cIQ")  # kind, bytes in the slot, bytes of the second message
SMALL_ARRAY_BYTES = 1024  # up to this size an array is sent as an object, in the slot
OBJECT, ARRAY, CLOSE = b"o", b"a", b"c"


# The description of an array; pickling a dtype takes longer than sending it.
_describe = functools.lru_cache(64)(lambda dtype, shape: pickle.dumps((dtype, shape)))
_described = functools.lru_cache(64)(pickle.loads)


class ChannelClosed(EOFError):
    """The peer, or this rank, has closed the channel."""


class _Line:
    """A persistent request that is used again while the buffer is the same one."""

    def __init__(self, init):
        self._init = init  # Send_init or Recv_init of the communicator
        self._array, self._place, self.request = None, None, MPI.REQUEST_NULL

    def prepare(self, array, place, buffer):
        if array is not self._array or place != self._place:
            self.free()
            self.request = self._init(buffer)
            self._array, self._place = array, place
        return self.request

    def free(self):
        self._array = self._place = None
        if self.request != MPI.REQUEST_NULL:
            self.request.Free()


def _device_array(array):
    """(dtype's string, shape, address) of a contiguous device array; None if it is not a device array."""
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        return None
    shape, strides, step = interface["shape"], interface.get("strides"), int(interface["typestr"][2:])
    for length, stride in zip(reversed(shape), reversed(strides or ())):
        if length > 1 and stride != step:
            raise ValueError("a device array must be contiguous")
        step *= length
    return interface["typestr"], tuple(shape), interface["data"][0]


def _pack(obj):
    """(kind, bytes for the slot, buffer that follows, array to remember, its address and size) of an object."""
    device = _device_array(obj)
    if device:
        typestr, shape, address = device
        size = int(typestr[2:])
        for length in shape:
            size *= length
        return ARRAY, _describe(typestr, shape), [obj, size, MPI.BYTE] if size else b"", obj, (address, size)
    if numpy and type(obj) is numpy.ndarray and obj.nbytes > SMALL_ARRAY_BYTES and not obj.dtype.hasobject:
        about = _describe(obj.dtype, obj.shape)
        if len(about) <= SLOT_BYTES - HEAD.size:
            flat = numpy.ascontiguousarray(obj)
            keep = obj if flat is obj else flat
            return ARRAY, about, flat.reshape(-1).view("u1"), keep, (flat.ctypes.data, flat.nbytes)
    data = pickle.dumps(obj, 5)
    if len(data) <= SLOT_BYTES - HEAD.size:
        return OBJECT, data, b"", None, None
    return OBJECT, b"", data, data, len(data)


class Channel:
    """A channel to the rank peer of comm. Its messages are those with this tag between the two ranks."""

    def __init__(self, peer, comm=MPI.COMM_WORLD, tag=0):
        self.peer = peer
        self._slot_out, self._slot_in = bytearray(SLOT_BYTES), bytearray(SLOT_BYTES)
        self._head_out = comm.Send_init([self._slot_out, MPI.BYTE], peer, tag)
        self._head_in = comm.Recv_init([self._slot_in, MPI.BYTE], peer, tag)
        self._line_out = _Line(lambda buffer: comm.Send_init(buffer, peer, tag))
        self._line_in = _Line(lambda buffer: comm.Recv_init(buffer, peer, tag))
        self._irecv = lambda buffer: comm.Irecv(buffer, peer, tag)
        self._outgoing = []  # requests of the send in progress
        self._is_armed = False  # the receive of a slot has started
        self._body = None  # (request, message), while a second message arrives
        self._ready = None  # a message that has arrived: (kind, bytes of the slot, buffer or None, out or None)
        self._has_ended = False  # the peer has closed its side
        self._has_said_end = False  # the message about our end has started
        self._is_closed = False  # nothing can be sent or received

    # The three operations, as generators of requests to wait for.

    def _start_message(self, kind, head, body, keep, place):
        HEAD.pack_into(self._slot_out, 0, kind, len(head), place[1] if isinstance(place, tuple) else place or 0)
        self._slot_out[HEAD.size : HEAD.size + len(head)] = head
        outgoing = [self._head_out]
        if len(body):
            outgoing.append(self._line_out.prepare(keep, place, body))  # fails before the slot is sent
        for request in outgoing:
            request.Start()
        self._outgoing = outgoing

    def _finish_send(self):
        while self._outgoing:
            yield self._outgoing[-1]
            self._outgoing.pop()

    def _send_steps(self, obj):
        self._check_open()
        message = _pack(obj)
        yield from self._finish_send()
        self._check_open()
        self._start_message(*message)
        yield from self._finish_send()

    def _arrive(self, out):
        """Waits until _ready is a message; its body may be received into out."""
        while self._ready is None and not self._has_ended:
            if self._body is None:
                if not self._is_armed:
                    self._head_in.Start()
                    self._is_armed = True
                yield from self._arrival(self._head_in)
                self._start_body(out)  # if there is no memory, the slot remains: the next recv reads it again
                self._is_armed = False
            yield from self._arrival(self._body[0])
            self._ready, self._body = self._body[1], None
            if self._ready[0] == CLOSE:
                self._ready, self._has_ended = None, True

    def _arrival(self, request):
        try:
            yield request
        except MPI.Exception:  # this message is lost
            self._is_armed, self._body = False, None
            raise

    def _start_body(self, out):
        kind, in_slot, size = HEAD.unpack_from(self._slot_in)
        head = bytes(self._slot_in[HEAD.size : HEAD.size + in_slot])
        request, buffer, used = MPI.REQUEST_NULL, None, None
        if size:
            place = self._place_in(out, head) if kind == ARRAY and out is not None else None
            if place:
                used = out
                request = self._line_in.prepare(out, place, [out, size, MPI.BYTE] if numpy is None or type(out) is not numpy.ndarray
                                                else out.reshape(-1).view("u1"))
                request.Start()
            else:
                buffer = numpy.empty(size, "u1") if numpy else bytearray(size)
                request = self._irecv([buffer, MPI.BYTE])
        self._body = request, (kind, head, buffer, used)

    @staticmethod
    def _place_in(out, head):
        """Address and size of out if the array that head describes can be received there without a conversion."""
        dtype, shape = _described(head)
        if numpy and type(out) is numpy.ndarray:
            fits = out.dtype == dtype and out.shape == shape and out.flags.c_contiguous and out.flags.writeable
            return (out.ctypes.data, out.nbytes) if fits else None
        try:
            device = _device_array(out)
        except ValueError:
            return None
        fits = device and device[:2] == (getattr(dtype, "str", dtype), shape)
        return (device[2], shape) if fits else None

    def _recv_steps(self, out=None):
        self._check_open()
        yield from self._arrive(out)
        self._check_open()
        if self._has_ended:
            raise ChannelClosed(f"rank {self.peer} has closed the channel")
        kind, head, buffer, used = self._ready
        if out is not None and used is out:
            self._ready = None
            return out
        if kind == ARRAY:
            dtype, shape = _described(head)
            empty = buffer is None and used is None
            value = numpy.empty(shape, dtype) if empty else used if used is not None else buffer.view(dtype).reshape(shape)
        else:
            try:
                value = pickle.loads(head if buffer is None else buffer)
            except BaseException:
                self._ready = None  # another attempt would fail, too
                raise
        if out is not None:
            if getattr(value, "shape", None) != out.shape:
                raise ValueError(f"out has the shape {out.shape}; the message is kept: {getattr(value, 'shape', type(value))}")
            if value.size:
                out[...] = value
            value = out
        self._ready = None
        return value

    def _say_end_steps(self):
        yield from self._finish_send()
        if not self._has_said_end:
            self._has_said_end = True
            self._start_message(CLOSE, b"", b"", None, None)
        yield from self._finish_send()

    def _close_steps(self):
        if self._is_closed:
            return
        yield from self._say_end_steps()
        while not self._has_ended:
            yield from self._arrive(None)
            self._ready = None
        if not self._is_closed:
            self._is_closed = True
            for request in (self._head_out, self._head_in, self._line_out, self._line_in):
                getattr(request, "Free", getattr(request, "free", None))()

    def _check_open(self):
        if self._has_said_end or self._is_closed:
            raise ChannelClosed("this rank has closed the channel")

    # What waits in the calling thread.

    @staticmethod
    def _drive(steps):
        try:
            request = next(steps)
            while True:
                try:
                    request.Wait()
                except MPI.Exception as error:
                    steps.throw(error)
                request = steps.send(None)
        except StopIteration as stop:
            return stop.value

    def send(self, obj):
        """Sends an object, a numpy array or a device array; returns when it can be changed."""
        self._drive(self._send_steps(obj))

    def recv(self, out=None):
        """Returns the next message. An array is received into out if there is one; a device array without out is a numpy array."""
        return self._drive(self._recv_steps(out))

    def close(self):
        """Waits until the peer closes its side, too, and drops messages that nobody has received."""
        self._drive(self._close_steps())

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is None:  # after an exception the peer may never close
            self.close()

    def __iter__(self):
        while True:
            try:
                message = self.recv()
            except ChannelClosed:
                return
            yield message


class AsyncChannel(Channel):
    """The same with `await`: send, recv and close are coroutines. It needs the event loop of heddle.channel.run."""

    def __init__(self, peer, comm=MPI.COMM_WORLD, tag=0):
        super().__init__(peer, comm, tag)
        self._loop, self._locks = None, None

    def _turns(self):
        """The locks of send and recv. They belong to an event loop, and nobody waits for those of a loop that has ended."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._locks = loop, (asyncio.Lock(), asyncio.Lock())
        return self._locks

    @staticmethod
    async def _drive_async(steps):
        messages = getattr(asyncio.get_running_loop(), "messages", None)
        if messages is None:
            raise RuntimeError("AsyncChannel needs the event loop of heddle.channel.run()")
        try:
            request = next(steps)
            while True:
                try:
                    if not request.Test():
                        await messages.completion(request)
                except MPI.Exception as error:
                    steps.throw(error)
                request = steps.send(None)
        except StopIteration as stop:
            return stop.value

    async def send(self, obj):
        async with self._turns()[0]:
            await self._drive_async(self._send_steps(obj))

    async def recv(self, out=None):
        async with self._turns()[1]:
            return await self._drive_async(self._recv_steps(out))

    async def close(self):
        send_turn, recv_turn = self._turns()
        async with send_turn:
            await self._drive_async(self._say_end_steps())
        async with send_turn, recv_turn:  # a recv in progress on either side ends now
            await self._drive_async(self._close_steps())

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, value, traceback):
        if kind is None:
            await self.close()

    async def __aiter__(self):
        while True:
            try:
                message = await self.recv()
            except ChannelClosed:
                return
            yield message


class _Messages(selectors.DefaultSelector):
    """A selector that also waits for requests.

    If nothing but a message can wake the event loop (no timers, descriptors, threads or signals), it blocks in MPI, which costs nothing
    and lets other ranks run. Otherwise it tests N_TESTS times, and then once in NAP_S, in which others run: a message that comes
    later is noticed after up to NAP_S, and a waiting rank takes some percent of a core.
    """

    N_TESTS = 50
    NAP_S = 0.001  # epoll's unit

    def __init__(self):
        super().__init__()
        self._waits = []  # (request, future)
        self.may_block = True  # no handler of a signal can wake the event loop

    async def completion(self, request):
        """Waits until the request has completed. If the task is cancelled, the request goes on."""
        wait = request, asyncio.get_running_loop().create_future()
        self._waits.append(wait)
        try:
            await wait[1]
        finally:
            if wait in self._waits:
                self._waits.remove(wait)

    def _complete(self, some):
        """Tests or waits for some requests; has one completed?"""
        statuses = []
        try:
            indices = some([request for request, _ in self._waits], statuses) or ()
            finished = [(self._waits[index], None) for index in indices]
        except MPI.Exception as error:
            if error.Get_error_class() != MPI.ERR_IN_STATUS:
                raise
            # Some have failed. Those that have completed, in their order, are inactive now.
            codes = [status.error for status in statuses]
            finished = [(wait, MPI.Exception(code) if code else None)
                        for wait, code in zip([wait for wait in self._waits if wait[0].Test()], codes)]
        for wait, error in finished:
            self._waits.remove(wait)
            if wait[1].done():
                continue
            if error:
                wait[1].set_exception(error)
            else:
                wait[1].set_result(None)
        return bool(finished)

    def select(self, timeout=None):
        if not self._waits:
            return super().select(timeout)
        if self._complete(MPI.Request.Testsome):
            return super().select(0)
        if timeout is None and self.may_block and threading.active_count() == 1 and len(self.get_map()) == 1:  # the loop's own
            self._complete(MPI.Request.Waitsome)
            return []
        end = float("inf") if timeout is None else time.monotonic() + timeout
        n_tests = 0
        while True:
            left = end - time.monotonic()
            events = super().select(0 if n_tests < self.N_TESTS else max(0, min(left, self.NAP_S)))
            if events or left <= 0 or self._complete(MPI.Request.Testsome):
                return events
            n_tests += 1


class EventLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop, which also waits for messages of channels."""

    def __init__(self):
        self.messages = _Messages()
        super().__init__(self.messages)

    def add_signal_handler(self, *arguments):
        self.messages.may_block = False
        super().add_signal_handler(*arguments)


def run(main, *, debug=None):
    """asyncio.run with this event loop (Python 3.11)."""
    with asyncio.Runner(loop_factory=EventLoop, debug=debug) as runner:
        return runner.run(main)
