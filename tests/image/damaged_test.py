#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that a program or library with a damaged header, which ld.so still runs, is copied or refused with a message: the copies
never crash or hang if the uncopied program does not.

Usage: damaged_test.py FOLDER HOST_FOLDER PROGRAM [LIBRARY [COUNT]]: damages the library, or the program if LIBRARY is "-"; COUNT fields,
chosen at random with a fixed seed (all if 0)."""
import os
import random
import shutil
import struct
import subprocess
import sys

folder, host, program, library, count = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])
target = program if library == "-" else library
data = open(target, "rb").read()
wild = [0, 1, 7, 0xFFF, 0x1001, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFF8]


def fields():
    """(name, offset in the file, bytes) of what src/image reads."""
    phoff, phnum = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    loads, dynamic = [], {}
    for i in range(phnum):
        at = phoff + i * 56
        kind, _, offset, vaddr, _, size = struct.unpack_from("<IIQQQQ", data, at)
        if kind == 1:
            loads.append((vaddr, offset, size))
        for name, where in (("offset", 8), ("vaddr", 16), ("filesz", 32), ("memsz", 40), ("align", 48)):
            yield f"phdr {i} (type {kind:#x}) {name}", at + where, 8
        if kind == 2:
            for j in range(size // 16):
                tag, value = struct.unpack_from("<QQ", data, offset + j * 16)
                dynamic[tag] = value
                yield f"dynamic tag {tag:#x}", offset + j * 16 + 8, 8
                if tag == 0:
                    break

    def file_offset(vaddr):
        return next(o + vaddr - v for v, o, s in loads if v <= vaddr < v + s)

    for table, size in ((7, 8), (23, 2)):
        for i in range(dynamic.get(size, 0) // 24 if table in dynamic else 0):
            at = file_offset(dynamic[table]) + i * 24
            yield f"relocation {i} offset", at, 8
            yield f"relocation {i} symbol", at + 12, 4
            yield f"relocation {i} type", at + 8, 4
    for i in range(1, 12):
        at = file_offset(dynamic[6]) + i * 24
        yield f"symbol {i} name", at, 4
        yield f"symbol {i} size", at + 16, 8


def run(copies):
    environment = dict(os.environ, LD_LIBRARY_PATH=folder + ":" + host)
    environment.pop("IMAGE_COPIES", None)
    if copies:
        environment["IMAGE_COPIES"] = "2"
    try:
        done = subprocess.run([os.path.join(folder, os.path.basename(program))], env=environment, timeout=20,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return done.returncode, done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    except subprocess.TimeoutExpired:
        return "hangs", ""
    except OSError as error:
        return "no start", str(error)


shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
cases = [(name, at, size, value) for name, at, size in fields() for value in wild]
if count:
    random.Random(14).shuffle(cases)
    cases = cases[:count]
shutil.copy(program, folder)
path = os.path.join(folder, os.path.basename(target))
n_run = n_refused = n_bad = 0
for name, at, size, value in cases:
    damaged = bytearray(data)
    damaged[at:at + size] = (value & (2 ** (8 * size) - 1)).to_bytes(size, "little")
    if os.path.exists(path):
        os.unlink(path)
    with open(path, "wb") as out:
        out.write(damaged)
    os.chmod(path, 0o755)
    if run(False)[0] != 0:
        continue
    code, output = run(True)
    n_run += 1
    n_refused += code == 3
    if code not in (0, 3) or (code == 3 and "cannot" not in output):
        n_bad += 1
        print(f"{name} = {value & (2 ** (8 * size) - 1):#x}: {code}: {output[-200:]}")
print(f"{len(cases)} damaged files, {n_run} run as they are; as copies {n_refused} are refused, {n_bad} fail")
sys.exit(1 if n_bad or n_run < len(cases) // 20 else 0)
