#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that programs and libraries open plugins as elsewhere, with one rank and with several. Usage:
#   dlopen_test.sh BUILD WORK PART
set -u
build=$1 work=$2 part=$3
here=$(cd "$(dirname "$0")" && pwd)/dlopen
rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1
code=0

# shared SOURCE LIBRARY OPTIONS...: a shared library
shared() {
    gcc -g -O1 -Wall -D_GNU_SOURCE -fPIC -shared "$here/$1" -o "$2" "${@:3}" || exit 1
}

# program SOURCE PROGRAM OPTIONS...
program() {
    "$build/bin/mpicc" -g -O1 -Wall -D_GNU_SOURCE "$here/$1" -o "$2" "${@:3}" || exit 1
}

# check OPTIONS-OF-MPIRUN... PROGRAM: prints "ok" and nothing else
check() {
    local output
    output=$(timeout 60 "$build/bin/mpirun" "$@" 2>&1)
    local status=$?
    if [ $status != 0 ] || [ "$output" != ok ]; then
        echo "mpirun $*: exit code $status, output:"
        head -20 <<<"$output"
        code=1
    fi
}

# The folders of DT_RUNPATH: the program's, a private library's and a shared library's.
path() {
    mkdir -p a b c d library
    shared path_plugin.c a/plugin_a.so -DANSWER=1
    shared path_plugin.c b/plugin_b.so -DANSWER=2
    shared path_plugin.c c/plugin_c.so -DANSWER=3
    shared path_plugin.c b/plugin_e.so -DANSWER=5
    shared path_plugin.c d/plugin_d.so -DANSWER=4
    shared path_library.c library/libpath.so -Wl,--enable-new-dtags,-rpath,"$work/b"
    program path_program.c path_program library/libpath.so \
        -Wl,--enable-new-dtags,-rpath,"$work/a:$work/library"
    for n in 1 2; do
        check -n "$n" ./path_program
        check -n "$n" ./path_program +private -libpath
    done
}

case $part in
path) path ;;
esac
exit $code
