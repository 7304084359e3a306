#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that a search for symbols finds each function of MPI where it is defined: PMPI_Send in send.c, PMPI_Igather in the file that
is generated from its specification. ctags checks it if it is installed; the form of the definitions that ctags needs is always checked.

usage: symbols_test.py ROOT FOLDER_OF_GENERATED_FILES
"""
import pathlib
import re
import shutil
import subprocess
import sys

root, generated = map(pathlib.Path, sys.argv[1:3])
with open(root / "src/ampi/abi/functions.tsv", encoding="ascii") as lines:
    wanted = {"P" + line.split("\t")[0] for line in lines if line.strip() and not line.startswith("#")}
sources = sorted((root / "src/ampi").rglob("*.c")) + sorted(generated.rglob("*_bindings.c"))
wrong = []

found = []
for source in sources:
    text = source.read_text(encoding="ascii")
    for name, rest in re.findall(r"^AMPI_EXPORT(?:_COMPAT)?\((\w+)\)(.*\n.*)", text, re.M):
        if not re.fullmatch(rf";\n(\w[^;(]*[ *])?PMPI_{name}\(.*", rest):
            wrong.append(f"{source}: AMPI_EXPORT({name}) is not followed by a semicolon and PMPI_{name}")
        found.append(f"PMPI_{name}")
wrong += [f"{name}: not found" for name in sorted(wanted - set(found))]

if shutil.which("ctags"):
    run = subprocess.run(["ctags", "-x", "--c-kinds=f", *map(str, sources)], check=True, stdout=subprocess.PIPE, text=True)
    tags = {line.split()[0] for line in run.stdout.splitlines() if line.strip()}
    wrong += [f"{name}: ctags does not find it" for name in sorted(wanted - tags)]
    wrong += [f"ctags takes {name} for a function" for name in sorted(tags) if name.startswith("AMPI_EXPORT")]
else:
    print("ctags is not installed: its part is skipped")
print("\n".join(wrong))
print(f"{len(wanted)} functions, {len(wrong)} findings")
sys.exit(bool(wrong))
