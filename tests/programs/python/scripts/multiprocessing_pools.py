# SPDX-License-Identifier: BSD-3-Clause
#
# Pools, queues and shared memory of multiprocessing, with fork and spawn.
import multiprocessing
from multiprocessing import shared_memory


def square(x):
    return x * x


def put(queue):
    queue.put(multiprocessing.parent_process() is not None)


if __name__ == "__main__":
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        with context.Pool(1) as pool:
            print(method, pool.map(square, range(4)))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=put, args=(queue,))
    child.start()
    print(queue.get())
    child.join()
    child = context.Process(target=__import__("time").sleep, args=(1000,))
    child.start()
    child.terminate()
    child.join()
    print(child.exitcode)
    memory = shared_memory.SharedMemory(create=True, size=100)
    memory.buf[0] = 7
    other = shared_memory.SharedMemory(memory.name)
    print(other.buf[0])
    other.close()
    memory.close()
    memory.unlink()
