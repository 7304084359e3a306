#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that parameters.tsv describes mpi.h: every function, and every parameter's C type as its kind, length and intent require, in
the int and in the _c form.

usage: parameters_test.py ROOT
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
ABI = ROOT / "src/ampi/abi"
# Names that C spells otherwise than the standard's text: index is a function of the C library.
C_NAMES = {"index": "indx", "err": "error", "pe_session": "session"}
OTHER_NAMES = {("Precv_init", "source"): "dest"}
# C has no const here, because it came into the standard later, or never.
NOT_CONST = {("Group_range_excl", "ranges"), ("Group_range_incl", "ranges"), ("Free_mem", "base"), ("Win_create", "base")}
OWN_CONST = {("Pcontrol", "level")}
# C's own: MPI_Cancel gets a pointer to what it only reads, MPI_Info_create_env gets the arguments as main has them.
OTHER_TYPES = {("Cancel", "request"): "MPI_Request *", ("Info_create_env", "argc"): "int", ("Info_create_env", "argv"): "char **"}
LENGTHS = {"*", "peers", "size", "indegree", "outdegree", "cart_dims"}
wrong = []


def rows(name):
    with open(ABI / name, encoding="ascii") as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                yield line.rstrip("\n").split("\t")


def plain(declaration):
    """A parameter without its name's spelling: "const int x[]" -> ("const int *", "x")."""
    if declaration in ("...", "void"):
        return declaration, declaration
    base, stars, name, array = re.fullmatch(r"(.*?)\s*([*]*)(\w+)((?:\[\d*\])*)", declaration).groups()
    return f"{base.strip()} {stars}{'*' if array.startswith('[') else ''}{array[2:] if array.startswith('[][') else ''}".strip(), name


def header_functions():
    text = re.sub(r"/\*.*?\*/", "", (ROOT / "include/mpi.h").read_text(encoding="ascii"), flags=re.S)
    functions = {}
    for name, params in re.findall(r"\b(MPI_\w+)\(([^()]*)\)[^;(){}]*;", text):
        functions[name[len("MPI_"):]] = [plain(" ".join(p.split())) for p in params.split(",")]
    return functions


def c_type(function, name, kind, length, direction, large, kinds):
    match = re.fullmatch(r"function\((\w+)(?:\|(\w+))?\)", kind)
    if match:
        type_ = match.group(2) if large and match.group(2) else match.group(1)
        return type_ if type_.startswith("MPI_T_") else f"{type_} *"
    if (function, name) in OTHER_TYPES:
        return OTHER_TYPES[function, name]
    type_ = kinds[kind][large]
    is_const = direction == "in" and (function, name) not in NOT_CONST
    if "C_CONST" in type_:
        return type_.replace("C_CONST", "const" if is_const else "").strip()
    if type_.endswith("*") or type_ == "...":
        return type_
    if length is not None:
        return f"{'const ' if is_const else ''}{type_} *{'[3]' if length == 'n][3' else ''}"
    if (function, name) in OWN_CONST:
        return f"const {type_}"
    return type_ if direction == "in" else f"{type_} *"


def check(function, params, large, declared, kinds):
    called = function + ("_c" if large else "")
    names = [p.split()[0] for p in params]
    expected = []
    for param in params:
        name, kind, direction, *flags = param.split(" ")
        kind, length = re.fullmatch(r"([^\[]*)(?:\[(.*)\])?", kind).groups()
        if kind.split("(")[0] not in kinds or direction not in ("in", "out", "inout") or \
                set(flags) - {"asynchronous", "at_root", "large_only", "no_intent"}:
            wrong.append(f"{called}: not understood: {param}")
            return
        if length and not (length in names or length in LENGTHS or length.startswith("MPI_MAX_") or length == "n][3"):
            wrong.append(f"{called}: {name} has the unknown length {length}")
        if "large_only" not in flags or large:
            c_name = OTHER_NAMES.get((function, name), C_NAMES.get(name, name))
            expected.append((c_type(function, name, kind, length, direction, large, kinds), "..." if kind == "varargs" else c_name))
    for want, have in zip(expected or [("void", "void")], declared):
        if want != have:
            wrong.append(f"{called}: parameters.tsv says {want[0]} {want[1]}, mpi.h has {have[0]} {have[1]}")
    if len(expected or [0]) != len(declared):
        wrong.append(f"{called}: {len(expected)} parameters, {len(declared)} in mpi.h")


def main():
    kinds = {row[0]: row[1:3] for row in rows("kinds.tsv")}
    header = header_functions()
    standard = {row[0][len("MPI_"):] for row in rows("functions.tsv")}
    seen, used = set(), set()
    for function, languages, *rest in rows("parameters.tsv"):
        params = [p for p in rest[0].split("; ") if p] if rest else []
        if not set(languages.split()) <= {"c", "f08", "f90"} or "c" not in languages.split():
            wrong.append(f"{function}: languages {languages}")
        used |= {re.match(r"\w+", p.split(" ")[1]).group() for p in params}
        for large in (0, 1):
            called = function + ("_c" if large else "")
            if called not in standard and large:
                continue
            seen.add(called)
            if called in header:
                check(function, params, large, header[called], kinds)
            else:
                wrong.append(f"{called}: not in mpi.h")
    wrong.extend(f"{name}: not in parameters.tsv" for name in sorted(standard - seen))
    wrong.extend(f"{name}: not in functions.tsv" for name in sorted(seen - standard))
    wrong.extend(f"{kind}: a kind that no parameter has" for kind in sorted(set(kinds) - used))
    print("\n".join(wrong))
    print(f"{len(seen)} functions, {len(wrong)} findings")
    sys.exit(bool(wrong) or len(seen) != len(standard))


main()
