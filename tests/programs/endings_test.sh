#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a failing job and invalid input give one clear message and the right exit code. Usage: endings_test.sh
# BUILD WORK
set -u
build=$1
source=$(cd "$(dirname "$0")" && pwd)/endings.c
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
mkdir -p "$2" && cd "$2" || exit 1
unset HEDDLE_OPTIONS
mpirun=$build/bin/mpirun
ulimit -c 0
"$build/bin/mpicc" -g -O1 -w "$source" -o endings || exit 1
"$build/bin/mpicc" -g -O1 -w -fno-stack-clash-protection "$source" -o endings_unprobed || exit 1
"$build/bin/mpicc" -g -w -fno-pie -no-pie "$source" -o endings_fixed || exit 1

# ---- All is well ----
expect "one rank" 0 'rank 0 of 1' '' ./endings
expect "one rank through mpirun" 0 'rank 0 of 1' '' "$mpirun" -n 1 ./endings
expect "+vp without mpirun" 0 'rank 2 of 3' '' ./endings +vp 3
expect "options anywhere, +- ends them" 0 'argument a .*argument \+vp' '' ./endings +vp 1 arguments a +p 1 +- +vp

# ---- _exit ends a rank, as exit does ----
for how in at-once system-call; do
    expect "$how" 0 '^(rank [0-3] of 4 |after MPI ){8}$' '' "$mpirun" -n 4 +p 1 ./endings $how
done
expect "at-once, processes" 0 '^(rank [0-3] of 4 |after MPI ){8}$' '' "$mpirun" --procs 4 -n 4 ./endings at-once

# ---- stdout of a rank is a stream of its own ----
expect "freopen with --tag-output" 0 '^\[0\]<stdout> rank 0 of 2 \[1\]<stdout> rank 1 of 2 $' '' \
    "$mpirun" -n 2 --tag-output +p 1 ./endings freopen
expect "the file" 0 '^in a file $' '' cat reopened.txt

# ---- A rank crashes ----
for pes in 1 2; do
    expect "stack overflow, $pes PEs" 139 '*' \
        'rank 1 of 4 .*stack overflow: the stack of 256 KiB is full; give ranks larger ones with \+stacksize' \
        "$mpirun" -n 4 +p $pes +stacksize 256K ./endings overflow
    expect "segmentation fault, $pes PEs" 139 '*' 'rank 3 of 4 .*Segmentation fault at 0x' \
        "$mpirun" -n 4 +p $pes ./endings segv 3
    expect "division by zero, $pes PEs" 136 '*' 'rank 1 of 4 .*Floating point exception' \
        "$mpirun" -n 4 +p $pes ./endings fpe
    expect "abort, $pes PEs" 134 '*' 'rank 1 of 4 .*abort\(\) or raise\(SIGABRT\) was called' "$mpirun" -n 4 +p $pes ./endings abort
done

# ---- A frame larger than the stack ----
# mpicc has every page of it touched; the guard finds it in programs of other compilers.
for frame_mib in 12 100 1000; do
    for program in endings endings_unprobed; do
        expect "a frame of $frame_mib MiB in $program" 139 '*' \
            'rank 2 of 4 .*stack overflow: the stack of 8192 KiB is full; give ranks larger ones with \+stacksize' \
            "$mpirun" -n 4 +stacksize 8M ./$program frame 2 $frame_mib
    done
done
expect "a frame of 60 MiB with 1,000 ranks" 139 '*' 'rank 999 of 1000 .*stack overflow' \
    "$mpirun" -n 1000 +stacksize 1M ./endings_unprobed frame 999 60
expect "a frame of 12 MiB in the second process" 139 '*' 'rank 3 of 4 .*stack overflow' \
    "$mpirun" --procs 2 -n 4 +stacksize 8M ./endings_unprobed frame 3 12
expect "a frame of 100 MiB that fits" 0 '*' '*' "$mpirun" -n 4 +stacksize 128M ./endings frame 2 100

# ---- After the end of all ranks ----
"$build/bin/mpicc" -g -w -shared -fPIC "${source%/*}/late.c" -o liblate.so || exit 1
"$build/bin/mpicc" -g -w "$source" -o endings_late -Wl,--no-as-needed -L. -llate -Wl,-rpath,"$PWD" || exit 1
expect "a shared library calls MPI at the end" 16 '*' '^host [^ ]+: MPI_Comm_rank: MPI_ERR_OTHER: called after the end of all ranks' \
    "$mpirun" -n 4 +p 2 +private -liblate ./endings_late

# ---- A rank runs another program ----
for pes in 1 2; do
    expect "exec before MPI_Finalize, $pes PEs" 1 '*' '^rank 1 of 4 .*ended with exit code 0, but has not called MPI_Finalize' \
        "$mpirun" -n 4 +p $pes ./endings exec
    expect "exec after MPI_Finalize, $pes PEs" 3 '(program of rank [0-2] .*){3}' '^rank 1 of 3 [^,]*ended with exit code 3 $' \
        "$mpirun" -n 3 +p $pes ./endings exec_last
    # The pipe ends when no process writes into it any more.
    expect "the program ends with the process, $pes PEs" 0 '*' '*' \
        timeout 180 bash -c "'$mpirun' -n 4 +p $pes ./endings exec_endless | cat"
    expect "exec of nothing, $pes PEs" 0 '*' '' "$mpirun" -n 4 +p $pes ./endings exec_nothing
done

# ---- A rank ends otherwise than by returning 0 ----
for ranks in 1 4; do
    for pes in 1 2; do
        where="$ranks ranks, $pes PEs"
        last=$((ranks > 1))
        expect "MPI_Abort, $where" 9 '*' "rank $last of $ranks.*MPI_Abort.*9" \
            "$mpirun" -n $ranks +p $pes ./endings mpi-abort
        expect "no MPI_Finalize, $where" 1 '*' "rank $last of $ranks.*has not called MPI_Finalize" \
            "$mpirun" -n $ranks +p $pes ./endings no-finalize
        expect "exit before MPI_Finalize, $where" 4 '*' "rank $last of $ranks.*has not called MPI_Finalize" \
            "$mpirun" -n $ranks +p $pes ./endings exit-early
        expect "blocked for ever in a receive, $where" 1 '*' \
            "deadlock: every rank is blocked.*rank 0 of $ranks.*MPI_Recv" "$mpirun" -n $ranks +p $pes ./endings receive
        expect "blocked for ever in a probe, $where" 1 '*' \
            "deadlock: every rank is blocked.*rank 0 of $ranks.*MPI_Probe" "$mpirun" -n $ranks +p $pes ./endings probe
    done
done
expect "a deadlock names the function and the line" 1 '*' 'rank 0 of 4.*MPI_Recv.*called at main .endings[.]c:[0-9]+.' \
    "$mpirun" -n 4 ./endings receive
strip -d -o endings_stripped endings
expect "a deadlock names the function without debug information" 1 '*' \
    'rank 0 of 4.*MPI_Recv.*called at [^ ]*endings_stripped.0x[0-9a-f]+ .main.0x' "$mpirun" -n 4 ./endings_stripped receive
for pes in 1 2; do
    expect "blocked for ever in 3 processes, $pes PEs" 1 '*' \
        "deadlock: every rank is blocked.*rank [0-9] of 7.*MPI_Recv" "$mpirun" --procs 3 -n 7 +p $pes ./endings receive
done
expect "one is missing at a barrier of 2 processes" 16 '*' \
    "next collective on the communicator is (barrier|finalize), but ranks of process [01] call a different one" \
    "$mpirun" --procs 2 -n 2 ./endings barrier 1
expect "a rank returns 7" 7 '*' 'rank 1 of 4.*ended with exit code 7' "$mpirun" -n 4 ./endings return
expect "the only rank returns 7" 7 '*' '*' "$mpirun" -n 1 ./endings return
expect "one is missing at a barrier" 16 '*' 'rank [0-9] of 4.*next collective on the communicator is (barrier|finalize), but other ranks. is (finalize|barrier)' \
    "$mpirun" -n 4 ./endings barrier 2

# The others of the node do not report that they can no longer connect to it.
for _ in 1 2 3 4 5; do
    expect "a process ends before others have connected to it" 4 '*' \
        '^((rank 1 of 4 [^:]*: ended with exit code 4|mpirun: process 0 of 2 )[^:]*(: the job was aborted ?)?){2}$' \
        "$mpirun" --procs 2 -n 4 ./endings exit-early
done

# ---- Bad input ----
expect "unknown option" 2 '' 'unknown option \+vq; the nearest is \+v' ./endings +vq 3
expect "unknown option, through mpirun" 2 '' 'unknown option \+stack; the nearest is \+stacksize' \
    "$mpirun" -n 2 +stack 1M ./endings
expect "unknown option in HEDDLE_OPTIONS" 2 '' 'unknown option \+foo .*; in the environment variable HEDDLE_OPTIONS: \+foo 1 $' \
    env HEDDLE_OPTIONS='+foo 1' ./endings
expect "an option without its value in HEDDLE_OPTIONS" 2 '' 'a number from 1 to 1024; in .* HEDDLE_OPTIONS: \+p \+vp 2 $' \
    env HEDDLE_OPTIONS='+p' "$mpirun" -n 2 ./endings
expect "+vp 0" 2 '' '\+vp 0: expected a number from 1 to' ./endings +vp 0
expect "+vp abc" 2 '' '\+vp abc: expected a number from 1 to' ./endings +vp abc
expect "+vp -3" 2 '' '\+vp -3: expected a number from 1 to' ./endings +vp -3
expect "+vp without a value" 2 '' '\+vp needs a value' ./endings +vp
expect "+vp 10000000" 2 '' '\+vp 10000000: expected a number from 1 to' ./endings +vp 10000000
expect "-n 10000000" 2 '' '10000000' "$mpirun" -n 10000000 ./endings
expect "+p 0" 2 '' '\+p 0: expected a number' ./endings +vp 2 +p 0
expect "+stacksize 1" 2 '' '\+stacksize 1: expected a size' ./endings +vp 2 +stacksize 1
expect "more ranks than mappings" 1 '' 'ranks need .* memory mappings .*vm.max_map_count allows .*use at most [0-9]+ ranks' \
    ./endings +vp 1000000
# (Ranks of a PE that got its memory may have run by then.)
expect "no address space" 1 '*' 'rank [0-9]+ of 60: .*(use fewer ranks|smaller stacks)' \
    prlimit --as=300000000 ./endings +vp 60
expect "stacks that do not fit" 1 '' 'do not fit into the address space; use \+stacksize with less' \
    ./endings +vp 100 +stacksize 900G
cores=$(nproc)
expect "more PEs than cores" 0 '*' "^heddle: $((cores + 3)) PEs on $cores cores: PEs share cores[^:]*\$" \
    "$mpirun" -n $((cores + 5)) +p $((cores + 3)) ./endings
expect "no such program" 127 '' 'no_such_program' "$mpirun" -n 2 ./no_such_program
expect "not position-independent" 126 '' 'not position-independent.*[Rr]ecompile' "$mpirun" -n 2 ./endings_fixed
expect "not position-independent, without mpirun" 1 '' 'not position-independent.*recompile' ./endings_fixed +vp 2
expect "not position-independent, but one rank" 0 'rank 0 of 1' '' ./endings_fixed
finish
