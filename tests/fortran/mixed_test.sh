#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that C code that Fortran calls recognizes the statuses that Fortran ignores, in the program and in a library.
#
# Usage: mixed_test.sh BUILD_DIR WORK_DIR. Exits with 77 without gfortran.
set -u
# shellcheck source=tests/fortran/begin.sh
. "$(dirname "$0")/begin.sh"
"$build/bin/mpicc" -O1 -c "$here/mixed_c.c" -o mixed_c.o || exit 1
"$build/bin/mpicc" -O1 -fPIC -shared "$here/mixed_c.c" -o libmixed_c.so || exit 1
"$build/bin/mpifort" "$here/mixed.f90" mixed_c.o -o mixed || exit 1
"$build/bin/mpifort" "$here/mixed.f90" ./libmixed_c.so -o mixed_library || exit 1
for program in ./mixed ./mixed_library; do
    for options in "-n 1" "-n 4 +p 1" "-n 16 +p 2" "-n 4 --procs 2"; do
        # shellcheck disable=SC2086 # several words
        if ! timeout 180 "$build/bin/mpirun" $options $program >out 2>&1 || [ "$(cat out)" != ok ]; then
            cat out
            echo "FAILED: $program with $options"
            exit 1
        fi
    done
done
echo "all passed"
