# SPDX-License-Identifier: BSD-3-Clause
#
# faulthandler: tracebacks on a signal, after a time, and of a crash in a child.
import faulthandler
import signal
import subprocess
import sys
import tempfile
import time


def text_of(file):
    file.seek(0)
    return file.read().decode()


with tempfile.TemporaryFile() as file:
    faulthandler.register(signal.SIGUSR1, file)
    signal.raise_signal(signal.SIGUSR1)
    print(text_of(file).splitlines()[-1].split(", ")[-1])
    faulthandler.unregister(signal.SIGUSR1)
with tempfile.TemporaryFile() as file:
    faulthandler.dump_traceback_later(0.02, file=file)
    while "<module>" not in text_of(file):
        time.sleep(0.01)
    print(text_of(file).splitlines()[0])
    faulthandler.cancel_dump_traceback_later()
crash = "import faulthandler; faulthandler.enable(); faulthandler._sigsegv()"
child = subprocess.run([sys.executable, "-c", crash], stderr=subprocess.PIPE, text=True)
print(child.returncode, child.stderr.splitlines()[0], child.stderr.count("<module>"))
