# SPDX-License-Identifier: BSD-3-Clause
#
# Handlers of signals and KeyboardInterrupt, in each rank.
import faulthandler
import signal
import tempfile
import time

got = []
print(signal.getsignal(signal.SIGINT).__name__, signal.getsignal(signal.SIGUSR1))
signal.signal(signal.SIGUSR1, lambda number, frame: got.append(number))
signal.raise_signal(signal.SIGUSR1)
while not got:
    time.sleep(0.01)
print(got == [signal.SIGUSR1])
try:
    signal.raise_signal(signal.SIGINT)
    time.sleep(1000)
except KeyboardInterrupt:
    print("KeyboardInterrupt")
with tempfile.TemporaryFile() as file:
    faulthandler.dump_traceback(file)
    file.seek(0)
    print(b"signals.py" in file.read())
