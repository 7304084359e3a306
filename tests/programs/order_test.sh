#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that constructors of a rank's libraries run in the order of an ordinary process: dependencies first, in the order of
# DT_NEEDED, which may name a symbolic link. Usage:
#   order_test.sh BUILD WORK
set -u
build=$1 work=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
here=$(cd "$(dirname "$0")" && pwd)/order
rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1

# library LETTER FILE OPTIONS...
library() {
    gcc -fPIC -shared "$here/library.c" "-DLETTER='$1'" -o "$2" -Wl,--allow-shlib-undefined,--no-as-needed "${@:3}" -L. -ltrace || exit 1
}

gcc -fPIC -shared "$here/library.c" -DTRACE -o libtrace.so -Wl,-soname,libtrace.so || exit 1
library y liby.so # without DT_SONAME: libraries name the file
library x libx.so -L. -ly
library y liby.so.7 -Wl,-soname,liby.so.7
ln -sf liby.so.7 liby.so
library w libw.so -L. -lx
library a liba.so -Wl,-soname,liba.so
library b libb.so -Wl,-soname,libb.so
library c libc_.so -Wl,-soname,libc_.so -lb -la
path=-Wl,--allow-shlib-undefined,--no-as-needed,--disable-new-dtags,-rpath,$work
"$build/bin/mpicc" "$here/program.c" -o link "$path" -L. -lx -ly -lw -ltrace || exit 1
"$build/bin/mpicc" "$here/program.c" -o order "$path" -L. -la -lb -lc_ -ltrace || exit 1
for options in '-n 1' '-n 2'; do
    # shellcheck disable=SC2086
    expect "a dependency by a link's name, $options" 0 '^(yxw )+$' '' "$build/bin/mpirun" $options ./link
    # shellcheck disable=SC2086
    expect "dependencies in their order, $options" 0 '^(bac )+$' '' "$build/bin/mpirun" $options ./order
done
finish
