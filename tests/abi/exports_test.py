#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that the library exports every function of the standard under both names for the same code (so that tools can define
MPI_ functions and call PMPI_), no other MPI_ or PMPI_ names except the functions of heddle_mpi_compat.h, and has the soname of the standard ABI.

Whether MPI_ is marked weak does not matter: the dynamic linker takes the first definition in both cases, and a linker
with link-time optimization drops the mark.

usage: exports_test.py LIBRARY functions.tsv heddle_mpi_compat.h
"""
import re
import subprocess
import sys


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode("ascii")


def main():
    library, table, compat_header = sys.argv[1:4]
    with open(table, encoding="ascii") as lines:
        wanted = {line.split("\t")[0] for line in lines if line.strip() and not line.startswith("#")}
    with open(compat_header, encoding="ascii") as text:
        compat = set(re.findall(r"^\w+ (MPI_\w+)\(", text.read(), re.M))
    if len(compat) != 38 or compat & wanted:
        print(f"{compat_header} declares {len(compat)} functions, {len(compat & wanted)} of them in the standard")
        sys.exit(1)
    wanted |= compat
    kind_of = {}
    address_of = {}
    for line in run("nm", "-D", "--defined-only", library).splitlines():
        address, kind, name = line.split()
        kind_of[name.split("@")[0]] = kind
        address_of[name.split("@")[0]] = address
    wrong = []
    for name in sorted(wanted):
        if kind_of.get(name) not in ("W", "T"):
            wrong.append(f"{name}: expected a function, is {kind_of.get(name, 'not there')}")
        if kind_of.get("P" + name) != "T":
            wrong.append(f"P{name}: expected a function, is {kind_of.get('P' + name, 'not there')}")
        if address_of.get(name) != address_of.get("P" + name):
            wrong.append(f"{name}: not the same code as P{name}")
    for name in sorted(kind_of):
        plain = name[1:] if name.startswith("PMPI_") else name
        if plain.startswith("MPI_") and plain not in wanted:
            wrong.append(f"{name}: not in the standard")
    if "Library soname: [libmpi_abi.so.1]" not in run("readelf", "-d", library):
        wrong.append("the soname is not libmpi_abi.so.1")
    print("\n".join(wrong))
    print(f"{len(wanted)} functions, {len(wrong)} findings")
    sys.exit(bool(wrong))


main()
