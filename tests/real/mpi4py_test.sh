#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a user gets Python ranks from nothing: Heddle's wheel and mpi4py, built from its source with the wheel's mpicc, in a
# new virtual environment. A script runs with 64 ranks, mpi4py's own tests pass, in a process and in several, and so does
# tests/programs/python_mpi4py_test.sh.
#
# Usage: mpi4py_test.sh BUILD_DIR WORK_DIR [quick | packages | "OPTIONS OF MPIRUN" [MODULE...]]
# Without more words all modules run, one by one, with 1, 2, 5 and 64 ranks in a process and in 1, 2 and 4 processes: two hours
# on two cores. quick, for CI: some modules. packages: SciPy, Numba, matplotlib, dask-mpi and
# mpi4py-fft from PyPI (mpi4py/*.py). "-n 5" test_spawn "test_win test_io": two runs with 5 ranks.
# numpy and mpi4py come from PyPI, once, into WORK_DIR. Exits with 77 if they are not available.
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"
what=${3:-all}
shift $(($# < 3 ? $# : 3))
unset LD_PRELOAD PYTHONPATH PYTHONHOME VIRTUAL_ENV
export OPENBLAS_NUM_THREADS=1 PIP_NO_CACHE_DIR=1 # the cache may have an mpi4py of another MPI
tests=$(cd "$here/../programs" && pwd)
python=$work/venv/bin/python3

limit() { timeout -k 5 "$@" </dev/null; }

# ---- The environment ----
if ! "$python" -c 'import mpi4py, numpy' 2>/dev/null; then
    needs_command python3 python3
    python3 -c 'import venv, ensurepip' 2>/dev/null || skip "python3 has no venv (package python3-venv)"
    rm -rf venv mpi4py mpi4py-* heddle_mpi-*
    python3 -m venv venv || exit 1
    if ! limit 600 "$python" -m pip download -q --no-deps --no-binary mpi4py mpi4py >download.log 2>&1 ||
        ! limit 600 "$python" -m pip install -q numpy >>download.log 2>&1; then
        skip "mpi4py and numpy cannot be had from PyPI ($work/download.log)"
    fi
    tar xf mpi4py-*.tar.gz
    mv mpi4py-*/ mpi4py || exit 1
    build_step wheel.log python3 "$here/../../tools/build_wheel.py" --build "$build" .
    build_step install.log "$python" -m pip install heddle_mpi-*.whl
    # Without optimization the build takes a sixth of the time.
    build_step mpi4py.log env CFLAGS=-O0 "$python" -m heddle.mpi4py_wheel -w .
    build_step install_mpi4py.log "$python" -m pip install --no-index ./mpi4py-*.whl
fi
export HEDDLE_MPI4PY_PYTHON=$python

# ---- One script, 64 ranks ----
cat >sum.py <<'END'
import numpy
from mpi4py import MPI
world = MPI.COMM_WORLD
total = numpy.zeros(1000)
world.Allreduce(numpy.full(1000, world.rank + 1.0), total)
assert (total == world.size * (world.size + 1) / 2).all()
if world.rank == 0:
    print("good", world.size, MPI.Get_library_version().split()[0])
END
if run_program "64 ranks" sum.log "$work/venv/bin/mpirun" -n 64 "$python" sum.py; then
    grep -q '^good 64 Heddle' sum.log || fail "64 ranks: $(head -n 3 sum.log)"
fi

# run_modules "OPTIONS" MODULE...: one run of the modules; all tests of all ranks must be right.
# (Two ranks may share a line.)
run_modules() {
    local options=$1 name=$2 code=0 start=$SECONDS log include n_ranks excluded
    shift
    log=$work/logs/${options// /}.$name.log
    excluded=(-x testIAgree) # calls collectives in different orders (docs/python.md)
    # Each rank spawns 2 x N interpreters at once: 8,192 with 64 ranks.
    [ "$options" != "-n 64" ] || excluded+=(-x SelfMany)
    include=$(IFS='|' && echo "^($*)\\.py\$")
    n_ranks=${options##*-n }
    (
        cd mpi4py || exit
        # shellcheck disable=SC2086 # several words
        limit "${MODULE_LIMIT:-900}" "$build/bin/mpirun" $options "$python" test/main.py -v "${excluded[@]}" -i "$include"
    ) >"$log" 2>&1 || code=$?
    if [ $code = 0 ] && [ "$(grep -o OK "$log" | wc -l)" = "${n_ranks%% *}" ]; then
        printf '%-18s %-24s %4d s  %s\n' "$options" "$name" $((SECONDS - start)) "$(grep -m 1 '^Ran' "$log")"
    else
        grep -E '^(ERROR|FAIL):' "$log" | sort | uniq -c | head -n 20
        fail "$options $name: exit code $code after $((SECONDS - start)) s ($log)"
    fi
}

# ---- mpi4py's tests ----
mkdir -p logs
case $what in
quick)
    quick=(test_dynproc test_file test_p2p_obj test_session test_spawn test_threads test_win)
    run_modules "-n 5 +p 1" "${quick[@]}"
    run_modules "--procs 2 -n 2" "${quick[@]}" test_ulfm
    run_program "mpi4py's users" users.log "$tests/python_mpi4py_test.sh" "$build"
    ;;
packages)
    build_step packages.log "$python" -m pip install scipy numba matplotlib "dask[array]" distributed dask-mpi
    packages=("scipy_solvers 16" "numba_jit 16" "matplotlib_agg 16" "dask_workers 5")
    if [ "$(cc -print-file-name=libfftw3.so)" != libfftw3.so ]; then
        build_step fft.log env CFLAGS=-O0 "$python" -m pip install --no-deps mpi4py-fft
        packages+=("parallel_fft 16")
    else
        echo "parallel_fft is left out: no FFTW (package libfftw3-dev)"
    fi
    for words in "${packages[@]}"; do
        name=${words% *} n_ranks=${words#* }
        run_program "$name" "$name.log" "$build/bin/mpirun" -n "$n_ranks" "$python" "$here/mpi4py/$name.py" +p 2
        if ! grep -q "^good $n_ranks$" "$name.log" || grep '^heddle' "$name.log"; then
            fail "$name: $(tail -n 3 "$name.log")"
        fi
    done
    # Each pixel is a cell: the hot edge is above.
    rm -f heat.png
    run_program "a picture" heat.log "$build/bin/mpirun" -n 64 "$python" "$here/../../examples/heat_python/heat.py" 128 50 heat.png +p 2
    run_program "its pixels" pixels.log "$python" -c 'from matplotlib import image
picture = image.imread("heat.png")
assert picture.shape == (128, 128, 4) and picture[0, 64, 0] > picture[127, 64, 0] + 0.5, (picture.shape, picture[0, 64], picture[127, 64])'
    ;;
*)
    [ "$what" != all ] || run_program "scripts" scripts.log "$tests/python_scripts_test.sh" "$build" "$work/scripts" 16
    all_options=("-n 1" "-n 2" "-n 5" "-n 64" "--procs 1 -n 1" "--procs 2 -n 2" "--procs 4 -n 4")
    [ "$what" = all ] || all_options=("$what")
    modules=("$@")
    [ $# != 0 ] || mapfile -t modules < <(cd mpi4py/test && printf '%s\n' test_*.py | sed 's/\.py$//')
    for options in "${all_options[@]}"; do
        for module in "${modules[@]}"; do
            # shellcheck disable=SC2086 # a word may name several
            run_modules "$options" $module
        done
    done
    ;;
esac
finish
