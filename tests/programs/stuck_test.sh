#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a rank which blocks its PE in a lock of a shared library is reported with the library; that a rank that
# computes, or whose library is private, is not reported; and that a rank which waits inside the C library is reported
# with the system call. Usage: stuck_test.sh BUILD WORK
set -u
build=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
mkdir -p "$work" && cd "$work" || exit 1
gcc -g -O1 -Wall -fPIC -shared "$here/stuck_library.c" -o libstuck.so || exit 1
"$build/bin/mpicc" -g -O1 -Wall "$here/stuck.c" -o stuck ./libstuck.so -Wl,-rpath,"$work" || exit 1
failed=0

"$build/bin/mpirun" -n 2 ./stuck +p 1 +private -libstuck +check stuck:1 >hangs.out 2>&1 &
job=$!
await grep -q . hangs.out
kill -TERM $job
wait $job 2>/dev/null
grep -q 'rank 1 of 2 waits for a lock of .*libstuck.so, and blocks all ranks of PE 0' hangs.out || {
    echo "the rank, the library or the PE was not named:"
    cat hangs.out
    failed=1
}

# ok OPTIONS...
ok() {
    local output
    output=$(timeout 180 "$build/bin/mpirun" -n 2 ./stuck "$@" 2>&1)
    if [ "$output" != ok ]; then
        echo "./stuck $*: $output"
        failed=1
    fi
}

# waits HOW PATTERN: rank 1 waits for a line in this way, which comes when it has been named; then all is well.
waits() {
    local job
    rm -f line waits.out
    mkfifo line
    timeout 180 "$build/bin/mpirun" -n 2 ./stuck "$1" +p 1 +check stuck:1 <line >waits.out 2>&1 &
    job=$!
    exec 3>line
    await grep -q . waits.out
    echo line >&3
    exec 3>&-
    if ! wait $job || ! grep -q '^ok$' waits.out || [ "$(wc -l <waits.out)" != 2 ] ||
        ! grep -Eq "^heddle: rank 1 of 2 has not returned from $2 for 1 s; all other ranks of PE 0 are waiting$" waits.out; then
        echo "a rank that waits in $1 was not named, or did not go on:"
        cat waits.out
        failed=1
    fi
}
waits fgets 'read of descriptor 0 \(.*/line\)'
waits condition 'futex \(.*\)'

ok +p 1 +private -libstuck +check stuck:1 long
ok +p 1 +check stuck:1
exit $failed
