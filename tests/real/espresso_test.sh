#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that Quantum ESPRESSO's pw.x (electronic structure; Fortran 2003, a million lines, module mpi) works unchanged: silicon and gold with
# pools of k-points, with 4 and 16 ranks, and a water molecule with 4, 16 and 64, all from its own test suite, in one process with 2 PEs and
# in 2 processes. Energies, forces and pressures are Open MPI's, if it is here, and the energies those of the test suite's benchmarks.
#
# Usage: espresso_test.sh BUILD_DIR WORK_DIR
# The sources (100 MB) come from the Debian or Ubuntu source package espresso, once, into WORK_DIR. Exits with 77 if they cannot be had.
# Other numbers of ranks: RANKS='4 9' espresso_test.sh ... About 25 minutes on two cores.
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"
needs_command gfortran gfortran
unset MPIF90 F90 F77 FC CC
export OMP_NUM_THREADS=1
needs_openblas

# build_pw MPICC MPIFORT: in the current folder, a copy of the sources.
build_pw() {
    build_step configure.log ./configure --enable-parallel --with-scalapack=no MPIF90="$2" F90=gfortran CC="$1" \
        FFLAGS="-O1 -fallow-argument-mismatch -w" CFLAGS="-O1 -w" BLAS_LIBS=-lopenblas LAPACK_LIBS=-lopenblas FFT_LIBS=
    grep -q 'DFLAGS.*__MPI' make.inc || {
        echo "FAILED: the configuration is not parallel ($work/configure.log)"
        exit 1
    }
    build_step make.log make -j 2 pw
}

unpack_source espresso
rm -rf own other && cp -r "$source" own
has_openmpi && cp -r "$source" other
cd own || exit 1
build_pw "$build/bin/mpicc" "$build/bin/mpifort"
cd "$work" || exit 1
if [ -d other ]; then
    cd other || exit 1
    build_pw mpicc.openmpi mpifort.openmpi
    cd "$work" || exit 1
fi
# Files of the configuration are in the archive, too; all others are as they were.
(cd own && grep -Ev ' \./(install/(config\.status|make_[a-z0-9]*\.inc|configure\.msg)|include/configure\.h)$' "$work/espresso.sha256" | sha256sum --check --quiet) ||
    fail "the build changed a file of espresso's sources"

suite=$source/test-suite
export ESPRESSO_PSEUDO=$source/pseudo

# results FILE: energy (Ry), force (Ry/bohr) and pressure (kbar), one a line after its name.
results() {
    sed -n -e 's/^! *total energy *= *\([-.0-9]*\) Ry.*/energy \1/p' -e 's/^ *Total force = *\([-.0-9]*\) .*/force \1/p' \
        -e 's/.*(kbar) *P= *\([-.0-9]*\).*/pressure \1/p' "$1"
}

# is_same_results FILE OTHER: do both have the same results? Pressures have two decimals.
is_same_results() {
    [ -s "$1" ] && [ "$(wc -l <"$1")" = "$(wc -l <"$2")" ] && paste "$1" "$2" | awk '
        BEGIN { limit["energy"] = 2e-5; limit["force"] = 1e-4; limit["pressure"] = 0.05 }
        { difference = $2 - $4; if (difference < 0) difference = -difference
          if (NF != 4 || $1 != $3 || !($1 in limit) || !(difference <= limit[$1])) exit 1 }'
}

# compute LABEL CASE OUT command...: runs pw.x with the options in $pools; leaves its results in found.
compute() {
    local label=$1 case=$2 out=$3
    shift 3
    export ESPRESSO_TMPDIR=$work/scratch
    rm -rf scratch && mkdir scratch
    # shellcheck disable=SC2086 # several words
    run_program "$label" "$out" "$@" $pools -in "$suite/$case.in" || return
    grep -q 'JOB DONE' "$out" || fail "$label: the job is not done ($out)"
    results "$out" >found
}

# check_case CASE RANKS POOLS: with all ways to start. Open MPI's results with 4 ranks are computed once for each case.
check_case() {
    local case=$1 ranks=$2 pools=$3 options label before=$failures
    results "$suite/${case%/*}/benchmark.out.git.inp=${case##*/}.in" | grep '^energy' >benchmark
    [ -s benchmark ] || fail "$case: the benchmark has no energy"
    if [ -d other ] && [ ! -f "expected.${case##*/}" ]; then
        compute "$case, Open MPI" "$case" other.log "${openmpi_run[@]}" -n 4 other/bin/pw.x && mv found "expected.${case##*/}"
    fi
    for options in "+p 2" "--procs 2"; do
        label="${case##*/}, $ranks ranks, $options"
        # shellcheck disable=SC2086 # several words
        compute "$label" "$case" own.log "$build/bin/mpirun" -n "$ranks" $options own/bin/pw.x || continue
        grep '^energy' found >energy
        is_same_results benchmark energy || fail "$label: $(cat energy) Ry, the benchmark has $(cat benchmark)"
        [ ! -f "expected.${case##*/}" ] || is_same_results "expected.${case##*/}" found ||
            fail "$label: $(tr '\n' ' ' <found), Open MPI has $(tr '\n' ' ' <"expected.${case##*/}")"
    done
    [ $failures = "$before" ] && echo "${case##*/}, $ranks ranks: $(tr '\n' ' ' <found)"
}

rm -f expected.*
for ranks in ${RANKS:-4 16 64}; do
    if [ "$ranks" -le 16 ]; then # the grids of these have few planes
        check_case pw_scf/scf-ncpp "$ranks" "-nk 2"
        check_case pw_lda+U/lda+U_pseudo "$ranks" "-nk 4"
    fi
    check_case pw_uspp/uspp1 "$ranks" ""
done
finish
