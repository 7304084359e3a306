# SPDX-License-Identifier: BSD-3-Clause
#
# atexit functions run, and sys.exit with a number gives the exit code.
import atexit
import sys

atexit.register(print, "bye")
sys.exit(3)
