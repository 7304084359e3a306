#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts the functions of the standard that are implemented, by chapter.

usage: gen_coverage.py FUNCTIONS.tsv SOURCE_DIR OUT.md      writes docs/coverage.md
       gen_coverage.py FUNCTIONS.tsv SOURCE_DIR README.md   rewrites its table, between the lines <!-- coverage --> and
                                                            <!-- end -->

A function is implemented if a source file has AMPI_EXPORT(name); or a specification (*.bindings) has the function.
"""
import pathlib
import re
import sys

sys.dont_write_bytecode = True
import gen_bindings

# Chapters by the longest matching prefix of the name behind "MPI_"; for docs/coverage.md.
CHAPTERS = [
    ("Point-to-point", r"(Send|Recv|Bsend|Ssend|Rsend|Isend|Irecv|Ibsend|Issend|Irsend|Sendrecv|Isendrecv|Wait|Test|"
                       r"Probe|Iprobe|Mprobe|Improbe|Mrecv|Imrecv|Cancel|Start|Request|Buffer|Comm_(attach|detach|flush|iflush)_buffer|"
                       r"Session_(attach|detach|flush|iflush)_buffer|Status|Get_count|Get_elements|Grequest|Message)"),
    ("Partitioned", r"(Psend|Precv|Pready|Parrived)"),
    ("Datatypes", r"(Type|Pack|Unpack|Get_address|Aint|Sizeof)"),
    ("Collectives", r"(Barrier|Ibarrier|Bcast|Ibcast|Gather|Igather|Scatter|Iscatter|Allgather|Iallgather|Alltoall|"
                    r"Ialltoall|Reduce|Ireduce|Allreduce|Iallreduce|Scan|Iscan|Exscan|Iexscan|Op|Neighbor|Ineighbor)"),
    ("Groups and communicators", r"(Group|Comm|Intercomm|Keyval|Attr)"),
    ("Topologies", r"(Cart|Graph|Dist_graph|Dims|Topo)"),
    ("One-sided", r"(Win|Put|Get$|Get_c$|Accumulate|Get_accumulate|Fetch|Compare|Rput|Rget|Raccumulate)"),
    ("Input and output", r"(File|Register_datarep)"),
    ("Dynamic processes", r"(Open_port|Close_port|Publish|Unpublish|Lookup|Comm_(spawn|accept|connect|disconnect|join|get_parent))"),
    ("Tools", r"(T_|Pcontrol)"),
    ("Environment", r""),
]
ORDERED = [CHAPTERS[8]] + CHAPTERS[:8] + CHAPTERS[9:]


def rows(path):
    with open(path, encoding="ascii") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                yield line.rstrip("\n").split("\t")


def implemented(source_dir, table):
    names = set()
    functions = gen_bindings.read_functions(table)
    for path in sorted(pathlib.Path(source_dir).rglob("*.bindings")):
        names |= gen_bindings.names(path, functions)
    for path in sorted(pathlib.Path(source_dir).rglob("*.c")):
        names |= set(re.findall(r"^AMPI_EXPORT\((\w+)\);", path.read_text(encoding="ascii"), re.M))
    return names


def chapter_of(name):
    for chapter, pattern in ORDERED:
        if re.match(pattern, name):
            return chapter
    return "Environment"


def write_md(out, functions, have):
    by_chapter = {}
    for name, _, _ in functions:
        by_chapter.setdefault(chapter_of(name[len("MPI_"):]), []).append(name)
    n_have = sum(1 for name, _, _ in functions if name[len("MPI_"):] in have)
    out.write("# Coverage of the MPI 5.0 standard\n\n"
              "Generated from the sources by tools/gen_coverage.py; do not edit.\n\n"
              f"Implemented: {n_have} of {len(functions)} functions.\n\n"
              "| chapter | implemented | of |\n| --- | ---: | ---: |\n")
    chapters = [c for c, _ in CHAPTERS if c in by_chapter]
    for chapter in chapters:
        names = by_chapter[chapter]
        out.write(f"| {chapter} | {sum(n[4:] in have for n in names)} | {len(names)} |\n")


def write_readme(path, functions, have):
    missing, counts = {}, {}
    for name, _, _ in functions:
        chapter = chapter_of(name[len("MPI_"):])
        counts[chapter] = counts.get(chapter, 0) + 1
        missing[chapter] = missing.get(chapter, 0) + (name[len("MPI_"):] not in have)
    whole = [c for c, _ in CHAPTERS if missing.get(c) == 0]
    lines = ["| chapter of MPI 5.0 | functions that work | of |", "| --- | ---: | ---: |"]
    lines.append(f"| {', '.join(c if i == 0 else c[0].lower() + c[1:] for i, c in enumerate(whole))} | "
                 f"{sum(counts[c] for c in whole)} | {sum(counts[c] for c in whole)} |")
    for chapter, _ in CHAPTERS:
        if missing.get(chapter):
            lines.append(f"| {chapter} | {counts[chapter] - missing[chapter]} | {counts[chapter]} |")
    text = pathlib.Path(path).read_text(encoding="ascii")
    new, n_blocks = re.subn(r"(<!-- coverage -->\n).*?(<!-- end -->)",
                            lambda m: m.group(1) + "\n".join(lines) + "\n" + m.group(2), text, flags=re.S)
    if n_blocks != 1:
        sys.exit(f"{path} has no lines <!-- coverage --> and <!-- end -->")
    pathlib.Path(path).write_text(new, encoding="ascii")


def main():
    table, source_dir, target = sys.argv[1:4]
    functions = list(rows(table))
    have = implemented(source_dir, table)
    unknown = have - {name[len("MPI_"):] for name, _, _ in functions}
    if unknown:
        sys.exit(f"AMPI_EXPORT of names that are not functions of the standard: {', '.join(sorted(unknown))}")
    if pathlib.Path(target).name == "README.md":
        write_readme(target, functions, have)
        return
    with open(target, "w", encoding="ascii") as out:
        write_md(out, functions, have)


main()
