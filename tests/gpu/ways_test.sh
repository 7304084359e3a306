#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that tests/gpu/ways tells the ways that hang from those that do not, on the fake driver: a way is ok if waits suspend the
# rank, and hangs on one PE if they block the PE; the threads of a hung run are in its log.
# Usage: ways_test.sh BUILD CUDA_INCLUDE LIBCUDA WORK
set -u
build=$1 include=$2 libcuda=$3 work=$4
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
EXPECT_TIMEOUT=200
rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1

expect "two ways that work" 0 ' event  *(ok  *){6}context_events  *(-  *){2}(ok  *){2}(-  *){2}0 of 8 runs not ok' '' \
    env LIMIT_S=60 "LOGS=$work/good" "$here/ways" "$build" "$include" "$libcuda" event context_events
expect "a run for each cell" 0 '^8 $' '' sh -c 'ls good | grep -c "[.]log$"'
expect "a way that blocks the PE hangs" 1 ' stream  *hang ' '' \
    env LIMIT_S=3 "LOGS=$work/bad" "HEDDLE_OPTIONS=+gpu no-waits" "$here/ways" "$build" "$include" "$libcuda" stream
if command -v gdb >/dev/null || command -v cuda-gdb >/dev/null; then
    expect "its threads are in a log" 0 '' '' grep -q '^#.* run_stream ' bad/stream.plain.pes1.log bad/stream.plain.pes2.log \
        bad/stream.connections.pes1.log bad/stream.connections.pes2.log
fi
expect "a way that does not exist fails" 1 'nothing  *(failed.1. *){6}' '' \
    env "LOGS=$work/none" "$here/ways" "$build" "$include" "$libcuda" nothing
finish
