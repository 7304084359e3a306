#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a job ends, with UCX's reason, if UCX has no memory for a message: nobody waits for it, and no process is said to
# have failed. Usage: refused_test.sh MPICC MPIRUN
set -u
mpicc=$1
mpirun=$2
here=$(dirname "$0")
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS PMIX_RANK PMIX_NAMESPACE SLURM_JOB_ID UCX_TLS UCX_NET_DEVICES
"$mpicc" -O1 -o "$expect_dir/refused" "$here/refused.c" || exit 1
cc -shared -fPIC -O1 -D_GNU_SOURCE -DREFUSED_LIBRARY -o "$expect_dir/refused.so" "$here/refused.c" -ldl || exit 1

# Collectives may put the data into memory that the processes share, or copy it from the memory of the sender.
for what in message collective window; do
    run=(env "HEDDLE_COLL=node-memory:inf,one-copy:inf" LD_PRELOAD="$expect_dir/refused.so" "$mpirun" --procs 2 -n 2 "$expect_dir/refused" "$what")
    expect "$what" 0 '^7 $' '' "${run[@]}"
    for refused in send receive; do
        expect "$what, UCX refuses to $refused" 1 '' 'UCX cannot move data between processes: Out of memory' \
            env REFUSED="$refused" "${run[@]}"
    done
done
finish
