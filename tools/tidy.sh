#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs clang-tidy-14 with the checks of .clang-tidy on the library's sources: tools/tidy.sh [BUILD [file...]]
# BUILD: a configured build folder (default: build). Default files: all that are compiled there from src.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build}
[ $# = 0 ] || shift
if ! command -v clang-tidy-14 >/dev/null; then
    echo "skipped: clang-tidy-14 is not installed (apt-get install clang-tidy-14)"
    exit 77
fi
[ -f "$build/compile_commands.json" ] || {
    echo "no compile_commands.json in $build: configure it first"
    exit 1
}
if [ $# = 0 ]; then
    mapfile -t files < <(sed -nE 's,^ *"file": ".*/(src/[^"]*\.c)".*,\1,p' "$build/compile_commands.json" | sort -u |
        while read -r file; do [ -f "$file" ] && echo "$file"; done)
else
    files=("$@")
fi
[ ${#files[@]} != 0 ] || {
    echo "no files"
    exit 1
}
# A gcc option that clang does not know is not a finding, nor is a clang warning in a build with -Werror.
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 8 clang-tidy-14 -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-ignored-optimization-argument --extra-arg=-Wno-error 2>/dev/null
