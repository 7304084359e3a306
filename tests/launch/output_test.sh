#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that mpirun --procs forwards the input and output of MPI programs byte for byte: nothing is lost, no line is
# mixed with another one, and readers and writers may exit at any time.
# Usage: output_test.sh MPICC MPIRUN
# What is in single quotes is for the shell that runs it.
# shellcheck disable=SC2016
set -u
# shellcheck source=tests/launch/mpi_client.sh
. "$(dirname "$0")/mpi_client.sh" "$1" "$2"
EXPECT_TIMEOUT=180

# ---- Many lines, long lines, all bytes ----
cat >"$work/check_lines.py" <<'PY'
import sys
procs, lines = int(sys.argv[1]), int(sys.argv[2])
came = [0] * procs
for line in sys.stdin:
    proc, number, end = line.split(" ")
    assert end == "end\n" and int(number) == came[int(proc)], line
    came[int(proc)] += 1
print(came == [lines] * procs)
PY
cat >"$work/check_long.py" <<'PY'
import sys
data = sys.stdin.buffer.read()
lines = data.split(b"\n")
last = lines.pop()
print(sorted((chr(line[0]), len(line), len(set(line))) for line in lines), (chr(last[0]), len(last), len(set(last))) if last else "")
PY
cat >"$work/check_binary.py" <<'PY'
import collections, sys
body = bytes(byte for byte in range(256) if byte != 10)
lines = collections.Counter(sys.stdin.buffer.read().split(b"\n")[:-1])
print(sorted((chr(line[0]), count, line[1:] == body) for line, count in lines.items()))
PY
expect "100,000 lines of each of 8 processes" 0 '^True $' '' sh -c '"$@" | python3 '"$work/check_lines.py 8 100000" - \
    "$mpirun" --procs 8 -n 8 "$client" init lines=100000 finalize
expect "before and after MPI" 0 '^True $' '' sh -c '"$@" | python3 '"$work/check_lines.py 4 1000" - \
    "${run[@]}" lines=1000 init finalize
expect "after MPI_Finalize" 0 '^True $' '' sh -c '"$@" | python3 '"$work/check_lines.py 4 1000" - \
    "${run[@]}" init finalize lines=1000
expect "right before a crash" 139 '^True $' 'signal 11' \
    bash -c '"$@" | python3 '"$work/check_lines.py 4 1000"'; exit ${PIPESTATUS[0]}' - "${run[@]}" init lines=1000 barrier @3,kill=11 barrier
expect "right before MPI_Abort" 3 '^True $' '*' \
    bash -c '"$@" | python3 '"$work/check_lines.py 4 1000"'; exit ${PIPESTATUS[0]}' - "${run[@]}" init lines=1000 barrier @1,abort=3 barrier
mega=1048576
expect "lines of 1 MiB" 0 "^\[\('0', $mega, 1\), \('1', $mega, 1\), \('2', $mega, 1\), \('3', $mega, 1\)\]  $" '' \
    sh -c '"$@" | python3 '"$work/check_long.py" - "${run[@]}" init long=$mega finalize
expect "1 MiB without a newline" 0 "^\[\('[0-3]', $mega, 1\), \('[0-3]', $mega, 1\), \('[0-3]', $mega, 1\)\] \('[0-3]', $mega, 1\) $" '' \
    sh -c '"$@" | python3 '"$work/check_long.py" - "${run[@]}" init longpart=$mega finalize
expect "a line of 20 MB of one process" 0 "^\[\] \('0', 20000000, 1\) $" '' \
    sh -c '"$@" | python3 '"$work/check_long.py" - "${run[@]}" init @0,longpart=20000000 finalize
expect "all values of a byte" 0 "^\[\('0', 500, True\), \('1', 500, True\), \('2', 500, True\), \('3', 500, True\)\] $" '' \
    sh -c '"$@" | python3 '"$work/check_binary.py" - "${run[@]}" init binary=500 finalize
expect "the last line has no newline" 0 '^a b $' '' \
    sh -c '"$@" >'"$work/last"'; cat '"$work/last; echo" - "$mpirun" --procs 2 -n 2 "$client" init @0,say=a sleep=200 @1,part=b sleep=200 finalize

# ---- Who goes away ----
expect "a process closes its stdout" 0 '^after after after $' '^e e e e $' "${run[@]}" init @2,close=1 complain=e barrier say=after finalize
expect "all close stdout and stderr" 0 '' '' "${run[@]}" init close=1 close=2 barrier sleep=300 finalize
expect "all close everything before MPI_Init" 0 '' '' "${run[@]}" close=0 close=1 close=2 init barrier finalize
expect "mpirun | head -1" 0 '^[0-3] 0 end 141 $' '*' bash -c '"$@" | head -1; echo ${PIPESTATUS[0]}' - "${run[@]}" init lines=100000000
expect "mpirun | true" 0 '^141 $' '*' bash -c '"$@" | true; echo ${PIPESTATUS[0]}' - "${run[@]}" init lines=100000000
expect "stdout is closed" 0 '' '^e e e e $' sh -c '"$@" >&-' - "${run[@]}" init say=x complain=e finalize
expect "stdout and stderr are closed" 0 '' '' sh -c '"$@" >&- 2>&-' - "${run[@]}" init say=x complain=e finalize
expect "stdout cannot be written" 0 '' 'No space left' sh -c '"$@" >/dev/full; [ $? != 0 ]' - "${run[@]}" init say=x finalize
expect "nor of ranks in one process" 1 '' '^heddle: the standard output could not be written[^:]*$' \
    sh -c '"$@" >/dev/full' - "$mpirun" -n 4 "$client" init say=x finalize
expect "nor much of it" 1 '' '^heddle: the standard output could not be written[^:]*(: No space left[^:]*)?$' \
    sh -c '"$@" >/dev/full' - "$mpirun" -n 4 "$client" init lines=1000 finalize
expect "one process, stdout is closed" 0 '' '' sh -c '"$@" >&-' - "$mpirun" -n 4 "$client" init say=x finalize
"$1" -O1 -o "$work/full_pipe" "$(dirname "$0")/full_pipe.c" || exit 1
expect "MPI_Abort while another rank waits for a reader" 3 '' '^rank 1 of 2 [^:]*: MPI_Abort was called with error code 3; the job ends $' \
    sh -c 'mkfifo "$0" && exec 3<>"$0" && "$@" >"$0" 3>&-' "$work/fifo" "$mpirun" -n 2 "$work/full_pipe" +p 2

# ---- Tags ----
"$1" -O1 -o "$work/rank_output" "$(dirname "$0")/rank_output.c" || exit 1
# tagged WHAT OPTIONS...: sorted output, stdout first.
cat >"$work/tagged" <<'END'
#!/bin/bash
cd "$(dirname "$0")" || exit 1
"$@" >tagged_out 2>tagged_err || exit
sort tagged_out
sort tagged_err
END
chmod +x "$work/tagged"
lines=''
for rank in 0 1 2; do lines+="\\[$rank\\]<stdout> one, two \\[$rank\\]<stdout> the end "; done
for rank in 0 1 2; do lines+="\\[$rank\\]<stderr> three "; done
for procs in 1 2 3; do
    expect "tags name ranks, $procs processes" 0 "^$lines\$" '' \
        "$work/tagged" "$mpirun" --procs $procs -n 3 --tag-output ./rank_output parts +p 1
done
expect "tags of write()" 0 '^(\[([01])\]<stdout> written by \2 ){6}$' '' "$work/tagged" "$mpirun" -n 2 --tag-output ./rank_output write
expect "other text has the ranks of its process" 0 '^(\[0-1\]<stdout> by descriptor ){2}(\[2-3\]<stdout> by descriptor ){2}$' '' \
    "$work/tagged" "$mpirun" --procs 2 -n 4 --tag-output ./rank_output descriptor
expect "a file in place of stdout" 0 '^\[0\]<stdout> the file: into the file by 0 $' '' \
    "$work/tagged" "$mpirun" -n 2 --tag-output ./rank_output replaced
expect "copies of a program without MPI" 0 '^\[0\]<stdout> x \[1\]<stdout> x $' '' "$work/tagged" "$mpirun" -n 2 --tag-output echo x
expect "10,000 lines of each of 8 ranks of 2 processes, with tags" 0 '^True $' '' \
    sh -c '"$@" | sed -E "s/^\[[0-7]\]<stdout> //" | python3 '"$work/check_lines.py 8 10000" - \
    "$mpirun" --procs 2 -n 8 --tag-output "$work/rank_output" lines 10000
expect "the reader of tagged lines goes away" 0 '^\[[0-3]\]<stdout> [0-3] 0 end 141 $' '*' \
    bash -c '"$@" | head -1; echo ${PIPESTATUS[0]}' - "$mpirun" -n 4 --tag-output "$work/rank_output" lines 100000000
printf '#include <mpi.h>\n#include <iostream>\nint main(int c, char **v)\n{ MPI_Init(&c, &v); std::cout << "C++" << std::endl; MPI_Finalize(); }\n' \
    >"$work/cpp.cpp"
if "${1%mpicc}mpicxx" -o "$work/cpp" "$work/cpp.cpp" 2>/dev/null; then
    expect "tags of C++ streams" 0 '^\[0\]<stdout> C\+\+ \[1\]<stdout> C\+\+ $' '' "$work/tagged" "$mpirun" -n 2 --tag-output ./cpp
fi

# ---- Input ----
head -c 10485760 /dev/urandom >"$work/input"
sum=$(cksum <"$work/input")
expect "10 MiB from a file" 0 "^$sum $" '' sh -c '"$@" <'"$work/input | cksum" - "${run[@]}" init @0,cat finalize
expect "10 MiB through a pipe" 0 "^$sum $" '' sh -c 'cat '"$work/input"' | "$@" | cksum' - "${run[@]}" init @0,cat finalize
expect "the others have nothing to read" 0 '^0 $' '' sh -c 'cat '"$work/input"' | "$@" | wc -c' - "${run[@]}" @1,cat @2,cat @3,cat init finalize
expect "/dev/null" 0 '^done $' '' sh -c '"$@" </dev/null' - "${run[@]}" init cat @0,say=done finalize
expect "stdin is closed" 0 '^done $' '' sh -c '"$@" <&-' - "${run[@]}" init cat @0,say=done finalize
expect "process 0 does not read" 0 '^done $' '*' sh -c 'cat '"$work/input"' | "$@"' - "${run[@]}" init @0,say=done finalize
expect "process 0 closes it, and whoever writes ends" 0 '^done [0-9]+ $' '*' \
    bash -c 'cat /dev/zero | "$@"; echo ${PIPESTATUS[0]}' - "${run[@]}" init close=0 sleep=300 @0,say=done finalize
finish
