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
    expect "$1 is refused" 53 '' "MPI_Comm_spawn: MPI_ERR_SPAWN: .*$2" "$mpirun" -n 1 "${@:3}" "$1"
}
refused ./script 'a script' ./parent refused
refused ./plain 'not linked with this MPI library' ./parent refused
refused ./fixed 'not position-independent' ./parent refused
refused ./static 'statically linked|not position-independent' ./parent refused
refused ./missing 'no such program' ./parent refused

mkdir one two new late.d
compile() { "$build/bin/mpicc" -O1 -fPIC "$@"; }
compile -shared -DVERSION=1 -Wl,-soname,libver.so -o one/libver.so "$here/steps.c" &&
    compile -shared -DVERSION=2 -Wl,-soname,libver.so -o two/libver.so "$here/steps.c" &&
    compile -shared -DVERSION=3 -Wl,-soname,libasan.so.9 -o one/libasan.so.9 "$here/steps.c" &&
    compile -shared -DVERSION=4 -Wl,-soname,liblate.so -o new/liblate.so "$here/steps.c" &&
    compile -o steps "$here/steps.c" -Lone -lver -Wl,-rpath,"\$ORIGIN/one" &&
    cp steps steps2 && cp steps other/steps3 && ln -s ../one other/one && cp one/libver.so one/libplug.so && cp one/libver.so libopened.so &&
    compile -o other/version2 "$here/steps.c" -Ltwo -lver -Wl,-rpath,"\$ORIGIN/../two" &&
    compile -o sanitized "$here/steps.c" -Lone -l:libasan.so.9 -Wl,-rpath,"\$ORIGIN/one" &&
    compile -o late "$here/steps.c" -Lnew -llate -Wl,-rpath,"\$ORIGIN/late.d" &&
    compile -DBIG=9437184000 -o big "$here/steps.c" -Lone -lver -Wl,-rpath,"\$ORIGIN/one" &&
    compile -DFIRST -o first "$here/steps.c" -Lone -lver -Wl,-rpath,"\$ORIGIN/one" &&
    compile -shared -o one/libmain.so "$here/steps.c" && echo >empty.c &&
    compile -o inlib empty.c -Lone -Wl,--no-as-needed -lmain -lver -Wl,-rpath,"\$ORIGIN/one" || exit 1
steps() {
    expect "$1" 0 "$2" '' "$mpirun" -n 1 "${@:3}"
}
steps "a library is opened after a spawn" 'version 1, plug 0 spawned opened $' ./steps ./steps2 @./libopened.so
steps "a second program, when a descriptor's number is used again" 'spawned .*version 1.*spawned $' ./steps '<' ./steps2 '>' ./first
steps "main in a library" 'version 1, plug 0 spawned $' ./steps ./inlib
PLUG=libplug.so steps "a child opens a library of its folder" 'version 1, plug 1 spawned $' ./steps ./steps2
refused other/version2 'it needs .*two/libver.so, but gets .*one/libver.so' ./steps
refused ./sanitized 'built with a sanitizer .libasan.so.9.' ./steps
steps "a missing library is found once it is there" "MPI_ERR_SPAWN.*command: 0 version 4, plug 0 spawned" ./steps '?' ./late '!mv new/liblate.so late.d' ./late
steps "a program in the rank's PATH" 'version 1, plug 0 spawned' ./steps "PATH=$PWD/other:$PATH" steps3
steps "a program of --one-process that is not the first spawns" 'version 1, plug 0 spawned' --one-process ./first : -n 1 ./steps ./steps2
refused ./big '/big takes 9000 MiB, and less is left' ./steps
finish
