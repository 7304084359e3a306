#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Latency of mpi4py between two ranks, the best of five passes. Runs with any MPI: mpirun -n 2 python3 latency.py"""
import time

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, peer = world.rank, 1 - world.rank


def best_us(count, call):
    passes = []
    for _ in range(5):
        world.Barrier()
        begin = time.perf_counter()
        for _ in range(count):
            call()
        passes.append((time.perf_counter() - begin) / count * 1e6)
    return min(passes)


def exchange(send, receive):
    if rank == 0:
        send()
        receive()
    else:
        receive()
        send()


def half_trip_us(count, send, receive):
    return best_us(count, lambda: exchange(send, receive)) / 2


buffers = [numpy.zeros(size, numpy.uint8) for size in (8, 1 << 20)]
message = {"a": 1, "b": [1, 2]}
inputs, sums = numpy.zeros(1), numpy.zeros(1)
small, large = (half_trip_us(count, lambda: world.Send(buffer, peer), lambda: world.Recv(buffer, peer))
                for count, buffer in zip((3000, 60), buffers))
small_object = half_trip_us(2000, lambda: world.send(message, peer), lambda: world.recv(source=peer))
allreduce = best_us(2000, lambda: world.Allreduce(inputs, sums))
if rank == 0:
    print("Send 8 B %.2f us, 1 MiB %.1f us, send of an object %.2f us, Allreduce of 8 B %.2f us" %
          (small, large, small_object, allreduce))
