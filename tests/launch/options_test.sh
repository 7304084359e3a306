#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a program answers +help and its topics instead of running, that +help collectives shows the changes of
# +coll, and that wrong options end the program with an explanation.
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
expect "a row that +coll changes" 0 ' bcast +[0-9]+ +12345 ' '' "$ring" +coll bcast:12345 +help collectives
expect "the other rows stay" 0 ' gather +[0-9]+ +[0-9]+ ' '' "$ring" +coll bcast:12345 +help collectives
expect "+coll with an operation that does not exist" 2 '' '\+coll bcsat:1: expected OPERATION' "$ring" +coll bcsat:1
expect "+coll without a size" 2 '' '\+coll bcast:x: expected OPERATION' "$ring" +coll bcast:x
expect "+gpus with what it does not know" 2 '' '\+gpus blocks: expected block, cyclic, or numbers' "$ring" +gpus blocks
expect "an unknown option names the nearest" 2 '' 'unknown option \+hlep; the nearest is \+help' "$ring" +hlep
finish
