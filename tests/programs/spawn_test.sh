#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that MPI_Comm_spawn runs other programs in the parent's process, with their own variables, arguments and libraries, that
# their ends and failures are reported with their names, and that what cannot run there is refused with the reason.
# Usage: spawn_test.sh BUILD
set -u
build=$1
here=$(cd "$(dirname "$0")" && pwd)/spawn
# shellcheck source=tools/test_expect.sh
. "$here/../../../tools/test_expect.sh"
unset HEDDLE_OPTIONS
mpirun=$build/bin/mpirun
cd "$expect_dir" || exit 1
mkdir lib other
"$build/bin/mpicc" -shared -fPIC -o lib/libtally.so "$here/tally.c" &&
    "$build/bin/mpicc" -O1 -Wall -o parent "$here/parent.c" -Llib -ltally -Wl,-rpath,"$PWD/lib" &&
    "$build/bin/mpicxx" -O1 -g -Wall -o other/child "$here/child.cc" -Llib -ltally -Wl,-rpath,"\$ORIGIN/../lib" &&
    "$build/bin/mpicc" -O1 -o worker "$here/../../../examples/manager/worker.c" &&
    "$build/bin/mpicc" -O1 -o manager "$here/../../../examples/manager/manager.c" || exit 1
cp other/child other/child2
strip other/child2

expect "two programs in one MPI_COMM_WORLD" 0 '^ok $' '' "$mpirun" -n 1 +p 2 ./parent two other/child other/child2
expect "from three ranks on one PE" 0 '^ok ok ok $' '' "$mpirun" -n 3 +p 1 ./parent two ./other/child other/child
expect "100 spawns" 0 '^ok $' '' "$mpirun" -n 1 ./parent many other/child
expect "MPI_Abort in a child" 7 '*' 'spawn 1, rank 1 of 2 .*MPI_Abort was called with error code 7' "$mpirun" -n 1 ./parent one other/child abort
expect "a crash in a child" 139 '*' 'spawn 1, rank 1 of 2.*Segmentation fault at 0x8 in .*child.cc:' "$mpirun" -n 1 ./parent one other/child crash
expect "a deadlock of children" 1 '*' 'spawn 1, rank 0 of 2.*MPI_Recv' "$mpirun" -n 1 ./parent one other/child stuck
expect "a child's exit code" 9 '*' '*' "$mpirun" -n 1 ./parent one other/child code
expect "manager and worker" 0 '200 workers: 849666 steps' '' "$mpirun" -n 1 ./manager 10000 200 ./worker

echo '#!/bin/sh' >script
chmod +x script
echo 'int main(void) { return 0; }' >plain.c
cc -o plain plain.c
cc -no-pie -o fixed plain.c
cc -static -o static plain.c
refused() {
    expect "$1 is refused" 53 '' "MPI_Comm_spawn: MPI_ERR_SPAWN: .*$2" "$mpirun" -n 1 ./parent refused "$1"
}
refused ./script 'a script'
refused ./plain 'not linked with this MPI library'
refused ./fixed 'not position-independent'
refused ./static 'statically linked|not position-independent'
refused ./missing 'no such program'
finish
