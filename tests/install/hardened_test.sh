#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that every installed ELF file checks its stack frames (-fstack-protector-strong), binds its functions at start
# and makes its relocated data read-only then (full RELRO), is position-independent, and has no executable stack.
# Usage: hardened_test.sh CMAKE BUILD_DIR WORK_DIR
set -u
cmake=$1
build=$2
work=$3
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
EXPECT_TIMEOUT=200
rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1
unset DESTDIR
expect "cmake --install" 0 '*' '' "$cmake" --install "$build" --prefix "$work/prefix"

# No frame to protect: sentinels are without code, and Python's main program without arrays.
has_no_frame() { [[ $1 == */sentinel_* || $1 == */lib/heddle/python ]]; }

count=0
while IFS= read -r file; do
    [ "$(head -c 4 "$file" | tr -d '\0')" = $'\177ELF' ] || continue
    count=$((count + 1))
    name=${file#"$work/prefix/"}
    expect "$name: position-independent" 0 'Type: +DYN' '' readelf -hW "$file"
    expect "$name: the stack is not executable" 0 'GNU_STACK( +0x[0-9a-f]+){5} RW ' '' readelf -lW "$file"
    expect "$name: RELRO" 0 'GNU_RELRO' '' readelf -lW "$file"
    expect "$name: binds its functions at start" 0 'FLAGS_1\).* NOW' '' readelf -dW "$file"
    has_no_frame "$file" || expect "$name: frames are checked" 0 '__stack_chk_fail' '' readelf --dyn-syms -W "$file"
done < <(find "$work/prefix" -type f)
# libmpi_abi and mpirun at least.
expect "there are such files" 0 '' '' test "$count" -ge 2
finish
