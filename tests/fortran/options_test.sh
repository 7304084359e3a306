#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that MPI_IN_PLACE, MPI_STATUS_IGNORE and the like are known whatever linker names the compiler gives to procedures and COMMON blocks,
# that MPI_WTIME is the time whatever REAL is, and that the compiler refuses a program whose INTEGER has 8 bytes, with a reason.
#
# Usage: options_test.sh BUILD_DIR WORK_DIR. Exits with 77 without gfortran.
set -u
# shellcheck source=tests/fortran/begin.sh
. "$(dirname "$0")/begin.sh"
code=0

fail() {
    echo "FAILED: $1"
    code=1
}

for option in -funderscoring -fno-underscoring -fsecond-underscore; do
    "$build/bin/mpifort" $option "$here/special_f90.f90" -o "special$option" || exit 1
    for ranks in 1 4; do
        timeout 180 "$build/bin/mpirun" -n $ranks "./special$option" || fail "special_f90 with $option, $ranks ranks"
    done
done

printf '      program p\n      include "mpif.h"\n      end\n' >include.f
"$build/bin/mpifort" -c include.f || fail "mpif.h does not compile"
"$build/bin/mpifort" -c -fdefault-integer-8 include.f 2>refused && fail "mpif.h accepts INTEGER of 8 bytes"
grep -q 'mpifort: -fdefault-integer-8: INTEGER has to have 4 bytes' refused || fail "mpifort does not say why: $(cat refused)"
grep -qi mpi_needs_integer_of_4_bytes refused || fail "the reason is missing: $(cat refused)"
printf 'use mpi\ncall MPI_Barrier(MPI_COMM_WORLD, ierror)\nend\n' >module.f90
"$build/bin/mpifort" -c module.f90 || fail "module mpi does not compile"
"$build/bin/mpifort" -c -fdefault-integer-8 module.f90 2>refused && fail "module mpi accepts INTEGER of 8 bytes"
grep -q 'mpifort: -fdefault-integer-8: INTEGER has to have 4 bytes' refused || fail "mpifort does not say why: $(cat refused)"
for option in -O0 -fdefault-real-8 '-fdefault-real-8 -fdefault-double-8'; do
    for head in "implicit none; include 'mpif.h'" 'use mpi' 'use mpi_f08'; do
        # mpif.h is included on a line of its own
        printf '%s\n' 'program p' "$head" 'if (.not. MPI_WTIME() > 0 .or. .not. MPI_WTICK() < 1) stop 1' 'end' | tr ';' '\n' >time.f90
        # shellcheck disable=SC2086 # several words
        "$build/bin/mpifort" $option time.f90 -o time || exit 1
        timeout 180 ./time || fail "MPI_WTIME with $option: $head"
    done
done
printf 'call none\n' >wrong.f90
"$build/bin/mpifort" wrong.f90 2>refused && fail "a program that does not link"
grep -q 'INTEGER has to have 4 bytes' refused && fail "mpifort complains about INTEGER without the option"
exit $code
