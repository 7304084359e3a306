#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that SUNDIALS (time integrators) works unchanged: its tests and parallel examples with 1 to 4 ranks, and its vector tests
# and a heat equation with a known solution on 4, 16 and 64 ranks, in one process with 2 PEs and in 2 processes.
#
# Usage: sundials_test.sh BUILD_DIR WORK_DIR
# The sources come from the Debian or Ubuntu source package sundials, once, into WORK_DIR. Exits with 77 if they are not
# available.
# About 6 minutes on two cores.
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"
needs_command cmake cmake

unpack_source sundials
rm -rf build
build_step configure.log cmake -S "$source" -B build -DENABLE_MPI=ON -DMPI_C_COMPILER="$build/bin/mpicc" \
    -DMPI_CXX_COMPILER="$build/bin/mpicxx" -DMPIEXEC_EXECUTABLE="$build/bin/mpirun" -DBUILD_SHARED_LIBS=OFF \
    -DEXAMPLES_ENABLE_CXX=ON -DEXAMPLES_INSTALL=OFF -DCMAKE_BUILD_TYPE=Release
build_step make.log cmake --build build -j 2
check_unchanged sundials

# ---- Its own tests: examples must end with 0, unit tests check their results ----
own_tests() {
    if (cd build && timeout 2400 ctest -j 2) >"$work/ctest.log" 2>&1 </dev/null; then
        echo "own tests, $1: $(grep '% tests passed' "$work/ctest.log")"
    else
        sed -n '/tests passed/,$p' "$work/ctest.log"
        fail "own tests, $1"
    fi
}
export HEDDLE_OPTIONS="+p 2"
own_tests "2 PEs"
unset HEDDLE_OPTIONS
cmake -S "$source" -B build -DMPIEXEC_PREFLAGS="--procs 2" >configure_procs.log 2>&1 || fail "configure for 2 processes"
own_tests "2 processes"

# ---- Its parallel examples, with the 4 ranks that they are written for ----
n_examples=0
for program in build/examples/{cvode,cvodes,ida,idas,kinsol}/parallel/*_p build/examples/arkode/C_parallel/*_p; do
    arguments=
    [[ $program != *_FSA_* ]] || arguments="-sensi stg t"
    for options in "+p 2" "--procs 2"; do
        # shellcheck disable=SC2086 # several words
        run_program "${program##*/}, $options" example.log "$build/bin/mpirun" -n 4 $options "$program" $arguments &&
            n_examples=$((n_examples + 1))
    done
done
[ $n_examples -ge 30 ] || fail "only $n_examples runs of examples ended well"
echo "$n_examples runs of parallel examples"

# ---- More ranks ----
for ranks in 4 16 64; do
    grid=$(awk "BEGIN { print int(sqrt($ranks)) }")
    for options in "+p 2" "--procs 2"; do
        label="$ranks ranks, $options"
        # shellcheck disable=SC2086 # several words
        run_program "vectors, $label" vectors.log "$build/bin/mpirun" -n $ranks $options build/examples/nvector/parallel/test_nvector_mpi 1000 0
        grep -q 'FAILED' vectors.log && fail "vectors, $label: $(grep -m 1 FAILED vectors.log)"
        # shellcheck disable=SC2086 # several words
        run_program "heat, $label" heat.log "$build/bin/mpirun" -n $ranks $options \
            build/examples/cvode/CXX_parallel/cv_heat2D_p --np "$grid" "$grid" --mesh 64 64
        error=$(sed -n 's/^ *Max error *= *//p' heat.log | tail -n 1)
        awk "BEGIN { exit !(\"$error\" != \"\" && ${error:-1} > 0 && ${error:-1} < 1e-2) }" || fail "heat, $label: largest error '$error'"
        echo "$label: vectors; heat equation, largest error $error"
    done
done
finish
