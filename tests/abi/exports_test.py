#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that the library exports every function of the standard under both names, MPI_ weak and PMPI_ strong (so that
tools can put theirs in between), nothing else that begins so, and has the soname of the standard ABI.

usage: exports_test.py LIBRARY functions.tsv
"""
import subprocess
import sys


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode("ascii")


def main():
    library, table = sys.argv[1:3]
    with open(table, encoding="ascii") as lines:
        wanted = {line.split("\t")[0] for line in lines if line.strip() and not line.startswith("#")}
    kind_of = {}
    for line in run("nm", "-D", "--defined-only", library).splitlines():
        _, kind, name = line.split()
        kind_of[name.split("@")[0]] = kind
    wrong = []
    for name in sorted(wanted):
        if kind_of.get(name) != "W":
            wrong.append(f"{name}: expected a weak function, is {kind_of.get(name, 'not there')}")
        if kind_of.get("P" + name) != "T":
            wrong.append(f"P{name}: expected a function, is {kind_of.get('P' + name, 'not there')}")
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
