#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that mpirun hands jobs for several nodes over to srun, prterun or Open MPI's mpirun with the right arguments,
# and explains errors in lists of nodes. Stand-ins for the launchers print their arguments.
# Usage: handover_test.sh MPIRUN
set -u
mpirun=$(realpath "$1")
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
work=$expect_dir/work
mkdir -p "$work"/{srun,srun_no_pmix,prte,orte,tools}
cd "$work" || exit 1
unset HEDDLE_OPTIONS HEDDLE_LAUNCHER_TIMEOUT LD_LIBRARY_PATH SLURM_JOB_ID SLURM_JOB_NUM_NODES SLURM_NNODES SLURM_STEP_ID \
    PBS_NODEFILE LSB_DJOB_HOSTFILE PMIX_RANK

cat >launcher <<'END'
#!/bin/sh
[ "$1" = --mpi=list ] && { echo "MPI plugin types are... LIST"; exit; }
echo "$(basename "$0") $* [$HEDDLE_OPTIONS]"
exit "${LAUNCHER_CODE:-0}"
END
sed 's/LIST/none pmi2 pmix_v4/' launcher >srun/srun
sed 's/LIST/none pmi2/' launcher >srun_no_pmix/srun
quoted="quoted';>hit;'"
mkdir "$quoted" && cp srun/srun "$quoted/srun"
cp launcher prte/prterun
cp launcher orte/orterun
chmod +x srun/srun "$quoted/srun" srun_no_pmix/srun prte/prterun orte/orterun
printf '# nodes\na\nb:2  # two\nc slots=3\n\na\n' >hostfile
printf 'a\na\nb\nb\n' >nodefile
printf 'a\n*\n' >bad_hostfile
printf 'a\nb\0,c\n' >zero_hostfile
cat >app <<'END'
#!/bin/sh
echo "here: $HEDDLE_OPTIONS"
END
chmod +x app
# It is no MPI program: where it is run by our mpirun itself, that is said.
no_ranks='^mpirun: ./app ended, but the 8 requested ranks never started'
cp "$(type -P true)" plain
for tool in sh basename; do ln -s "$(command -v $tool)" tools/$tool; done

# with "FOLDER..." VARIABLE=... command...: these launchers are in PATH, and none of this machine's.
cat >with <<'END'
#!/bin/bash
launchers=$1 folders=$PWD/tools
shift
for folder in $launchers; do folders=$PWD/$folder:$folders; done
exec env "PATH=$folders" "$@"
END
chmod +x with

slurm=(SLURM_JOB_ID=1 SLURM_JOB_NUM_NODES=2)
expect "--hosts: prterun" 0 '^prterun --host a:1,b:1 -np 2 --map-by slot --bind-to none -x HEDDLE_OPTIONS ./app x \[\+vp 8\] $' '' \
    ./with "prte orte srun" "$mpirun" --hosts a,b -n 8 ./app x
expect "--hosts: Open MPI's" 0 '^orterun --host a:2,b:2 -np 4 .* -x HEDDLE_OPTIONS -x COLOR ./app \[\+vp 8\] $' '' \
    ./with orte "$mpirun" -x COLOR=red --hosts a,b --procs 4 -n 8 ./app
expect "slots of the user" 0 '--host a:3,b:1 -np 4 ' '' ./with orte "$mpirun" --host a:3,b:1 --procs 4 -n 8 ./app
expect "--hostfile: a process for each node" 0 '--host a:1,b:1,c:1 -np 3 ' '' \
    ./with orte "$mpirun" --hostfile hostfile -n 8 ./app
expect "--hostfile with --procs" 0 '--host a:2,b:2,c:3 -np 7 ' '' ./with orte "$mpirun" --hostfile hostfile --procs 7 -n 8 ./app
expect "tags and root" 0 '--allow-run-as-root --tag-output ' '' \
    ./with orte "$mpirun" --allow-run-as-root --tag-output --hosts a,b -n 8 ./app
expect "tags of prterun" 0 '--output tag ' '' ./with prte "$mpirun" --tag-output --hosts a,b -n 8 ./app
expect "-v says which command is run" 0 '*' "^mpirun: HEDDLE_OPTIONS='\+vp 8' $work/orte/orterun --host a:1,b:1 .* ./app " \
    ./with orte "$mpirun" -v --hosts a,b -n 8 ./app
expect "the launcher's exit code" 9 '*' '' ./with orte LAUNCHER_CODE=9 "$mpirun" --hosts a,b -n 8 ./app
expect "ranks per node" 0 '--host a:1,b:1 -np 2 .*\[\+vp 8\]' '' ./with orte "$mpirun" --hosts a,b -N 4 ./app
expect "ranks per node leave a node out" 0 '-np 2 .*\[\+vp 5\]' '' ./with orte "$mpirun" --hosts a,b,c -n 5 -ppn 4 ./app
expect "too many ranks per node" 2 '' '9 ranks with 4 on each node need 3 nodes, but the job has 2' \
    ./with orte "$mpirun" --hosts a,b -n 9 -ppn 4 ./app
expect "hosts of several options" 0 '--host a:1,b:1 -np 2 ' '' ./with orte "$mpirun" -H a -H b -n 8 ./app
expect "fewer ranks than nodes" 0 '-np 2 ' '' ./with orte "$mpirun" --hosts a,b,c -n 2 ./app
expect "no MPI: once per rank" 0 '-np 4 .*plain' '' ./with orte "$mpirun" --hosts a,b -n 4 ./plain
expect "a Slurm allocation" 0 \
    '^srun --mpi=pmix --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpu-bind=none --kill-on-bad-exit=1 ./app \[\+vp 8\] $' '' \
    ./with "srun orte" "${slurm[@]}" "$mpirun" -n 8 ./app
expect "a part of it" 0 '--nodes=2 --ntasks=4 --ntasks-per-node=2 .*--nodelist=a,b ' '' \
    ./with srun "${slurm[@]}" "$mpirun" --hosts a,b --procs 4 -n 8 ./app
expect "srun in a folder whose name a shell would run" 0 '^srun --mpi=pmix ' '' \
    ./with "$quoted" "${slurm[@]}" "$mpirun" -n 8 ./app
expect "and no command in that name was run" 1 '' '' test -e hit
expect "Slurm without PMIx: Open MPI's" 0 '^orterun -np 2 --map-by ppr:1:node ' '' \
    ./with "srun_no_pmix orte" "${slurm[@]}" "$mpirun" -n 8 ./app
expect "a Slurm allocation of one node: here" 1 '^here: \+vp 8 $' "$no_ranks" \
    ./with srun SLURM_JOB_ID=1 SLURM_JOB_NUM_NODES=1 "$mpirun" -n 8 ./app
expect "a task of a job already: here" 1 '^here: \+vp 8 $' "$no_ranks" ./with srun "${slurm[@]}" PMIX_RANK=0 "$mpirun" -n 8 ./app
expect "a PBS allocation" 0 '--host a:2,b:2 -np 4 ' '' ./with orte PBS_NODEFILE=nodefile "$mpirun" --procs 4 -n 8 ./app
expect "this node alone: here" 1 '^here: \+vp 8 $' "$no_ranks" ./with orte "$mpirun" --hosts "localhost,$(hostname)" -n 8 ./app
expect "no launcher" 127 '' 'none of them is in PATH' ./with '' "$mpirun" --hosts a,b -n 8 ./app
expect "Slurm without PMIx, and no other" 127 '' 'none of them is in PATH' \
    ./with srun_no_pmix "${slurm[@]}" "$mpirun" -n 8 ./app

expect "--hosts of nothing" 2 '' "--hosts: '': not a node" "$mpirun" --hosts '' -n 8 ./app
expect "--hosts with a hole" 2 '' "--hosts: '': not a node" "$mpirun" --hosts a,,b -n 8 ./app
expect "--hosts with bad slots" 2 '' "--hosts: 'b:0': not a node" "$mpirun" --hosts a,b:0 -n 8 ./app
expect "--hosts with a sign" 2 '' "--hosts: 'a:\+2': not a node" "$mpirun" --hosts 'a:+2' -n 8 ./app
expect "--hosts with a blank" 2 '' "--hosts: 'a: 2': not a node" "$mpirun" --hosts 'a: 2' -n 8 ./app
expect "a byte of value 0 in a line" 2 '' "zero_hostfile:2: the line contains a byte of value 0" \
    "$mpirun" --hostfile zero_hostfile -n 8 ./app
expect "two hostfiles" 2 '' '--hostfile b: another file was already given' "$mpirun" --hostfile a --hostfile b -n 8 ./app
expect "--hosts with an option in it" 2 '' "'-x': not a node" "$mpirun" --hosts a,-x -n 8 ./app
expect "a bad line" 2 '' "bad_hostfile:2: '\*': not a node" "$mpirun" --hostfile bad_hostfile -n 8 ./app
expect "no such hostfile" 2 '' 'No such file' "$mpirun" --hostfile /no/such -n 8 ./app
expect "an empty hostfile" 2 '' 'lists no nodes' "$mpirun" --hostfile /dev/null -n 8 ./app
expect "both" 2 '' 'use only one' "$mpirun" --hosts a --hostfile b -n 8 ./app
finish
