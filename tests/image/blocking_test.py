#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that src/image/libc/blocking.tsv has each function of the C library that blocks, and that each name of those that
are rebound stands in a row of IMAGE_REBINDS: other exported names of the same address, and fortified forms.

A function that blocks is one that can be cancelled: it calls the same internal function as read does.

usage: blocking_test.py SOURCE
"""
import collections
import ctypes
import glob
import os
import re
import shutil
import subprocess
import sys

SKIP_CODE = 77
CALL = re.compile(r"\tcall\s+([0-9a-f]+)")
START = re.compile(r"([0-9a-f]+) <.*>:$")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def library_path():
    """The file of the C library of this process."""
    ctypes.CDLL(None)
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            if re.search(r"/libc(\.so\.6|-2\.[0-9]+\.so)$", line.strip()):
                return line.split()[-1]
    return None


def read_symbols(library):
    """The exported functions: names by address, and address by name."""
    names, address_of = collections.defaultdict(set), {}
    for line in output_of("nm", "-D", "--defined-only", library).splitlines():
        address, kind, symbol = line.split()
        if kind in "TWi" and "@GLIBC_PRIVATE" not in symbol:
            names[address].add(symbol.split("@")[0])
            address_of.setdefault(symbol.split("@")[0], address)
    return names, address_of


def find_cancellable(library, read_address):
    """The addresses of the functions that call what read calls first; none if this C library is built in another way."""
    calls, address = collections.defaultdict(list), None
    for line in output_of("objdump", "-d", "--no-show-raw-insn", library).splitlines():
        start, call = START.match(line), CALL.search(line)
        if start:
            address = start.group(1)
        elif call and address:
            calls[address].append(call.group(1))
    first = calls[read_address][:1]
    return {address for address, targets in calls.items() if first and first[0] in targets}


def main():
    source = sys.argv[1]
    library = library_path()
    if not library or not shutil.which("objdump") or not shutil.which("nm") or not shutil.which("cc"):
        sys.exit(SKIP_CODE)
    files = glob.glob(os.path.join(source, "src/image/libc/rebind_*.c"))
    rows = output_of("cc", "-E", "-P", "-D_GNU_SOURCE", "-I", os.path.join(source, "src"), *files)
    rebound = set()
    for names in re.findall(r"struct image_rebinding\)\{\{([^}]*)\}", rows):
        rebound.update(re.findall(r'"(\w+)"', re.sub(r'" *"', "", names)))
    with open(os.path.join(source, "src/image/libc/blocking.tsv"), encoding="ascii") as text:
        rows = dict(line.rstrip("\n").split("\t") for line in text if not line.startswith("#"))
    names, address_of = read_symbols(library)

    wrong = []
    listed = set()
    for name, treatment in rows.items():
        same = names[address_of[name]] if name in address_of else set()
        forms = {form for one in same for form in (one, f"__{one}_chk", f"__{one}_2") if form in address_of}
        listed |= forms
        if treatment == "rebound":
            wrong += [f"IMAGE_REBINDS lacks {form}, a name of {name}" for form in sorted(forms - rebound)]
    addresses = {address_of[name] for name in listed}
    for address in sorted(find_cancellable(library, address_of["read"])):
        if address in names and address not in addresses:
            wrong.append(f"blocking.tsv lacks {'/'.join(sorted(names[address]))}")
    print("\n".join(wrong) or f"{len(rows)} functions, {len(listed)} names")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
