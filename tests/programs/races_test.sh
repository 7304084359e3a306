#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that +check usage finds each conflict of one-sided operations in races.c, in one process and between processes, with both
# sides and their calls, and nothing in random programs without conflicts. Usage: races_test.sh BUILD WORK
set -u
build=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
mkdir -p "$2" && cd "$2" || exit 1
unset HEDDLE_OPTIONS
mpirun=$build/bin/mpirun
"$build/bin/mpicc" -g -O1 -w "$here/races.c" -o races || exit 1

# at WORD: "called at main (races.c:12)" for the line with this word in a comment
at() {
    grep -n "/\* $1 \*/" "$here/races.c" | sed -E 's|:.*|\\)|; s|^|called at [a-z_]+ \\(races.c:|'
}

# wrong KIND PATTERN [OPTIONS...]: the program ends with a report that matches, with each of these options
wrong() {
    local kind=$1 pattern=$2
    shift 2
    for options in "${@:-+p 1}"; do
        # shellcheck disable=SC2086
        expect "$kind, $options" 16 '' "$pattern" "$mpirun" -n 3 $options ./races "$kind" +check usage
    done
}

# conflict CALL MARK CALL MARK: a report of either order
conflict() {
    local first second
    first="$1, $(at "$2"): this [a-zA-Z_ ]+( of rank [12])? at rank 0 conflicts with the [a-zA-Z_ ]+ of rank [12] by $3, $(at "$4")"
    second="$3, $(at "$4"): this [a-zA-Z_ ]+( of rank [12])? at rank 0 conflicts with the [a-zA-Z_ ]+ of rank [12] by $1, $(at "$2")"
    echo "$first|$second"
}
puts=$(conflict MPI_Put put MPI_Put put)
gets=$(conflict MPI_Put put MPI_Get get)
both=("+p 1" "+p 2" "--procs 2" "--procs 3")
inside=("+p 1" "+p 2")

wrong fence-put "$puts: both access displacement 20 " "${both[@]}"
wrong fence-get "$gets" "${both[@]}"
wrong fence-add "$(conflict MPI_Put put MPI_Accumulate accumulate)" "${both[@]}"
wrong fence-ops "accumulate with MPI_(SUM|MAX)( of rank [12])? at rank 0 .*accumulate with MPI_(SUM|MAX) of rank [12]" "${both[@]}"
wrong posted-put "$puts" "${both[@]}"
wrong posted-get "$gets" "${both[@]}"
# Not between processes: there an operation may reach the target when the other origin's is complete, and is not compared.
wrong lock-held "$puts" "${inside[@]}"
wrong lock-put "$puts" "${inside[@]}"
wrong lock-get "$gets" "${inside[@]}"
wrong flush-put "$puts" "${inside[@]}"
wrong flush-get "$gets" "${inside[@]}"
wrong flush-requests "accumulate with MPI_(SUM|MAX) at rank 0 .*accumulate with MPI_(SUM|MAX) of rank [12] by MPI_Raccumulate, $(at raccumulate)" \
    "${inside[@]}"
wrong own-lock "at rank 2 conflicts with the put of rank [02] by MPI_Put, $(at put)" "${inside[@]}"
wrong mutex-lock "conflicts with the put of rank [0-2] by MPI_Put, $(at put)" "${inside[@]}"
wrong dynamic "$(conflict MPI_Put put-dynamic MPI_Put put-dynamic)" "${both[@]}"

wrong origin-changed "MPI_Put, $(at put): the buffer at the origin has changed before the operation was completed by MPI_Win_fence, \
$(at fence-origin)" "${both[@]}"
wrong origin-got "MPI_Put, $(at put-got): its send buffer has 4 bytes of the receive buffer .*MPI_Get, $(at get)" "${both[@]}"
wrong origin-sent "MPI_Sendrecv, .*: its send buffer has 4 bytes of the receive buffer .*MPI_Get, $(at get)" "${both[@]}"
stored="MPI_Put, $(at put): the data that this put of rank 0 has written at displacement 40 .*of rank 2 has changed before"
wrong stored-fence "$stored MPI_Win_fence, $(at fence-stored): rank 2 has stored there" "${inside[@]}"
wrong stored-posted "$stored MPI_Win_wait, $(at wait-stored)" "${inside[@]}"
got="MPI_Get, $(at get): the data that this get of rank 0 has read at displacement 40 .*of rank 2 has changed before"
wrong stored-got-fence "$got MPI_Win_fence, $(at fence-stored): rank 2 has stored there" "${inside[@]}"
wrong stored-got-posted "$got MPI_Win_wait, $(at wait-stored)" "${inside[@]}"

for options in "-n 1" "-n 4 +p 1" "-n 5 +p 2" "--procs 2 -n 4" "--procs 3 -n 3" "-n 4 +p 1 +schedule random:3"; do
    for check in usage buffers; do
        # shellcheck disable=SC2086
        expect "right, $options, $check" 0 '*' '' "$mpirun" $options ./races right 7 +check $check
    done
done
for options in "+p 1" "+p 2" "--procs 3"; do
    # shellcheck disable=SC2086
    expect "mutex-flush, $options" 0 '^end end end $' '' "$mpirun" -n 3 $options ./races mutex-flush +check usage
    # shellcheck disable=SC2086
    expect "own-flag, $options" 0 '^end end end $' '' "$mpirun" -n 3 $options ./races own-flag +check usage
done
expect "nothing without the option" 0 '*' '' "$mpirun" -n 3 ./races fence-put
expect "an early load" 139 '' "rank 0 .*it is in the receive buffer of MPI_Get, $(at get-early)" "$mpirun" -n 2 ./races early-got +check buffers
finish
