# SPDX-License-Identifier: BSD-3-Clause
#
# sys.exit with a text: exit code 1, and what has been printed is not lost.
import sys

print("printed", end="")
sys.exit("sorry")
