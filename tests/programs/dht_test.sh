#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that examples/dht counts right: with one rank, with some in one and several processes, and with 1,000.
# Usage: dht_test.sh MPICC MPIRUN
set -u
mpicc=$1
mpirun=$2
here=$(dirname "$0")
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS
dht=$expect_dir/dht
"$mpicc" -O1 -Wall -o "$dht" "$here/../../examples/dht/dht.c" || exit 1
right='words of [0-9]+ ranks counted in .*; all counts are right $'
expect "dht, 1 rank" 0 "$right" '' "$mpirun" -n 1 "$dht"
expect "dht, 17 ranks on 2 PEs" 0 "$right" '' "$mpirun" -n 17 +p 2 "$dht"
expect "dht, 1,000 ranks on 2 PEs" 0 "^200000 $right" '' "$mpirun" -n 1000 +p 2 "$dht"
expect "dht, 12 ranks in 3 processes" 0 "$right" '' "$mpirun" -n 12 --procs 3 +p 1 "$dht"
finish
