#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that each wrong program of bugs.c is found by +check usage,leaks or --explore all, with the calls of its error, and that
# nothing is said of the right ones. Usage: bugs_test.sh BUILD WORK
set -u
build=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
mkdir -p "$2" && cd "$2" || exit 1
unset HEDDLE_OPTIONS
mpirun=$build/bin/mpirun
"$build/bin/mpicc" -g -O1 -w "$here/bugs.c" -o bugs || exit 1

# at WORD: "called at main (bugs.c:12)" for the line with this word in a comment
at() {
    grep -n "/\* $1 \*/" "$here/bugs.c" | sed -E 's|:.*|\\)|; s|^|called at [a-z_]+ \\(bugs.c:|'
}

# wrong KIND CODE PATTERN: the program ends with a report that matches
wrong() {
    for options in "-n 4 +p 1" "--procs 2 -n 4"; do
        # shellcheck disable=SC2086
        expect "$1, $options" "$2" '*' "$3" "$mpirun" $options ./bugs "$1" wrong +check usage,leaks
    done
}

# explored KIND PATTERN
explored() {
    expect "$1, explored" 1 '*' "$2" "$mpirun" -n 3 --explore all ./bugs "$1" wrong
    expect "$1, right, explored" 0 '*' 'all orders of matches seen: [0-9]+ runs' "$mpirun" -n 3 --explore all ./bugs "$1" right
}

# calls FIRST MARK OTHER MARK: of ranks with different collectives, in either order
calls() {
    echo "(first|other) in $1, $(at "$2").*(first|other) in $3, $(at "$4")|(first|other) in $3, $(at "$4").*(first|other) in $1, $(at "$2")"
}

# Messages
wrong persistent_early 16 "MPI_Startall, $(at startall): the send buffer has changed before .* by MPI_Waitall, $(at waitall)"
wrong recv_early 16 "MPI_Irecv, $(at irecv-early): the receive buffer has changed before the message was received"
wrong missing_wait 1 "2 completed requests of MPI_Isend, $(at isend-lost)"
wrong tag_order 1 "MPI_Ssend: .* tag 1; $(at ssend-1); near miss: rank 1 receives from rank 0, tag 2 .*$(at recv-2); near miss"
wrong split_comm 1 "MPI_Recv: .*$(at recv-dup); near miss: a message from rank 0, tag 0, on MPI_COMM_WORLD"
wrong recv_short 15 "MPI_Recv: MPI_ERR_TRUNCATE: .* longer than the receive's 8 bytes: rank 0 sends 3 of MPI_INT by MPI_Send, $(at send-long); $(at recv-short)"
wrong sendrecv_overlap 16 "MPI_Sendrecv, $(at sendrecv): its send and receive buffers have 8 bytes in common"
wrong started_twice 7 "MPI_Start: MPI_ERR_REQUEST: .* active already; $(at start-2)"
wrong never_started 1 "1 message from rank-1 modulo 4, tag 0, 4 bytes, never received"

# Collectives
wrong collective_order 16 "$(calls MPI_Reduce reduce-first MPI_Bcast bcast-first)"
wrong comm_order 1 "MPI_Barrier: blocked on a of size 4; $(at barrier-a); not entered by rank 1 .*blocked on b "
wrong fewer_rounds 16 "is (finalize|allreduce), but other ranks' is (finalize|allreduce)"
wrong scatter_count 16 "rank 1 receives 4 bytes \(1 of MPI_INT\), but rank 0 sends it 8 bytes .*MPI_Scatter, $(at scatter)"
wrong bcast_root 16 "gives root [01], but rank [0-9] gives root [01] .*MPI_Bcast, $(at bcast-root)"
wrong form_of_some 16 "$(calls MPI_Ibcast ibcast-some MPI_Bcast bcast-some)|$(at ibcast-some).*$(at bcast-some)|$(at bcast-some).*$(at ibcast-some)"
wrong allreduce_alias 1 "pass MPI_IN_PLACE as the send buffer; $(at allreduce-alias)"

# Arguments and objects
wrong bad_rank 6 "MPI_Isend: MPI_ERR_RANK: the destination is 4, .*; $(at isend-rank)"
wrong bad_type 3 "MPI_Bcast: MPI_ERR_TYPE: .* has not been committed \(MPI_Type_commit\); $(at bcast-uncommitted)"
wrong bad_displacement 48 "MPI_Put: MPI_ERR_RMA_RANGE: .* which has 16 bytes; $(at put-outside)"
wrong leaks 1 "group of MPI_Comm_group, $(at group) .*MPI_Group_incl, $(at group-incl) .*MPI_Comm_split, $(at split) .*MPI_Type_vector, $(at vector)"

# Epochs
wrong no_epoch 50 "MPI_Put: MPI_ERR_RMA_SYNC: no access epoch is open: .*; $(at put-no-epoch)"
wrong no_last_fence 50 "MPI_Win_free: MPI_ERR_RMA_SYNC: .* the last MPI_Win_fence, .*; $(at win-free)"
wrong fence_of_some 16 "$(calls MPI_Win_free free-some MPI_Win_fence fence-some)"
wrong no_unlock 1 "MPI_Win_lock exclusive on rank 0, held by rank 1; $(at lock-0)"
wrong unlock_twice 50 "MPI_Win_unlock: MPI_ERR_RMA_SYNC: rank 0 is not locked .*; $(at unlock-twice)"
wrong no_post 1 "MPI_Win_start, for the MPI_Win_post of rank 0; $(at start-no-post)"

# Races
wrong get_and_store 16 "MPI_Get, $(at get-race): the data .* rank 1 has stored there in the same epoch"
wrong put_and_put 16 "MPI_Put, $(at put-race): this put.* conflicts with the put of rank [0-3] by MPI_Put, $(at put-race)"
wrong put_reused 16 "MPI_Put, $(at put-reused): the buffer at the origin has changed before .* MPI_Win_unlock, $(at unlock-reused)"
wrong get_used_early 16 "MPI_Put, $(at put-got): its send buffer has 4 bytes of the receive buffer .*MPI_Get, $(at get-early)"

# Orders
explored head_to_head "MPI_Send: blocked .*$(at send-all) .*cycle of 3 ranks"
explored any_then_named "MPI_Recv: blocked in receive from rank 2.*$(at recv-any); near miss: a message from rank 1"
explored any_sum 'prints other lines   - 12   \+ 21 '

for kind in $(./bugs); do
    for options in "-n 4 +p 2" "--procs 2 -n 4"; do
        # shellcheck disable=SC2086
        expect "$kind, right, $options" 0 '*' '' "$mpirun" $options ./bugs "$kind" right +check usage,leaks
    done
done
finish
