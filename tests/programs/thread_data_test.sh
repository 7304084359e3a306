#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that thread_local data of libraries is the rank's and the thread's, on several PEs and with dlopen, for code that
# calls __tls_get_addr and for TLS descriptors. Usage: thread_data_test.sh BUILD WORK
set -u
build=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)/thread_data
rm -rf "$work"
code=0

# check OPTIONS-OF-MPIRUN... PROGRAM: prints "ok" and nothing else
check() {
    local output status
    output=$(timeout 180 "$build/bin/mpirun" "$@" 2>&1)
    status=$?
    if [ $status != 0 ] || [ "$output" != ok ]; then
        echo "$PWD: mpirun $*: exit code $status, output:"
        head -20 <<<"$output"
        code=1
    fi
}

for dialect in gnu gnu2; do
    mkdir -p "$work/$dialect" && cd "$work/$dialect" || exit 1
    "$build/bin/mpicxx" -g -O1 -Wall -fPIC -shared "-mtls-dialect=$dialect" "$here/library.cc" -o liblibrary.so 2>log || {
        [ $dialect = gnu2 ] && continue # clang does not know it
        cat log
        exit 1
    }
    "$build/bin/mpicxx" -g -O1 -Wall -pthread "$here/linked.cc" ./liblibrary.so -Wl,-rpath,"$PWD" -o linked || exit 1
    "$build/bin/mpicxx" -g -O1 -Wall -pthread "$here/opened.cc" -o opened || exit 1
    for ranks in 1 2 5 16; do
        check -n $ranks ./linked +p 1
        check -n $ranks ./linked +p 2
        check -n $ranks ./opened +p 2
    done
    check -n 4 --procs 2 ./linked +p 1
    if "$build/bin/mpirun" -n 2 ./opened 2>&1 | grep "share the variables"; then
        echo "$PWD: the opened library is shared"
        code=1
    fi
done
exit $code
