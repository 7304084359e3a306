#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that a program or library with a damaged header, which ld.so still runs, is copied or refused with a message: the copies
never crash or hang if the uncopied program does not.

Usage: damaged_test.py FOLDER HOST_FOLDER PROGRAM [LIBRARY [COUNT]]: damages the library, or the program if LIBRARY is "-"; COUNT fields,
chosen at random with a fixed seed (all if 0), and removes each entry of its dynamic section."""
import os
import random
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import elf_fields  # noqa: E402 (from tests/support)

folder, host, program, library, count = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])
target = program if library == "-" else library
data = open(target, "rb").read()


def run(copies, limit_s=20):
    environment = dict(os.environ, LD_LIBRARY_PATH=folder + ":" + host)
    environment.pop("IMAGE_COPIES", None)
    if copies:
        environment["IMAGE_COPIES"] = "2"
    try:
        done = subprocess.run([os.path.join(folder, os.path.basename(program))], env=environment, timeout=limit_s,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return done.returncode, done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    except subprocess.TimeoutExpired:
        return "hangs", ""
    except OSError as error:
        return "no start", str(error)


shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
cases = [(name, at, size, value) for name, at, size in elf_fields.load_fields(data) for value in elf_fields.WILD]
if count:
    random.Random(14).shuffle(cases)
    cases = cases[:count]
cases += [(name, at, size, elf_fields.UNKNOWN_TAG) for name, at, size in elf_fields.dynamic_tags(data)]
shutil.copy(program, folder)
path = os.path.join(folder, os.path.basename(target))
n_run = n_refused = n_bad = 0
for name, at, size, value in cases:
    damaged = elf_fields.damage(data, at, size, value)
    if os.path.exists(path):
        os.unlink(path)
    with open(path, "wb") as out:
        out.write(damaged)
    os.chmod(path, 0o755)
    if run(False)[0] != 0:
        continue
    code, output = run(True)
    if code == "hangs":  # a busy machine can keep a program waiting for a minute
        code, output = run(True, 180)
    n_run += 1
    n_refused += code == 3
    if code not in (0, 3) or (code == 3 and "cannot" not in output):
        n_bad += 1
        print(f"{name} = {value & (2 ** (8 * size) - 1):#x}: {code}: {output[-200:]}")
print(f"{len(cases)} damaged files, {n_run} run as they are; as copies {n_refused} are refused, {n_bad} fail")
sys.exit(1 if n_bad or n_run < len(cases) // 20 else 0)
