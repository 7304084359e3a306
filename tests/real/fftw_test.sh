#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that FFTW's MPI transforms work unchanged, from C and by their Fortran interface: FFTW's own verification of random transforms
# (mpi-bench, check.pl; the number of ranks is the seed), and fftw/fftw_mpi.f90, with 4, 16 and 64 ranks in one process with 2 PEs and in
# 2 processes. The coefficients are those of Open MPI, if it is here.
#
# Usage: fftw_test.sh BUILD_DIR WORK_DIR
# The sources come from the Debian or Ubuntu source package fftw3, once, into WORK_DIR. Exits with 77 if they cannot be had.
# Other numbers of random transforms and of ranks: CHECKS=20 RANKS='4 9' fftw_test.sh ... About 5 minutes on two cores.
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"
needs_command gfortran gfortran
needs_command perl perl
checks=${CHECKS:-6}

# build_program FOLDER MPIFORT: the Fortran program, in the folder of a build.
build_program() {
    cd "$1" || exit 1
    build_step fortran.log "$2" -O1 -g -Wall -Impi -Iapi "$here/fftw/fftw_mpi.f90" -o fftw_mpi mpi/.libs/libfftw3_mpi.a .libs/libfftw3.a -lm
    cd "$work" || exit 1
}

unpack_source fftw3
rm -rf own other && mkdir own && cd own || exit 1
build_step configure.log "$source/configure" --enable-mpi --disable-fortran --disable-doc MPICC="$build/bin/mpicc" CFLAGS="-O1 -w"
build_step make.log make -j 2
build_program . "$build/bin/mpifort"
check_unchanged fftw3
if has_openmpi; then # only the part with MPI differs
    cp -r own other
    build_step other_clean.log make -C other/mpi clean
    build_step other_make.log make -C other/mpi CC=mpicc.openmpi fftw3-mpi.f03 libfftw3_mpi.la
    build_program other mpifort.openmpi
fi

# The sums of the coefficients, one a line.
sums() {
    awk 'NF == 3 { print $2; print $3 }' "$1"
}

[ ! -x other/fftw_mpi ] || run_program "fftw_mpi, Open MPI" other.log "${openmpi_run[@]}" -n 4 other/fftw_mpi
for ranks in ${RANKS:-4 16 64}; do
    for options in "+p 2" "--procs 2"; do
        label="$ranks ranks, $options" before=$failures
        # shellcheck disable=SC2086 # several words
        if run_program "fftw_mpi, $label" fortran.log "$build/bin/mpirun" -n $ranks $options own/fftw_mpi; then
            grep -qx ok fortran.log || fail "fftw_mpi, $label: $(tail -n 1 fortran.log)"
            sums fortran.log >found
            [ "$(wc -l <found)" = 6 ] || fail "fftw_mpi, $label: no sums"
            if [ -x other/fftw_mpi ]; then
                sums other.log >expected
                is_same_numbers expected found 1e-9 || fail "fftw_mpi, $label: other sums than Open MPI's"
            fi
        fi
        # shellcheck disable=SC2016 # for perl
        run_program "mpi-bench, $label" bench.log perl -w -e 'srand(shift); my $script = shift; do $script; die $@ if $@' "$ranks" \
            "$source/tests/check.pl" --verbose --random --maxsize=10000 -c="$checks" --mpi \
            "timeout -k 5 300 $build/bin/mpirun $options -np $ranks $work/own/mpi/mpi-bench"
        wanted=$(grep -o -e "--verify '" bench.log | wc -l)
        transforms=$(awk 'NF == 4' bench.log | wc -l) # a name and three errors
        if [ "$transforms" -lt 10 ] || [ "$transforms" != "$wanted" ]; then
            fail "mpi-bench, $label: $transforms of $wanted transforms"
        fi
        [ $failures = "$before" ] && echo "$label: Fortran program, $transforms transforms of mpi-bench"
    done
done
finish
