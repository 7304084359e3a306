#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that LAMMPS (molecular dynamics) builds and runs unchanged: its five benchmarks (bench/in.lj, eam, chain, chute, rhodo) on 4, 16
# and 64 ranks, in one process with 2 PEs and in 2 processes. Energies and pressures after 100 steps are those of one rank, and
# those that Open MPI 4.1.4 gave on one rank.
#
# Usage: lammps_test.sh BUILD_DIR WORK_DIR
# The sources come from the Debian or Ubuntu source package lammps, once, into WORK_DIR. Exits with 77 if they are not
# available.
# Other numbers of ranks: RANKS='4 9'. About 30 minutes on two cores, most of it for building.
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"
needs_command cmake cmake

unpack_source lammps
rm -rf build
build_step configure.log cmake -S "$source/cmake" -B build -DCMAKE_CXX_COMPILER="$build/bin/mpicxx" -DBUILD_MPI=ON -DBUILD_OMP=OFF \
    -DPKG_MANYBODY=ON -DPKG_MOLECULE=ON -DPKG_GRANULAR=ON -DPKG_KSPACE=ON -DPKG_RIGID=ON -DFFT=KISS -DWITH_JPEG=OFF \
    -DWITH_PNG=OFF -DWITH_FFMPEG=OFF -DWITH_GZIP=OFF -DWITH_CURL=OFF -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O1
build_step make.log cmake --build build -j 2
check_unchanged lammps

# The table that LAMMPS prints for each benchmark: step and thermodynamic values, one line per print-out.
values() {
    awk '/^Step / || /^ *Step .*=/ || /^-+ Step/ { on = 1 }
         /^Loop time/ { on = 0 }
         on && /^ *[0-9]+ +[-0-9.e+]+ / { print }
         on && /=/ { gsub(/-+ Step +[0-9]+ -+ CPU.*/, ""); line = ""; for (i = 1; i <= NF; i++) if ($i == "=") line = line " " $(i + 1); if (line != "") print line }' "$1"
}
# same TOLERANCE REFERENCE OUTPUT: every number agrees to that part of it, or is tiny.
same() {
    paste -d ' ' "$2" "$3" | awk -v "tolerance=$1" '{
        half = NF / 2
        for (i = 1; i <= half; i++) {
            a = $i; b = $(i + half); d = a - b; if (d < 0) d = -d
            size = a < 0 ? -a : a
            if (d > tolerance * size + 1e-7) { print "value " i ": " a " is now " b; bad = 1 }
        }
        lines++
    } END { exit bad || lines < 2 }'
}

cd "$source/bench" || exit 1
for bench in lj eam chain chute rhodo; do
    # Rounding differs with the number of ranks; the chain's thermostat has a sequence of random numbers per rank.
    tolerance=1e-4
    [ $bench != chain ] || tolerance=0.03
    run_program "$bench, 1 rank" "$work/$bench.1.log" "$work/build/lmp" -log none -in in.$bench
    values "$work/$bench.1.log" >"$work/$bench.1.values"
    same 1e-4 "$here/lammps_values/$bench" "$work/$bench.1.values" || fail "$bench, 1 rank: other values than with Open MPI"
    for ranks in ${RANKS:-4 16 64}; do
        for options in "+p 2" "--procs 2"; do
            label="$bench, $ranks ranks, $options"
            # shellcheck disable=SC2086 # several words
            run_program "$label" "$work/$bench.log" "$build/bin/mpirun" -n "$ranks" $options "$work/build/lmp" -log none -in in.$bench || continue
            values "$work/$bench.log" >"$work/$bench.values"
            if same "$tolerance" "$work/$bench.1.values" "$work/$bench.values"; then
                echo "$label: $(sed -n 's/^\(Loop time of [0-9.]*\).*/\1/p' "$work/$bench.log") s"
            else
                fail "$label: other values than on one rank"
            fi
        done
    done
done
finish
