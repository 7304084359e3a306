#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that PETSc (solvers; C and Fortran, real numbers, shared library) configures, builds and runs unchanged: `make check`, a Laplace
# equation (src/ksp/ksp/tutorials/ex2.c, and ex2f.F90 in Fortran) and a driven cavity (src/snes/tutorials/ex19.c) on 4, 16 and 64 ranks,
# in one process with 2 PEs and in 2 processes. With these solvers the number of iterations does not depend on the number of ranks.
#
# Usage: petsc_test.sh BUILD_DIR WORK_DIR
# The sources come from the Debian or Ubuntu source package petsc, once, into WORK_DIR. Exits with 77 if they are not
# available.
# Other numbers of ranks: RANKS='4 9' petsc_test.sh ... About 20 minutes on two cores.
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"
unset PETSC_DIR PETSC_ARCH
needs_command gfortran gfortran
needs_openblas

unpack_source petsc
cd "$source" || exit 1
build_step configure.log ./configure PETSC_ARCH=heddle --with-cc="$build/bin/mpicc" --with-cxx="$build/bin/mpicxx" --with-fc="$build/bin/mpifort" \
    --with-mpiexec="$build/bin/mpirun" --with-blaslapack-lib=-lopenblas --with-debugging=0 --with-x=0 --COPTFLAGS=-O2 --CXXOPTFLAGS=-O2 \
    --FOPTFLAGS=-O2
build_step make.log make PETSC_DIR="$source" PETSC_ARCH=heddle MAKE_NP=2 all

if timeout 600 make PETSC_DIR="$source" PETSC_ARCH=heddle check >"$work/check.log" 2>&1 </dev/null &&
    [ "$(grep -c 'run successfully' "$work/check.log")" -ge 3 ] && ! grep -q 'Possible error' "$work/check.log"; then
    echo "make check: passed"
else
    tail -n 20 "$work/check.log"
    fail "make check ($work/check.log)"
fi
check_unchanged petsc

# ---- Tutorials ----
for program in ksp/ksp/tutorials/ex2 ksp/ksp/tutorials/ex2f snes/tutorials/ex19; do
    build_step "${program##*/}.log" make -C "src/${program%/*}" PETSC_DIR="$source" PETSC_ARCH=heddle "${program##*/}"
done

# solve LABEL LOG PATTERN command...: runs; leaves the part of the output that matches PATTERN in LOG.result.
solve() {
    local label=$1 log=$2 pattern=$3
    shift 3
    run_program "$label" "$log" "$@" || return
    grep -E -o "$pattern" "$log" >"$log.result" || fail "$label: no line '$pattern'"
}
laplace="src/ksp/ksp/tutorials/ex2 -m 60 -n 60 -pc_type jacobi -ksp_type cg -ksp_rtol 1e-8"
laplace_f="src/ksp/ksp/tutorials/ex2f -m 60 -n 60 -pc_type jacobi -ksp_type cg -ksp_rtol 1e-8"
cavity="src/snes/tutorials/ex19 -da_refine 2 -pc_type jacobi -ksp_type fgmres -ksp_rtol 1e-6 -snes_monitor_short"
# shellcheck disable=SC2086 # several words
{
    solve "ex2, 1 rank" "$work/ex2.1.log" 'iterations [0-9]+' ./$laplace
    solve "ex2f, 1 rank" "$work/ex2f.1.log" 'iterations +[0-9]+' ./$laplace_f
    solve "ex19, 1 rank" "$work/ex19.1.log" 'Number of SNES iterations = [0-9]+' ./$cavity
    for ranks in ${RANKS:-4 16 64}; do
        for options in "+p 2" "--procs 2"; do
            label="$ranks ranks, $options"
            solve "ex2, $label" "$work/ex2.log" 'iterations [0-9]+' "$build/bin/mpirun" -n $ranks $options ./$laplace
            cmp -s "$work/ex2.1.log.result" "$work/ex2.log.result" ||
                fail "ex2, $label: $(cat "$work/ex2.log.result"); 1 rank: $(cat "$work/ex2.1.log.result")"
            solve "ex2f, $label" "$work/ex2f.log" 'iterations +[0-9]+' "$build/bin/mpirun" -n $ranks $options ./$laplace_f
            cmp -s "$work/ex2f.1.log.result" "$work/ex2f.log.result" ||
                fail "ex2f, $label: $(cat "$work/ex2f.log.result"); 1 rank: $(cat "$work/ex2f.1.log.result")"
            solve "ex19, $label" "$work/ex19.log" 'Number of SNES iterations = [0-9]+' "$build/bin/mpirun" -n $ranks $options ./$cavity
            cmp -s "$work/ex19.1.log.result" "$work/ex19.log.result" ||
                fail "ex19, $label: $(cat "$work/ex19.log.result"); 1 rank: $(cat "$work/ex19.1.log.result")"
            echo "$label: ex2 $(cat "$work/ex2.log.result"), ex2f $(cat "$work/ex2f.log.result"), ex19 $(cat "$work/ex19.log.result")"
        done
    done
}
finish
