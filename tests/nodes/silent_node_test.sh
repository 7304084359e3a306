#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a node that vanishes is reported with its name and processes, and again when it answers, while a stopped
# process is not; and that a connection that the kernel gives up ends the job with "connection lost".
# Usage: silent_node_test.sh MPICC [PREFIX of the nodes' addresses]
set -u
mpicc=$1
here=$(dirname "$0")
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
# shellcheck source=tests/nodes/nodes.sh
. "$here/nodes.sh"
nodes_need
if ! command -v mpirun.openmpi >/dev/null; then
    echo "skipped: Open MPI's mpirun is not installed"
    exit 77
fi
unset HEDDLE_OPTIONS TMPDIR PMIX_RANK PMIX_NAMESPACE SLURM_JOB_ID
client=$expect_dir/silent_client
"$mpicc" -O1 -o "$client" "$here/../launch/mpi_client.c" || exit 1
nodes_up 2 "${2:-10.77.0.}"
trap 'nodes_down; rm -rf "$expect_dir"' EXIT
OMPI_MCA_plm_rsh_agent=$(nodes_ssh)
export OMPI_MCA_plm_rsh_agent OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0
log=$expect_dir/log
job=

# begin: a job of two processes, of which number 1, on node 2, stops before the second barrier.
begin() {
    rm -f "$log" # the last job's
    "$nodes_dir/run" 1 mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -np 2 --host node1:1,node2:1 \
        -x UCX_TLS -x HEDDLE_SILENCE_LIMIT=1 \
        "$client" +vp 2 +p 1 init barrier say=ready @1,kill=19 barrier finalize >"$log" 2>&1 </dev/null &
    job=$!
    shows "both processes are connected" await has_lines 2 ready "$log"
}
link() { ip -n "$nodes_tag-hub" link set v2 "$1"; }
shows() {
    local what=$1
    shift
    expect_count=$((expect_count + 1))
    "$@" && return
    expect_failed=$((expect_failed + 1))
    echo "FAILED: $what"
    sed 's/^/    /' "$log"
}
# On the connection between the processes nothing has come from node 2's process for three seconds.
# shellcheck disable=SC2317
is_quiet() {
    nodes_run 1 ss -Htinp dst node2 | grep -A1 '"silent_client"' | grep -Eq 'lastrcv:([3-9][0-9]{3}|[0-9]{5,}) '
}
stopped_pid() {
    local pid
    for pid in $(ip netns pids "$nodes_tag-2"); do
        grep -q '^State:.T' "/proc/$pid/status" && grep -q '^Name:.silent_client$' "/proc/$pid/status" && echo "$pid"
    done
}

begin
shows "nothing comes from a stopped process" await is_quiet
shows "a stopped process is not reported" has_lines 0 'no answer' "$log"
link down
shows "a vanished node is reported" await has_lines 1 \
    "^heddle: process 0: no answer for 1 s from process 1 of 2 on host node2 (${nodes_prefix}2): its node" "$log"
link up
shows "a node that comes back is reported" await has_lines 1 \
    "^heddle: process 0: answers again: process 1 of 2 on host node2 (${nodes_prefix}2)\$" "$log"
shows "the stopped process goes on" kill -CONT "$(stopped_pid)"
shows "the job ends well" wait "$job"

nodes_run 1 sysctl -q -w net.ipv4.tcp_retries2=3
begin
link down
shows "a connection that the kernel gives up" await grep -Eq \
    "process 1 of 2 \(rank 1\) has failed: host node2 \(${nodes_prefix}2\): connection lost: .*; the job ends" "$log"
link up
kill "$job" 2>/dev/null
finish
