#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that petsc4py works unchanged on PETSc and mpi4py, built with our mpicc: mpi4py/petsc_solver.py, with one rank per process and
# with several.
#
# Usage: petsc4py_test.sh BUILD_DIR WORK_DIR
# The sources and numpy come from PyPI, once, into WORK_DIR, which keeps what is built: about half an hour on two cores. Exits with 77
# if they, OpenBLAS or Python's headers are not available.
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"
unset PETSC_DIR PETSC_ARCH PYTHONPATH PYTHONHOME VIRTUAL_ENV

needs_command python3 python3
python3 -c 'import os, sys, sysconfig, venv; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
    skip "no venv, or no headers of Python (packages python3-venv, python3-dev)"
needs_openblas
python=$work/venv/bin/python3
if ! "$python" -c 'import petsc4py.PETSc' 2>/dev/null; then
    rm -rf venv petsc-* petsc4py-*
    python3 -m venv venv || skip "python3 -m venv failed"
    if ! "$python" -m pip install -q numpy "setuptools>=75" wheel "cython>=3,<3.2" >pip.log 2>&1 ||
        ! "$python" -m pip download -q --no-deps --no-build-isolation --no-binary :all: petsc petsc4py >>pip.log 2>&1; then
        skip "numpy, Cython, PETSc and petsc4py cannot be had from PyPI ($work/pip.log)"
    fi
    for archive in petsc-*.tar.gz petsc4py-*.tar.gz; do
        tar xf "$archive" || exit 1
    done
    # Without optimization the builds take a sixth of the time.
    build_step mpi4py.log env CFLAGS=-O0 MPICC="$build/bin/mpicc" "$python" -m pip install --no-cache-dir --no-binary mpi4py mpi4py
    cd petsc-*/ || exit 1
    build_step configure.log python3 ./configure PETSC_ARCH=heddle --with-cc="$build/bin/mpicc" --with-cxx=0 --with-fc=0 \
        --with-mpiexec="$build/bin/mpirun" --with-blaslapack-lib=-lopenblas --with-debugging=0 --with-x=0 --with-ssl=0 --COPTFLAGS=-O0 \
        --with-cudac=0 --with-hipc=0 --with-syclc=0
    build_step make.log make PETSC_DIR="$PWD" PETSC_ARCH=heddle MAKE_NP=2 all
    cd "$work" || exit 1
    build_step petsc4py.log env CFLAGS=-O0 PETSC_DIR="$(echo "$work"/petsc-*/)" PETSC_ARCH=heddle "$python" -m pip install --no-cache-dir \
        --no-build-isolation --no-deps ./petsc4py-*/
fi

for options in "-n 1" "-n 4 +p 2" "-n 16 +p 2" "--procs 2 -n 4"; do
    IFS=" " read -r -a words <<<"$options"
    log=$work/solver.${options// /_}.log
    run_program "petsc_solver.py, $options" "$log" "$build/bin/mpirun" "${words[@]}" "$python" "$here/mpi4py/petsc_solver.py"
    ranks=${options#*-n }
    if ! grep -q "^good ${ranks%% *}$" "$log" || grep '^heddle' "$log"; then
        fail "petsc_solver.py, $options: $(tail -n 3 "$log")"
    fi
done
finish
