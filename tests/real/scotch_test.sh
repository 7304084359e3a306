#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that PT-Scotch (graph partitioning) works unchanged: its own tests, then partitions and orderings by 4, 16 and 64 ranks,
# in one process with 2 PEs and in 2 processes, each checked.
#
# Usage: scotch_test.sh BUILD_DIR WORK_DIR
# The sources come from the Debian or Ubuntu source package scotch, once, into WORK_DIR. Exits with 77 if they are not
# available.
# About 3 minutes on two cores.
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"
needs_command flex flex
needs_command bison bison
needs_command cmake cmake

unpack_source scotch
rm -rf build
build_step configure.log cmake -S "$source" -B build -DBUILD_FORTRAN=OFF -DMPI_C_COMPILER="$build/bin/mpicc" \
    -DMPIEXEC_EXECUTABLE="$build/bin/mpirun" -DCMAKE_BUILD_TYPE=Release
build_step make.log cmake --build build -j 2
check_unchanged scotch

# ---- Scotch's own tests (3 ranks); they use each other's files, so one runs at a time ----
# A shell runs some of them, so mpirun's option for processes is in a program of its own.
mkdir -p bin
printf '#!/bin/sh\nexec "%s" --procs 2 "$@"\n' "$build/bin/mpirun" >bin/mpirun_procs
chmod +x bin/mpirun_procs
for options in "+p 1" "+p 2" "--procs 2"; do
    if [ "$options" = "--procs 2" ]; then
        cmake -S "$source" -B build -DMPIEXEC_EXECUTABLE="$work/bin/mpirun_procs" >"$work/configure_procs.log" 2>&1 ||
            fail "configure for 2 processes"
    else
        export HEDDLE_OPTIONS=$options
    fi
    if (cd build && timeout 1200 ctest -j 1) >"$work/ctest.log" 2>&1 </dev/null; then
        echo "own tests, $options: $(grep '% tests passed' "$work/ctest.log")"
    else
        sed -n '/tests passed/,$p' "$work/ctest.log"
        fail "own tests, $options"
    fi
    unset HEDDLE_OPTIONS
done

# ---- More ranks ----
data=$source/src/check/data
programs=$work/build/bin
for ranks in 4 16 64; do
    for options in "+p 2" "--procs 2"; do
        label="$ranks ranks, $options"
        # A partition into 16 parts: every part has between half and twice its share of the vertices.
        # shellcheck disable=SC2086 # several words
        run_program "dgpart, $label" part.log "$build/bin/mpirun" -n $ranks $options "$programs/dgpart" 16 "$data/bump.grf" "part.$ranks.map"
        awk 'NR == 1 { total = $1; next }
            { count[$2]++ }
            END {
                for (part = 0; part < 16; part++)
                    if (count[part] < total / 32 || count[part] > total / 8) exit 1
                exit NR - 1 != total
            }' "part.$ranks.map" || fail "dgpart, $label: not a balanced partition"
        # An ordering: gotst reads it and fails if it is not a permutation.
        # shellcheck disable=SC2086 # several words
        run_program "dgord, $label" order.log "$build/bin/mpirun" -n $ranks $options "$programs/dgord" "$data/bump.grf" "order.$ranks.ord"
        run_program "gotst, $label" gotst.log "$programs/gotst" "$data/bump.grf" "order.$ranks.ord"
        grep -q '^O.*NNZ=' gotst.log || fail "gotst, $label: no statistics of the ordering"
        [ -s "part.$ranks.map" ] && echo "$label: partition and ordering"
        rm -f "part.$ranks.map" "order.$ranks.ord"
    done
done
finish
