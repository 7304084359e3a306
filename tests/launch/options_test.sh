#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a program answers +help and its topics instead of running, that +help collectives shows the changes of
# HEDDLE_COLL, and that wrong options end the program with an explanation.
#
#   options_test.sh MPICC
set -u
mpicc=$1
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
ring=$expect_dir/ring
"$mpicc" -o "$ring" "$(dirname "$0")/../../examples/ring/ring.c" || exit 1

expect "+help lists the options" 0 '  \+vp N .*  \+help' '' "$ring" +help
expect "+help devices says why there are none, or lists them" 0 'GPU' '' "$ring" +help devices
expect "+help collectives has a row for each operation" 0 ' bcast +[0-9]+ +[0-9]+ .* allreduce .* alltoall .* scan ' '' "$ring" +help collectives
expect "a row that HEDDLE_COLL changes" 0 ' bcast +[0-9]+ +12345 ' '' env HEDDLE_COLL=bcast:12345 "$ring" +help collectives
expect "the other rows stay" 0 ' gather +[0-9]+ +[0-9]+ ' '' env HEDDLE_COLL=bcast:12345 "$ring" +help collectives
expect "HEDDLE_COLL with an operation that does not exist" 2 '' 'HEDDLE_COLL=bcsat:1: expected OPERATION' env HEDDLE_COLL=bcsat:1 "$ring"
expect "HEDDLE_COLL without a size" 2 '' 'HEDDLE_COLL=bcast:x: expected OPERATION' env HEDDLE_COLL=bcast:x "$ring"
expect "+check with what it does not know" 2 '' '\+check leak: expected words of usage,buffers,leaks,stuck:S' "$ring" +check usage,leak
expect "+check stuck without seconds" 2 '' '\+check stuck:: expected words' "$ring" +check stuck:
expect "+check stuck with too many seconds" 2 '' '\+check stuck:86401: expected words' "$ring" +check stuck:86401
expect "+gpu with what it does not know" 2 '' '\+gpu no-waiting: expected words of service:US,nccl:PATH,no-WHAT,' "$ring" +gpu no-waiting
expect "+gpu with all it knows" 0 '*' '' "$ring" +gpu no-streams,no-waits,no-graphs,no-nccl,no-service,nccl:/no/such.so,service:100 +vp 2
for word in service: service service:soon service:1001 service:5us nccl: nccl no-servic; do
    expect "+gpu $word" 2 '' "\\+gpu $word: expected words of service:US," "$ring" +gpu $word
done
for size in 63K 65G 64X; do
    expect "+trace with size $size" 2 '' "\\+trace t.json,$size: expected a size from 64K to 64G" "$ring" +trace t.json,$size
done
# old "OPTION VALUE" "what its error names"
old() {
    # shellcheck disable=SC2086 # an option and its value
    expect "the old option $1" 2 '' "unknown option \\${1%% *}: $2" "$ring" $1
}
old +norelro 'leave it out; it happens by itself'
old "+stuck 5" 'it is \+check stuck:S now'
old "+coll bcast:1" 'it is the environment variable HEDDLE_COLL=LIST now'
old "+gpu-streams shared" '\+gpu-streams shared is \+gpu no-streams now'
old "+gpu-waits block" '\+gpu-waits block is \+gpu no-waits now'
old "+gpu-graphs off" '\+gpu-graphs off is \+gpu no-graphs now'
old "+trace-size 1M" 'it is \+trace FILE,SIZE now'
old "+gpu-service off" '.*and \+gpu-service off is \+gpu no-service'
old "+nccl off" '.*and \+nccl off is \+gpu no-nccl'
expect "an old option in HEDDLE_OPTIONS" 2 '' 'unknown option \+nccl: \+nccl PATH is \+gpu nccl:PATH now.*HEDDLE_OPTIONS' env "HEDDLE_OPTIONS=+nccl off" "$ring"
expect "+gpus with what it does not know" 2 '' '\+gpus blocks: expected block, cyclic, or numbers' "$ring" +gpus blocks
expect "an unknown option names the nearest" 2 '' 'unknown option \+hlep; the nearest is \+help' "$ring" +hlep
finish
