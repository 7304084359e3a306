#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that gdb stops at functions of the program in every rank, and prints the ranks' frames with lines, without a command of the
# user. Usage: gdb_test.sh BUILD WORK
set -u
build=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
command -v gdb >/dev/null || exit 77
mkdir -p "$2" && cd "$2" || exit 1
unset HEDDLE_OPTIONS
export DEBUGINFOD_URLS=
"$build/bin/mpicc" -g -O0 "$here/debugged.c" -o debugged || exit 1
debug() { # GDB'S ARGUMENTS
    gdb -q -nx -batch -iex "add-auto-load-safe-path $build/lib" "$@" 2>&1
}
debug -ex run --args ./debugged | grep -q 'ptrace: Operation not permitted' && exit 77

for pes in 1 2; do
    expect "break main, $pes PEs" 0 '(Breakpoint 1\.[0-9], main \(argc=1.* at [^ ]*debugged\.c:[0-9]+ .*){3}exited normally' '' \
        bash -c "$(declare -f debug); build=$build; debug -ex 'break main' -ex run -ex c -ex c -ex c --args ./debugged +vp 3 +p $pes"
    expect "a backtrace, $pes PEs" 0 '#0 +twice \(number=1\) at [^ ]*debugged\.c:[0-9]+ #1 +0x[0-9a-f]+ in main \(argc=1, .* at [^ ]*debugged\.c:[0-9]+' '' \
        bash -c "$(declare -f debug); build=$build; debug -ex 'break twice if number == 1' -ex run -ex bt --args ./debugged +vp 3 +p $pes"
done
expect "only as many ranks as wanted" 0 'rank 0 .* \(symbols\) .*rank 1 .*[0-9a-f] .*rank 2 .*[0-9a-f] ' '' \
    bash -c "$(declare -f debug); build=$build; debug -iex 'set breakpoint pending on' -ex 'break PMPI_Barrier' -ex 'set heddle-ranks 1' -ex run -ex heddle-images --args ./debugged +vp 3 +p 1"
finish
