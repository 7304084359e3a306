#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the timeline of a job on two nodes has one clock, although theirs differ by an hour (a time namespace): no message
# arrives before it is sent, by more than the error that is printed, nor long after.
# Usage: clocks_test.sh MPICC MPIRUN
set -u
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
# shellcheck source=tests/nodes/nodes.sh
. "$here/nodes.sh"
nodes_need
unshare --time --monotonic 3600 true || exit 77
command -v orterun >/dev/null || command -v prterun >/dev/null || exit 77
"$1" -o "$expect_dir/ring" "$here/../../examples/ring/ring.c" || exit 1
nodes_up 2 10.77.0.
trap 'nodes_down; rm -rf "$expect_dir"' EXIT
unset HEDDLE_OPTIONS TMPDIR PMIX_RANK SLURM_JOB_ID
EXPECT_TIMEOUT=180
# shellcheck disable=SC2016 # the file's words
sed -i 's/"\$number" sh -c/"$number" unshare --time --monotonic 3600 sh -c/' "$(nodes_ssh)"
OMPI_MCA_plm_rsh_agent=$(nodes_ssh)
export OMPI_MCA_plm_rsh_agent PRTE_MCA_plm_ssh_agent=$OMPI_MCA_plm_rsh_agent OMPI_MCA_btl_tcp_if_include=eth0 \
    OMPI_MCA_oob_tcp_if_include=eth0
expect "a job" 0 '*' 'the clock of process 0 is -3[56][0-9]{11} ns ahead, give or take' "$nodes_dir/run" 1 \
    "$2" --allow-run-as-root --hosts "$(nodes_names 2)" --procs 2 -n 4 +p 1 +v +trace "$expect_dir/trace" "$expect_dir/ring"
error_ns=$(sed -n 's/.*give or take \([0-9]*\).*/\1/p' "$expect_dir/err")
cat >"$expect_dir/check.py" <<'END'
import collections, json, sys
ends = collections.defaultdict(dict)
for event in json.load(open(sys.argv[1]))["traceEvents"]:
    if event["ph"] in "sf":
        ends[event["id"]][event["ph"]] = event["ts"]
between = [ends[name]["f"] - ends[name]["s"] for name in ends if name.split(".")[0] in ("1>2", "3>0")]
print(len(between), all(-float(sys.argv[2]) / 1000 - 1 <= took_us < 60e6 for took_us in between))
END
expect "messages between the nodes" 0 '^[1-9][0-9]* True $' '' python3 "$expect_dir/check.py" "$expect_dir/trace" "$error_ns"
finish
