# SPDX-License-Identifier: BSD-3-Clause
#
# Large pickles, out-of-band buffers, deep recursion, random seeds.
import pickle
import random
import sys

thing = {"a": [b"x" * 10_000_000, list(range(100000)), {i: str(i) for i in range(10000)}]}
text = pickle.dumps(thing, 5)
print(len(text) > 10**7, pickle.loads(text) == thing)
buffers = []
text = pickle.dumps(pickle.PickleBuffer(bytearray(1000000)), 5, buffer_callback=buffers.append)
print(len(text) < 100, len(pickle.loads(text, buffers=buffers)))
random.seed(7)
print([random.randint(0, 9) for _ in range(5)])


def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)


sys.setrecursionlimit(3000)
print(depth(2500))
try:
    depth(10**6)
except RecursionError as error:
    print(type(error).__name__)
