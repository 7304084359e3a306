#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the Fortran programs of MPICH's test suite (mpif.h, module mpi, module mpi_f08, array sections, attributes and handles
# between C and Fortran) compile with mpifort and find no errors, in one process with 2 PEs and in 2 processes.
#
# Usage: mpich_fortran_test.sh BUILD_DIR WORK_DIR
# The sources come from the Debian or Ubuntu source package mpich, once, into WORK_DIR. Exits with 77 if they cannot be had.
# About 5 minutes on two cores.
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"
needs_command gfortran gfortran
needs_command make make

# Left out, with the reason: what they test is not what the standard says, or is another MPI's.
left_out=' baseenvf baseenvf90 '   # know no MPI 5
left_out+=' aintf '                # declares functions that mpif.h declares
left_out+=' alltoallvf90 vw_inplacef90 nonblocking_inpf90 split_typef90 profile1f90 ' # wrong by module mpi, which checks arguments
left_out+=' allctypesf allctypesf90 allctypesf08 ' # MPI_C_COMPLEX is MPI_C_FLOAT_COMPLEX in the standard ABI
left_out+=' typecntsf typecntsf90 typecntsf08 ' # expects names of datatype constructors that MPI 3.0 removed

unpack_source mpich
tests=$source/test/mpi
rm -rf suite && mkdir suite
cd suite || exit 1
build_step configure.log "$tests/configure" --with-mpi="$build" CC="$build/bin/mpicc" --disable-cxx --enable-fortran=all \
    FFLAGS=-w FCFLAGS=-w
build_step util.log make -C util -j 2
"$build/bin/mpifort" -w -c "$tests/util/mtest_f08.f90" -o mtest_f08.o || fail "mtest_f08.f90"

# compile_f08 FOLDER NAME: configure makes no rules for mpi_f08 with a compiler that it does not know. Some programs have a part in C, or
# share a file with data.
compile_f08() {
    local folder=$tests/f08/$1 name=$2 parts=() part
    case $name in
    attrlangf08) part=$folder/attrlangc.c ;;
    fandcattrf08) part=$folder/fandcattrc.c ;;
    c2f2cwinf08) part=$tests/f77/rma/c2f2cwin.c ;;
    c2f2cf90) part=$tests/f77/ext/c2f2c.c ;;
    ctypesinf90) part=$tests/f77/ext/ctypesfromc.c ;;
    greqf08) parts=("$folder/dummyf08.f90") && part= ;;
    *sendf08 | sendrecv*f08) parts=("$folder/utilsf08.f90" "$folder/dummyf08.f90") && part= ;;
    *) part= ;;
    esac
    if [ -n "$part" ]; then # it includes a header by a path relative to its own folder in the build
        cp "$part" "f08/$1/" || return
        "$build/bin/mpicc" -w -c -I"$tests/include" "f08/$1/${part##*/}" -o part.o || return
        parts+=(part.o)
    fi
    "$build/bin/mpifort" -w -I. -I"$folder" -If08/"$1" "$folder/$name.f90" ${parts[@]+"${parts[@]}"} mtest_f08.o -o "f08/$1/$name"
}

passed=0
for language in f77 f90 f08; do
    for list in "$tests/$language"/*/testlist "$tests/$language"/*/testlist.in; do
        folder=$(basename "$(dirname "$list")")
        case $folder in
        spawn | '*') continue ;; # not there yet
        io) [ $language != f08 ] || continue ;; # makefiles generate its programs, but not for a compiler that configure does not know
        esac
        [ -f "$list" ] || continue
        [ $language = f08 ] || make -k -C "$language/$folder" -j 2 >"$work/make.log" 2>&1
        while read -r name ranks _; do
            case $name in '' | '#'* | @*) continue ;; esac
            case $left_out in *" $name "*) continue ;; esac
            program=$language/$folder/$name
            [ $language != f08 ] || compile_f08 "$folder" "$name" >"$work/compile.log" 2>&1
            [ -x "$program" ] || { fail "$program does not compile" && continue; }
            for options in "+p 2" "--procs 2"; do
                [ "$options" = "+p 2" ] || [ "$ranks" -ge 2 ] || continue
                # shellcheck disable=SC2086 # several words
                run_program "$program, $options" "$work/run.log" "$build/bin/mpirun" -n "$ranks" $options "$program" || continue
                if grep -q 'No Errors' "$work/run.log"; then
                    passed=$((passed + 1))
                else
                    head -n 5 "$work/run.log"
                    fail "$program with $ranks ranks, $options"
                fi
            done
        done <"$list"
    done
done
echo "$passed runs without errors"
[ $passed -ge 300 ] || fail "fewer than 300 runs: the suite was not found as a whole"
finish
