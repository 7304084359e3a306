#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that Fortran has every function of the standard: linker names (mpif.h, mpi, mpi_f08; MPI and PMPI) in libheddle_mpifort, names in both
modules, every constant with its value in all three; and that the library calls functions of the standard ABI only.

usage: names_test.py ROOT BUILD WORK
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT, BUILD, WORK = (pathlib.Path(arg) for arg in sys.argv[1:4])
ABI = ROOT / "src/ampi/abi"
LIBRARY = BUILD / "lib/libheddle_mpifort.so"
# Functions of C alone: the tool interface, and handles as integers (MPI 5.0, sections 15.3 and 20).
C_ONLY = re.compile(r"MPI_T_|.*_(toint|fromint)$")
# Deprecated since MPI-2, so that mpi_f08 has never had them.
NOT_IN_F08 = re.compile(r"MPI_(Attr_(delete|get|put)|Keyval_(create|free))$")
# Their large form has the types of the other one, since counts and addresses have the same kind; it is there under its own name.
CHOICE = re.compile(r"\bvoid \*(?!baseptr|buffer_addr|attribute_val|extra_state|logical_)")
wrong = []


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)
    if done.returncode != 0:
        print(done.stdout.decode("utf-8", "replace")[-3000:])
        sys.exit(f"failed: {' '.join(str(word) for word in command)}")
    return done.stdout.decode("ascii", "replace")


def rows(name):
    with open(ABI / name, encoding="ascii") as lines:
        return [line.rstrip("\n").split("\t") for line in lines if line.strip() and not line.startswith("#")]


def expected_names():
    """name of C -> (is it in mpif.h and mpi?, is it in mpi_f08?, has it choice buffers?)"""
    names = {}
    for name, _, params in rows("functions.tsv"):
        if not C_ONLY.match(name):
            names[name] = (not name.endswith("_c"), not NOT_IN_F08.match(name), bool(CHOICE.search(params)))
    return names


def check_symbols(names):
    address = {}
    for line in run("nm", "-D", "--defined-only", LIBRARY).splitlines():
        value, _, symbol = line.split()
        address[symbol] = value
    wanted = []
    for name, (in_f90, in_f08, has_choice) in names.items():
        lower = name.lower()
        wanted += [f"{lower}_"] if in_f90 else []
        wanted += [f"{lower}_f08_"] if in_f08 else []
        wanted += [f"{lower}_f08ts_"] if in_f08 and has_choice else []
    for symbol in wanted:
        if symbol not in address or address[symbol] != address.get("p" + symbol):
            wrong.append(f"{symbol}: not in {LIBRARY.name}, or not the same as p{symbol}")
    allowed = {row[0] for row in rows("functions.tsv")}
    for line in run("nm", "-D", "--undefined-only", LIBRARY).splitlines():
        symbol = line.split()[-1].split("@")[0]
        if "MPI" in symbol and re.sub("^P", "", symbol) not in allowed:
            wrong.append(f"the library calls {symbol}, which is not in the standard ABI")
    return len(wanted)


def check_modules(names):
    lines = []
    for module, column in (("mpi", 0), ("mpi_f08", 1)):
        lines.append(f"subroutine in_{module}()")
        for name, columns in names.items():
            base = re.sub("_c$", "", name)
            # A large form has the name of the other one, but for two functions.
            own = name if base == name or base in ("MPI_Op_create", "MPI_Register_datarep") else base
            if columns[column]:
                lines += [f"use {module}, only: {own}", f"use {module}, only: P{own}"]
        lines.append(f"end subroutine in_{module}")
    (WORK / "modules.f90").write_text("\n".join(lines) + "\n", encoding="ascii")
    run(BUILD / "bin/mpifort", "-c", "modules.f90", cwd=WORK)


def constant_value(name, value, values):
    return values[value] if value in values else int(value, 0) - (1 if name.startswith("MPI_MAX_") else 0)


def check_constants():
    values, lines = {}, {"mpif": [], "mpi": [], "mpi_f08": []}
    for name, type_, value in rows("abi_constants.tsv"):
        if name.startswith(("MPI_T_", "MPI_F_", "MPIX_")) and not name.startswith("MPI_T_ERR") or "*" in type_:
            continue
        values[name] = constant_value(name, value, values)
        is_handle = type_ not in ("int", "", "MPI_Offset") or (type_ == "" and value.startswith("MPI_"))
        for module, tests in lines.items():
            part = "%MPI_VAL" if is_handle and module == "mpi_f08" else ""
            tests.append(f"if ({name}{part} /= {values[name]}) print *, 'WRONG', '{name}'")
    text = "call in_mpif()\ncall in_mpi()\ncall in_mpi_f08()\nprint *, 'done'\nend\n"
    for module, tests in lines.items():
        text += f"subroutine in_{module}()\n" + (f"use {module}\nimplicit none\n" if module != "mpif" else "implicit none\ninclude 'mpif.h'\n")
        text += "\n".join(tests) + f"\nend subroutine in_{module}\n"
    (WORK / "constants.f90").write_text(text, encoding="ascii")
    run(BUILD / "bin/mpifort", "constants.f90", "-o", "constants", cwd=WORK)
    output = run("./constants", cwd=WORK)
    if output.split() != ["done"]:
        wrong.append(output)
    return len(values)


def main():
    if not shutil.which("gfortran"):
        print("skipped: there is no gfortran")
        sys.exit(77)
    WORK.mkdir(parents=True, exist_ok=True)
    names = expected_names()
    n_symbols = check_symbols(names)
    check_modules(names)
    n_constants = check_constants()
    print("\n".join(wrong))
    print(f"{len(names)} functions, {n_symbols} linker names, {n_constants} constants in each of three, {len(wrong)} findings")
    sys.exit(bool(wrong) or len(names) < 570)


main()
