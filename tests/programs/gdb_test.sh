#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that gdb stops at functions of the program in every rank, and prints the ranks' frames with lines, without a command or a
# setting of the user, in a process, in a running one and in a core file; and that its commands for ranks show all of them, whether
# they run or not, also in two processes.
# Usage: gdb_test.sh BUILD WORK
# What is in single quotes is for gdb.
# shellcheck disable=SC2016
set -u
build=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
command -v gdb >/dev/null || exit 77
mkdir -p "$2" && cd "$2" || exit 1
unset HEDDLE_OPTIONS
export DEBUGINFOD_URLS=
"$build/bin/mpicc" -g -O0 "$here/debugged.c" -o debugged || exit 1
debug=(gdb -q -nx -batch)
"${debug[@]}" -ex run --args ./debugged 2>&1 | grep -q 'ptrace: Operation not permitted' && exit 77

in_gdb() { # NAME STDOUT GDB'S ARGUMENTS
    expect "$1" 0 "$2" '*' "${debug[@]}" "${@:3}"
}

# ---- Without the script ----
for pes in 1 2; do
    in_gdb "break main, $pes PEs" '((Breakpoint 1\.[0-9], main \(argc=1.* at [^ ]*debugged\.c:[0-9]+ .*){3}exited normally.*){2}' \
        -ex 'break main' -ex run -ex c -ex c -ex c -ex run -ex c -ex c -ex c --args ./debugged +vp 3 +p $pes
    in_gdb "a backtrace, $pes PEs" '#0 +twice \(number=1\) at [^ ]*debugged\.c:[0-9]+ #1 +0x[0-9a-f]+ in main \(argc=1, .* at [^ ]*debugged\.c:[0-9]+' \
        -ex 'break twice if number == 1' -ex run -ex bt -ex 'generate-core-file plain_core' --args ./debugged +vp 3 +p $pes
    in_gdb "a core file, $pes PEs" '#0 +twice \(number=1\) at .*#1 .* in main \(argc=1, ' ./debugged plain_core -ex bt
done
in_gdb "a thread_local variable" '\$1 = 9 ' -ex 'break twice if number == 2' -ex run -ex 'print own' --args ./debugged +vp 3 +p 1
in_gdb "the first 32 ranks" '^(.*/debugged ){32}[^/]*$' -iex 'set breakpoint pending on' -ex 'break PMPI_Finalize' -ex run \
    -ex 'info sharedlibrary debugged' --args ./debugged +vp 40 +p 1
rm -f out
./debugged +vp 3 stay >out 2>&1 &
running=$!
trap 'kill $running; rm -rf "$expect_dir"' EXIT
if await grep -q here out; then
    in_gdb "a running process, from another folder" ' in in_order \(rank=2, n_ranks=3, .* main \(argc=2, ' -p $running -iex 'cd /' -ex 'thread apply all bt'
fi
kill $running

# ---- With it ----
debug+=(-iex "add-auto-load-safe-path $build/lib")
for pes in 1 2; do
    in_gdb "a breakpoint in one rank, in two runs, $pes PEs" '(twice \(number=2\).*#1 .*rank = 2.*exited normally.*){2}' \
        -iex "source $build/lib/libmpi_abi.so.1-gdb.py" -ex 'set heddle-ranks 1' -ex 'heddle break twice rank 2' \
        -ex run -ex bt -ex 'info locals' -ex up -ex 'info locals' -ex c -ex run -ex bt -ex up -ex 'info locals' -ex c --args ./debugged +vp 4 +p $pes
done
clock=(-ex 'break twice' -ex run -ex 'break __vdso_clock_gettime' -ex c)
if "${debug[@]}" "${clock[@]}" --args ./debugged +vp 1 2>&1 | grep -q '^Breakpoint 2, .* in '; then
    in_gdb "one rank, in a function of the kernel" ' rank 0: runs in main at [^ ]*debugged\.c:[0-9]+' "${clock[@]}" -ex 'heddle ranks' --args ./debugged +vp 1
fi
in_gdb "only as many ranks as wanted" 'rank 32 [^(]*\(symbols\) +rank 33 [^(]*$' \
    -iex 'set breakpoint pending on' -ex 'break PMPI_Finalize' -iex "source $build/lib/libmpi_abi.so.1-gdb.py" -ex 'set heddle-ranks 33' \
    -ex run -ex heddle-images --args ./debugged +vp 35 +p 1

rm -f out
./debugged +vp 3 +p 1 sleep >out 2>&1 &
running=$!
trap 'kill $running; rm -rf "$expect_dir"' EXIT
if await grep -q here out; then
    in_gdb "a rank that sleeps" 'ranks 0-1 \(2\): MPI_Recv: blocked in receive.* rank 2: MPI_Recv: then sleeps; called at' -p $running -ex 'heddle ranks'
fi
kill $running

waiting='ranks 0-2 \(3\): MPI_Recv: blocked in receive from rank rank\+1, tag 7; called at in_order at [^ ]*debugged.c:[0-9]+ rank 3: runs in'
posted='ranks 0-2 \(3\): receive from rank rank\+1, tag 7, 4 bytes'
show=(-ex 'heddle ranks' -ex 'heddle rank 1' -ex 'info locals' -ex 'print $heddle_rank()' -ex 'print $heddle_var("own")'
    -ex 'print $heddle_var("everyones")' -ex bt -ex 'heddle messages')
shown="$waiting.* in_order \(rank=1, n_ranks=4, .* value = 1 \\\$[0-9]+ = 1 \\\$[0-9]+ = 8 \\\$[0-9]+ = 1001 #.* in main .*$posted"
in_gdb "ranks that do not run" "${shown}.* ranks 1-3 \(3\): message from rank 0, tag 42, 4 bytes.* Old value = 1003 New value = 200 " \
    -ex 'break twice if number == 100' -ex run "${show[@]}" -ex 'generate-core-file core' -ex 'heddle rank 3' \
    -ex 'watch -l $heddle_var("everyones")' -ex c --args ./debugged +vp 4 +p 1 wait
in_gdb "a core file" "$shown" ./debugged core "${show[@]}"

# ---- Debuggers that start mpirun ----
printf '%s\n' 'set breakpoint pending on' 'break twice if number == 2' continue bt 'heddle ranks' >commands
for procs in "" "--procs 2"; do
    # shellcheck disable=SC2086
    expect "mpirun --debug $procs" 0 'stopped at the first instruction.*#0 +twice \(number=2\).* in main .*rank(s [0-9, -]+ \([0-9]+\)| 2): runs in twice at' '*' \
        sh -c '"$@" <commands' - "$build/bin/mpirun" --debug -n 4 $procs ./debugged
    # shellcheck disable=SC2086
    in_gdb "MPIR $procs" '\$1 = [12] .*\$2 = 1 .*\$3 = 0x[0-9a-f]+ "[^"]*/debugged" \$4 = 1 .*exited normally' -ex 'tbreak main' -ex run \
        -ex 'set var *(int *)&MPIR_being_debugged = 1' -ex 'break MPIR_Breakpoint' -ex c -ex 'print *(int *)&MPIR_proctable_size' \
        -ex 'print *(int *)&MPIR_debug_state' -ex 'print (*(char ***)&MPIR_proctable)[1]' \
        -ex 'print *(int *)(*(char **)&MPIR_proctable + 16) > 1' -ex 'info inferiors' -ex c --args "$build/bin/mpirun" -n 4 $procs ./debugged
done
expect "mpirun --debug on other nodes" 2 '' 'only for one run on this node' "$build/bin/mpirun" --debug --hosts a,b ./debugged

rm -f out
"$build/bin/mpirun" -n 4 --procs 2 ./debugged stay >out 2>&1 &
mpirun=$!
trap 'kill $mpirun; rm -rf "$expect_dir"' EXIT
if await grep -q here out; then
    read -r first second < <(pgrep -P $mpirun -x debugged | tr '\n' ' ')
    in_gdb "two processes" "$shown" \
        -ex "attach $first" -ex add-inferior -ex 'inferior 2' -ex "attach $second" "${show[@]}"
fi
kill $mpirun

rm -f out
"$build/bin/mpirun" -n 2 --procs 2 ./debugged stay >out 2>&1 &
mpirun=$!
trap 'kill $mpirun; rm -rf "$expect_dir"' EXIT
if await grep -q here out; then
    read -r first second < <(pgrep -P $mpirun -x debugged | tr '\n' ' ')
    show=(-ex 'heddle ranks' -ex 'heddle rank 1' -ex bt -ex 'print $heddle_var("own")' -ex 'print $heddle_var("everyones")')
    shown='rank 0: MPI_Recv: .*called at in_order at .* rank 1: runs in stay at .*#0 .*stay \(.*#1 .* main \(.* = 8 .* = 1001 '
    in_gdb "processes of one rank each" "$shown" -ex "attach $first" -ex 'generate-core-file core_0' -ex add-inferior -ex 'inferior 2' \
        -ex "attach $second" -ex 'generate-core-file core_1' "${show[@]}"
    in_gdb "core files of both" "$shown" ./debugged core_0 -ex 'add-inferior -no-connection -exec debugged' -ex 'inferior 2' \
        -ex 'core core_1' "${show[@]}"
    rm -f core_0 core_1
fi
finish
