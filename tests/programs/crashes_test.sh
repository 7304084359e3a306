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

for pes in 1 2; do
    crash() { # WHAT CODE TEXT ARGUMENT
        expect "$1, $pes PEs" "$2" '*' "$3" "$mpirun" -n 4 +p $pes +stacksize 1M ./crashes "$4"
    }
    rank="rank 3 of 4 on host [^ ]+ \(PE $((pes - 1))\): MPI_Comm_size: "
    crash "a static function" 139 "${rank}Segmentation fault \(signal 11\) at address 0x8 in [^ ]*crashes\+0x[0-9a-f]+ \(_ZL8write_toPVi\+0x" static
    crash "an address that cannot exist" 139 "${rank}Segmentation fault \(signal 11\) at an address that cannot exist.* in [^ ]*crashes\+0x" high
    crash "in the C library" 139 "${rank}.*at address 0x10 in libc\.so\.6\+0x[0-9a-f]+.*called from [^ ]*crashes\+0x[0-9a-f]+ \(_ZL7copy_toPv\+0x" libc
    crash "abort" 134 "${rank}Aborted \(signal 6\): abort\(\) or raise\(SIGABRT\) was called, called from [^ ]*crashes\+0x[0-9a-f]+ \(_ZL5crash[^ ]*\+0x" abort
    crash "a failed assertion" 134 "Assertion .how == \"not this\". failed.*${rank}Aborted.*abort\(\) or raise\(SIGABRT\) was called, called from [^ ]*crashes\+0x" assert
    crash "a block freed twice" 134 "double free.*${rank}Aborted.*, called from [^ ]*crashes\+0x[0-9a-f]+ \(_ZL10free_twicePv" heap
    crash "an exception that nobody catches" 134 "nobody catches it.*${rank}Aborted.*, called from [^ ]*crashes\+0x[0-9a-f]+ \(_ZL8throw_itv" throw
    crash "a signal to itself" 139 "${rank}Segmentation fault \(signal 11\), which the program sent to itself.*called from [^ ]*crashes\+0x" raise
    thread="a thread of rank 3 of 4 on host [^ ]+: "
    crash "in a thread" 139 "${thread}Segmentation fault \(signal 11\) at address 0x8 in [^ ]*crashes\+0x[0-9a-f]+ \(_ZL8write_to" thread
    crash "a thread's stack is full" 139 "${thread}stack overflow: the thread's stack is full; .*\(_ZL7recursei\+0x" thread-overflow
    crash "a thread in a call" 139 "${thread}MPI_Reduce_local: Segmentation fault \(signal 11\) at address 0x8 in [^ ]*crashes\+0x[0-9a-f]+ \(_ZL8write_to" thread-in-call
    crash "a thread's stack in a call" 139 "${thread}MPI_Reduce_local: stack overflow: the thread's stack is full; pthread_attr_setstacksize, .*\(_ZL7recursei\+0x" thread-in-call-overflow
    crash "MPI_Abort on a thread" 9 "rank 3 of 4 on host [^ ]+ \(PE $((pes - 1))\): MPI_Abort was called with error code 9 by a thread;" thread-abort
    child="a child process of rank 3 of 4 on host [^ ]+: "
    crash "in a child process" 0 "${child}Segmentation fault \(signal 11\) at address 0x8 in [^ ]*crashes\+0x[0-9a-f]+ \(_ZL8write_to" child
    crash "a child process's stack is full" 0 "${child}stack overflow: the stack of 1024 KiB is full; .*\+stacksize; in [^ ]*crashes\+0x[0-9a-f]+ \(_ZL7recursei\+0x" child-overflow
    crash "after MPI_Finalize" 139 'rank 3 of 4 .*stack overflow: the stack of 1024 KiB is full; .*\(_ZL7recursei\+0x' crash-at-end

    crash "with handlers in other ranks" 139 'rank 3 of 4 .*Segmentation fault \(signal 11\) at address 0x8 in [^ ]*crashes\+0x' others-handle

    for how in handler signal-stack coroutines jumps; do
        expect "works: $how, $pes PEs" 0 'all is well' '' "$mpirun" -n 4 +p $pes +stacksize 1M ./crashes $how
    done
done
expect "a frame of 100 MiB" 0 'all is well' '' "$mpirun" -n 4 +p 2 +stacksize 101M ./crashes 100-mib
expect "one rank is as without us" 139 '*' '' "$mpirun" -n 1 ./crashes static
expect "in the second of two processes" 139 '*' 'rank 3 of 4 .*at address 0x8 in [^ ]*crashes\+0x' "$mpirun" --procs 2 -n 4 +p 1 ./crashes static
expect "in a library of the rank's own" 139 '*' 'rank 3 of 4 .*at address 0x8 in [^ ]*libcrashes.so\+0x[0-9a-f]+ \(crash_in_library' \
    "$mpirun" -n 4 ./crashes library
expect "in a library that ranks share" 139 '*' \
    'at address 0x8 in libcrashes.so\+0x[0-9a-f]+ \(crash_in_library\+0x[0-9a-f]+\), which all ranks share \(\+private libcrashes gives each its own\), called from [^ ]*crashes\+0x' \
    "$mpirun" -n 4 +private -libcrashes ./crashes library

# From outside: no rank is to blame, and the number of the sender is no address.
for signal in SEGV ABRT; do
    rm -f kill.out
    expect "kill -$signal" $((128 + $(kill -l $signal))) '*' "^host [^ ]+: [A-Za-z ]+ \(signal [0-9]+\), sent by process [0-9]+ *(bash:.*)?\$" \
        bash -c "$mpirun -n 2 ./crashes wait-for-signal >kill.out 2>&2 & pid=\$!
                 until grep -qs process kill.out; do sleep 0.05; done; kill -$signal \$pid; wait \$pid" 2>/dev/null
done
finish
