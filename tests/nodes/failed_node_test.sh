#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a job whose process fails by kill -9 ends soon under other launchers, too, with a message that names the
# process, and with a non-zero code, whatever the others are doing: on one node, and across two, where the message also
# names the ranks.
# Usage: failed_node_test.sh MPICC MPIRUN
# What is in single quotes is for the shell that runs it.
# shellcheck disable=SC2016
set -u
mpicc=$1
mpirun=$2
here=$(dirname "$0")
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
# shellcheck source=tests/nodes/nodes.sh
. "$here/nodes.sh"
nodes_need
unset HEDDLE_OPTIONS TMPDIR PMIX_RANK PMIX_NAMESPACE SLURM_JOB_ID
EXPECT_TIMEOUT=180
client=$expect_dir/mpi_client
"$mpicc" -O1 -o "$client" "$here/../launch/mpi_client.c" || exit 1
nodes_up 2
trap 'nodes_down; rm -rf "$expect_dir"' EXIT
first=("$nodes_dir/run" 1)

# lost WHAT TEXT command...: the command runs 4 processes of two ranks each, of which number 2 is killed in different moments.
lost() {
    local what=$1 text=$2 doing
    shift 2
    for doing in traffic barrier recv spin; do
        [ "$doing" = spin ] && text=${text%%|*} # who computes notices nothing: it is the launcher that does
        expect "$what: the others are in $doing" 0 '*' "$text" sh -c '"$@"; code=$?; [ $code != 0 ] && [ $code != 124 ]' - \
            "$@" "$client" +vp 8 +p 1 init barrier @2,sleep=300 @2,kill=9 $doing
    done
}
said_by_us='process 2 of 4 .ranks 4 to 5. has failed: host [^ ]* .*; the job ends'

if command -v mpirun.openmpi >/dev/null; then
    ssh=$(nodes_ssh)
    export OMPI_MCA_plm_rsh_agent=$ssh OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0
    said_by_mpirun='process rank 2 .* exited on signal 9'
    openmpi=(mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -np 4)
    lost "Open MPI's mpirun, one node" "$said_by_mpirun" "${first[@]}" env -u UCX_TLS "${openmpi[@]}"
    lost "Open MPI's mpirun, two nodes" "$said_by_mpirun|$said_by_us" "${first[@]}" "${openmpi[@]}" --host node1:2,node2:2 -x UCX_TLS
    lost "ours, which hands over to it" "$said_by_mpirun|$said_by_us" "${first[@]}" "$mpirun" --allow-run-as-root --hosts node1,node2 --procs 4
else
    echo "Open MPI's mpirun is not installed: left out"
fi
if nodes_slurm_up 2; then
    said_by_srun='task 2: Killed'
    lost "srun, one node" "$said_by_srun" "${first[@]}" env -u UCX_TLS srun --mpi=pmix -N 1 -n 4
    lost "srun, two nodes" "$said_by_srun|$said_by_us" "${first[@]}" srun --mpi=pmix -N 2 -n 4
else
    echo "no Slurm: left out"
fi
finish
