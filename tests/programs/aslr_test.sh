#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the ranks' copies and stacks have other addresses in each run, and the same ones if an option or setarch -R
# requests it. Usage: aslr_test.sh BUILD WORK
set -u
build=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$work" && cd "$work" || exit 1
"$build/bin/mpicc" -o aslr "$here/aslr.c" || exit 1
failed=0

# runs SAME|OTHER COMMAND...: two runs end well and print the same or other addresses
runs() {
    local wanted=$1 first second is=OTHER
    shift
    first=$("$@") && second=$("$@") || failed=1
    [ "$first" = "$second" ] && is=SAME
    if [ "$is" != "$wanted" ] || [ -z "$first" ]; then
        echo "$*: expected $wanted addresses, but: $first and $second"
        failed=1
    fi
}

if [ "$(cat /proc/sys/kernel/randomize_va_space)" != 0 ] && [ "$(cat /proc/self/personality 2>/dev/null)" = 00000000 ]; then
    runs OTHER "$build/bin/mpirun" -n 2 ./aslr
    runs OTHER "$build/bin/mpirun" -n 2 ./aslr +p 1
fi
runs OTHER "$build/bin/mpirun" -n 2 ./aslr +aslr on
runs SAME "$build/bin/mpirun" -n 2 ./aslr +aslr off
runs SAME setarch -R "$build/bin/mpirun" -n 2 ./aslr
runs OTHER setarch -R "$build/bin/mpirun" -n 2 ./aslr +aslr on
"$build/bin/mpirun" -n 2 ./aslr +aslr sometimes 2>&1 | grep -q '+aslr sometimes: expected on or off' || {
    echo "+aslr sometimes: not refused"
    failed=1
}
exit $failed
