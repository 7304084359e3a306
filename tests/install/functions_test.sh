#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that no function of the built libraries has a stack frame of 4 KiB or more, since ranks and threads may have 16 KiB
# of stack, and that none has more than 32 KiB of code.
# Usage: functions_test.sh BUILD_DIR
# shellcheck disable=SC2016,SC2317 # expect calls the functions
set -u
lib=$1/lib
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
cd "$lib" || exit 1

# The functions that lower the stack pointer by 0x1000 or more, in one step or (-fstack-clash-protection) page by page. Left
# out: execl, whose array is as long as the program's list of arguments.
large_frames() {
    objdump -d --no-show-raw-insn "$1" | grep -E '^[0-9a-f]+ <|sub +\$0x[0-9a-f]{4,8},%rsp' | grep -B 1 'sub ' |
        grep -oE '^[0-9a-f]+ <.*>' | grep -v '<exec_list>' || true
}

# The functions of 0x8000 bytes or more.
large_functions() {
    nm -S "$1" | grep -E '^[0-9a-f]+ 0*([89a-f][0-9a-f]{3}|[1-9a-f][0-9a-f]{4,}) [tT] ' || true
}
export -f large_frames large_functions
# check FUNCTION FILE: for expect, which runs programs.
check=(bash -c '"$1" "$2"' check)

# The checks find what they look for.
compile() { gcc -O1 "$@" -c -x c -o "$expect_dir/test.o" -; }
echo 'int far(char *); int f(void) { char a[70000]; return far(a); }' | compile
expect "a frame of 70,000 bytes" 0 '<f>' '' "${check[@]}" large_frames "$expect_dir/test.o"
echo 'int far(char *); int f(void) { char a[70000]; return far(a); }' | compile -fstack-clash-protection
expect "the same, probed page by page" 0 '<f>' '' "${check[@]}" large_frames "$expect_dir/test.o"
echo 'void f(void) { __asm__(".skip 40000"); }' | compile
expect "a function of 40,000 bytes" 0 'T f' '' "${check[@]}" large_functions "$expect_dir/test.o"

for library in libmpi_abi.so.1 heddle/machine_ucx.so libheddle_mpifort.so.1; do
    [ -f "$library" ] || continue
    expect "$library: frames below 4 KiB" 0 '' '' "${check[@]}" large_frames "$library"
    expect "$library: functions below 32 KiB" 0 '' '' "${check[@]}" large_functions "$library"
done
finish
