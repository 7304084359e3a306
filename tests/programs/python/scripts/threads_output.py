# SPDX-License-Identifier: BSD-3-Clause
#
# Output of threads, of hooks that run in them, and of forked processes.
import os
import sys
import threading


def fail():
    raise KeyError("in a thread")


def run(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()


threading.excepthook = lambda raised: print("hook", raised.exc_type.__name__, flush=True)
run(print, "from a thread")
sys.stdout.flush()
run(os.write, 1, b"written by a thread\n")
run(fail)
child = os.fork()
if child == 0:
    print("from a child", flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1], "at the end")
