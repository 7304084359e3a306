#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that PnetCDF works unchanged: its parallel tests in C on 4 ranks, in one process with 1 and 2 PEs and in 2 processes.
#
# Usage: pnetcdf_test.sh BUILD_DIR WORK_DIR
# The sources come from the Debian or Ubuntu source package pnetcdf, once, into WORK_DIR. Exits with 77 if they or the autotools are
# not available; autoreconf renews libtool's files. Not run: test/largefile, which writes files of 4 GiB.
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"

needs_command autoreconf autoconf
needs_command automake automake
needs_command libtoolize libtool
unpack_source pnetcdf
cd "$source" || exit 1
build_step bootstrap.log autoreconf -i
rm -rf "$work/build" && mkdir -p "$work/build/out" && cd "$work/build" || exit 1
build_step configure.log "$source/configure" --disable-cxx --disable-fortran --disable-shared MPICC="$build/bin/mpicc" CFLAGS="-O1 -w"
build_step make.log make -j 2
build_step make_tests.log make -j 2 tests

for options in "+p 1" "+p 2" "--procs 2 +p 1"; do
    log=$work/tests.${options// /_}.log
    for folder in testcases nonblocking cdf_format header C; do
        run_program "$folder, $options" "$log.$folder" make -C test/$folder ptest4 TESTOUTDIR="$work/build/out" \
            TESTMPIRUN="timeout 100 $build/bin/mpirun -n NP $options"
    done
    n=$(cat "$log".* | grep -c -- "------ pass")
    [ "$n" -ge 50 ] || fail "$options: only $n tests passed"
    echo "4 ranks, $options: $n passed"
done
finish
