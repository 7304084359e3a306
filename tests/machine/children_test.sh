#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs children.c through shared memory and through sockets, with one rank in a process and with several.
# Usage: children_test.sh MPICC MPIRUN
set -u
mpicc=$1
mpirun=$2
here=$(dirname "$0")
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS PMIX_RANK PMIX_NAMESPACE SLURM_JOB_ID UCX_TLS UCX_NET_DEVICES
for path in /proc/self/fd/*; do # what the test itself has inherited
    fd=${path##*/}
    [ "$fd" -gt 2 ] && eval "exec $fd>&-"
done 2>/dev/null
children=$expect_dir/children
"$mpicc" -O1 -o "$children" "$here/children.c" || exit 1
for transports in "" tcp,self all; do
    for shape in "-n 2 +p 1" "-n 3 +p 1"; do
        # shellcheck disable=SC2086
        expect "children of ranks, $shape, UCX_TLS=$transports" 0 '' '' \
            env ${transports:+UCX_TLS=$transports} "$mpirun" --procs 2 $shape "$children"
    done
done
expect "four processes" 0 '' '' env UCX_TLS=tcp,self "$mpirun" --procs 4 -n 4 +p 1 "$children"
finish
