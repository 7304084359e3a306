#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that programs with names of older standards, and with those of extensions of other MPIs, compile without
# warnings in C and C++ of several years, that the functions which MPI 3.0 removed give a warning that names their
# successors, and that HEDDLE_NO_MPI_COMPAT leaves only the standard ABI. HAS_CUDA is 1 if the library was built with
# CUDA, else 0. Usage: names_test.sh BUILD WORK HAS_CUDA
set -u
build=$1
source=$(cd "$(dirname "$0")" && pwd)/names.c
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
mkdir -p "$2" && cd "$2" || exit 1
strict="-Wall -Wextra -pedantic -Werror"
for std in c99 c11 gnu17; do
    # shellcheck disable=SC2086
    expect "$std" 0 '' '' "$build/bin/mpicc" -std=$std $strict "$source" -o names_$std
done
for std in c++11 gnu++17; do
    # shellcheck disable=SC2086
    expect "$std" 0 '' '' "$build/bin/mpicxx" -x c++ -std=$std $strict "$source" -o names_cxx
done
expect 'runs' 0 'struct_integer' '' "$build/bin/mpirun" -n 3 ./names_c11
expect 'runs, C++' 0 'struct_integer' '' "$build/bin/mpirun" -n 3 ./names_cxx

# What programs with device buffers ask, with either header, and with the standard ABI alone.
query=$(dirname "$source")/gpu_query.c
for options in '' -DWITH_MPI_EXT '-DWITH_MPI_EXT -DHEDDLE_NO_MPI_COMPAT'; do
    # shellcheck disable=SC2086
    expect "GPU queries $options" 0 '' '' "$build/bin/mpicc" -std=c99 $strict $options "$query" -o gpu_query
    # shellcheck disable=SC2086
    expect "GPU queries in C++ $options" 0 '' '' "$build/bin/mpicxx" -x c++ -std=c++11 $strict $options "$query" -o gpu_query
    expect "are answered as the library was built $options" 0 "^(CUDA $3 $3 ){2}\$" '' "$build/bin/mpirun" -n 2 ./gpu_query
done
expect 'the standard ABI has none of them' 1 '' 'not CUDA-aware' "$build/bin/mpicc" -DHEDDLE_NO_MPI_COMPAT -c "$query"

# How autoconf and CMake look for a function.
for name in MPIX_Query_cuda_support MPIX_GPU_query_support MPIX_Stream_comm_create MPIX_Send_enqueue MPIX_Stream_irecv MPIX_Start_progress_thread; do
    printf 'char %s(void);\nint main(void) { return %s(); }\n' $name $name >function.c
    expect "a symbol for configure: $name" 0 '' '' "$build/bin/mpicc" -w function.c -o function
done
printf '#include <mpi.h>\ntypedef int MPIX_Prequest;\nvoid MPIX_Send_enqueue(MPIX_Prequest p);\n' >own.c
expect "names of another library's MPIX_ functions" 0 '' '' "$build/bin/mpicc" -DHEDDLE_NO_MPIX -c own.c
# A library with functions of these names, as MPI-ACX: all ranks call it, not this library's.
printf '#include <mpi.h>\nint MPIX_Send_enqueue(int n);\nint MPIX_Send_enqueue(int n) { return n + 40; }\n' >library.c
printf '#include <mpi.h>\n#include <stdio.h>\nint MPIX_Send_enqueue(int n);\nint main(void) { MPI_Init(0, 0); printf("%%d ", MPIX_Send_enqueue(2)); return MPI_Finalize(); }\n' >calls.c
# shellcheck disable=SC2086
expect 'a library with MPIX_ functions of its own' 0 '' '' "$build/bin/mpicc" $strict -DHEDDLE_NO_MPIX -fPIC -shared library.c -o libown.so
expect 'a program of that library' 0 '' '' "$build/bin/mpicc" -DHEDDLE_NO_MPIX calls.c -o calls -L. -lown -Wl,-rpath,"$PWD"
expect "calls the library's functions" 0 '^(42 ){3}$' '' "$build/bin/mpirun" -n 3 ./calls
printf 'char MPI_Comm_f2c(void);\nint main(void) { return MPI_Comm_f2c(); }\n' >function.c
expect 'a symbol for configure' 0 '' '' "$build/bin/mpicc" -w function.c -o function

printf '#include <mpi.h>\nint main(void) { MPI_Aint a; return MPI_Address(&a, &a); }\n' >removed.c
expect 'a removed function' 0 '' 'MPI_Get_address' "$build/bin/mpicc" removed.c -o removed
printf '#include <mpi.h>\nint f(void) { return MPI_Comm_c2f(MPI_COMM_WORLD); }\n' >alone.c
expect 'without them' 1 '' 'MPI_Comm_c2f' "$build/bin/mpicc" -DHEDDLE_NO_MPI_COMPAT -Werror -c alone.c
# Programs of MPI-1 are often built with the successors' names for the removed ones.
printf '#include <mpi.h>\nint f(void) { MPI_Aint a = 0; return MPI_Address(&a, &a) + MPI_Get_address(&a, &a); }\n' >renamed.c
# shellcheck disable=SC2086
expect 'a removed name that means another' 0 '' '' "$build/bin/mpicc" $strict -DMPI_Address=MPI_Get_address \
    -DMPI_Type_struct=MPI_Type_create_struct -DMPI_Errhandler_set=MPI_Comm_set_errhandler -c renamed.c
finish
