#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that an MPI program which a rank starts is a job of its own, with one process or several outside and inside;
# that shells, env and interpreters in front of a program pass the ranks on to it; and that mpirun reports an error if
# no program becomes the requested ranks.
# Usage: inner_test.sh MPICC MPIRUN
set -u
mpirun=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS PMIX_RANK PMIX_NAMESPACE SLURM_JOB_ID
EXPECT_TIMEOUT=180
here=$(cd "$(dirname "$0")" && pwd)
work=$expect_dir
"$1" -O1 -o "$work/inner" "$here/inner.c" || exit 1
cd "$work" || exit 1

# sorted COMMAND...: runs it and sorts what it prints; the exit code is its own.
cat >sorted <<'END'
#!/bin/bash
"$@" >"$0.out"
code=$?
sort "$0.out"
exit $code
END
chmod +x sorted

# Can this build run several processes?
has_procs=no
if "$mpirun" --procs 2 -n 2 true >/dev/null 2>&1; then has_procs=yes; fi

# ---- A rank starts another MPI program ----
outside=("-n 2" "-n 1")
inside=("" "$mpirun -n 1 " "$mpirun -n 3 ")
if [ "$has_procs" = yes ]; then
    outside+=("--procs 2 -n 2" "--procs 2 -n 4")
    inside+=("$mpirun --procs 3 -n 3 ")
fi
for out in "${outside[@]}"; do
    n_outer=${out##* }
    for in in "${inside[@]}"; do
        n_inner=1
        [ -n "$in" ] && n_inner=${in% } && n_inner=${n_inner##* }
        expected='^'
        for ((i = 0; i < n_inner; i++)); do expected+="inner $i of $n_inner "; done
        for ((i = 0; i < n_outer; i++)); do expected+="outer $i of $n_outer "; done
        # shellcheck disable=SC2086
        expect "mpirun $out, which starts: $in./inner" 0 "$expected\$" '' \
            ./sorted "$mpirun" $out ./inner system after "$in./inner"
    done
done
job=(-n 2)
[ "$has_procs" = yes ] && job=(--procs 2 -n 2)
for way in popen exec spawn; do
    expect "the same by $way" 0 '^inner 0 of 1 outer 0 of 2 outer 1 of 2 $' '' ./sorted "$mpirun" "${job[@]}" ./inner $way after ./inner
done
expect "before MPI_Init" 0 '^inner 0 of 1 inner 0 of 1 outer 0 of 2 outer 1 of 2 $' '' \
    ./sorted "$mpirun" "${job[@]}" ./inner system before ./inner
expect "the inner job's failure is its own" 0 '^outer 0 of 2 outer 1 of 2 the inner program failed $' 'unknown option' \
    ./sorted "$mpirun" "${job[@]}" ./inner system after "$mpirun -n 2 ./inner no way 'x' +nothing"

# ---- A rank of another MPI starts a program of ours ----
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat >starts.py <<'END'
import subprocess, sys
sys.exit(subprocess.call(sys.argv[1:]))
END
for other in openmpi mpich; do
    if ! command -v mpicc.$other >/dev/null || ! command -v mpirun.$other >/dev/null; then continue; fi
    mpicc.$other -O1 -o outer_$other "$here/inner.c" || exit 1
    job=("mpirun.$other" -n 2)
    [ $other = openmpi ] && job=(mpirun.openmpi --oversubscribe -n 2)
    for way in system popen exec spawn; do
        expect "a rank of $other starts a program by $way" 0 '^inner 0 of 1 outer 0 of 2 outer 1 of 2 $' '' \
            ./sorted "${job[@]}" ./outer_$other $way after ./inner
    done
    expect "... that does not inherit its sockets" 0 '^inner 0 of 1 outer 0 of 2 outer 1 of 2 $' '' \
        ./sorted "${job[@]}" ./outer_$other system after "python3 starts.py python3 starts.py ./inner"
    mkfifo begin.$other out.$other
    expect "... whose parent has ended" 0 '^inner 0 of 1 outer 0 of 2 outer 1 of 2 $' '' \
        ./sorted "${job[@]}" ./outer_$other system after \
        "(sh -c 'read line <begin.$other; exec ./inner >out.$other' &); echo >begin.$other; cat out.$other"
    expect "... with several ranks" 0 '^(inner [012] of 3 ){3}outer 0 of 2 outer 1 of 2 $' '' \
        ./sorted "${job[@]}" ./outer_$other system after "$mpirun -n 3 ./inner"
done
if command -v mpirun.openmpi >/dev/null && [ "$has_procs" = yes ]; then
    for words in "" "sh -c ./inner" "python3 starts.py python3 starts.py"; do
        # shellcheck disable=SC2086 # several words
        expect "Open MPI's mpirun starts ranks of ours: $words" 0 '^inner 0 of 2 inner 1 of 2 $' '' \
            ./sorted mpirun.openmpi --oversubscribe -n 2 $words ./inner
    done
fi

# ---- A launcher without PMIx cannot start one job of ours: the processes end instead of running a job each ----
remedy="^heddle: MPICH's mpirun has started 2 processes without PMIx[^:]*: use Heddle's mpirun -n 2 \$"
if command -v mpirun.mpich >/dev/null; then
    expect "MPICH's mpirun" 1 '' "$remedy" mpirun.mpich -n 2 ./inner
    expect "MPICH's mpirun, ranks in each process" 1 '' "$remedy" mpirun.mpich -n 2 ./inner +vp 4
    expect "MPICH's mpirun, behind a shell" 1 '' "$remedy" mpirun.mpich -n 2 sh -c './inner; exit $?'
    expect "MPICH's mpirun with one process" 0 '^inner 0 of 1 $' '' mpirun.mpich -n 1 ./inner
    expect "MPICH's mpirun starts ours" 0 '^(inner 0 of 2 ){2}(inner 1 of 2 ){2}$' '' ./sorted mpirun.mpich -n 2 "$mpirun" -n 2 ./inner
fi
# A stand-in for Slurm's process above the tasks; tests/nodes uses Slurm itself.
cp "$(type -P bash)" slurmstepd
task() { expect "$1" "$2" "$3" "$4" env SLURM_STEP_NUM_TASKS="$5" SLURM_PROCID=0 ./slurmstepd -c "$6; exit \$?"; }
task "srun without PMIx" 1 '' '^heddle: srun has started 3 processes without PMIx[^:]*: use .srun --mpi=pmix.' 3 ./inner
task "srun with one task" 0 '^inner 0 of 1 $' '' 1 ./inner
task "srun starts our mpirun" 0 '^inner 0 of 1 $' '' 3 "$mpirun -n 1 ./inner"
task "our mpirun behind srun starts a shell" 0 '^inner 0 of 1 $' '' 3 "$mpirun -n 1 sh -c './inner; true'"
task "a rank behind srun starts a job of its own" 0 '^inner 0 of 1 outer 0 of 1 $' '' 3 \
    "$mpirun -n 1 ./inner system after ./inner"
expect "an allocation's variables alone" 0 '^inner 0 of 1 $' '' env SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=0 ./inner

# ---- What stands in front of a program hands the ranks on ----
cat >script.sh <<'END'
#!/bin/sh
: a script
"$@"
END
chmod +x script.sh
expected='^inner 0 of 3 inner 1 of 3 inner 2 of 3 $'
hands_on() { expect "mpirun $form $1" 0 "$expected" '' ./sorted "$mpirun" "${job[@]}" "${@:2}"; }
forms=("-n 3")
[ "$has_procs" = yes ] && forms+=("--procs 3 -n 3")
for form in "${forms[@]}"; do
    read -ra job <<<"$form"
    hands_on "env" env A=1 ./inner
    hands_on "a script" ./script.sh ./inner
    hands_on "a script, env and a shell" ./script.sh env B=2 sh -c './inner; true'
done
# Interpreters become ranks themselves, if they can be copied. One that is alone in its process leaves its place to the program.
[ "$has_procs" = yes ] && job=(--procs 3 -n 3) && hands_on "Python" python3 starts.py ./inner
refused='^heddle: rank [01] of 2 is a Python interpreter .* before MPI_Init: with .mpirun --procs 2. '
if "$mpirun" -n 2 python3 -c pass >python 2>&1 && [ ! -s python ]; then
    expect "Python" 1 '' "$refused" "$mpirun" -n 2 python3 starts.py ./inner
    for call in 'waitpid(os.posix_spawn("./inner", ["inner"], os.environ), 0)' 'system("./inner")' 'execv("./inner", ["inner"])'; do
        expect "Python, os.$call" 1 '' "$refused" "$mpirun" -n 2 python3 -c "import os; os.$call; os._exit(1)"
    done
    expect "Python, mpirun" 0 '^(inner 0 of 1 ){2}$' '' "$mpirun" -n 2 python3 starts.py "$mpirun" -n 1 ./inner
fi
cat >joins.py <<'END'
import ctypes, os, subprocess, sys
mpi = ctypes.CDLL("libmpi_abi.so.1")
mpi.MPI_Init(None, None)
code = subprocess.call(sys.argv[1:], env=dict(os.environ))
mpi.MPI_Finalize()
sys.exit(code)
END
for form in "${forms[@]}"; do
    # shellcheck disable=SC2086
    expect "mpirun $form, Python after MPI_Init" 0 '^(inner 0 of 1 ){3}$' '' \
        env LD_LIBRARY_PATH="$(dirname "$mpirun")/../lib" "$mpirun" $form python3 joins.py ./inner
done
expect "two programs, one after the other" 0 '^(inner 0 of 3 ){2}(inner 1 of 3 ){2}(inner 2 of 3 ){2}$' '' \
    ./sorted "$mpirun" -n 3 sh -c './inner; ./inner'
expect "the exit code of a script" 7 '^inner 0 of 2 inner 1 of 2 $' '' ./sorted "$mpirun" -n 2 sh -c './inner; exit 7'

# ---- No program becomes the ranks that were asked for ----
for form in "${forms[@]}"; do
    # shellcheck disable=SC2086
    expect "mpirun $form, the environment is not handed on" 1 'inner 0 of 1 ' 'mpirun: sh.*3 (requested )?ranks' \
        "$mpirun" $form sh -c 'exec env -i ./inner'
    # shellcheck disable=SC2086
    expect "mpirun $form, nothing is started" 1 'hello' 'mpirun: sh.*3 (requested )?ranks' "$mpirun" $form sh -c 'echo hello'
    # shellcheck disable=SC2086
    expect "mpirun $form, a program that fails says so itself" 5 '' '*' "$mpirun" $form sh -c 'exit 5'
done
expect "fewer ranks than were asked for" 1 'inner 0 of 2 ' 'mpirun: sh.* 3 (requested )?ranks.*run 2' "$mpirun" -n 3 sh -c './inner +vp 2'
expect "without -n nothing was asked for" 0 '^hello $' '' "$mpirun" sh -c 'echo hello'
expect "one rank is what any program is" 0 '^hello $' '' "$mpirun" -n 1 sh -c 'echo hello'
finish
