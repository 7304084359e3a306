#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the Fortran bindings from the tables of src/ampi/abi.

usage: gen_fortran.py c ABI_DIR SOURCES_DIR OUT_DIR         fort_handles.h, fort_bindings.c: the entry points, without the functions that
                                                            a file of SOURCES_DIR exports with FORT_EXPORT
       gen_fortran.py fortran ABI_DIR OUT_DIR [--no-ts]     mpif.h, mpi_f08_types.f90, mpi.f90, mpi_f08.f90; --no-ts: mpi_f08 for a
                                                            compiler without assumed rank: no array sections
       gen_fortran.py names ABI_DIR f90|f08|f08ts           the linker names, one per line

Each function has its parameters in parameters.tsv (kind, intent, length) and its C prototype in functions.tsv. A kind decides how an argument
is declared in Fortran (fortran_modules.py) and how it is converted in C (fortran_c.py). More in docs/decisions/0031-fortran.md.
"""
import pathlib
import sys

from fortran_c import c_files
from fortran_modules import fortran_files
from fortran_table import read_all


def linker_names(abi, which):
    for function in read_all(abi):
        lower = function.name.lower()
        if which == "f90" and "f90" in function.languages:
            print(f"mpi_{lower}_\npmpi_{lower}_")
        if which == "f08" and "f08" in function.languages:
            print(f"mpi_{lower}_f08_\npmpi_{lower}_f08_")
        if which == "f08ts" and "f08" in function.languages:
            suffix = "f08ts" if function.buffers else "f08"
            print(f"mpi_{lower}_{suffix}_\npmpi_{lower}_{suffix}_")


def main():
    args = sys.argv[1:]
    if len(args) == 4 and args[0] == "c":
        c_files(pathlib.Path(args[1]), pathlib.Path(args[2]), pathlib.Path(args[3]))
    elif len(args) in (3, 4) and args[0] == "fortran" and args[3:] in ([], ["--no-ts"]):
        fortran_files(pathlib.Path(args[1]), pathlib.Path(args[2]), not args[3:])
    elif len(args) == 3 and args[0] == "names":
        linker_names(pathlib.Path(args[1]), args[2])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
