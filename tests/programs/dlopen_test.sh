#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that programs and libraries open plugins as in an ordinary process, with one rank and with several. Usage:
#   dlopen_test.sh BUILD WORK PART
set -u
build=$1 work=$2 part=$3
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
here=$(cd "$(dirname "$0")" && pwd)/dlopen
rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1

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
    expect "mpirun $*" 0 '^ok $' '' "$build/bin/mpirun" "$@"
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
    # Two libraries of one name, which plugins of two folders need.
    for n in 0 1; do
        mkdir -p same$n
        shared path_plugin.c same$n/libsame.so -DANSWER=$n -Wl,-soname,libsame.so
        # shellcheck disable=SC2016 # ld.so expands it
        shared path_library.c same$n/plugin.so -Wl,--no-as-needed same$n/libsame.so -Wl,-rpath,'$ORIGIN'
    done
    program same_program.c same_program
    expect "one name in each rank" 0 '^ok $' 'same1/plugin.so needs [^ ]*same1/libsame.so, but gets [^ ]*same0/libsame.so' \
        "$build/bin/mpirun" -n 2 ./same_program
    expect "one name in each process" 0 '^ok $' '' "$build/bin/mpirun" --procs 2 -n 2 ./same_program
}

# Plugins with variables, C++ objects and libraries of their own.
plugins() {
    local name
    shared plugin_helper.c libhelper.so
    for name in one two; do
        "$build/bin/mpicxx" -g -O1 -Wall -fPIC -shared "$here/plugin.cc" -o "plugin_$name.so" "-DNAME=\"plugin_$name\"" \
            ./libhelper.so -Wl,-rpath,"$work" || exit 1
    done
    shared path_plugin.c plugin_global.so -DANSWER=1
    shared plugin_unbound.c plugin_unbound.so
    "$build/bin/mpicxx" -g -O1 -Wall "$here/plugin_program.cc" -o plugin_program -rdynamic \
        -Wl,--enable-new-dtags,-rpath,"$work" || exit 1
    shared plugin_large.c plugin_large.so
    program large_program.c large_program
    program large_program.c spawning_program -DSPAWNS
    check -n 2 ./large_program
    check -n 2 ./spawning_program
    expect "address space for stacks only" 0 '^\./plugin_large.so: no copy for this rank: .* takes 1200 MiB, and less is left .*smaller stacks' '*' \
        "$build/bin/mpirun" -n 44 ./large_program +stacksize 1023G
    check -n 1 ./plugin_program
    check -n 2 ./plugin_program +p 1
    check -n 2 ./plugin_program +p 2
    check -n 5 ./plugin_program +p 2
    check -n 64 ./plugin_program +p 2
}

# Names that several plugins or libraries define.
scope() {
    for n in 1 2 3 4; do
        g++ -g -O1 -Wall -fPIC -shared "$here/scope_plugin.cc" -o "scope_$n.so" "-DNUMBER=$n" || exit 1
    done
    g++ -g -O1 -Wall -fPIC -shared "$here/scope_plugin.cc" -o scope_hook.so -DHOOK -DNUMBER=7 || exit 1
    # The wrapper needs a library with the name, too, which is after the program's second one in the order of look-up.
    shared scope_library.c liblast.so -DNUMBER=3 -DFUNCTION=last_answer
    shared scope_library.c libwrapper.so -DNEXT -DNUMBER=100 -DFUNCTION=wrapper_answer -L. -Wl,--no-as-needed -llast
    shared scope_library.c libsecond.so -DNUMBER=20 -DFUNCTION=second_answer
    program scope_program.c scope_program -rdynamic -L. \
        -Wl,--no-as-needed,--disable-new-dtags,-rpath,"$work" -lwrapper -lsecond
    check -n 1 ./scope_program
    check -n 2 ./scope_program
    check -n 4 ./scope_program +p 2
}

# A preloaded library that wraps a function of a rank's library.
wrapper() {
    shared wrapper_library.c libcounter.so
    shared wrapper_library.c libwrapper.so -DWRAPPER
    program wrapper_program.c wrapper_program ./libcounter.so
    for n in 1 3; do
        LD_PRELOAD=$work/libwrapper.so check -n $n ./wrapper_program
    done
}

# What the ranks have to share is opened all the same, and said once.
fixed() {
    shared plugin_fixed.c plugin_fixed.so -ftls-model=initial-exec
    program fixed_program.c fixed_program -Wl,--enable-new-dtags,-rpath,"$work"
    expect "a plugin that cannot be copied" 0 '*' '*' "$build/bin/mpirun" -n 3 ./fixed_program
    cat "$expect_dir/out" "$expect_dir/err" >fixed.log
    expect "it is opened" 0 opened '' grep -x opened fixed.log
    expect "one line says so" 0 '^1 $' '' grep -c 'the ranks share the variables of .*plugin_fixed.so.*fixed offsets' fixed.log
}

# Children that open libraries, forked while ranks on another PE do so.
children() {
    program fork_program.c fork_program
    for library in libm.so.6 libanl.so.1; do # the ranks have the first one already
        expect "children open $library" 0 '^all is well $' '' "$build/bin/mpirun" -n 4 ./fork_program "$library" 50 +p 2
    done
}

# A plugin with code on the stack, in a program that has none: ranks' stacks become executable, those that were used before, too.
stack() {
    shared stack_plugin.c stack_plugin.so
    program stack_program.c stack_program
    expect "the plugin needs it" 0 'GNU_STACK .* RWE ' '' readelf -lW stack_plugin.so
    expect "the program does not" 0 'GNU_STACK .* RW  ' '' readelf -lW stack_program
    check -n 1 ./stack_program ./stack_plugin.so
    check -n 4 ./stack_program ./stack_plugin.so +p 2
    check --procs 2 -n 4 ./stack_program ./stack_plugin.so
}

# A Python interpreter in each rank, with extension modules.
python() {
    local flags
    flags=$(python3-config --includes --ldflags --embed 2>/dev/null | tr '\n' ' ') && echo '#include <Python.h>' >probe.c &&
        eval gcc -fsyntax-only probe.c "$flags" 2>/dev/null || exit 77
    eval program embed_python.c embed_python "$flags"
    for n in 1 4 16; do
        check -n "$n" ./embed_python +p 2
    done
}

case $part in
path) path ;;
plugins) plugins ;;
python) python ;;
fixed) fixed ;;
scope) scope ;;
wrapper) wrapper ;;
children) children ;;
stack) stack ;;
esac
finish
