#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a program becomes the requested ranks by whichever way it gets MPI, or fails with a message. Usage:
#   indirect_test.sh BUILD WORK
set -u
build=$1 work=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
here=$(cd "$(dirname "$0")" && pwd)/indirect
mpicc=$build/bin/mpicc mpirun=$build/bin/mpirun
rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1
unset HEDDLE_OPTIONS LD_PRELOAD
flags=(-g -O1 -Wall -D_GNU_SOURCE)
plain=(-L. -luser "-Wl,-rpath,$work:$build/lib" -pthread)

"$mpicc" "${flags[@]}" -fPIC -shared "$here/library.c" -o libuser.so || exit 1
"$mpicc" "${flags[@]}" -fPIC -shared "$here/tool.c" -o libtool.so || exit 1
gcc "${flags[@]}" "$here/user.c" -o user "${plain[@]}" || exit 1
gcc "${flags[@]}" -Wl,-z,lazy,-z,norelro "$here/user.c" -o user_lazy "${plain[@]}" || exit 1
g++ "${flags[@]}" "$here/thrower.cc" -o thrower "${plain[@]}" || exit 1
gcc "${flags[@]}" "$here/host.c" -o host || exit 1
# The C library is named before MPI.
gcc "${flags[@]}" "$here/user.c" "$here/library.c" -I"$build/include" -I"$here/../../../include" -o c_first -lc -L"$build/lib" -lmpi_abi \
    "-Wl,-rpath,$build/lib" -pthread || exit 1
expect "the C library comes first" 0 'libc.so.6.*libmpi_abi' '' sh -c 'readelf -d c_first | grep NEEDED'

line() { # RANKS: the output of user
    printf '^(1 arguments, sum %d, counter 2, HOME /nowhere ){%d}$' $(($1 * ($1 - 1) / 2)) "$1"
}
export HOME=/nowhere
for program in user user_lazy c_first; do
    expect "$program alone" 0 "$(line 1)" '' ./$program
    expect "$program, 1 rank" 0 "$(line 1)" '' "$mpirun" -n 1 ./$program +p 1
    expect "$program, 4 ranks" 0 "$(line 4)" '' "$mpirun" -n 4 ./$program +p 2
    expect "$program, 4 ranks without mpirun" 0 "$(line 4)" '' ./$program +vp 4 +p 1
    expect "$program, processes" 0 "$(line 6)" '' "$mpirun" --procs 2 -n 6 ./$program
    expect "$program, a process for each rank" 0 "$(line 2)" '' "$mpirun" --procs 2 -n 2 ./$program
done
expect "exceptions and threads" 0 '^(sum 6, caught 2 ){4}$' '' "$mpirun" -n 4 ./thrower +p 2

# A preloaded tool: it is in mpirun and in shells as well, which are no ranks.
preloaded=(env "LD_PRELOAD=$work/libtool.so" "$mpirun")
expect "a tool" 0 '^((tool: rank [0-3]|1 arguments, sum 6, counter 2, HOME /nowhere) ){8}$' '' "${preloaded[@]}" -n 4 ./user +p 2
expect "a tool and a shell" 0 '^((tool: rank [0-3]|1 arguments, sum 6, counter 2, HOME /nowhere) ){8}$' '' \
    "${preloaded[@]}" -n 4 sh -c ./user
expect "a tool and a shell without MPI" 1 '^hello $' '4 requested ranks never started' "${preloaded[@]}" -n 4 sh -c 'echo hello'
expect "a tool and a host" 1 '' 'cannot run 4 ranks in this process' "${preloaded[@]}" -n 4 ./host
expect "a tool and a host of one rank" 0 '^tool: rank 0 one rank $' '' "${preloaded[@]}" -n 1 ./host
expect "a host" 1 '' 'cannot run 4 ranks in this process' "$mpirun" -n 4 ./host
expect "a host of one rank" 0 '^one rank $' '' "$mpirun" -n 1 ./host
expect "a host and processes" 0 '^one rank one rank $' '' "$mpirun" --procs 2 -n 2 ./host
expect "a host and more ranks than processes" 1 '' 'cannot run 2 ranks in this process' "$mpirun" --procs 2 -n 4 ./host
finish
