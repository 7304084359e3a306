#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that no driver function with a stream argument is missing from the tables: those in the headers of this
# machine's toolkit are in src/gpu/rank/stream_calls.h, or are written by hand.
#
#   tests/gpu/stream_calls_test.sh SOURCE TOOLKIT
set -eu
source=$1 toolkit=$2
stubs=("$toolkit"/lib*/stubs/libcuda.so)
if [ ! -e "$toolkit/include/cudaTypedefs.h" ] || [ ! -e "${stubs[0]}" ]; then
    echo "skipped: $toolkit has no cudaTypedefs.h or no stub"
    exit 77
fi
names() { grep -o 'X(cu[A-Za-z0-9_]*' "$1" | sort -u; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$source/tools/gen_stream_calls.py" "$toolkit" >"$work/calls.h"
names "$work/calls.h" >"$work/here"
names "$source/src/gpu/rank/stream_calls.h" >"$work/known"
failed=0
[ "$(wc -l <"$work/here")" -gt 100 ] || { echo "FAILED: only $(wc -l <"$work/here") functions were found"; failed=1; }
missing=$(comm -23 "$work/here" "$work/known")
[ -z "$missing" ] || { printf 'FAILED: run tools/gen_stream_calls.py; this toolkit has also\n%s\n' "$missing"; failed=1; }
while read -r name; do
    grep -qE "X\($name(_v[0-9]+)?," "$source/src/gpu/rank/stream_api.h" "$source/src/gpu/rank/guard.c" ||
        { echo "FAILED: $name is written by hand, but where?"; failed=1; }
done < <(python3 "$source/tools/gen_stream_calls.py" --by-hand)
exit $failed
