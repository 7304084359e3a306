# SPDX-License-Identifier: BSD-3-Clause
#
# Warnings: once per line, filters, as exceptions, through logging, and options of the interpreter.
import logging
import subprocess
import sys
import warnings


def warn():
    warnings.warn("old", DeprecationWarning, stacklevel=1)


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("default")
    for _ in range(3):
        warn()
    warnings.simplefilter("always")
    warn()
print([(w.category.__name__, str(w.message), w.lineno) for w in caught])
with warnings.catch_warnings():
    warnings.simplefilter("error")
    try:
        warn()
    except DeprecationWarning as error:
        print("raised", error)
records = []
handler = logging.Handler()
handler.emit = lambda record: records.append(record.name)
logging.getLogger("py.warnings").addHandler(handler)
logging.captureWarnings(True)
warnings.warn("to the log", stacklevel=1)
logging.captureWarnings(False)
print(records, sys.warnoptions)
child = subprocess.run([sys.executable, "-W", "error", "-c", "import warnings; warnings.warn('x')"], stderr=subprocess.PIPE, text=True)
print(child.returncode, child.stderr.splitlines()[-1])
