#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the processes of a job on several nodes listen on the interface that leads to the other nodes only, not on
# the loopback, nor on an interface that has the same address on all nodes, such as those of containers; and that
# UCX_NET_DEVICES overrides this. Usage: listen_test.sh MPICC
set -u
mpicc=$1
here=$(dirname "$0")
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
# shellcheck source=tests/nodes/nodes.sh
. "$here/nodes.sh"
nodes_need
unset HEDDLE_OPTIONS TMPDIR PMIX_RANK PMIX_NAMESPACE SLURM_JOB_ID UCX_NET_DEVICES
EXPECT_TIMEOUT=180
closed=$expect_dir/closed
"$mpicc" -O1 -o "$closed" "$here/../machine/closed.c" || exit 1
nodes_up 2
trap 'nodes_down; rm -rf "$expect_dir"' EXIT
for i in 1 2; do
    ip -n "$nodes_tag-$i" link add docker0 type bridge
    ip -n "$nodes_tag-$i" addr add 172.17.0.1/16 dev docker0
    ip -n "$nodes_tag-$i" link set docker0 up
done
launched=no

# run LAUNCHER command...: the launcher with the options for two processes on two nodes.
run() {
    local name=$1
    shift
    launched=yes
    expect "$name: only eth0" 0 '' '*' "$nodes_dir/run" 1 "$@" "$closed" -i eth0
    expect "$name: the user's choice" 1 '' 'listens at 172.17.0.1 of interface docker0' \
        "$nodes_dir/run" 1 env UCX_NET_DEVICES=eth0,docker0 "$@" "$closed" -i eth0
}
if command -v mpirun.openmpi >/dev/null; then
    OMPI_MCA_plm_rsh_agent=$(nodes_ssh)
    export OMPI_MCA_plm_rsh_agent OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0
    run "Open MPI's mpirun" mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -np 2 --host node1:1,node2:1 \
        -x UCX_TLS -x UCX_NET_DEVICES
fi
if nodes_slurm_up 2; then
    run srun srun --mpi=pmix -N 2 -n 2
fi
if [ $launched = no ]; then
    echo "skipped: neither Open MPI's mpirun nor Slurm is there"
    exit 77
fi
finish
