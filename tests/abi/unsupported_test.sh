#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows the behaviour of unimplemented functions. Usage: unsupported_test.sh BUILD WORK
set -u
build=$1
source=$(cd "$(dirname "$0")" && pwd)/unsupported.c
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
mkdir -p "$2" && cd "$2" || exit 1
"$build/bin/mpicc" "$source" -o unsupported || exit 1
for ranks in 1 3; do
    expect "through the error handler, $ranks ranks" 0 '' '' "$build/bin/mpirun" -n $ranks ./unsupported
    expect "the default handler ends the job, $ranks ranks" 55 '' \
        'MPI_Comm_spawn: MPI_ERR_UNSUPPORTED_OPERATION: MPI_Comm_spawn is not implemented' \
        "$build/bin/mpirun" -n $ranks ./unsupported fatal
done
finish
