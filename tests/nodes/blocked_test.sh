#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a process with a blocked port causes an error that names the host, its address and UCX's message, and ends
# the job, whether the network refuses or drops the connection.
# Usage: blocked_test.sh MPIRUN MPICC
set -u
mpirun=$1
mpicc=$2
here=$(dirname "$0")
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
# shellcheck source=tests/nodes/nodes.sh
. "$here/nodes.sh"
nodes_need
if ! command -v nft >/dev/null || ! unshare --net nft list ruleset 2>/dev/null; then
    echo "skipped: there is no nft (nftables), or this kernel has no packet filter"
    exit 77
fi
if ! command -v orterun >/dev/null && ! command -v prterun >/dev/null; then
    echo "skipped: Open MPI's mpirun is not installed"
    exit 77
fi
nodes_up 2
trap 'nodes_down; rm -rf "$expect_dir"' EXIT
unset HEDDLE_OPTIONS TMPDIR PMIX_RANK SLURM_JOB_ID
EXPECT_TIMEOUT=180
ssh=$(nodes_ssh)
export OMPI_MCA_plm_rsh_agent=$ssh PRTE_MCA_plm_ssh_agent=$ssh OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0

# The ports that UCX listens on, and nobody else.
export UCX_TCP_PORT_RANGE=20000-20100

"$mpicc" -O1 -I "$here/../mpi_conformance" -o "$expect_dir/hello" "$here/../mpi_conformance/p2p_match_unexpected.c" || exit 1
job=("$nodes_dir/run" 1 "$mpirun" --allow-run-as-root --hosts "$(nodes_names 2)" --procs 2 -n 2 "$expect_dir/hello")

# on_node2 ACTION: what node 2 does with packets to those ports.
on_node2() {
    "$nodes_dir/run" 2 nft "flush ruleset; table inet blocked { chain in { type filter hook input priority 0; $1; }; }"
}

expect "the job runs while nothing is blocked" 0 '*' '*' "${job[@]}"
said='process 1 of 2 on host node2 \(10\.[0-9.]*2\) \(PE 0\) cannot be reached: Destination is unreachable'
# shellcheck disable=SC2016
fails=(sh -c '"$@"; code=$?; [ $code != 0 ] && [ $code -lt 124 ]' -)
on_node2 "tcp dport 20000-20100 reject with tcp reset" || exit 1
expect "the connection is refused" 0 '*' "$said.*MPI_Send: MPI_ERR_PROC" "${fails[@]}" "${job[@]}"
on_node2 "tcp dport 20000-20100 drop" || exit 1
"$nodes_dir/run" 1 sysctl -q -w net.ipv4.tcp_syn_retries=2
expect "nothing comes back" 0 '*' "$said.*MPI_Send: MPI_ERR_PROC" "${fails[@]}" "${job[@]}"
finish
