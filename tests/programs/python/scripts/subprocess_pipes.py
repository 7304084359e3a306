# SPDX-License-Identifier: BSD-3-Clause
#
# Programs that a rank starts: pipes, exit codes, time limits, signals.
import os
import subprocess
import sys

print(subprocess.run(["sh", "-c", "echo hi; exit 3"], capture_output=True, text=True))
print(subprocess.check_output([sys.executable, "-c", "import sys; print(sys.argv, 1 + 1)", "a"], text=True))
cat = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(cat.communicate(b"x" * 100000)[0] == b"x" * 100000)
try:
    subprocess.run(["sleep", "1000"], timeout=0.1)
except subprocess.TimeoutExpired as error:
    print(type(error).__name__)
sleeper = subprocess.Popen(["sleep", "1000"])
sleeper.terminate()
print(sleeper.wait(), os.waitstatus_to_exitcode(os.system("exit 4")), os.popen("echo q").read())
