#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows dynamic processes under other launchers: Open MPI's mpirun starts those that are spawned (PMIx_Spawn), Slurm says that
# it does not; jobs of different launchers connect to each other, know each other's names and survive each other's failures.
# Usage: dynamic_test.sh MPICC MPIRUN
set -u
mpicc=$1
mpirun=$2
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
# shellcheck source=tests/nodes/nodes.sh
. "$here/nodes.sh"
unset HEDDLE_OPTIONS TMPDIR PMIX_RANK PMIX_NAMESPACE SLURM_JOB_ID
work=$(cd "$expect_dir" && pwd -P)
"$mpicc" -O1 -o "$work/spawn" "$here/../launch/spawn.c" && "$mpicc" -O1 -fno-pie -no-pie -o "$work/fixed" "$here/../launch/spawn.c" &&
    "$mpicc" -O1 -fno-pie -no-pie -o "$work/fixed_job" "$here/../launch/universe.c" &&
    "$mpicc" -O1 -o "$work/job" "$here/../launch/universe.c" || exit 1
cp "$work/spawn" "$work/other"
mkdir "$work/folder"
cd "$work" || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
child="child: 3 ranks, 5 in all, program 0, well, two words in $work"
ours=(timeout -k 5 180 "$mpirun")
# named NAME: a universe of this name for the jobs that follow.
named() {
    export HEDDLE_UNIVERSE=$1-$$
    folder=/dev/shm/heddle-universe-$(id -u)-$HEDDLE_UNIVERSE
}
# beside command...: a job beside those of expect.
beside() {
    timeout -k 5 180 "$@" >beside 2>beside_err </dev/null &
    job=$!
}
# connects NAME command...: jobs of this launcher, whose last word is the option for their processes, and of mpirun.
connects() {
    local name=$1
    shift
    named "${name// /_}"
    beside "$@" 2 ./job open a accept a talk 0 3 leave 0 accept a talk 0 2 lost 0 drop 0 accept a talk 0 1 leave 0 close a
    expect "$name: a job of the same launcher connects" 0 'talked to: 2 end: well' '*' timeout 180 "$@" 3 ./job connect a talk 0 2 leave 0
    expect "$name: a job of Heddle's mpirun connects, and is killed" 137 'talked to: 2' 'signal 9' "${ours[@]}" --procs 2 -n 2 ./job connect a talk 0 2 kill
    expect "$name: another one connects" 0 'talked to: 2 end: well' '' "${ours[@]}" -n 1 ./job connect a talk 0 2 leave 0
    expect_beside "$name: the server" 0 'talked to: 3 talked to: 2 lost: MPI_ERR_PROC_ABORTED talked to: 1 end: well'
    beside "${ours[@]}" --procs 2 -n 4 ./job open a accept a talk 0 1 lost 0 drop 0 accept a talk 0 1 leave 0 close a
    expect "$name: the launcher's job is killed" 137 'talked to: 4' '*' timeout 180 "$@" 1 ./job connect a talk 0 4 kill
    expect "$name: a job of one process" 0 'talked to: 4 end: well' '*' timeout 180 "$@" 1 ./job connect a talk 0 4 leave 0
    expect_beside "$name: the server of Heddle's mpirun" 0 'talked to: 1 lost: MPI_ERR_PROC_ABORTED talked to: 1 end: well'
    expect "$name: names and ranks" 0 'lookup: MPI_ERR_NAME publish: success publish: MPI_ERR_SERVICE lookup: nowhere end: well' '*' \
        timeout 180 "$@" 3 ./job lookup a publish a publish a lookup a env
    expect "$name: fewer ranks than processes" 0 '*' '2 ranks are fewer than the 4 processes' \
        sh -c '"$@"; [ $? != 0 ]' - timeout 180 "$@" 4 ./job +vp 2
    left_over() { ls -d "$folder" 2>/dev/null; }
    expect_nothing_left "$name: jobs that have ended" 1800
    unset HEDDLE_UNIVERSE
}

if command -v mpirun.openmpi >/dev/null; then
    open=(timeout -k 5 180 mpirun.openmpi --oversubscribe --bind-to none)
    connects "Open MPI's mpirun" "${open[@]}" -np
    named openmpi
    run=("${open[@]}" -np 2 ./spawn)
    expect "another program: its ranks share the root's process" 0 "($child .*parent: 5|parent: 5.*$child )" '' "${run[@]}" ./other 3
    expect "a program that is not position-independent: a process per rank" 0 "$child " '' "${run[@]}" ./fixed 3
    expect "one process at the start" 0 'child: 2 ranks, 3 in all' '' "${open[@]}" -np 1 ./spawn ./fixed 2
    expect "a parent that is not" 0 'child: 2 ranks, 4 in all' '' "${open[@]}" -np 2 ./fixed ./fixed 2
    expect "another folder" 0 "$child/folder " '' "${run[@]}" ./other 3 folder
    expect "another folder, the same program: its ranks share a process" 0 "$child/folder " '' "${run[@]}" ./spawn 3 folder
    expect "two programs" 0 'child: 3 ranks, 5 in all, program 0' '' "${run[@]}" ./other 2 '' well ./fixed
    expect "five ranks in two processes" 0 'child: 2 ranks, 7 in all' '' "${run[@]}" ./fixed 2 +vp 5
    expect "a file that is no program" 0 'spawn: MPI_ERR_SPAWN' '*' "${run[@]}" ./text 2
    expect "a program without MPI" 0 'spawn: MPI_ERR_SPAWN' '' "${run[@]}" /bin/true 2
    "${open[@]}" -np 1 ./fixed_job create there await go spawn 1 >full 2>&1 </dev/null &
    job=$!
    await test -e there
    printf '\0\20\0\0' | dd of="$folder/processes" bs=1 seek=8 conv=notrunc status=none # the number after the last used one: 4096
    : >go
    wait $job
    expect "no number is left in the universe" 0 'wrong: spawn' '' cat full
    expect "... as the spawned process says" 0 'was spawned, but cannot join the universe' '' cat full
    expect "MPI_Abort of a child" 9 '*' 'spawn 1, rank 0 of 1 .*: MPI_Abort was called with error code 9' "${run[@]}" ./fixed 1 '' abort
    HEDDLE_UNIVERSE=none
    expect "without a universe" 0 'spawn: MPI_ERR_SPAWN' '*' "${run[@]}" ./fixed 2
    expect "... with the remedy" 53 '' 'would need a new process .*HEDDLE_UNIVERSE' "${run[@]}" ./fixed 2 '' fatal
    named openmpi # of which killed processes have left something
    expect "the next job" 0 'end: well' '' "${ours[@]}" --universe -n 1 ./job
    left_over() { ls -d "$folder" 2>/dev/null; }
    expect_nothing_left "killed processes" 1800
    unset HEDDLE_UNIVERSE
fi
if command -v ip >/dev/null && unshare --net --uts --mount true 2>/dev/null; then
    if command -v mpirun.openmpi >/dev/null; then
        nodes_up 2
        OMPI_MCA_plm_rsh_agent=$(nodes_ssh)
        export OMPI_MCA_plm_rsh_agent OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0
        named nodes
        run=("$nodes_dir/run" 1 "${open[@]}" -x UCX_TLS -x HEDDLE_UNIVERSE)
        expect "two nodes: an error that says why" 53 '' 'only if all processes of the job are on one node' \
            "${run[@]}" -np 2 --host node1:1,node2:1 ./spawn ./fixed 2 '' fatal
        expect "two nodes: copies" 0 'child: 2 ranks, 4 in all' '' "${run[@]}" -np 2 --host node1:1,node2:1 ./spawn ./other 2
        expect "a free node: the processes start beside the root" 0 'child: 2 ranks, 3 in all' '' \
            "${run[@]}" -np 1 --host node1:1,node2:4 ./spawn ./fixed 2
        unset HEDDLE_UNIVERSE
        nodes_down
    fi
    nodes_up 1
    trap 'nodes_down; rm -rf "$expect_dir"' EXIT
    unset UCX_TLS
    if nodes_slurm_up 1; then
        ours=(timeout -k 5 180 "$nodes_dir/run" 1 "$mpirun")
        slurm=("$nodes_dir/run" 1 srun --mpi=pmix -N 1 --overcommit)
        connects srun "${slurm[@]}" -n
        expect "srun does not start processes" 0 'spawn: MPI_ERR_SPAWN' '*' timeout 180 "${slurm[@]}" -n 2 ./spawn ./fixed 2
        expect "... and says so" 53 '' 'PMIx_Spawn: NOT-SUPPORTED.*mpirun --procs' timeout 180 "${slurm[@]}" -n 2 ./spawn ./fixed 2 '' fatal
        expect "copies of the program need no launcher" 0 'child: 3 ranks, 5 in all' '*' timeout 180 "${slurm[@]}" -n 2 ./spawn ./other 3
    fi
fi
finish
