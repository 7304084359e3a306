#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that mpirun accepts valid command lines, runs the right program, and explains errors in invalid ones.
# Usage: mpirun_test.sh MPIRUN CC WORK_DIR. The library is a stand-in: only mpirun is tested.
set -u
mpirun_built=$1
cc=$2
work=$3
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"

# ---- A stand-in installation, and programs of every kind ----
rm -rf "$work"
mkdir -p "$work"/{bin,lib,other,empty,programs,"with blanks"} && cd "$work" || exit 1
work=$PWD
cp "$mpirun_built" bin/mpirun && ln -s mpirun bin/mpiexec
mpirun=$work/bin/mpirun
unset HEDDLE_OPTIONS LD_LIBRARY_PATH

must() {
    "$@" || {
        echo "cannot prepare the test: $*"
        exit 1
    }
}

cat >lib.c <<'END'
#define _GNU_SOURCE
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
/* Reports to mpirun that it has started, as the library does (src/base/launched.h). */
__attribute__((constructor)) static void report(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *name = getenv("HEDDLE_REPORT"), *options = getenv("HEDDLE_OPTIONS");
    const char *ranks = options ? strstr(options, "+vp ") : NULL;
    char text[64];
    if (!name || !ranks)
        return;
    memcpy(to.sun_path + 1, name, strlen(name));
    sendto(socket(AF_UNIX, SOCK_DGRAM, 0), text, (size_t)snprintf(text, sizeof text, "-1 %d", atoi(ranks + 4)), 0,
           (struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name)));
}
int MPI_Init(int *argc, char ***argv) { (void)argc; (void)argv; return 0; }
END
cat >middle.c <<'END'
int MPI_Init(int *argc, char ***argv);
int middle(void) { return MPI_Init(0, 0); }
END
cat >show.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef MPI
int MPI_Init(int *argc, char ***argv);
#endif
#ifdef MIDDLE
int middle(void);
#endif
int main(int argc, char **argv)
{
#ifdef MPI
    MPI_Init(&argc, &argv);
#endif
#ifdef MIDDLE
    middle();
#endif
    const char *options = getenv("HEDDLE_OPTIONS"), *color = getenv("COLOR");
    printf("options=[%s] color=[%s] args=", options ? options : "", color ? color : "");
    for (int i = 1; i < argc; i++)
        printf("<%s>", argv[i]);
    printf(" cwd=%s\n", getcwd((char[4096]){0}, 4096));
    fflush(stdout);
    if (argc > 2 && strcmp(argv[1], "exit") == 0)
        return atoi(argv[2]);
    if (argc > 2 && strcmp(argv[1], "sleep") == 0)
        sleep((unsigned)atoi(argv[2]));
    if (argc > 1 && strcmp(argv[1], "crash") == 0)
        *(volatile int *)1 = 0;
    return 0;
}
END
pic=(-fPIC -shared)
must "$cc" "${pic[@]}" lib.c -o lib/libmpi_abi.so.1 -Wl,-soname,libmpi_abi.so.1
echo 'int MPI_Init(int *argc, char ***argv) { (void)argc; (void)argv; return 0; }' >other.c
must "$cc" "${pic[@]}" other.c -o other/libmpi.so.40 -Wl,-soname,libmpi.so.40
must "$cc" "${pic[@]}" lib.c -o other/libmpi_abi.so.1 -Wl,-soname,libmpi_abi.so.1
must "$cc" "${pic[@]}" middle.c -o lib/libmiddle.so -Wl,--no-as-needed lib/libmpi_abi.so.1 "-Wl,-rpath,$work/lib"
rpath="-Wl,-rpath,$work/lib"
cd programs || exit 1
must "$cc" -fPIE -pie -DMPI ../show.c -o app ../lib/libmpi_abi.so.1 "$rpath"
must "$cc" -fPIE -pie -DMPI ../show.c -o app_no_rpath ../lib/libmpi_abi.so.1
must "$cc" -fPIE -pie -DMPI ../show.c -o app_other_rpath ../lib/libmpi_abi.so.1 "-Wl,-rpath,$work/other"
must "$cc" -fPIE -pie -DMIDDLE ../show.c -o app_through ../lib/libmiddle.so "$rpath"
must "$cc" -fno-pie -no-pie -DMPI ../show.c -o app_fixed ../lib/libmpi_abi.so.1 "$rpath"
must "$cc" -fPIE -pie -DMPI ../show.c -o app_openmpi ../other/libmpi.so.40 "-Wl,-rpath,$work/other"
must "$cc" -fPIE -pie -DMPI ../show.c -o app_two ../lib/libmpi_abi.so.1 -Wl,--no-as-needed ../other/libmpi.so.40 \
    "$rpath:$work/other"
must "$cc" -static -DSTATIC ../show.c -o app_static
must "$cc" -static-pie -fPIE ../show.c -o app_static_pie
must "$cc" -fPIE -pie ../show.c -o plain
must cp app "../with blanks/my app"
printf '#!/bin/sh\nexec "%s/programs/app" from_script "$@"\n' "$work" >script.sh
printf '#!/no/such/interpreter\n' >bad_script.sh
echo "just some text" >text
printf '\177ELF broken' >broken
printf '#!/bin/sh\n' >not_executable.sh
# The header of a program for another CPU (e_machine, two bytes at 18).
cp app foreign && printf '\363\000' | dd of=foreign bs=1 seek=18 conv=notrunc status=none
chmod +x script.sh bad_script.sh text broken foreign
touch empty_file && chmod +x empty_file
PATH=$work/programs:$PATH

# ---- Ranks and options of the library ----
expect "-n gives +vp" 0 'options=\[\+vp 64\].* args= ' '' "$mpirun" -n 64 ./app
for option in -np -c --np --n; do
    expect "$option is -n" 0 'options=\[\+vp 3\]' '' "$mpirun" $option 3 ./app
done
expect "-np=3 as one word" 0 'options=\[\+vp 3\]' '' "$mpirun" -np=3 ./app
expect "mpiexec is the same" 0 'options=\[\+vp 2\]' '' "$work/bin/mpiexec" -n 2 ./app
expect "without -n nothing is said of ranks" 0 'options=\[\]' '' "$mpirun" ./app
expect "+options are handed on" 0 'options=\[\+vp 64 \+p 2 \+stacksize 1M\]' '' "$mpirun" -n 64 +p 2 +stacksize 1M ./app
expect "+option=value" 0 'options=\[\+vp 4 \+p=2\]' '' "$mpirun" +p=2 -n 4 ./app
expect "an option of the library without a value" 0 'options=\[\+vp 2 \+v \+progress-thread\].* args=<x>' '' \
    "$mpirun" -n 2 +v +progress-thread ./app x
expect "+- ends the options" 0 'options=\[\+vp 2\].* args=<\+v>' '' "$mpirun" -n 2 +- ./app +v
expect "+help needs no program" 0 '  \+vp N .*  \+help' '' "$mpirun" +help
expect "+help in front of a program" 0 '  \+vp N .*  \+help' '' "$mpirun" -n 2 +help ./app
expect "+help with a topic is the program's" 0 'options=\[\+vp 2 \+help devices\]' '' "$mpirun" -n 2 +help devices ./app
expect "+help with a topic and no program" 2 '' '\+help devices needs an MPI program: mpirun \+help devices ./program' "$mpirun" +help devices
expect "+vp instead of -n" 0 'options=\[\+vp 8\]' '' "$mpirun" +vp 8 ./app
expect "HEDDLE_OPTIONS of the environment comes first" 0 'options=\[\+p 1 \+vp 4 \+check usage\]' '' \
    env 'HEDDLE_OPTIONS=+p 1' "$mpirun" -n 4 +check usage ./app
expect "arguments stay as they are" 0 'args=<-n><7><a b><><\*>' '' "$mpirun" -n 2 ./app -n 7 'a b' '' '*'
expect "-- ends the options" 0 'args=<x>' '' "$mpirun" -n 2 -- ./app x
expect "a path with blanks" 0 'options=\[\+vp 2\]' '' "$mpirun" -n 2 "../with blanks/my app"
expect "through PATH" 0 'options=\[\+vp 2\]' '' "$mpirun" -n 2 app
expect "the program's exit code" 7 '*' '' "$mpirun" -n 2 ./app exit 7

# ---- Options of other MPIs ----
expect "no-ops" 0 'options=\[\+vp 2\]' '' "$mpirun" --oversubscribe --allow-run-as-root --bind-to core --map-by node \
    --rank-by slot --use-hwthread-cpus -ppn 2 -genvall -n 2 ./app
expect "--mca is said once" 0 'options=\[\+vp 2\]' '^mpirun: --mca btl: ignored: an option of Open MPI $' \
    "$mpirun" --mca btl self --mca pml ob1 -n 2 ./app
expect "options that only print" 0 'options=\[\+vp 2\]' '^mpirun: --report-bindings: ignored: [^:]* mpirun: --prefix /x: ignored: [^:]* $' \
    "$mpirun" --report-bindings --report-bindings --prefix /x -n 2 ./app
for option in -N -npernode --npernode -ppn -perhost; do
    expect "$option sets the number of ranks on one node" 0 'options=\[\+vp 2\]' '' "$mpirun" $option 2 ./app
done
expect "-pernode" 0 'options=\[\+vp 1\]' '' "$mpirun" -pernode ./app
expect "-N above -n" 0 'options=\[\+vp 2\]' '' "$mpirun" -n 2 -N 4 ./app
expect "--map-by ppr:N:node" 0 'options=\[\+vp 3\]' '' "$mpirun" --map-by ppr:3:node:OVERSUBSCRIBE ./app
expect "no MPI: -N copies" 0 '^([^ ]+ ){2}$' '' "$mpirun" -N 2 hostname
expect "more words of placements" 0 'options=\[\+vp 2\]' '' "$mpirun" --map-by L3cache:PE=1,oversubscribe --rank-by fill \
    --bind-to core:overload-allowed --bind-to none -n 2 ./app
for words in "--map-by :OVERSUBSCRIBE" "--map-by :PE=1,span" "--rank-by :span" "--bind-to :overload-allowed"; do
    # shellcheck disable=SC2086 # two words
    expect "only modifiers: $words" 0 'options=\[\+vp 2\]' '' "$mpirun" $words -n 2 ./app
done
expect "-genvlist" 0 'color=\[red\]' '^mpirun: -genvlist NO_SUCH: no such' env COLOR=red "$mpirun" -genvlist COLOR,NO_SUCH -n 2 ./app
expect "-initial-errhandler" 0 '^mpi_errors_return $' '*' "$mpirun" -initial-errhandler mpi_errors_return -n 1 printenv HEDDLE_INITIAL_ERRHANDLER
expect "-memory-alloc-kinds" 0 '^system,cuda $' '*' "$mpirun" -memory-alloc-kinds system,cuda -n 1 printenv HEDDLE_MEMORY_ALLOC_KINDS
expect "-q: not even once" 0 'options' '' "$mpirun" -q --mca btl self -n 2 ./app
expect "-x VAR=VALUE" 0 'color=\[light blue\]' '' "$mpirun" -x 'COLOR=light blue' -n 2 ./app
expect "-x VAR" 0 'color=\[red\]' '' env COLOR=red "$mpirun" -x COLOR -n 2 ./app
expect "-x of a variable that is not set" 0 'color=\[\]' 'no such environment variable' "$mpirun" -x COLOR -n 2 ./app
expect "-genv VAR VALUE" 0 'color=\[red\]' '' "$mpirun" -genv COLOR red -n 2 ./app
expect "-env VAR=VALUE" 0 'color=\[red\]' '' "$mpirun" -env COLOR=red -n 2 ./app
expect "-wd" 0 "cwd=$work/empty " '' "$mpirun" -wd "$work/empty" -n 2 "$work/programs/app"
expect "the program is looked for in -wd" 0 "cwd=$work/programs " '' sh -c "cd / && '$mpirun' -wd '$work/programs' ./app"
expect "-v says what is run" 0 'options' "^mpirun: HEDDLE_OPTIONS='\\+vp 2' ./app x $" "$mpirun" -v -n 2 ./app x
expect "--procs 1" 0 'options=\[\+vp 2\]' '' "$mpirun" --procs 1 -n 2 ./app
expect "--version" 0 'Heddle.*[0-9]+\.[0-9]+' '' "$mpirun" --version
expect "--help" 0 '-n, -np N .*--mca KEY VALUE' '' "$mpirun" --help
expect "--timeout that does not run out" 5 'options=\[\+vp 2\]' '' "$mpirun" --timeout 500 -n 2 ./app exit 5
expect "--timeout that does" 124 '*' 'longer than 0.5 s' "$mpirun" --timeout 0.5 -n 2 ./app sleep 50

# ---- What is run once, and what once per rank ----
expect "a script" 0 'options=\[\+vp 4\].* args=<from_script><x> cwd=[^=]* $' '' "$mpirun" -n 4 ./script.sh x
expect "a shell" 0 'options=\[\+vp 4\].* args=<y> cwd=[^=]* $' '' "$mpirun" -n 4 sh -c './app y'
expect "a program that starts ours" 0 'options=\[\+vp 4\] color=\[1\] args= cwd=[^=]* $' '' "$mpirun" -n 4 env COLOR=1 ./app
expect "the library only through another one" 0 'options=\[\+vp 4\].* args= cwd=[^=]* $' '' "$mpirun" -n 4 ./app_through
expect "no MPI: once per rank" 0 '^(options=\[\] color=\[\] args= cwd=[^=]* ){3}$' '' \
    sh -c "'$mpirun' -n 3 ./plain | sed 's/+vp 3//'"
expect "no MPI: the first failure's code" 9 '*' '' "$mpirun" -n 3 ./plain exit 9
expect "no MPI: a crash" 139 '*' 'plain was ended by signal 11' "$mpirun" -n 2 ./plain crash
expect "no MPI: hostname" 0 '^([^ ]+ ){2}$' '' "$mpirun" -n 2 hostname
expect "no MPI: time runs out for all" 124 '*' 'longer than 0.5 s' "$mpirun" --timeout 0.5 -n 3 ./plain sleep 50
expect "-v says that there are copies" 0 '*' '3 copies of ./plain x' "$mpirun" -v -n 3 ./plain x
expect "a signal to mpirun reaches the copies" 143 '*' 'ended by signal 15' \
    sh -c "'$mpirun' -n 2 ./plain sleep 50 & until [ \$(wc -w </proc/\$!/task/\$!/children) = 2 ]; do sleep 0.05; done; kill \$!; wait \$!"

# ---- The right library ----
expect "a program without RUNPATH gets our library" 0 'options=\[\+vp 2\]' "LD_LIBRARY_PATH=$work/lib " \
    "$mpirun" -v -n 2 ./app_no_rpath
expect "a program linked with the same ABI elsewhere too" 0 'options=\[\+vp 2\]' "LD_LIBRARY_PATH=$work/lib " \
    "$mpirun" -v -n 2 ./app_other_rpath
expect "LD_LIBRARY_PATH with another one" 0 'options=\[\+vp 2\]' "LD_LIBRARY_PATH=$work/lib:$work/other " \
    env "LD_LIBRARY_PATH=$work/other" "$mpirun" -v -n 2 ./app

# ---- Bad input ----
expect "nothing at all" 2 '' 'no program to run' "$mpirun"
expect "no program" 2 '' 'no program to run' "$mpirun" -n 4
expect "an empty program" 2 '' 'no program to run' "$mpirun" -n 4 ''
expect "-n 0" 2 '' '-n 0: must be at least 1' "$mpirun" -n 0 ./app
expect "-n abc" 2 '' '-n abc: expected a positive whole number' "$mpirun" -n abc ./app
expect "-n 4x" 2 '' '-n 4x: expected a positive whole number' "$mpirun" -n 4x ./app
expect "-n -3" 2 '' '-n -3: expected a positive whole number' "$mpirun" -n -3 ./app
expect "-n ''" 2 '' '-n : expected a positive whole number' "$mpirun" -n '' ./app
expect "-n above the limit" 2 '' '-n 1000001: too large \(at most 1000000\)' "$mpirun" -n 1000001 ./app
expect "-n too large" 2 '' '-n 99999999999999999999: too large' "$mpirun" -n 99999999999999999999 ./app
expect "-n ./app" 2 '' '-n ./app: expected a positive whole number' "$mpirun" -n ./app
expect "-n twice" 2 '' 'already given' "$mpirun" -n 2 -np 3 ./app
expect "-n and +vp" 2 '' '-n 2 and \+vp' "$mpirun" -n 2 +vp 3 ./app
expect "-n and +vp=" 2 '' '-n 2 and \+vp' "$mpirun" -n 2 +vp=3 ./app
expect "-n at the end" 2 '' '-n: its value is missing' "$mpirun" -n
expect "-genv with one word" 2 '' '-genv: its value is missing' "$mpirun" -genv A
expect "a misspelt option of the library" 2 '' 'unknown option \+progess-thread; the nearest is \+progress-thread' \
    "$mpirun" +progess-thread ./app
expect "an option unlike any other" 2 '' 'unknown option --get-stack-traces \(mpirun --help' "$mpirun" --get-stack-traces ./app
expect "a letter that is no option" 2 '' 'unknown option -z \(mpirun --help' "$mpirun" -z ./app
expect "+p 0" 2 '' '\+p 0: expected a number from 1 to 1024' "$mpirun" +p 0 ./app
expect "+p at the end" 2 '' '\+p needs a value: \+p N' "$mpirun" +p
expect "-N too few for -n" 2 '' '4 ranks with 2 on each node need 2 nodes, but the job has 1' "$mpirun" -n 4 -N 2 ./app
expect "-N too few for +vp" 2 '' '5 ranks with 2 on each node need 3 nodes' "$mpirun" +vp 5 -ppn 2 ./app
expect "-N twice" 2 '' '-ppn: the number of ranks per node was already given' "$mpirun" -N 2 -ppn 2 ./app
expect "-N 0" 2 '' '-N 0: must be at least 1' "$mpirun" -N 0 ./app
for words in "--map-by rubbish" "--map-by node:rubbish" "--map-by ppr:2:socket" "--map-by ppr:0:node" "--map-by none" "--map-by core:PE=" "--map-by :" "--map-by :rubbish" \
    "--rank-by rubbish" "--bind-to rubbish" "--bind-to node"; do
    # shellcheck disable=SC2086 # two words
    expect "$words" 2 '' "^mpirun: $words: expected core" "$mpirun" $words -n 2 ./app
done
for words in "--map-by slot:PE=2" "--map-by ppr:2:node:span,pe=4" "--bind-to core:PE=2"; do
    # shellcheck disable=SC2086 # two words
    expect "$words" 2 '' "^mpirun: $words: ranks have no cores of their own, .* with \\+p N" "$mpirun" $words -n 2 ./app
done
expect "--bind-to without a word" 2 '' "--bind-to : expected core" "$mpirun" --bind-to '' -n 2 ./app
expect "--output to a file" 2 '' '--output filename=x: expected tag' "$mpirun" --output filename=x -n 2 ./app
expect "--procs twice" 2 '' '--procs 3: the number of processes was already given' "$mpirun" --procs 2 --procs 3 -n 4 ./app
expect "a misspelt option" 2 '' 'unknown option --oversubcribe; the nearest is --oversubscribe' \
    "$mpirun" --oversubcribe -n 2 ./app
expect "swapped letters" 2 '' 'unknown option -pn; the nearest is -n' "$mpirun" -pn 2 ./app
expect "a misspelt option with a value" 2 '' 'unknown option --timout=3; the nearest is --timeout' \
    "$mpirun" --timout=3 ./app
expect "a very long option" 2 '' 'unknown option' "$mpirun" "--$(head -c 5000 /dev/zero | tr '\0' x)" ./app
expect "a value for an option without" 2 '' 'takes no value' "$mpirun" --quiet=1 ./app
expect "--timeout abc" 2 '' '--timeout abc: not a time' "$mpirun" --timeout abc ./app
expect "--timeout 0" 2 '' '--timeout 0: not a time' "$mpirun" --timeout 0 ./app
expect "--procs without its executable" 1 '' '(--procs needs PMIx|--procs needs mpirun-procs)' "$mpirun" --procs 2 -n 4 ./app
expect "--procs above -n" 2 '' '--procs 5: each process needs at least one rank, but -n is 4' "$mpirun" --procs 5 -n 4 ./app
expect "several programs" 1 '' '(--procs needs PMIx|--procs needs mpirun-procs)' "$mpirun" -n 2 ./app : -n 2 ./app
expect "-wd of no folder" 2 '' '/no/such/folder: No such file' "$mpirun" -wd /no/such/folder -n 4 ./app
expect "-x of nothing" 2 '' "-x '': not a valid name" "$mpirun" -x '' -n 2 ./app
expect "-genvlist with a value" 2 '' '-genvlist A=1: not a valid name' "$mpirun" -genvlist A=1 -n 2 ./app
expect "-x of no name" 2 '' 'not a valid name' "$mpirun" -x =3 ./app
expect "an option of the library with blanks" 2 '' 'cannot contain blanks' "$mpirun" +private 'a b' ./app

expect "no such program in PATH" 127 '' 'no_such_program: no such program in PATH' "$mpirun" -n 2 no_such_program
expect "no such file" 127 '' './none: no such file' "$mpirun" -n 2 ./none
expect "no such file in the folder of -wd" 127 '' "./app: no such file in $work/empty: with -wd" "$mpirun" -wd "$work/empty" -n 2 ./app
expect "no such file, -wd does not matter" 127 '' "/none: no such file \$" "$mpirun" -wd "$work/empty" -n 2 /none
expect "./ forgotten" 127 '' 'use ./app' env PATH=/usr/bin:/bin "$mpirun" -n 2 app
expect "a folder" 126 '' 'is a folder' "$mpirun" -n 2 ../empty
expect "a device" 126 '' '/dev/null: not an executable file' "$mpirun" -n 2 /dev/null
expect "not executable" 126 '' 'not_executable.sh: permission denied.*chmod' "$mpirun" -n 2 ./not_executable.sh
expect "not executable, in PATH" 126 '' 'permission denied' "$mpirun" -n 2 not_executable.sh
expect "text" 126 '' 'neither a program nor a script' "$mpirun" -n 2 ./text
expect "an empty file" 126 '' 'neither a program nor a script' "$mpirun" -n 2 ./empty_file
expect "a damaged program" 126 '' 'neither a program nor a script' "$mpirun" -n 2 ./broken
expect "another CPU" 126 '' 'another kind of CPU' "$mpirun" -n 2 ./foreign
expect "a library" 126 '' 'a shared library' "$mpirun" -n 2 ../lib/libmiddle.so
expect "a script without its interpreter" 126 '' 'interpreter.* does not exist' "$mpirun" -n 2 ./bad_script.sh
expect "statically linked" 126 '' 'app_static cannot be virtualized: it is statically linked.*Recompile with this mpicc' \
    "$mpirun" -n 2 ./app_static
expect "static PIE" 126 '' 'statically linked' "$mpirun" -n 2 ./app_static_pie
expect "not position-independent" 126 '' 'app_fixed cannot be virtualized: it is not position-independent.*Recompile' \
    "$mpirun" -n 2 ./app_fixed
expect "one rank needs no copy" 0 'options=\[\+vp 1\]' '' "$mpirun" -n 1 ./app_fixed
expect "another MPI" 126 '' 'app_openmpi is linked with another MPI \(libmpi.so.40\)' "$mpirun" -n 2 ./app_openmpi
expect "another MPI behind env" 126 '' 'app_openmpi is linked with another MPI \(libmpi.so.40\)' \
    "$mpirun" -n 2 env COLOR=1 ./app_openmpi
printf '#!/bin/sh\nexec ./app_openmpi\n' >openmpi.sh && chmod +x openmpi.sh
expect "another MPI in a script" 1 'args=' 'openmpi.sh ended, but the 2 requested ranks never started' "$mpirun" -n 2 ./openmpi.sh
expect "another MPI in a script, one rank" 0 'args=' '' "$mpirun" -n 1 ./openmpi.sh
expect "two MPIs" 126 '' 'app_two is linked with two MPIs' "$mpirun" -n 2 ./app_two
finish
