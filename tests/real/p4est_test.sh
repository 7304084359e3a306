#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that p4est (forests of octrees) and its library libsc work unchanged: libsc's arrays in shared windows
# (MPI_Win_allocate_shared) on 4, 16 and 64 ranks, and all of their tests on 4 ranks, in one process with 2 PEs and in 2
# processes.
#
# Usage: p4est_test.sh BUILD_DIR WORK_DIR
# The sources come from the Debian or Ubuntu source package p4est, once, into WORK_DIR. Exits with 77 if they or the
# autotools are not available. Forests are saved by MPI's file operations. About 4 minutes on two cores.
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"

needs_command autoreconf autoconf
needs_command automake automake
needs_command libtoolize libtool
unpack_source p4est
cd "$source" || exit 1
build_step bootstrap.log ./bootstrap
rm -rf "$work/build" && mkdir "$work/build" && cd "$work/build" || exit 1
build_step configure.log "$source/configure" --enable-mpi --disable-shared --without-blas CFLAGS="-O2 -w" \
    CC="$build/bin/mpicc" CXX="$build/bin/mpicxx" F77="$build/bin/mpif77" FC="$build/bin/mpif90"
build_step make.log make -j 2
build_step make_test.log make -j 2 check TESTS=
check_unchanged p4est
grep -q "define P4EST_ENABLE_MPIIO 1" src/p4est_config.h || fail "p4est was built without MPI's file operations"
grep -q "define SC_ENABLE_MPIWINSHARED 1" sc/src/sc_config.h || fail "libsc was built without shared windows"

# run_tests RANKS OPTIONS: the programs in `programs`.
run_tests() {
    local program name
    local -a options
    IFS=" " read -r -a options <<<"$2"
    for program in "${programs[@]}"; do
        name=$(basename "$program")
        RUN_LIMIT=120 run_program "$name, $1 ranks, $2" "$work/$name.$1.log" "$build/bin/mpirun" -n "$1" "${options[@]}" "$program"
    done
}

programs=(sc/test/sc_test_node_comm)
for ranks in 4 16 64; do
    for options in "+p 2" "--procs 2"; do
        run_tests "$ranks" "$options"
        # Three sizes of arrays of four types, of which two are windows; it prints that of every comparison.
        n=$(grep -c "    successful" "$work/sc_test_node_comm.$ranks.log")
        n_windows=$(grep -c "type: window" "$work/sc_test_node_comm.$ranks.log")
        [ "$n $n_windows" = "12 2" ] || fail "shared arrays, $ranks ranks, $options: $n of 12 right, $n_windows of 2 types of windows"
        echo "shared arrays, $ranks ranks, $options: $n right"
    done
done

mapfile -t programs < <(find test sc/test -maxdepth 1 -type f -name '*_test_*' -perm -u+x | sort)
[ ${#programs[@]} -ge 60 ] || fail "only ${#programs[@]} test programs"
for name in p4est_test_loadsave p8est_test_loadsave; do # forests saved by MPI's file operations, loaded and compared
    [ -x test/$name ] || fail "$name was not built"
done
for options in "+p 2" "--procs 2"; do
    run_tests 4 "$options"
    echo "${#programs[@]} tests, 4 ranks, $options: done"
done
finish
