#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that +check usage finds each wrong program of misuse.c, with both sides and their calls, and nothing in right ones.
# Usage: misuse_test.sh BUILD WORK
set -u
build=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
mkdir -p "$2" && cd "$2" || exit 1
unset HEDDLE_OPTIONS
mpirun=$build/bin/mpirun
"$build/bin/mpicc" -g -O1 -w "$here/misuse.c" -o misuse || exit 1

# at WORD: "called at main (misuse.c:12)" for the line with this word in a comment
at() {
    grep -n "/\* $1 \*/" "$here/misuse.c" | sed -E 's|:.*|\\)|; s|^|called at [a-z_]+ \\(misuse.c:|'
}

# wrong KIND PATTERN [OPTIONS]: the program ends with a report that matches, also with these options
wrong() {
    for options in "+p 1" "+p 2" ${3:+"$3"}; do
        # shellcheck disable=SC2086
        expect "$1, $options" 16 '' "$2" "$mpirun" -n 3 $options ./misuse "$1" +check usage
    done
}

sender="but rank 0 sends 4 of MPI_INT by MPI_Send, $(at send-int)"
wrong type-posted "rank 1 .*MPI_Irecv, $(at irecv-float): it receives 2 of MPI_FLOAT, $sender .*element 0 is MPI_FLOAT here and MPI_INT there" \
    "--procs 3"
wrong type-probed "rank 1 .*MPI_Mrecv, $(at mrecv-float): it receives 8 of MPI_FLOAT, $sender" "--procs 3"
wrong type-recv "rank 1 .*MPI_Recv, $(at recv-byte): it receives 16 of MPI_BYTE, $sender" "--procs 3"
wrong struct "rank 0 .*MPI_Start, $(at start-pair): it receives 3 of a derived type = \{MPI_INT, MPI_DOUBLE\}, but rank 1 sends \
2 of MPI_INT by MPI_Ssend, $(at ssend-int) .*element 1 is MPI_DOUBLE here and MPI_INT there" "--procs 3"
for kind in parts-early parts-late; do
    wrong $kind "rank 1 .*MPI_Start, $(at start-parts): it receives 8 of MPI_FLOAT, but rank 0 sends 8 of MPI_INT by MPI_Psend_init, \
$(at psend-init) \(tag 5\): element 0 is MPI_FLOAT here and MPI_INT there" "--procs 3"
done
"$build/bin/mpicc" -g -O1 -w "$here/misuse_length.c" -o misuse_length || exit 1
long="called at [a-z_]+ \\(misuse_length.c:$(grep -n 'send-long' "$here/misuse_length.c" | cut -d: -f1)\\)"
for options in '-n 3 +p 1' '-n 3 +p 2' '--procs 2 -n 2'; do
    for kind in recv wait all; do
        # shellcheck disable=SC2086
        expect "a long message, $kind, $options" "$([ $kind = all ] && echo 19 || echo 15)" '' "rank 1 .*tag 5 is longer than the receive's 8 bytes: rank 0 sends 4 of MPI_INT by MPI_Send, $long" \
            "$mpirun" $options ./misuse_length $kind +check usage
    done
    # shellcheck disable=SC2086
    expect "a long message after those of freed requests, $options" 0 '^sends 5 of MPI_INT by ' '' "$mpirun" $options ./misuse_length freed +check usage
    # shellcheck disable=SC2086
    expect "long messages, $options" 0 'sends 3 of MPI_INT by .*sends 5 of MPI_INT by ' '' "$mpirun" $options ./misuse_length returned +check usage
done
wrong changed "MPI_Isend, $(at isend-changed): the send buffer has changed before the send was completed by MPI_Wait, $(at wait-changed)"
started="has changed before the operation was completed by MPI_Waitall, $(at wait-started)"
wrong changed-part "MPI_Pready, $(at pready): partition 3 of the send buffer $started" "--procs 3"
wrong changed-allreduce "MPI_Start, $(at start-allreduce): the send buffer $started" "--procs 3"
wrong changed-bcast "MPI_Ibcast, $(at ibcast): the send buffer $started" "--procs 3"
wrong changed-alltoallv "MPI_Ialltoallv, $(at ialltoallv): block 2 of the send buffer $started" "--procs 3"
wrong overlap-recv "MPI_Irecv, $(at irecv-second): its receive buffer has 8 bytes of the receive buffer .*MPI_Irecv, $(at irecv-first)"
wrong overlap-send "MPI_Send, $(at send-second): its send buffer has 4 bytes of the receive buffer .*MPI_Irecv, $(at irecv-first)"
wrong overlap-column "MPI_Irecv, $(at irecv-last): its receive buffer has 4 bytes of the receive buffer .*MPI_Irecv, $(at irecv-column)"
wrong overlap-result "MPI_Iallreduce, $(at iallreduce-result): its receive buffer has 4 bytes of the receive buffer .*MPI_Irecv, $(at irecv-result)" \
    "--procs 3"
wrong overlap-blocks "MPI_Irecv, $(at irecv-block): its receive buffer has 4 bytes of the receive buffer .*MPI_Ialltoallv, $(at results)" "--procs 3"
freed='which has been freed by'
expect "freed request" 0 '^end $' "MPI_Wait, $(at wait-again): wrong usage of a request, $freed MPI_Wait, $(at wait-first)" \
    "$mpirun" -n 1 ./misuse freed-request +check usage
wrong freed-twice "\): MPI_Waitall: .*MPI_Waitall, $(at waitall-twice): requests 1 and 2 of the array are the same, of MPI_Irecv, $(at irecv-twice)" "--procs 3"
expect "freed operation" 0 '*' "MPI_Allreduce, $(at allreduce-freed): wrong usage of an operation, $freed MPI_Op_free, $(at op-free)" \
    "$mpirun" -n 2 ./misuse freed-op +check usage
expect "freed datatype" 0 '*' "MPI_Send, $(at send-freed): wrong usage of a datatype, $freed MPI_Type_free, $(at type-free)" \
    "$mpirun" -n 2 ./misuse freed-type +check usage
expect "freed communicator" 0 '*' "MPI_Barrier, $(at barrier-freed): wrong usage of a communicator, $freed MPI_Comm_free, $(at comm-free)" \
    "$mpirun" -n 2 ./misuse freed-comm +check usage
wrong win-fence "MPI_Put, $(at put-fence): this put at rank 0 conflicts with the put of rank [12] by MPI_Put, $(at put-fence): both \
access displacement 24 "
wrong win-lock "MPI_Get, $(at get-lock): this get at rank 0 conflicts with the put of rank 1 by MPI_Put, $(at put-lock)"
wrong win-ops "MPI_Accumulate, $(at accumulate): this accumulate with MPI_(SUM|PROD) at rank 0 conflicts with the accumulate with \
MPI_(SUM|PROD) of rank [12] by MPI_Accumulate, $(at accumulate)"
wrong win-start "MPI_Put, $(at put-start): this put at rank 0 conflicts with the put of rank [12] by MPI_Put, $(at put-start)"
wrong win-get "MPI_Get, $(at get-fence): the buffer at the origin has changed before the operation was completed by MPI_Win_fence, $(at fence)" \
    "--procs 3"
calls() {
    echo "; the first in $1, $(at "$2"); the other in $1, $(at "$2")"
}
wrong coll-op "gives MPI_(SUM|MAX), but .* gives MPI_(SUM|MAX) .*$(calls MPI_Iallreduce iallreduce)"
wrong coll-type "receives 16 bytes \(4 of MPI_INT\), but rank 0 sends it 12 bytes .*\{MPI_INT, MPI_DOUBLE\}.*$(calls MPI_Bcast bcast)"
wrong coll-v "receives 8 bytes \(2 of MPI_INT\), but .* 4 bytes \(1 of MPI_INT\).*$(calls MPI_Iallgatherv iallgatherv)"
wrong coll-root "gives root [01], but .* gives root [01] .*$(calls MPI_Start start-reduce)"
ints='receives 8 bytes \(2 of MPI_INT\), but rank 2 sends it 8 bytes \(2 of MPI_FLOAT\)'
wrong coll-neighbor "$ints" "--procs 3"
wrong coll-neighbors "$ints" "--procs 3"
wrong coll-alltoallv "receives 174760 bytes \\(43690 of MPI_INT\\), but rank 2 sends it 174760 bytes \\(43690 of MPI_FLOAT\\)" "--procs 3"
expect "operations of processes" 16 '' "allreduce, MPI_(SUM|MAX), 4 bytes of MPI_INT in MPI_Iallreduce, $(at iallreduce), but " \
    "$mpirun" --procs 2 -n 2 ./misuse coll-op +check usage
expect "types of processes" 16 '' "bcast, root 0, 16 bytes of MPI_(INT|FLOAT) in MPI_Bcast, $(at bcast-float), but at process 1 it is bcast" \
    "$mpirun" --procs 2 -n 2 ./misuse coll-float +check usage
expect "types of processes, gathered" 16 '' "MPI_(INT|FLOAT) in MPI_Gather, $(at gather-float), but at process 1 it is gather" \
    "$mpirun" --procs 2 -n 2 ./misuse coll-gather +check usage

for ranks in 2 5; do
    expect "right, $ranks ranks" 0 "(end ){$ranks}" '' "$mpirun" -n $ranks +p 1 ./misuse right +check usage
done
expect "right, several PEs" 0 '*' '' "$mpirun" -n 5 +p 2 ./misuse right +check usage
expect "right, processes" 0 '*' '' "$mpirun" --procs 2 -n 5 +p 1 ./misuse right +check usage
expect "right, pages" 0 "(end ){5}" '' "$mpirun" -n 5 +p 2 ./misuse right +check buffers
expect "right, pages of one rank" 0 '*' '' "$mpirun" -n 1 ./misuse right +check buffers
expect "right, pages in processes" 0 '*' '' "$mpirun" --procs 2 -n 2 ./misuse right +check buffers

# early KIND STARTED HOW MARK: the line with this mark uses the buffer of the call with the mark STARTED
early() {
    for options in "-n 3" "-n 1" "--procs 2 -n 2"; do
        # shellcheck disable=SC2086
        expect "$1, $options" 139 '' "rank 0 .*Segmentation fault at 0x[0-9a-f]+: $3 buffer of \\w+, $(at "$2"), .*$4" \
            "$mpirun" $options ./misuse "$1" +check buffers
    done
}
early early-send isend-early 'a write into the send' 'last MPI call: MPI_Isend'
early early-recv irecv-early 'it is in the receive' 'last MPI call: MPI_Irecv'
early early-other issend-other 'a write into the send' 'last MPI call: MPI_Wait'
early early-first irecv-blocks 'it is in the receive' 'last MPI call: MPI_Irecv'
early early-last irecv-blocks 'it is in the receive' 'last MPI call: MPI_Irecv'
early early-get get-early 'it is in the receive' 'last MPI call: MPI_(Get|Iprobe)'
early early-arrived irecv-arrived 'it is in the receive' 'last MPI call: MPI_Send'
expect "the line is named" 139 '*' "in [a-z_]+ \\(misuse.c:$(grep -n write-early "$here/misuse.c" | cut -d: -f1)\\); last MPI call" "$mpirun" -n 2 ./misuse early-send +check buffers

for kind in type-recv changed overlap-recv win-fence; do
    expect "nothing without the option: $kind" 0 '*' '' "$mpirun" -n 3 ./misuse $kind
done
finish
