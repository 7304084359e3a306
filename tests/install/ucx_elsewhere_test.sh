#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that UCX may be outside the system's folders (a build with CUDA, for example): its libraries are then not
# treated as the program's own, which are copied to each rank.
# Usage: ucx_elsewhere_test.sh BUILD_DIR WORK_DIR
set -u
build=$1
work=$2
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
machine=$build/lib/heddle/machine_ucx.so
if [ ! -e "$machine" ]; then
    echo "skipped: built without UCX"
    exit 77
fi
ucp=$(ldd "$machine" | awk '$1 ~ /^libucp[.]so/ { print $3 }')
rm -rf "$work"
mkdir -p "$work/lib" && cd "$work" || exit 1
cp -L "${ucp%/*}"/libuc[pstm].so.0 lib/ || exit 1
cp -rL "${ucp%/*}/ucx" lib/ || exit 1
expect "mpicc" 0 '' '' "$build/bin/mpicc" "$here/../wrappers/hello.c" -o hello
expect "UCX is found there" 0 "libucp[^ ]* => $PWD/lib" '' env "LD_LIBRARY_PATH=$PWD/lib" ldd "$machine"
expect "several ranks in two processes" 0 '^hello from 5 ranks $' '' env "LD_LIBRARY_PATH=$PWD/lib" \
    "$build/bin/mpirun" --procs 2 -n 5 ./hello 5
finish
