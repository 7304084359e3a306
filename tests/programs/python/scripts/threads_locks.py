# SPDX-License-Identifier: BSD-3-Clause
#
# Threads: pools, locals, events, timers, barriers, exceptions.
import concurrent.futures
import queue
import threading

with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(sum(pool.map(lambda x: x * x, range(100))))
answers, local = queue.Queue(), threading.local()
local.x = 1


def work():
    local.x = 2
    answers.put(local.x)
    raise RuntimeError("in a thread")


threading.excepthook = lambda args: answers.put(str(args.exc_value))
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(answers.get(), answers.get(), local.x)
event = threading.Event()
threading.Timer(0.02, event.set).start()
print(event.wait())
barrier = threading.Barrier(3)
threads = [threading.Thread(target=barrier.wait) for _ in range(2)]
for thread in threads:
    thread.start()
barrier.wait()
for thread in threads:
    thread.join()
print(barrier.broken)
with concurrent.futures.ProcessPoolExecutor(1) as pool:
    print(pool.submit(abs, -3).result())
