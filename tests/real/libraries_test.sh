#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that system libraries with state serve many ranks of a process: FFTW, Boost.Serialization, HDF5, OpenBLAS and GSL as
# Debian and Ubuntu package them, called by 64 ranks on several PEs, many times.
#
# Usage: libraries_test.sh BUILD_DIR WORK_DIR [RUNS [PROGRAM...]]
# RUNS: number of runs of each program (4). Manually: libraries_test.sh build /tmp/libraries 100
# Missing libraries are skipped (apt-get install libfftw3-dev libboost-serialization-dev libhdf5-dev libopenblas-dev
# libgsl-dev); 77: none is installed. RANKS, PES: other numbers. OPTIONS: more options for mpirun.
set -u
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)/libraries
runs=${3:-4}
ranks=${RANKS:-64}
pes=${PES:-4}
programs=("${@:4}")
[ ${#programs[@]} != 0 ] || programs=(fftw_plans boost_archives hdf5_files openblas_products gsl_handlers)
unset HEDDLE_OPTIONS
mkdir -p "$2" && cd "$2" || exit 1
export TMPDIR=$PWD
n_run=0
n_failed=0

# compile PROGRAM: 0 if it was built, 1 if the library is not there
compile() {
    local flags
    case $1 in
    fftw_plans) "$build/bin/mpicc" -O1 -Wall -o "$1" "$here/$1.c" -lfftw3 -lm ;;
    boost_archives) "$build/bin/mpicxx" -O1 -o "$1" "$here/$1.cc" -lboost_serialization ;;
    hdf5_files)
        # shellcheck disable=SC2046 # several words
        flags=$(pkg-config --cflags --libs hdf5-serial 2>/dev/null || pkg-config --cflags --libs hdf5 2>/dev/null) || return 1
        # shellcheck disable=SC2086
        "$build/bin/mpicc" -O1 -Wall -o "$1" "$here/$1.c" $flags
        ;;
    openblas_products) "$build/bin/mpicc" -O1 -Wall -o "$1" "$here/$1.c" -lopenblas -lm ;;
    gsl_handlers) "$build/bin/mpicc" -O1 -Wall -o "$1" "$here/$1.c" -lgsl -lgslcblas -lm ;;
    esac
}

for program in "${programs[@]}"; do
    if ! compile "$program" >"$program.log" 2>&1; then
        if grep -Eq 'No such file or directory|cannot find -l' "$program.log" || [ ! -s "$program.log" ]; then
            echo "$program: skipped, its library is not installed"
            continue
        fi
        cat "$program.log"
        exit 1
    fi
    bad=0
    start=$SECONDS
    for ((i = 1; i <= runs; i++)); do
        code=0
        # shellcheck disable=SC2086 # several words
        { timeout 120 "$build/bin/mpirun" +p "$pes" ${OPTIONS:-} -n "$ranks" "./$program" >out.txt 2>&1 || code=$?; } 2>/dev/null
        n_run=$((n_run + 1))
        [ $code = 0 ] && grep -qx ok out.txt && continue
        bad=$((bad + 1))
        cp out.txt "$program.failed.$i"
        [ $bad -gt 3 ] || { echo "$program, run $i: exit code $code" && tail -n 5 out.txt; }
    done
    echo "$program: $bad of $runs runs with $ranks ranks on $pes PEs failed, $((SECONDS - start)) s"
    n_failed=$((n_failed + bad))
done
[ $n_run != 0 ] || exit 77
[ $n_failed = 0 ]
