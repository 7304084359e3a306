#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a user's program with several ranks can be checked by AddressSanitizer, LeakSanitizer,
# UndefinedBehaviorSanitizer and valgrind, with their own defaults and the ordinary library: no false reports, and true
# ones name the rank. Usage: sanitizers_test.sh BUILD WORK
set -u
build=$1
source=$(cd "$(dirname "$0")" && pwd)/sanitized.cc
suppressions=$(cd "$(dirname "$0")/../.." && pwd)/src/machine_ucx/heddle-lsan.supp
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
mkdir -p "$2" && cd "$2" || exit 1
unset HEDDLE_OPTIONS ASAN_OPTIONS LSAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS
mpirun=$build/bin/mpirun
ulimit -c 0
done='4 ranks are done'

# compile NAME FLAGS...: false if this compiler has no such sanitizer
compile() {
    local name=$1
    shift
    "$build/bin/mpicxx" -g -O0 "$@" "$source" -o "$name" 2>"$name.log"
}

# AddressSanitizer
watched() {
    local name=$1 pes
    for pes in 1 2; do
        expect "$name: no fault, $pes PEs" 0 "$done" '' "$mpirun" -n 4 +p $pes "./$name"
        expect "$name: a write behind a block, $pes PEs" 1 '*' \
            'AddressSanitizer: heap-buffer-overflow.*rank 3 of 4.*report above concerns this rank' "$mpirun" -n 4 +p $pes "./$name" heap
    done
    expect "$name: a leak, and no other" 1 '*' 'LeakSanitizer: detected.*leaks .*SUMMARY: AddressSanitizer: 16 byte\(s\) leaked in 1 alloc[^:]*$' \
        "$mpirun" -n 4 +p 2 "./$name" leak
}

if compile asan -fsanitize=address; then
    watched asan
    expect "one rank" 0 '1 ranks are done' '' ./asan
    expect "one rank, options" 0 '1 ranks are done' '' "$mpirun" -n 1 +p 1 ./asan
    expect "a write behind a global" 1 '*' 'global-buffer-overflow' "$mpirun" -n 4 +p 2 ./asan global
    expect "a write behind a local variable" 1 '*' 'stack-buffer-overflow' "$mpirun" -n 4 +p 2 ./asan stack
    expect "a stack overflow" 1 '*' 'stack-overflow.*rank 3 of 4' "$mpirun" -n 4 +p 2 +stacksize 256K ./asan overflow
    expect "returned frames are watched" 0 "$done" '' env ASAN_OPTIONS=detect_stack_use_after_return=1 "$mpirun" -n 4 +p 2 ./asan
    expect "two processes" 0 "$done" '' env "LSAN_OPTIONS=suppressions=$suppressions:print_suppressions=0" "$mpirun" --procs 2 -n 4 +p 1 ./asan
    expect "two processes, a write behind a block" 1 '*' 'heap-buffer-overflow.*rank 3 of 4.*report above' \
        "$mpirun" --procs 2 -n 4 +p 1 ./asan heap
fi
if command -v clang++ >/dev/null; then
    runtime=$(clang++ -print-file-name=libclang_rt.asan-x86_64.so)
    compile asan_clang -cxx=clang++ -fsanitize=address -shared-libsan -Wl,-rpath,"${runtime%/*}" && watched asan_clang
    compile asan_static -cxx=clang++ -fsanitize=address &&
        expect "clang's static runtime" 1 '' "link it as a shared library .clang's sanitizers: -shared-libsan" \
            "$mpirun" -n 4 ./asan_static
fi

if compile ubsan -fsanitize=undefined; then
    for where in '+p 2' '--procs 2 +p 1'; do
        # shellcheck disable=SC2086
        expect "UBSan: no fault, $where" 0 "$done" '' "$mpirun" -n 4 $where ./ubsan
        # shellcheck disable=SC2086
        expect "UBSan: an overflow, $where" 0 "$done" 'sanitized.cc:[0-9]+.*signed integer overflow' "$mpirun" -n 4 $where ./ubsan undefined
    done
fi

if compile tsan -fsanitize=thread; then
    expect "TSan says what it cannot do" 1 '' 'ThreadSanitizer does not support several ranks in a process.*mpirun --procs N -n N' \
        "$mpirun" -n 4 ./tsan
    expect "TSan: a process for each rank" 0 '2 ranks are done' '' "$mpirun" --procs 2 -n 2 ./tsan
fi

if command -v valgrind >/dev/null && compile plain; then
    grind="valgrind -q --error-exitcode=9 --leak-check=no"
    # shellcheck disable=SC2086 # words
    expect "valgrind: no fault" 0 "$done" '' $grind ./plain +vp 4 +p 1
    # shellcheck disable=SC2086
    expect "valgrind: no fault in buffers that are compared" 0 "$done" '' $grind ./plain +vp 4 +p 1 +check usage
    # shellcheck disable=SC2086
    expect "valgrind: memory without a value" 9 "$done" 'depends on uninitialised' $grind ./plain uninitialized +vp 4 +p 1
    # shellcheck disable=SC2086
    expect "valgrind: two processes" 0 "$done" '*' "$mpirun" --procs 2 -n 4 +p 1 $grind ./plain
fi
finish
