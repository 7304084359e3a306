#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a crash names the rank, the function and its caller, wherever it happens, and that a program's own signal
# handlers and stacks work. Usage: crashes_test.sh BUILD WORK
set -u
build=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
mkdir -p "$2" && cd "$2" || exit 1
unset HEDDLE_OPTIONS
mpirun=$build/bin/mpirun
ulimit -c 0
"$build/bin/mpicc" -g -w -shared -fPIC "$here/crashes_library.c" -o libcrashes.so || exit 1
"$build/bin/mpicxx" -g -O1 -w -fno-builtin "$here/crashes.cc" -o crashes -L. -lcrashes -Wl,-rpath,"$PWD" -pthread || exit 1

"$build/bin/mpicxx" -O1 -w -fno-builtin "$here/crashes.cc" -o plain -L. -lcrashes -Wl,-rpath,"$PWD" -pthread || exit 1
"$build/bin/mpicxx" -g -gz -O1 -w -fno-builtin "$here/crashes.cc" -o packed -L. -lcrashes -Wl,-rpath,"$PWD" -pthread || exit 1
"$build/bin/mpicxx" -g -gdwarf-4 -O1 -w -fno-builtin "$here/crashes.cc" -o older -L. -lcrashes -Wl,-rpath,"$PWD" -pthread || exit 1

# The frames of a function that `crash` calls; [^#]* keeps to one line.
frames() { # NUMBER FUNCTION
    printf '    #%d %s[^#]* \\([^ ]*/crashes\\.cc:[0-9]+\\)     #%d _ZL5crash[^#]* \\([^ ]*/crashes\\.cc:[0-9]+\\)     #%d main \\([^ ]*/crashes\\.cc:[0-9]+\\)' \
        "$1" "$2" $(($1 + 1)) $(($1 + 2))
}

for pes in 1 2; do
    crash() { # WHAT CODE TEXT ARGUMENT
        expect "$1, $pes PEs" "$2" '*' "$3" "$mpirun" -n 4 +p $pes +stacksize 1M ./crashes "$4"
    }
    rank="rank 3 of 4 on host [^ ]+ \(PE $((pes - 1))\): "
    line='crashes\.cc:[0-9]+\)'
    last='; last MPI call: MPI_Comm_size'
    crash "a static function" 139 "${rank}Segmentation fault at 0x8 in _ZL8write_toPVi \($line$last $(frames 0 _ZL8write_toPVi)" static
    crash "an address that cannot exist" 139 "${rank}Segmentation fault at an address that cannot exist.* in _ZL8write_toPVi \($line" high
    crash "a call of no function" 139 "${rank}Segmentation fault at 0x0 in _ZL7call_it[^ ]* \($line$last $(frames 0 _ZL7call_it)" no-code
    for what in data heap; do
        crash "a call of $what" 139 "${rank}Segmentation fault at 0x[0-9a-f]+ in _ZL7call_it[^ ]* \($line$last $(frames 0 _ZL7call_it)" $what-as-code
    done
    crash "without a stack" 139 "${rank}overflow of a stack that the program created; in _ZL10lose_stackv \($line$last" no-stack
    crash "in the C library" 139 "${rank}.*at 0x10 in libc\.so\.6\+0x[0-9a-f]+, called from _ZL7copy_toPv \($line.*$(frames 1 _ZL7copy_toPv)" libc
    crash "abort" 134 "${rank}Aborted: abort\(\) or raise\(SIGABRT\) was called in _ZL5crash[^ ]* \($line$last" abort
    crash "a failed assertion" 134 "Assertion .how == \"not this\". failed.*${rank}Aborted.*abort\(\) or raise\(SIGABRT\) was called in _ZL5crash[^ ]* \($line" assert
    crash "a block freed twice" 134 "double free.*${rank}Aborted.* in _ZL10free_twicePv \($line.*#[0-9] _ZL10free_twicePv [^#]* #[0-9] _ZL5crash[^#]* #[0-9] main" heap
    crash "an exception that nobody catches" 134 "nobody catches it.*${rank}Aborted.* in _ZL8throw_itv \($line.*_ZSt9terminatev \(libstdc" throw
    crash "a signal to itself" 139 "${rank}Segmentation fault, which the program sent to itself,.*called from _ZL5crash[^ ]* \($line" raise
    crash "a handler that raises the signal again" 139 "${rank}Segmentation fault at 0x8 in _ZL8write_toPVi \($line$last $(frames 0 _ZL8write_toPVi)" raise-again
    thread="a thread of rank 3 of 4 on host [^ ]+: "
    crash "in a thread" 139 "${thread}Segmentation fault at 0x8 in _ZL8write_toPVi \($line     #0 [^#]*     #1 _ZL15crash_in_threadPv \(.*$line" thread
    crash "a thread's stack is full" 139 "${thread}stack overflow: the thread's stack is full; .* in _ZL7recursei \($line.* more frames .* _ZL18overflow_in_threadPv" thread-overflow
    crash "a thread in a call" 139 "${thread}Segmentation fault at 0x8 in _ZL8write_toPVi \($line; last MPI call: MPI_Reduce_local .* #[0-9] _ZL13crash_in_callPv \(" thread-in-call
    crash "a thread's stack in a call" 139 "${thread}stack overflow: the thread's stack is full; pthread_attr_setstacksize, .* in _ZL7recursei \($line; last MPI call: MPI_Reduce_local " thread-in-call-overflow
    crash "MPI_Abort on a thread" 9 "rank 3 of 4 on host [^ ]+ \(PE $((pes - 1))\): MPI_Abort was called with error code 9 by a thread;" thread-abort
    child="a child process of rank 3 of 4 on host [^ ]+: "
    crash "in a child process" 0 "${child}Segmentation fault at 0x8 in _ZL8write_toPVi \($line .* main \(" child
    crash "a child process's stack is full" 0 "${child}stack overflow: the stack of 1024 KiB is full; .*\+stacksize; in _ZL7recursei \($line" child-overflow
    crash "after MPI_Finalize" 139 'rank 3 of 4 .*stack overflow: the stack of 1024 KiB is full; .* in _ZL7recursei .* #11 _ZL7recursei .* \.\.\. [0-9]+ more frames .* main \(' crash-at-end

    crash "with handlers in other ranks" 139 'rank 3 of 4 .*Segmentation fault at 0x8 in _ZL8write_toPVi ' others-handle

    for how in handler signal-stack coroutines jumps; do
        expect "works: $how, $pes PEs" 0 'all is well' '' "$mpirun" -n 4 +p $pes +stacksize 1M ./crashes $how
    done
done
expect "a frame of 100 MiB" 0 'all is well' '' "$mpirun" -n 4 +p 2 +stacksize 101M ./crashes 100-mib
expect "one rank is as without us" 139 '*' '' "$mpirun" -n 1 ./crashes static
expect "in the second of two processes" 139 '*' 'rank 3 of 4 .*at 0x8 in _ZL8write_toPVi .* #2 main ' "$mpirun" --procs 2 -n 4 +p 1 ./crashes static
expect "in a library of the rank's own" 139 '*' 'rank 3 of 4 .*at 0x8 in crash_in_library \(crashes_library.c:8\).* #1 _ZL5crash' \
    "$mpirun" -n 4 ./crashes library
expect "in a library that ranks share" 139 '*' \
    'at 0x8 in libcrashes.so\+0x[0-9a-f]+ \(crash_in_library\+0x[0-9a-f]+\), which all ranks share \(\+private libcrashes gives each its own\), called from _ZL5crash' \
    "$mpirun" -n 4 +private -libcrashes ./crashes library
expect "without debug information" 139 '*' 'at 0x8 in _ZL8write_toPVi \(plain\+0x[0-9a-f]+\).* #2 main \(plain\+0x[0-9a-f]+\)     \(source lines need a program that was compiled with -g\)' \
    "$mpirun" -n 4 ./plain static
expect "with compressed debug information" 139 '*' ' #2 main \(packed\+0x[0-9a-f]+\)     addr2line -Cfipe [^ ]*packed( 0x[0-9a-f]+){3} ' "$mpirun" -n 4 ./packed static
expect "the command that it prints" 0 "^write_to\(int volatile\*\) at [^ ]*crashes\.cc:[0-9]+.* main at [^ ]*crashes\.cc" '' \
    bash -c "$mpirun -n 4 ./packed static 2>&1 >packed.out | sed -n 's/^    \(addr2line .*\)/\1/p' | sh"
expect "with DWARF 4" 139 '*' "at 0x8 in _ZL8write_toPVi \(crashes\.cc:[0-9]+\).*$(frames 0 _ZL8write_toPVi)" "$mpirun" -n 4 ./older static

# From outside: no rank is to blame, and the number of the sender is no address.
for signal in SEGV ABRT; do
    rm -f kill.out
    expect "kill -$signal" $((128 + $(kill -l $signal))) '*' "^host [^ ]+: [A-Za-z ]+, sent by process [0-9]+ *(bash:.*)?\$" \
        bash -c "$mpirun -n 2 ./crashes wait-for-signal >kill.out 2>&2 & pid=\$!
                 until grep -qs process kill.out; do sleep 0.05; done; kill -$signal \$pid; wait \$pid" 2>/dev/null
done
finish
