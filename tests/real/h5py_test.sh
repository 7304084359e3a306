#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that h5py with MPI works unchanged, on parallel HDF5 and mpi4py: its own parallel tests, and h5py/parallel.py, with one rank per
# process and with several.
#
# Usage: h5py_test.sh BUILD_DIR WORK_DIR
# HDF5 comes from the Debian or Ubuntu source package, mpi4py, h5py and what they need from PyPI, once, into WORK_DIR, which keeps HDF5's
# library and the Python packages. Exits with 77 if they, CMake, ninja or Python's headers are not available.
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"

needs_command cmake cmake
needs_command ninja ninja-build
needs_command python3 python3
python3 -c 'import os, sys, sysconfig, venv; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
    skip "no venv, or no headers of Python (packages python3-venv, python3-dev)"
python=$work/venv/bin/python
build_parallel_hdf5 libhdf5_hl.so -DONLY_SHARED_LIBS=ON -DHDF5_ENABLE_Z_LIB_SUPPORT=OFF
if [ ! -e "$work/h5py.installed" ]; then
    cd "$work" && rm -rf venv
    python3 -m venv venv || skip "python3 -m venv failed"
    "$python" -m pip install -q "numpy>=2,<2.2" "Cython>=3,<3.1" pkgconfig setuptools wheel pytest pytest-mpi >pip.log 2>&1 ||
        skip "numpy, Cython and pytest cannot be had from PyPI ($work/pip.log)"
    # Not from pip's cache, which may have them for another MPI. Without optimization the builds take a sixth of the time.
    build_step mpi4py.log env CFLAGS=-O0 MPICC="$build/bin/mpicc" "$python" -m pip install --no-cache-dir --no-binary mpi4py mpi4py
    build_step h5py.log env CC="$build/bin/mpicc" HDF5_MPI=ON HDF5_DIR="$hdf5" CFLAGS="-O0 -w" "$python" -m pip install \
        --no-cache-dir --no-build-isolation --no-deps --no-binary h5py h5py==3.12.1
    touch h5py.installed
fi

export LD_LIBRARY_PATH=$hdf5/lib PYTHONDONTWRITEBYTECODE=1
mkdir -p "$work/out" && cd "$work/out" || exit 1
for options in "-n 1" "-n 4 +p 1" "-n 4 +p 2" "-n 3" "--procs 2 -n 2" "--procs 4 -n 4" "--procs 2 -n 6"; do
    IFS=" " read -r -a words <<<"$options"
    log=$work/parallel.${options// /_}.log
    run_program "parallel.py, $options" "$log" "$build/bin/mpirun" "${words[@]}" "$python" "$here/h5py/parallel.py" "$work/out/parallel.h5"
    grep -q "ranks: all data is right" "$log" || fail "parallel.py, $options: no result ($log)"
    log=$work/tests.${options// /_}.log
    run_program "h5py's tests, $options" "$log" "$build/bin/mpirun" "${words[@]}" "$python" -m pytest -q -p no:cacheprovider --only-mpi \
        --pyargs h5py.tests.test_file
    grep -Eq '^[1-9][0-9]* passed' "$log" || fail "h5py's tests, $options: none passed ($log)"
    echo "$options: done"
done
finish
