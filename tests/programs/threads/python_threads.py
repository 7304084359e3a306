#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that the threads of a Python program call MPI at MPI_THREAD_MULTIPLE, although the library is loaded after the C library: messages between
any threads, blocking and nonblocking, collectives on a communicator of each thread, and a thread that waits until the others are done.

usage: python_threads.py LIBMPI
"""
import ctypes
import sys
import threading

THREADS = 4
ROUNDS = 100
WINDOW = 8
MPI_COMM_WORLD = ctypes.c_void_p(0x101)
MPI_INT64_T = ctypes.c_void_p(0x258)
MPI_SUM = ctypes.c_void_p(0x21)
MPI_THREAD_MULTIPLE = 4096
WAITER_TAG = 1000

library = ctypes.CDLL(sys.argv[1])
wrong = []


def call(name, *args):
    code = getattr(library, name)(*args)
    if code != 0:
        raise RuntimeError(f"{name} returned {code}")


def number_of(name):
    value = ctypes.c_int()
    call(name, MPI_COMM_WORLD, ctypes.byref(value))
    return value.value


def exchange(comm, send_tag, receive_tag, value):
    """The value of the rank to the left, which sends with receive_tag."""
    out, found = ctypes.c_int64(value), ctypes.c_int64(-1)
    call("MPI_Sendrecv", ctypes.byref(out), 1, MPI_INT64_T, (rank + 1) % size, send_tag, ctypes.byref(found), 1, MPI_INT64_T,
         (rank + size - 1) % size, receive_tag, comm, None)
    return found.value


def exchange_window(comm, value):
    """WINDOW values of the rank to the left."""
    out, found = (ctypes.c_int64 * WINDOW)(*range(value, value + WINDOW)), (ctypes.c_int64 * WINDOW)()
    requests = (ctypes.c_void_p * (2 * WINDOW))()
    for i in range(WINDOW):
        at = 8 * i
        call("MPI_Irecv", ctypes.byref(found, at), 1, MPI_INT64_T, (rank + size - 1) % size, i, comm, ctypes.byref(requests, 8 * i))
        call("MPI_Isend", ctypes.byref(out, at), 1, MPI_INT64_T, (rank + 1) % size, i, comm, ctypes.byref(requests, 8 * (WINDOW + i)))
    call("MPI_Waitall", 2 * WINDOW, requests, None)
    return list(found)


def sum_of(comm, value):
    out, found = ctypes.c_int64(value), ctypes.c_int64()
    call("MPI_Allreduce", ctypes.byref(out), ctypes.byref(found), 1, MPI_INT64_T, MPI_SUM, comm)
    return found.value


def check(what, found, expected):
    if found != expected:
        wrong.append(f"rank {rank}: {what}: {found} instead of {expected}")


def work(number, comm):
    left = (rank + size - 1) % size
    for i in range(ROUNDS):
        check("own communicator", exchange(comm, 1, 1, rank * 1000 + i), left * 1000 + i)
        # To the next thread of the next rank, from the thread before this one of the rank before.
        before = (number + THREADS - 1) % THREADS
        check("another thread", exchange(MPI_COMM_WORLD, number, before, number * 1000 + i), before * 1000 + i)
        check("window", exchange_window(comm, rank + i), list(range(left + i, left + i + WINDOW)))
        check("sum", sum_of(comm, rank + i), size * (size - 1) // 2 + size * i)


def wait_for_main():
    found = ctypes.c_int64()
    call("MPI_Recv", ctypes.byref(found), 1, MPI_INT64_T, (rank + size - 1) % size, WAITER_TAG, MPI_COMM_WORLD, None)
    check("the waiting thread", found.value, (rank + size - 1) % size)


def guarded(function, *args):
    try:
        function(*args)
    except Exception as error:  # pylint: disable=broad-except
        wrong.append(f"rank {rank}: {error}")


provided = ctypes.c_int()
call("MPI_Init_thread", None, None, MPI_THREAD_MULTIPLE, ctypes.byref(provided))
rank, size = number_of("MPI_Comm_rank"), number_of("MPI_Comm_size")
check("the thread level", provided.value, MPI_THREAD_MULTIPLE)
comms = [ctypes.c_void_p() for _ in range(THREADS)]
for new_comm in comms:
    call("MPI_Comm_dup", MPI_COMM_WORLD, ctypes.byref(new_comm))
waiter = threading.Thread(target=guarded, args=(wait_for_main,))
workers = [threading.Thread(target=guarded, args=(work, i, comms[i])) for i in range(THREADS)]
for thread in [waiter] + workers:
    thread.start()
for thread in workers:
    thread.join()
message = ctypes.c_int64(rank)
call("MPI_Send", ctypes.byref(message), 1, MPI_INT64_T, (rank + 1) % size, WAITER_TAG, MPI_COMM_WORLD)
waiter.join()
for text in wrong[:5]:
    print(text, file=sys.stderr)
n_wrong = sum_of(MPI_COMM_WORLD, len(wrong))
for new_comm in comms:
    call("MPI_Comm_free", ctypes.byref(new_comm))
call("MPI_Finalize")
if rank == 0:
    print("ok" if n_wrong == 0 else f"{n_wrong} wrong values")
