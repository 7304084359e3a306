#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that one binary prints the same, rank by rank, and returns the same, under every launcher: none, Heddle's mpirun
# with one process and with several, Open MPI's mpirun, srun; with one rank per process and with several.
# Usage: launchers_test.sh MPICC MPIRUN
set -u
mpicc=$1
mpirun=$2
here=$(dirname "$0")
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
# shellcheck source=tests/nodes/nodes.sh
. "$here/nodes.sh"
unset HEDDLE_OPTIONS TMPDIR PMIX_RANK PMIX_NAMESPACE SLURM_JOB_ID
EXPECT_TIMEOUT=180
work=$expect_dir
"$mpicc" -O1 -o "$work/same" "$here/same.c" || exit 1
"$mpicc" -O1 -o "$work/rank_env" "$here/../launch/rank_env.c" &&
    "$mpicc" -O1 -o "$work/programs" "$here/../launch/programs.c" || exit 1
cp "$work/programs" "$work/other"
printf '%s\n' "0-1 $work/programs 0 0 2" "2-4 $work/other 1 2 3" >"$work/several"
app=$work/same

# same NUM what command...: 8 ranks, started by the command, print what they have to.
for rank in 0 1 2 3 4 5 6 7; do
    echo "rank $rank of 8: $((rank + 1)) calls, 36 in all; 100000 right; node of 8; got 0; arguments one two"
done >"$work/right"
same() {
    local what=$1
    shift
    expect "$what" 0 '^as it should $' '*' sh -c '"$@" >'"$work/said"' || exit; sort '"$work/said | diff $work/right - && echo as it should" - "$@"
}
# fails what command...: the code of a rank is the command's.
fails() { expect "an exit code: $1" 9 '*' '*' "${@:2}"; }
# few what command...: two ranks cannot be in four processes.
few() { expect "fewer ranks than processes: $1" 0 '*' '2 ranks are fewer than the 4 processes' sh -c '"$@"; [ $? != 0 ]' - "${@:2}"; }

# ---- No launcher, and ours ----
same "no launcher" "$app" one two +vp 8
same "no launcher, two PEs" "$app" +vp 8 +p 2 one two
same "no launcher, options from the environment" env HEDDLE_OPTIONS="+vp 8 +p 1" "$app" one two
fails "no launcher" "$app" fail 9 +vp 8
same "mpirun -n 8" "$mpirun" -n 8 "$app" one two
same "mpirun with +vp" "$mpirun" "$app" one two +vp 8
fails "mpirun" "$mpirun" -n 8 "$app" fail 9
for procs in 2 3 8; do
    same "mpirun --procs $procs -n 8" "$mpirun" --procs $procs -n 8 "$app" one two
    same "mpirun --procs $procs with +vp" "$mpirun" --procs $procs "$app" one two +vp 8 +p 1
    fails "mpirun --procs $procs" "$mpirun" --procs $procs -n 8 "$app" fail 9
done
same "mpirun --procs 8, a rank each" "$mpirun" --procs 8 "$app" one two
expect "fewer ranks than processes: mpirun" 2 '' 'each process needs at least one rank, but -n is 2' "$mpirun" --procs 4 -n 2 "$app"

# ---- Others. PMIx tells the processes who they are ----
# told what VARIABLES command...: 8 ranks, and each finds its own numbers in the variables.
told() {
    expect "$1: the variables of each rank" 0 "^(rank [0-7] of 8: $2 right ){8}\$" '*' "${@:3}"
}
# launcher NAME PROCESSES_OPTION command...
launcher() {
    local name=$1 option=$2 procs
    shift 2
    for procs in 2 3 8; do
        same "$name, $procs processes" "$@" "$option" $procs "$app" one two +vp 8
        same "$name, $procs processes, one PE each" "$@" "$option" $procs "$app" +p 1 +vp 8 one two
    done
    same "$name, one process" "$@" "$option" 1 "$app" one two +vp 8
    same "$name, a rank each" "$@" "$option" 8 "$app" one two
    fails "$name" "$@" "$option" 8 "$app" fail 9
    fails "$name, four ranks each" "$@" "$option" 2 "$app" fail 9 +vp 8
    few "$name" "$@" "$option" 4 "$app" +vp 2
    told "$name, 3 processes" 2 "$@" "$option" 3 "$work/rank_env" OMPI_COMM_WORLD_LOCAL_RANK=local_rank OMPI_COMM_WORLD_SIZE=size +vp 8
}
left_out=
if command -v mpirun.openmpi >/dev/null; then
    launcher "Open MPI's mpirun" -np mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none
    expect "application contexts of Open MPI's mpirun: MPI_APPNUM" 0 '5 ranks' '*' mpirun.openmpi --allow-run-as-root \
        --oversubscribe --bind-to none -np 2 "$work/programs" 0 0 2 : -np 3 "$work/other" 1 2 3
else
    left_out="Open MPI's mpirun"
fi
if command -v ip >/dev/null && unshare --net --uts --mount true 2>/dev/null; then
    nodes_up 1
    trap 'nodes_down; rm -rf "$expect_dir"' EXIT
    unset UCX_TLS
    if nodes_slurm_up 1; then
        launcher srun -n "$nodes_dir/run" 1 srun --mpi=pmix -N 1 --overcommit
        expect "srun --multi-prog: MPI_APPNUM" 0 '5 ranks' '*' "$nodes_dir/run" 1 srun --mpi=pmix -N 1 --overcommit -n 5 --multi-prog "$work/several"
        expect "srun without PMIx" 1 '' '^(srun: job [^:]*)*heddle: srun has started 2 processes without PMIx' \
            "$nodes_dir/run" 1 srun --mpi=none -N 1 --overcommit -n 2 "$app" +vp 8
        same "srun without PMIx, one task" "$nodes_dir/run" 1 srun --mpi=none -N 1 --overcommit -n 1 "$app" one two +vp 8
        same "mpirun in a task of srun" "$nodes_dir/run" 1 srun --mpi=none -N 1 --overcommit -n 1 "$mpirun" -n 8 "$app" one two
        for procs in 1 3 8; do
            told "srun, $procs processes" 3 "$nodes_dir/run" 1 srun --mpi=pmix -N 1 --overcommit -n $procs "$work/rank_env" \
                SLURM_LOCALID=local_rank SLURM_PROCID=rank SLURM_NTASKS=size +vp 8
        done
    else
        left_out="$left_out srun"
    fi
else
    left_out="$left_out srun"
fi
[ -z "$left_out" ] || echo "not installed, or no rights to start it: $left_out"
finish
