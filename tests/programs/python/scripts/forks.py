# SPDX-License-Identifier: BSD-3-Clause
#
# os.fork, os.posix_spawn and exec in children.
import os
import sys

reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.close(reader)
    os.write(writer, b"from the child")
    sys.exit(7)
os.close(writer)
print(os.read(reader, 100), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
child = os.posix_spawnp("true", ["true"], os.environ)
print(os.waitpid(child, 0)[1])
child = os.fork()
if child == 0:
    os.execvp("sh", ["sh", "-c", "exit 5"])
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
