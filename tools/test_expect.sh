# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# For tests that are shell scripts: runs commands and compares their output and exit code. Sourced.
#
#   expect "what this shows" CODE STDOUT STDERR command...
#       STDOUT and STDERR are extended regular expressions over the whole output; '' means no output,
#       '*' any output.
#   expect_nothing_left "after what" TENTHS
#       left_over, a function of the test, must print nothing within this many tenths of a second.
#   expect_beside "what this shows" CODE STDOUT
#       waits for the job $job, whose output is in the file `beside`: it ends with this code and output.
#   await command...
#       runs the command until it succeeds; fails after three minutes: a core of a busy virtual machine can be away for one.
#   has_lines COUNT PATTERN FILE
#       is true if that many lines of the file match: a job's output shows its progress.
#   finish
#       exits with 0 if all results were as expected.

expect_count=0
expect_failed=0
expect_dir=$(mktemp -d)
trap 'rm -rf "$expect_dir"' EXIT

# Does the text in file $2 match $1?
expect_matches() {
    case $1 in
    '*') return 0 ;;
    '') [ ! -s "$2" ] ;;
    *) tr '\n' ' ' <"$2" | grep -Eq -- "$1" ;;
    esac
}

expect() {
    local what=$1 code=$2 out=$3 err=$4 got=0 ok=yes
    shift 4
    expect_count=$((expect_count + 1))
    timeout "${EXPECT_TIMEOUT:-180}" "$@" >"$expect_dir/out" 2>"$expect_dir/err" </dev/null || got=$?
    [ "$got" = "$code" ] || ok=no
    expect_matches "$out" "$expect_dir/out" || ok=no
    expect_matches "$err" "$expect_dir/err" || ok=no
    [ $ok = yes ] && return
    expect_failed=$((expect_failed + 1))
    echo "FAILED: $what"
    echo "  command: $*"
    echo "  exit code $got, expected $code"
    echo "  stdout (expected: ${out:-nothing}):"
    sed 's/^/    /' "$expect_dir/out"
    echo "  stderr (expected: ${err:-nothing}):"
    sed 's/^/    /' "$expect_dir/err"
}

expect_beside() {
    local code=0
    # shellcheck disable=SC2154 # the test sets it
    wait "$job" || code=$?
    expect "$1: the other job" 0 "$3" '' cat beside
    expect "$1: its exit code" 0 "^$2 " '' echo "$code"
}

expect_nothing_left() {
    local left
    expect_count=$((expect_count + 1))
    for _ in $(seq "$2"); do
        left=$(left_over)
        [ -z "$left" ] && return
        sleep 0.1
    done
    expect_failed=$((expect_failed + 1))
    echo "FAILED: nothing is left behind: $1"
    printf '%s\n' "$left" | sed 's/^/    /'
}

await() {
    for _ in $(seq 3600); do
        "$@" && return
        sleep 0.05
    done
    return 1
}

has_lines() {
    [ "$(grep -cs -- "$2" "$3")" = "$1" ]
}

finish() {
    echo "$((expect_count - expect_failed)) of $expect_count as expected"
    [ "$expect_failed" = 0 ]
    exit
}
