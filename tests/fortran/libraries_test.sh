#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that MPI_IN_PLACE, MPI_STATUS_IGNORE and the like are known in Fortran libraries that are opened one by one with
# dlopen(RTLD_LOCAL) or export nothing else, and in a program that is compiled as a whole.
#
# Usage: libraries_test.sh BUILD_DIR WORK_DIR. Exits with 77 without gfortran.
set -u
# shellcheck source=tests/fortran/begin.sh
. "$(dirname "$0")/begin.sh"
code=0

# run WHAT COMMAND...: with several shapes of a job
run() {
    what=$1
    shift
    for options in "-n 1" "-n 4 +p 1" "-n 4 --procs 2"; do
        # shellcheck disable=SC2086 # several words
        timeout 180 "$build/bin/mpirun" $options "$@" >out 2>&1 || {
            cat out
            echo "FAILED: $what with $options"
            code=1
        }
    done
}

# One library for each interface and letter: its function check_LETTER returns the number of errors.
cat >exported.map <<'END'
{ global: check_*; local: *; };
END
for interface in mpif mpi mpi_f08; do
    for letter in a b; do
        "$build/bin/mpifort" -cpp -DINTERFACE_$interface -DCHECK="check_$letter" -c -fPIC "$here/library.f90" -o $interface$letter.o || exit 1
        "$build/bin/mpifort" -shared $interface$letter.o -o lib$interface$letter.so || exit 1
        "$build/bin/mpifort" -shared -Wl,--version-script=exported.map $interface$letter.o -o lib$interface${letter}_alone.so || exit 1
    done
    "$build/bin/mpifort" -cpp -DINTERFACE_$interface -DCHECK="check_p" -DPROGRAM -O2 -fwhole-program "$here/library.f90" -o $interface-whole || exit 1
    "$build/bin/mpifort" -cpp -DINTERFACE_$interface -DCHECK="check_p" -DPROGRAM -O2 -flto "$here/library.f90" -o $interface-lto || exit 1
done
"$build/bin/mpicc" "$here/library_main.c" -o main -ldl || exit 1

for interface in mpif mpi mpi_f08; do
    run "libraries, $interface" ./main ./lib${interface}a.so check_a ./lib${interface}b.so check_b
    run "libraries that export one name, $interface" ./main ./lib${interface}a_alone.so check_a ./lib${interface}b_alone.so check_b
    run "-fwhole-program, $interface" ./$interface-whole
    run "-flto, $interface" ./$interface-lto
done
run "libraries with several interfaces" ./main ./libmpifa.so check_a ./libmpi_f08b.so check_b ./libmpia_alone.so check_a
exit $code
