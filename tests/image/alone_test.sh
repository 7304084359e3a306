#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that constructors and destructors of ranks on several PEs run one at a time: with a library that all ranks share
# and that has no lock, and with --coverage, whose counts must be complete.
# Usage: alone_test.sh PREFIX WORK_DIR registry|coverage RUNS
set -u
prefix=$(cd "$1" && pwd)
work=$2
part=$3
runs=$4
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"

rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1
PATH=$prefix/bin:$PATH
unset HEDDLE_OPTIONS

test_registry() {
    expect "a library" 0 '' '' cc -O1 -g -fPIC -shared -o libregistry.so "$here/registry.c"
    expect "a program" 0 '' '' mpicc -O1 -g -o user "$here/registry_user.c" -L. -lregistry -Wl,-rpath,"$work"
    for _ in $(seq "$runs"); do
        expect "one rank at a time" 0 '' '*' mpirun -n 64 ./user +p 4 +private -libregistry
    done
}

test_coverage() {
    command -v gcov >/dev/null || exit 77
    expect "a program" 0 '' '' mpicc -O0 --coverage -o counted "$here/counted.c"
    for i in $(seq "$runs"); do
        expect "a run" 0 '' '*' mpirun -n 8 ./counted +p 4
        expect "with several processes" 0 '' '*' mpirun -n 8 --procs 2 ./counted +p 2
        gcov -t ./*.gcda >counts 2>&1
        expect "all counts" 0 "^$((i * 16000)) \$" '' sed -n 's/^ *\([0-9]*\):.*counted \*.*/\1/p' counts
    done
}

case $part in
registry) test_registry ;;
coverage) test_coverage ;;
esac
finish
