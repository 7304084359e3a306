#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that threads of runtimes (OpenMP, std::thread), libraries and Python call MPI for their rank, and that settings of OpenMP are the
# rank's. Usage: threads_test.sh BUILD WORK
set -u
build=$1 work=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
here=$(cd "$(dirname "$0")" && pwd)/threads
rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1

"$build/bin/mpicc" -g -O1 -Wall -fopenmp "$here/openmp.c" -o openmp || exit 1
"$build/bin/mpicc" -g -O1 -Wall -fopenmp "$here/openmp_settings.c" -o openmp_settings || exit 1
"$build/bin/mpicxx" -g -O1 -Wall -pthread "$here/cxx.cc" -o cxx || exit 1
"$build/bin/mpicxx" -g -O1 -Wall -pthread "$here/cxx_join.cc" -o cxx_join || exit 1
"$build/bin/mpicxx" -g -O1 -Wall -pthread -std=c++20 "$here/waits.cc" -o waits || exit 1
"$build/bin/mpicc" -g -O1 -Wall -pthread "$here/ended_waits.c" -o ended_waits || exit 1
cc -g -O1 -Wall -fPIC -shared -pthread -Wl,-z,lazy "$here/starter.c" -o libstarter.so || exit 1
"$build/bin/mpicc" -g -O1 -Wall "$here/starts.c" -o starts ./libstarter.so || exit 1
cc -g -O1 -Wall -D_GNU_SOURCE -fPIC -shared "$here/refuse.c" -o librefuse.so || exit 1
programs=(./openmp ./openmp_settings ./cxx ./starts)
if command -v gfortran >/dev/null && [ -x "$build/bin/mpifort" ]; then
    "$build/bin/mpifort" -g -O1 -Wall -fopenmp "$here/openmp_sections.f90" -o openmp_sections || exit 1
    programs+=(./openmp_sections)
fi
# LLVM's OpenMP, if it is here.
if HEDDLE_CC=clang "$build/bin/mpicc" -g -O1 -Wall -fopenmp "$here/openmp.c" -o openmp_llvm 2>/dev/null; then
    HEDDLE_CC=clang "$build/bin/mpicc" -g -O1 -Wall -fopenmp "$here/openmp_settings.c" -o openmp_settings_llvm || exit 1
    HEDDLE_CC=clang "$build/bin/mpicc" -g -O1 -Wall -fopenmp "$here/openmp_private.c" -o openmp_private_llvm || exit 1
    programs+=(./openmp_llvm ./openmp_settings_llvm)
fi

# check OPTIONS-OF-MPIRUN... PROGRAM: prints "ok" and nothing else
check() {
    expect "mpirun $*" 0 '^ok $' '' "$build/bin/mpirun" "$@"
}

for program in "${programs[@]}"; do
    for ranks in 1 2 5; do
        check -n $ranks "$program" +p 1
        check -n $ranks "$program" +p 2
    done
    check -n 2 --procs 2 "$program"
    check -n 4 --procs 2 "$program" +p 1
done
check -n 2 ./cxx_join +p 1
for how in condition pthread for any semaphore semaphore_clock barrier mutex recursive checking timed timed_until read read_for \
    read_until write write_for write_until results future join condition_recursive condition_checking c11 c11_timed join_timed \
    join_clock spin atomic std_semaphore_for; do
    check -n 2 ./waits $how +p 1
done
for how in condition semaphore join sleep read poll barrier wait waitpid waitid; do
    check -n 2 ./ended_waits cancel $how +p 1
    check -n 2 ./ended_waits cancel $how +p 2
done
for how in semaphore semaphore_process semaphore_timed sleep poll select; do
    check -n 2 ./ended_waits signal $how +p 1
    check -n 2 ./ended_waits signal $how +p 2
done
# One PE has fewer threads than ranks.
expect "threads run out" 0 '^ok $' "not enough threads for the thread_local variables of PE [01]'s ranks" \
    env LD_PRELOAD=./librefuse.so "$build/bin/mpirun" -n 5 ./cxx +p 2
[ -x openmp_private_llvm ] && check -n 3 ./openmp_private_llvm +p 1
check -n 5 ./openmp +p 2 +private -libgomp # the ranks share the library, not its threads

# Python loads the library after the C library: a process per rank.
for processes in 1 2 4; do
    check -n $processes --procs $processes python3 "$here/python_threads.py" "$build/lib/libmpi_abi.so.1"
done
finish
