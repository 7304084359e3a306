#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that +ucx takes UCX, with its modules, from the named folder in every known layout, and that a folder without
# UCX or with another library ends the job with an explanation.
#
#   ucx_test.sh MPICC MPIRUN
# What is in single quotes is for the shell that runs it.
# shellcheck disable=SC2016
set -u
mpicc=$1 mpirun=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
ring=$expect_dir/ring
"$mpicc" -o "$ring" "$(dirname "$0")/../../examples/ring/ring.c" || exit 1

run=("$mpirun" --procs 2 -n 2 "$ring" +v)
expect "+v says which UCX connects the processes" 0 '*' '2 processes, connected by UCX 1\.[0-9.]+ \(.*libucp\.so' "${run[@]}"
own=$(dirname "$(realpath "$(sed -n 's/.*connected by UCX.* (\(.*\)),.*/\1/p' "$expect_dir/err" | head -1)")")

# Copies of it: what must not happen is that half of it comes from elsewhere.
for layout in . lib libucx/lib; do
    prefix=$expect_dir/$(tr / _ <<<"copy_$layout")
    mkdir -p "$prefix/$layout"
    cp -L "$own"/libuc[mpst].so.0 "$prefix/$layout"
    if [ -d "$own/ucx" ]; then
        cp -RL "$own/ucx" "$prefix/$layout"
    fi
    # The program prints where its UCX is from: a line of the kernel's for each library.
    expect "UCX of a folder: $layout" 0 '*' "connected by UCX .*$prefix/.*libucp\.so" "${run[@]}" +ucx "$prefix"
    expect "no other UCX is loaded: $layout" 0 "^ *([^ ]*$prefix/[^ ]* )+$" '' \
        env LD_DEBUG_OUTPUT="$prefix/loaded" LD_DEBUG=files sh -c '"$0" "$@" >/dev/null 2>&1
            cat "$LD_DEBUG_OUTPUT".* | sed -n "s/.*calling init: \(.*libuc[mpst]\.so.*\)/\1/p" | sort -u' "${run[@]}" +ucx "$prefix"
done

mkdir "$expect_dir/empty" "$expect_dir/wrong"
echo text >"$expect_dir/wrong/libucp.so.0"
expect "a folder without UCX" 2 '*' "\+ucx $expect_dir/empty: there is no libucp\.so\.0 in this folder, nor in lib" \
    "${run[@]}" +ucx "$expect_dir/empty"
expect "a folder that does not exist" 2 '*' '\+ucx /nowhere: there is no libucp\.so\.0' "${run[@]}" +ucx /nowhere
expect "a folder with half of it" 2 '*' "\+ucx $expect_dir/wrong: .*libucm\.so\.0: cannot open" "${run[@]}" +ucx "$expect_dir/wrong"
cp -L "$own"/libucm.so.0 "$own"/libucs.so.0 "$own"/libuct.so.0 "$expect_dir/wrong"
expect "a file that is no library" 2 '*' "\+ucx $expect_dir/wrong: .*libucp\.so\.0: (invalid ELF header|file too short)" \
    "${run[@]}" +ucx "$expect_dir/wrong"
"$mpicc" -o "$ring.linked" "$(dirname "$0")/../../examples/ring/ring.c" -Wl,--no-as-needed "$own/libucp.so.0" || exit 1
expect "a program with a UCX of its own" 2 '*' '\+ucx .*copy_lib: libuc.*\.so\.0 is in this process already: the program is linked' \
    "$mpirun" --procs 2 -n 2 "$ring.linked" +ucx "$expect_dir/copy_lib"
expect "a job of one process needs none" 0 '*' '*' "$mpirun" -n 2 "$ring" +ucx /nowhere
finish
