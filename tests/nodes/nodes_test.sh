#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that jobs run across nodes: through Open MPI's mpirun, srun, and Heddle's mpirun, which hands over to them. With
# MPI programs (Open MPI, then Heddle) the bytes go through TCP.
# Usage: nodes_test.sh [--ipv6] NUM MPIRUN PMIX_CLIENT [MPI_PROGRAM.c...]. --ipv6: the nodes have no other addresses.
# Each MPI_PROGRAM, which is compiled with the mpicc beside MPIRUN, must end with 0 when it is run as 8 ranks in as many
# processes as there are nodes, with one and with two per node.
set -u
prefix=10.77.0.
[ "$1" = --ipv6 ] && prefix=fd77:: && shift
num=$1
mpirun=$2
client=$3
shift 3
here=$(dirname "$0")
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
# shellcheck source=tests/nodes/nodes.sh
. "$here/nodes.sh"
nodes_need
programs=()
for source in "$@"; do
    programs+=("$expect_dir/$(basename "$source" .c)")
    "$(dirname "$mpirun")/mpicc" -o "${programs[-1]}" "$source" || exit 1
done
nodes_up "$num" "$prefix"
trap 'nodes_down; rm -rf "$expect_dir"' EXIT
unset HEDDLE_OPTIONS TMPDIR PMIX_RANK SLURM_JOB_ID
EXPECT_TIMEOUT=180
names=$(nodes_names "$num")
twice=$((2 * num))
all_right="^($twice of $twice right ){$twice}$"
on() { echo "$nodes_dir/run"; } # expect runs its command with timeout, which needs a program
# run_programs LAUNCHER words...: runs the MPI programs through our mpirun, which comes after the words.
run_programs() {
    local program each
    for program in "${programs[@]}"; do
        for each in 1 2; do
            expect "$(basename "$program"), $each per node, $1" 0 '*' '*' \
                "${@:2}" "$mpirun" --allow-run-as-root --hosts "$names" --procs $((each * num)) -n 8 +p 1 "$program"
        done
    done
}

expect "a name for each node" 0 "^node$num $" '' "$(on)" "$num" hostname

# ---- Open MPI's mpirun ----
if command -v orterun >/dev/null || command -v prterun >/dev/null; then
    ssh=$(nodes_ssh)
    export OMPI_MCA_plm_rsh_agent=$ssh PRTE_MCA_plm_ssh_agent=$ssh OMPI_MCA_btl_tcp_if_include=eth0 \
        OMPI_MCA_oob_tcp_if_include=eth0
    expect "handed over to Open MPI's mpirun" 0 "$all_right" '*' "$(on)" 1 \
        "$mpirun" --allow-run-as-root --hosts "$names" --procs $twice "$client" init exchange finalize
    expect "processes are on all nodes" 0 "^$(for i in $(seq "$num"); do printf 'node%d ' "$i"; done)$" '*' "$(on)" 1 \
        sh -c '"$@" | sort' - "$mpirun" --allow-run-as-root --hosts "$names" hostname
    expect "an exit code comes back" 5 '*' '*' "$(on)" 1 \
        "$mpirun" --allow-run-as-root --hosts "$names" --procs "$num" "$client" init @1,exit=5 sleep=20000
    run_programs "Open MPI's mpirun" "$(on)" 1
else
    echo "Open MPI's mpirun is not installed: left out"
fi

# ---- Slurm ----
if nodes_slurm_up "$num"; then
    expect "srun" 0 "$all_right" '' "$(on)" 1 \
        srun --mpi=pmix -N "$num" -n $twice --ntasks-per-node=2 "$client" init exchange finalize
    expect "handed over to srun" 0 "^($num of $num right ){$num}$" "mpirun: .*srun --mpi=pmix --nodes=$num --ntasks=$num " \
        "$(on)" 1 salloc -Q -N "$num" "$mpirun" -v --procs "$num" "$client" init exchange finalize
    # srun returns the highest code of all tasks, so that may be the SIGTERM which ends the others.
    expect "a failure comes back from srun" 0 '*' 'Exited with exit code 5' "$(on)" 1 sh -c '"$@"; [ $? -ge 5 ]' - \
        salloc -Q -N "$num" "$mpirun" --procs "$num" "$client" init @1,exit=5 sleep=20000
    run_programs srun "$(on)" 1 salloc -Q -N "$num" -n "$twice"
else
    echo "no Slurm: left out"
fi
finish
