#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that PARPACK (eigenvalues; Fortran 77 with COMMON, SAVE and ENTRY, and mpif.h) works unchanged: its parallel examples with 2, 4 and 5
# ranks in one process with 2 PEs and in 2 processes find the same Ritz values as
# on one PE, and Open MPI's, if it is here. (Their grid has 10 x 10 points: more ranks have nothing to do.)
#
# Usage: parpack_test.sh BUILD_DIR WORK_DIR
# The sources come from the Debian or Ubuntu source package arpack, once, into WORK_DIR. Exits with 77 if they cannot be had.
# About 3 minutes on two cores.
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"
needs_command gfortran gfortran
needs_command cmake cmake

unpack_source arpack
rm -rf built
build_step configure.log cmake -S "$source" -B built -DMPI=ON -DEXAMPLES=ON -DMPI_HOME="$build" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_Fortran_FLAGS="-std=legacy -w"
build_step make.log cmake --build built -j 2
check_unchanged arpack

# The lines that say what was found, without residuals, which depend on rounding. Equal values can come in any order.
values() {
    grep -E 'converged Ritz values' "$1"
    sed -n 's/^  Row *[0-9]*: *\([^ ]*\).*/\1/p' "$1" | sort
}

# Are the values equal, but for rounding? Sums of other orders differ in the last digits that single precision has.
is_same() {
    paste "$1" "$2" | awk '{ a = $NF; b = $(NF / 2); gsub("D", "E", a); gsub("D", "E", b); d = a - b; if (d < 0) d = -d
        if (d > 1e-4 * (b < 0 ? -b : b)) exit 1 }'
}

for program in pdsdrv1 pdndrv1 pdndrv3 pssdrv1 psndrv1 pcndrv1 pzndrv1; do
    path=built/PARPACK/EXAMPLES/MPI/$program
    for ranks in 2 4 5; do
        run_program "$program, $ranks ranks" "$program.first" "$build/bin/mpirun" -n $ranks +p 1 "$path" || continue
        values "$program.first" >expected
        [ "$(wc -l <expected)" -ge 5 ] || fail "$program, $ranks ranks: no Ritz values"
        for options in "+p 2" "--procs 2"; do
            # shellcheck disable=SC2086 # several words
            run_program "$program, $ranks ranks, $options" "$program.log" "$build/bin/mpirun" -n $ranks $options "$path" || continue
            values "$program.log" >found
            is_same expected found || fail "$program, $ranks ranks, $options: other Ritz values"
        done
    done
done

# Open MPI's results with 4 ranks, for the double precision examples.
if command -v mpifort.openmpi >/dev/null && command -v mpirun.openmpi >/dev/null; then
    rm -rf other
    build_step other_configure.log cmake -S "$source" -B other -DMPI=ON -DEXAMPLES=ON -DMPI_Fortran_COMPILER=mpifort.openmpi \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_Fortran_FLAGS="-std=legacy -w"
    build_step other_make.log cmake --build other -j 2
    for program in pdsdrv1 pdndrv1 pzndrv1; do
        run_program "$program, Open MPI" other.log mpirun.openmpi --oversubscribe --allow-run-as-root -n 4 \
            other/PARPACK/EXAMPLES/MPI/$program || continue
        run_program "$program" own.log "$build/bin/mpirun" -n 4 built/PARPACK/EXAMPLES/MPI/$program || continue
        values other.log >expected
        values own.log >found
        if is_same expected found; then
            echo "$program: Open MPI's Ritz values"
        else
            fail "$program: other Ritz values than Open MPI's"
        fi
    done
fi
finish
