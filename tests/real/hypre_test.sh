#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that hypre (linear solvers, multigrid) works unchanged: its regression sets on 1 to 64 ranks, and BoomerAMG and PFMG on
# 4, 16 and 64 ranks, in one process with 2 PEs and in 2 processes.
#
# Usage: hypre_test.sh BUILD_DIR WORK_DIR
# The sources come from the Debian or Ubuntu source package hypre, once, into WORK_DIR. Exits with 77 if they are not
# available.
# TEST_fac is left out: its runs with several ranks end with truncated messages under Open MPI 4.1.4, too.
# Other regression sets: SETS='TEST_ij/*.sh' hypre_test.sh ... About 6 minutes on two cores.
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"
sets=${SETS:-TEST_ij/*.sh TEST_struct/*.sh TEST_sstruct/*.sh TEST_lobpcg/*.sh TEST_ams/*.sh}

unpack_source hypre
cd "$source/src" || exit 1
build_step configure.log ./configure CC="$build/bin/mpicc" CXX="$build/bin/mpicxx" --disable-fortran CFLAGS="-O2 -w"
build_step make.log make -j 2
build_step make_test.log make -C test -j 2
check_unchanged hypre

# ---- hypre's regression sets: each *.jobs file runs programs and each *.sh file compares the output ----

# Stands for mpirun: `mpirun_in HOW` runs with 2 PEs or, where there are ranks enough, in 2 processes.
mkdir -p "$work/bin"
cat >"$work/bin/mpirun_pes" <<END
#!/bin/sh
exec timeout 300 "$build/bin/mpirun" "\$@" +p 2
END
cat >"$work/bin/mpirun_procs" <<END
#!/bin/sh
[ "\$2" -lt 2 ] && exec timeout 300 "$build/bin/mpirun" "\$@"
exec timeout 300 "$build/bin/mpirun" --procs 2 "\$@"
END
chmod +x "$work/bin/mpirun_pes" "$work/bin/mpirun_procs"

# run_sets HOW: a set has failed if it leaves a file NAME.err that is not empty.
run_sets() {
    local how=$1 copy=$work/sets_$1 errors
    rm -rf "$copy" && cp -r "$source/src/test" "$copy" && cd "$copy" || exit 1
    # shellcheck disable=SC2086 # several file names
    timeout 3000 bash ./runtest.sh -mpi "$work/bin/mpirun_$how -np" -rtol 1e-2 -atol 1e-6 $sets >"$work/sets_$how.log" 2>&1 </dev/null
    [ "$(find . -name '*.out.*' | wc -l)" -gt 100 ] || fail "$how: the regression sets did not run ($work/sets_$how.log)"
    errors=$(find . -name '*.err' -size +0)
    if [ -n "$errors" ]; then
        # shellcheck disable=SC2086 # several file names
        head -n 6 $errors
        # shellcheck disable=SC2086 # several file names
        fail "$how: regression sets with errors:" $errors
    else
        echo "$how: no errors in $(find . -name '*.out.*' | wc -l) runs"
    fi
}
run_sets pes
run_sets procs

# ---- Larger numbers of ranks: the solvers converge, in as many steps in one process as in two ----

# solve LABEL LOG command...: leaves the number of iterations in LOG.iterations; fails without convergence.
solve() {
    local label=$1 log=$2 residual
    shift 2
    run_program "$label" "$log" "$@" || return
    residual=$(sed -n 's/^Final Relative Residual Norm = //p' "$log" | tail -n 1)
    awk "BEGIN { exit !(\"$residual\" != \"\" && ${residual:-1} > 0 && ${residual:-1} < 1e-6) }" ||
        fail "$label: final relative residual norm '$residual'"
    sed -n 's/^.*Iterations = //p' "$log" | tail -n 1 >"$log.iterations"
}
cd "$source/src/test" || exit 1
for grid in "2 2 1" "4 2 2" "4 4 4"; do
    ranks=$(awk '{ print $1 * $2 * $3 }' <<<"$grid")
    for program in "ij -solver 1 -rlx 8 -n 40 40 40" "struct -solver 1 -n 10 10 10"; do
        name=${program%% *}
        for how in pes procs; do
            # shellcheck disable=SC2086 # several words
            solve "$name, $ranks ranks, $how" "$work/$name.$ranks.$how.log" "$work/bin/mpirun_$how" -np "$ranks" ./$program -P $grid
        done
        cmp -s "$work/$name.$ranks.pes.log.iterations" "$work/$name.$ranks.procs.log.iterations" ||
            fail "$name, $ranks ranks: other numbers of iterations in one process than in two"
        echo "$name, $ranks ranks: $(cat "$work/$name.$ranks.pes.log.iterations") iterations"
    done
done
finish
