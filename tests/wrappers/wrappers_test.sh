#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that mpicc and mpicxx work as build systems expect.
# Usage: wrappers_test.sh PREFIX WORK_DIR PART, where PREFIX contains bin, lib and include, and PART is one of the
# functions below that begin with test_. Exits with 77 if this machine lacks what the part needs.
set -u
prefix=$(cd "$1" && pwd)
work=$2
part=$3
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
EXPECT_TIMEOUT=300

# Neither the caller's choice of compilers nor that of a ctest around us shall matter.
unset HEDDLE_CC HEDDLE_CXX HEDDLE_FC MPICH_FC OMPI_FC MPICH_CC MPICH_CXX OMPI_CC OMPI_CXX HEDDLE_OPTIONS MAKEFLAGS MAKELEVEL CC CXX CFLAGS \
    CXXFLAGS LDFLAGS
rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1
PATH=$prefix/bin:$PATH
include=$prefix/include
lib=$prefix/lib
# As mpicc shows them: quoted if there is a blank in the path.
shown_include=$include
shown_lib=$lib
case $prefix in
*' '*)
    shown_include=\"$include\"
    shown_lib=\"$lib\"
    ;;
esac
# What compilers since gcc 8 and clang 11 know.
clash='-fstack-clash-protection '
link="-L$shown_lib -Wl,-rpath,$shown_lib -Wl,-z,now -lmpi_abi"

need() {
    command -v "$1" >/dev/null || {
        echo "skipped: there is no $1 here"
        exit 77
    }
}

# Is this program an ELF file of type DYN that needs our library and finds it?
expect_good_program() {
    expect_runnable_program "$@"
    expect "$1 binds its functions at start" 0 'Flags:.* NOW' '' readelf -d "$1"
}

# The same, as CMake links it: FindMPI drops the option -z now. A second argument is what the ranks say first.
expect_runnable_program() {
    expect "$1 is position-independent" 0 'Type: +DYN' '' readelf -h "$1"
    expect "$1 finds our library" 0 "libmpi_abi.so.1.*$lib" '' readelf -d "$1"
    expect "$1 runs" 0 "^${2:-}hello from 4 ranks \$" '' mpirun -n 4 "./$1" 4
}

test_options() {
    expect "-show" 0 "^[^ ]+ -fPIE $clash-I$shown_include -pie a.c $link \$" '' mpicc -show a.c
    expect "-showme, anywhere" 0 "^[^ ]+ -fPIE $clash-I$shown_include -pie a.c $link \$" '' mpicc a.c -showme
    expect "-show quotes" 0 ' "a b.c" "-DX=\\"y\\"" ""' '' mpicc -show 'a b.c' '-DX="y"' ''
    expect "no link flags" 0 "^[^ ]+ -fPIE $clash-I$shown_include -c a.c \$" '' mpicc -show -c a.c
    for option in -S -E -M -MM -fsyntax-only; do
        expect "no link flags with $option" 0 "^[^ ]+ -fPIE $clash-I$shown_include $option a.c \$" '' mpicc -show $option a.c
    done
    expect "-MD does link" 0 ' -lmpi_abi' '' mpicc -show -MD a.c
    expect "a shared library" 0 "^[^ ]+ $clash-I$shown_include -shared -fPIC a.c $link \$" '' mpicc -show -shared -fPIC a.c
    expect "the user's -fPIC" 0 "^[^ ]+ $clash-I$shown_include -pie -fPIC a.c $link \$" '' mpicc -show -fPIC a.c
    expect "the user's -no-pie" 0 "^[^ ]+ $clash-I$shown_include -no-pie a.c $link \$" '' mpicc -show -no-pie a.c
    expect "the user's -pie" 0 "^[^ ]+ -fPIE $clash-I$shown_include -pie a.c $link \$" '' mpicc -show -pie a.c
    expect "values of options are no options" 0 "-o -c a.c $link" '' mpicc -show -o -c a.c
    expect "-static" 1 '' 'statically linked program cannot be virtualized' mpicc -static a.c
    expect "-static while compiling is nothing" 0 "-static -c a.c \$" '' mpicc -show -static -c a.c
    expect "before the C library, and after others, which may be tools" 0 \
        " a.c -lcount -L$shown_lib -lmpi_abi -lc b.o -lm $link \$" '' mpicc -show a.c -lcount -lc b.o -lm
    expect "a value is no library" 0 " a.c -o -lc $link \$" '' mpicc -show a.c -o -lc
    expect "-showme:compile" 0 "^-I$shown_include \$" '' mpicc -showme:compile
    expect "-showme:link" 0 "^$link \$" '' mpicc -showme:link
    expect "-showme:incdirs" 0 "^$shown_include \$" '' mpicc -showme:incdirs
    expect "-showme:libdirs" 0 "^$shown_lib \$" '' mpicc -showme:libdirs
    expect "-showme:libs" 0 '^mpi_abi $' '' mpicc -showme:libs
    expect "-showme:version" 0 '^mpicc: Heddle [0-9.]+ \(Language: C\) $' '' mpicc -showme:version
    expect "-showme:version" 0 '^mpicxx: Heddle [0-9.]+ \(Language: C\+\+\) $' '' mpic++ -showme:version
    expect "-showme:help" 0 '-showme:compile' '' mpicc -showme:help
    expect "-showme:command" 0 '^tcc $' '' mpicc -cc=tcc -showme:command
    expect "-showme:nothing" 1 '' 'unknown option -showme:nothing' mpicc -showme:nothing
    expect "-compile-info" 0 "^[^ ]+ -fPIE $clash-I$shown_include -c \$" '' mpicc -compile-info
    expect "-compile_info" 0 "^[^ ]+ -fPIE $clash-I$shown_include -c \$" '' mpicc -compile_info
    expect "-link-info" 0 " $link \$" '' mpicc -link-info
    expect "-link_info" 0 " $link \$" '' mpicc -link_info
    expect "-cc=" 0 '^clang -fPIE' '' mpicc -cc=clang -show a.c
    expect "-cxx=" 0 '^clang\+\+ -fPIE' '' mpiCC -cxx=clang++ -show a.c
    expect "HEDDLE_CC of two words" 0 '^ccache gcc -fPIE' '' env 'HEDDLE_CC=ccache gcc' mpicc -show a.c
    expect "MPICH_CC" 0 '^clang ' '' env MPICH_CC=clang mpicc -show a.c
    expect "OMPI_CXX" 0 '^clang\+\+ ' '' env OMPI_CXX=clang++ mpicxx -show a.c
    expect "HEDDLE_CC is the first" 0 '^gcc ' '' env HEDDLE_CC=gcc OMPI_CC=clang mpicc -show a.c
    expect "-cc= wins" 0 '^tcc ' '' env HEDDLE_CC=gcc mpicc -cc=tcc -show a.c
    expect "not itself" 1 '' 'itself an MPI wrapper' env HEDDLE_CC=mpicc mpicc a.c
    expect "no such compiler" 127 '' 'cannot find the compiler none' mpicc -cc=none a.c
    expect "an empty compiler" 1 '' 'the name of the compiler is empty: give one' mpicc -cc= a.c
    expect "an empty compiler, shown" 1 '' 'the name of the compiler is empty' mpicc -cc= -show a.c
    expect "a blank compiler" 1 '' 'the name of the compiler is empty' env 'HEDDLE_CC= ' mpicc a.c
    expect "an empty variable is not set" 0 '^clang ' '' env HEDDLE_CC= MPICH_CC=clang mpicc -show a.c
    expect "nvcc gets its own form" 0 "^nvcc -Xcompiler=-fPIE (-Xcompiler=-fstack-clash-protection )?-I$shown_include -Xcompiler=-pie a.cu -L$shown_lib -Xlinker=-rpath,$shown_lib -Xlinker=-z,now -lmpi_abi \$" '' \
        mpicxx -cxx=nvcc -show a.cu
    # A compiler that does not know -fstack-clash-protection, and says so as gcc does.
    printf '#!/bin/sh\ncase " $* " in *" -fstack-clash-protection "*) echo unrecognized >&2; exit 1 ;; esac\n' >old-gcc
    chmod +x old-gcc
    expect "an old compiler" 0 "^$PWD/old-gcc -fPIE -I$shown_include -c a.c \$" '' mpicc "-cc=$PWD/old-gcc" -show -c a.c
    expect "an old compiler under nvcc" 0 "^nvcc -Xcompiler=-fPIE -I$shown_include -ccbin" '' \
        mpicxx -cxx=nvcc -show -ccbin "$PWD/old-gcc" -c a.cu
    expect "nothing for an assembler's file" 0 "^[^ ]+ -fPIE -I$shown_include -c a.s \$" '' mpicc -show -c a.s
    expect "the user's -fno-stack-clash-protection is the last" 0 ' -fstack-clash-protection .* -fno-stack-clash-protection' '' \
        mpicc -show -fno-stack-clash-protection a.c
    expect "--version is the compiler's" 0 'Free Software|clang' '' mpicc --version
    expect "-dumpmachine too" 0 'linux' '' mpicc -dumpmachine
    expect "the compiler's errors and exit code" 1 '' 'no_such_file.c' mpicc no_such_file.c

    mkdir -p "a folder" && cp "$here"/hello.[ch] "a folder"
    expect "blanks in names, and in a macro" 0 '' '' mpicc "-DTEXT=\"a b\"" "a folder/hello.c" -o "a folder/hello"
    expect "and it runs" 0 '^hello from 4 ranks $' '' mpirun -n 4 "a folder/hello" 4
    ln -s "$prefix/bin/mpicc" "a folder/cc"
    expect "through a link" 0 "-I$shown_include" '' "a folder/cc" -showme:compile
}

test_compilers() {
    for compiler in gcc clang; do
        command -v $compiler >/dev/null || continue
        expect "$compiler, in one step" 0 '' '' mpicc -cc=$compiler -Wall -Werror "$here/hello.c" -o one_$compiler
        expect_good_program one_$compiler
        expect "$compiler compiles" 0 '' '' mpicc -cc=$compiler -Wall -Werror -c "$here/hello.c" -o hello.o
        expect "$compiler links" 0 '' '' mpicc -cc=$compiler -Werror hello.o -o two_$compiler
        expect_good_program two_$compiler
        expect "$compiler makes a library" 0 '' '' mpicc -cc=$compiler -Werror -shared -fPIC "$here/library.c" -o liblib.so
        expect "and that needs MPI" 0 'libmpi_abi.so.1' '' readelf -d liblib.so
    done
    for compiler in g++ clang++; do
        command -v $compiler >/dev/null || continue
        expect "$compiler" 0 '' '' mpicxx -cxx=$compiler -Wall -Werror "$here/hello.cpp" -o cpp_$compiler
        expect_good_program cpp_$compiler
    done
    # As with a compiler whose default is not PIE.
    expect "-show with plain gcc" 0 '' '' sh -c "eval gcc \"'$here/hello.c'\" -o shown \$(mpicc -show | cut -d' ' -f2-)"
    expect_good_program shown
    expect "the pieces with plain gcc" 0 '' '' \
        sh -c "eval gcc \$(mpicc -showme:compile) \"'$here/hello.c'\" -o pieces \$(mpicc -showme:link)"
    expect_good_program pieces
}

need_nvcc() {
    need nvcc
    case $prefix in
    *' '*)
        echo "skipped: nvcc splits the linker's options at blanks, and there is one in $prefix"
        exit 77
        ;;
    esac
}

test_nvcc() {
    need_nvcc
    expect "nvcc" 0 '' '*' mpicxx -cxx=nvcc "$here/hello.cu" -o hello
    expect_good_program hello
    expect "nvcc -c" 0 '' '*' mpicxx -cxx=nvcc -c "$here/hello.cu" -o hello.o
    expect "nvcc links" 0 '' '*' mpicxx -cxx=nvcc hello.o -o hello_linked
    expect_good_program hello_linked
    expect "nvcc with mpicxx as its compiler" 0 '' '*' nvcc -ccbin mpicxx "$here/hello.cu" -o hello_ccbin
    expect_good_program hello_ccbin
    expect "nvcc -ccbin, in two steps" 0 '' '*' nvcc -ccbin mpicxx -c "$here/hello.cu" -o hello.o
    expect "nvcc -ccbin links" 0 '' '*' nvcc -ccbin mpicxx hello.o -o hello_ccbin_linked
    expect_good_program hello_ccbin_linked
    expect "mpicxx links what nvcc compiled" 0 '' '*' mpicxx hello.o -L"$(dirname "$(nvcc_library libcudart_static.a)")" \
        -lcudart_static -ldl -lrt -lpthread -o hello_mpicxx
    expect_good_program hello_mpicxx
}

# Where nvcc has one of its libraries.
nvcc_library() {
    local folders
    folders=$(nvcc --dryrun x.cu 2>&1 | sed -n 's/^#\$ LIBRARIES= *//p' | tr -d '"' | sed 's/-L//g')
    # shellcheck disable=SC2086 # the names of the folders are split
    find -L $folders -maxdepth 1 -name "$1" 2>/dev/null | head -1
}

# Builds a program of two files with device code: expect_device NAME COMPILER... OPTIONS...
expect_device() {
    local name=$1
    shift
    expect "$name: $*" 0 '' '*' "$@" "$here/device.cu" "$here/device_part.cu" -o "$name"
    expect_good_program "$name" '(CUDA: cuda[A-Za-z]+ ){4}'
}

# Device code in several files (-rdc=true), optimized across them (-dlto), with CUDA's runtime linked in and shared.
test_nvcc_device() {
    local name
    need_nvcc
    expect_device wrapped mpicxx -cxx=nvcc -arch=sm_90 -rdc=true
    expect_device ccbin nvcc -ccbin mpicxx -arch=sm_90 -rdc=true
    expect_device ccbin_shared nvcc -ccbin mpicxx -arch=sm_90 -rdc=true --cudart shared
    expect_device per_thread nvcc -ccbin mpicxx -arch=sm_90 -rdc=true --default-stream per-thread
    expect "-dc" 0 '' '*' mpicxx -cxx=nvcc -arch=sm_90 -dc "$here/device.cu" "$here/device_part.cu"
    expect "-dlink" 0 '' '*' mpicxx -cxx=nvcc -arch=sm_90 -dlink device.o device_part.o -o linked_device.o
    expect "mpicxx links all three" 0 '' '*' mpicxx device.o device_part.o linked_device.o \
        -L"$(dirname "$(nvcc_library libcudart_static.a)")" -lcudadevrt -lcudart_static -ldl -lrt -lpthread -o three
    expect_good_program three '(CUDA: cuda[A-Za-z]+ ){4}'
    # Some installations of CUDA (those from pip) have not all that device LTO needs: then it fails without MPI, too.
    printf '__global__ void k() {}\nint main() { k<<<1, 1>>>(); }\n' >alone.cu
    if nvcc -arch=sm_90 -rdc=true -dlto alone.cu -o alone >/dev/null 2>&1; then
        expect_device wrapped_lto mpicxx -cxx=nvcc -arch=sm_90 -rdc=true -dlto
        expect_device ccbin_lto nvcc -ccbin mpicxx -arch=sm_90 -rdc=true -dlto
    else
        echo "not tried: nvcc -dlto does not work here, without MPI either"
    fi
    for name in jacobi3d_cuda minimd_cuda; do
        expect "examples/$name" 0 '*' '*' make -C "$here/../../examples/$name" "BUILD=$PWD"
        expect "$name is position-independent" 0 'Type: +DYN' '' readelf -h $name
    done
    if ! nvidia-smi >/dev/null 2>&1; then
        expect "jacobi3d_cuda without a GPU" 1 '' 'cudaGetDeviceCount.*: CUDA driver version' env CUDA_VISIBLE_DEVICES= mpirun -n 2 ./jacobi3d_cuda 8
    fi
}

# CMake's CUDA language with MPI::MPI_CXX.
test_nvcc_cmake() {
    local name
    need_nvcc
    cmake_project cuda cuda_project "-DMPI_HOME=$prefix"
    expect_runnable_program cuda/hello_cuda
    for name in device device_shared device_library; do
        expect_runnable_program cuda/$name '(CUDA: cuda[A-Za-z]+ ){4}'
    done
    expect "cmake with the wrapper as both compilers" 0 '*' '*' cmake -S "$here/cuda_project" -B host_compiler \
        -DCMAKE_CXX_COMPILER=mpicxx "-DCMAKE_CUDA_HOST_COMPILER=$prefix/bin/mpicxx"
    expect "build with it" 0 '*' '' cmake --build host_compiler --target device
    expect_good_program host_compiler/device '(CUDA: cuda[A-Za-z]+ ){4}'
}

# Configures, builds and tests with an MPI given as these options of cmake.
cmake_project() {
    local name=$1 source=$2
    shift 2
    expect "cmake ($name)" 0 '*' '*' cmake -S "$here/$source" -B "$name" "$@"
    cp "$expect_dir/out" "$name.log"
    expect "build ($name)" 0 '*' '' cmake --build "$name"
    expect "ctest ($name)" 0 '100% tests passed' '' sh -c "cd $name && ctest --output-on-failure"
}

test_cmake() {
    local found
    found="FOUND version=5.0 include=($include|$(readlink -f "$include")) libraries=$lib/libmpi_abi.so exec=$prefix/bin/mpi[a-z]+ flag=-n"
    cmake_project by_home cmake_project "-DMPI_HOME=$prefix"
    expect "what FindMPI found by MPI_HOME" 0 "$found" '' cat by_home.log
    cmake_project by_compiler cmake_project "-DMPI_C_COMPILER=$prefix/bin/mpicc" "-DMPI_CXX_COMPILER=$prefix/bin/mpicxx"
    expect "what FindMPI found by MPI_C_COMPILER" 0 "$found" '' cat by_compiler.log
    cmake_project by_path cmake_project
    expect "what FindMPI found through PATH" 0 "$found" '' cat by_path.log
    cmake_project as_compiler cmake_project -DCMAKE_C_COMPILER=mpicc -DCMAKE_CXX_COMPILER=mpicxx
    expect_runnable_program by_home/hello_c
    expect_good_program as_compiler/hello_cpp
}

test_fortran() {
    local modules="-I$shown_lib/heddle/fortran/gfortran -I$shown_lib/heddle/fortran" name options
    need gfortran
    link="-L$shown_lib -Wl,-rpath,$shown_lib -Wl,-z,now -lheddle_mpifort -lmpi_abi"
    for name in mpifort mpif77 mpif90; do
        expect "$name -show" 0 "^gfortran -fPIE ${clash}(-fallow-argument-mismatch )?$modules -pie a.f90 $link \$" '' $name -show a.f90
        expect "$name compiles" 0 '' '' $name -Wall -Werror "$here/hello.f90" -o hello_$name
        expect_good_program hello_$name
    done
    options=$(mpifort -show a.f90 | grep -o -e '-fallow-argument-mismatch ')
    expect "-showme:compile" 0 "^$options$modules \$" '' mpifort -showme:compile
    expect "-showme:link" 0 "^$link \$" '' mpifort -showme:link
    expect "-showme:libs" 0 '^heddle_mpifort mpi_abi $' '' mpifort -showme:libs
    expect "-showme:version" 0 '^mpifort: Heddle [0-9.]+ \(Language: Fortran\) $' '' mpifort -showme:version
    expect "-showme:command" 0 '^gfortran $' '' mpifort -showme:command
    expect "-showme:modules" 0 'GNU Fortran' '' mpifort -showme:modules
    expect "-fc=" 0 '^other -fPIE' '' mpifort -fc=other -show a.f90
    expect "HEDDLE_FC" 0 '^other -fPIE' '' env HEDDLE_FC=other OMPI_FC=gfortran mpifort -show a.f90
    expect "-J has a value" 0 "-J -c a.f90" '' mpifort -show -J -c a.f90
    expect "not itself" 1 '' 'itself an MPI wrapper' env HEDDLE_FC=mpif90 mpifort a.f90
    expect "no such compiler" 127 '' 'cannot find the compiler none' mpifort -fc=none a.f90
    expect "fixed form" 0 '' '' mpif77 "$here/hello_fixed.f" -o hello_fixed
    expect_good_program hello_fixed
    printf 'use mpi_f08\ncall MPI_Comm_rank(0)\nend\n' >wrong.f90
    expect "arguments are checked" 1 '' 'no specific subroutine for the generic' mpifort wrong.f90
    printf 'use mpi\ncall MPI_Comm_rank(MPI_COMM_WORLD)\nend\n' >wrong.f90
    expect "arguments are checked, module mpi" 1 '' 'Missing actual argument' mpifort wrong.f90
    # A gfortran of another name gets the options that the usual one gets.
    printf '#!/bin/sh\nexec gfortran "$@"\n' >gfortran-98
    chmod +x gfortran-98
    options=$(mpifort -show a.f90 | sed 's/^gfortran //; s/ -I.*//')
    expect "options of another gfortran" 0 "^$PWD/gfortran-98 $options $modules -pie a.f90" '' mpifort "-fc=$PWD/gfortran-98" -show a.f90
    ln -s "$(command -v gfortran)" f95
    options=$(mpifort -show a.f90 | sed 's/^gfortran //; s/ -I.*//')
    expect "a gfortran without the word in its name" 0 "^$PWD/f95 $options $modules -pie a.f90" '' mpifort "-fc=$PWD/f95" -show a.f90
    expect "its modules" 0 "^(-fallow-argument-mismatch )?$modules \$" '' env "OMPI_FC=$PWD/f95" mpifort -showme:compile
    expect "folders of modules exist" 0 "^-I$shown_lib/heddle/fortran \$" '' mpifort -fc=other -showme:compile
    # A compiler of another name that cannot read these modules.
    printf '#!/bin/sh\n[ "$*" = --version ] && echo "GNU Fortran (other) 99" && exit\nexec gfortran "$@" -fno-such-option\n' >gfortran-99
    chmod +x gfortran-99
    expect "modules of another compiler" 1 '' 'are those of GNU Fortran.*this compiler is GNU Fortran .other. 99.*-rebuild-modules' \
        mpifort "-fc=$PWD/gfortran-99" "$here/hello.f90"
    expect "modules are made anew" 0 "modules of GNU Fortran.* are in $PWD/mods" '' mpifort -fc=gfortran "-rebuild-modules=$PWD/mods"
    expect "and can be used" 0 '' '' gfortran -fPIE -Imods -c "$here/hello.f90" -o hello.o
    test_old_fortran
}

# make_refusing NAME LINES PATTERN: a gfortran that refuses a module mpi_f08 in which one of the LINES (sed) has the PATTERN
make_refusing() {
    cat >"$1" <<END
#!/bin/sh
for word; do
    case \$word in
    *mpi_f08.f90 | *texts.f90) sed -n '$2' "\$word" | grep -q '$3' && echo "Error: $3 is refused" >&2 && exit 1 ;;
    esac
done
exec gfortran "\$@"
END
    chmod +x "$1"
}

# Compilers that refuse the module mpi_f08 get it in another form.
test_old_fortran() {
    make_refusing gfortran-texts '/name=".*_f08ts_"/,/^  end/p' 'character(len='
    expect "texts of any length are refused" 0 "modules of GNU Fortran.* are in $PWD/texts" '' mpifort "-fc=$PWD/gfortran-texts" "-rebuild-modules=$PWD/texts"
    expect "sections are kept" 0 '' '' mpifort -Itexts "$here/hello_section.f90" -o section_texts
    expect_good_program section_texts
    make_refusing gfortran-rank p 'dimension([.][.])'
    expect "assumed rank is refused" 0 "modules of GNU Fortran.* are in $PWD/rank" 'SUPPORTED is .false.*Error: dimension' \
        mpifort "-fc=$PWD/gfortran-rank" "-rebuild-modules=$PWD/rank"
    expect "without sections" 0 '' '' mpifort -Irank "$here/hello.f90" -o hello_rank
    expect_good_program hello_rank
}

# CMake's FindMPI finds all three interfaces.
test_fortran_cmake() {
    need gfortran
    cmake_project by_home fortran_project "-DMPI_HOME=$prefix"
    expect "what FindMPI found" 0 'mpif.h=TRUE mpi=TRUE mpi_f08=TRUE sections=TRUE' '' cat by_home.log
    cmake_project by_compiler fortran_project "-DMPI_C_COMPILER=$prefix/bin/mpicc" "-DMPI_Fortran_COMPILER=$prefix/bin/mpifort"
    cmake_project as_compiler fortran_project -DCMAKE_C_COMPILER=mpicc -DCMAKE_Fortran_COMPILER=mpifort
    expect_good_program as_compiler/hello
    # Without C, CMake takes Debian's f95.
    ln -s "$(command -v gfortran)" f95
    cmake_project fortran_only fortran_project -DLANGUAGES=Fortran "-DCMAKE_Fortran_COMPILER=$PWD/f95" "-DMPI_HOME=$prefix"
    expect "what FindMPI found" 0 'mpif.h=TRUE mpi=TRUE mpi_f08=TRUE sections=TRUE' '' cat fortran_only.log
}

# The second compiler: LLVM's flang, each version that is installed. 16 can link with an option only, and cannot compile the modules.
test_flang() {
    local flang n=0 modules
    for flang in $(compgen -c flang-new | sort -u); do
        n=$((n + 1))
        modules=$PWD/modules_$flang
        case $("$flang" --version | sed -n '1s/.*version //p') in
        1[5-7].*)
            expect "$flang compiles mpif.h" 0 '' '*' mpifort "-fc=$flang" -flang-experimental-exec "$here/hello_fixed.f" -o "fixed_$flang"
            expect "$flang cannot compile the modules" 1 '' "mpifort: $flang cannot compile the module mpi" \
                mpifort "-fc=$flang" "-rebuild-modules=$modules"
            expect_good_program "fixed_$flang"
            continue
            ;;
        esac
        expect "$flang compiles mpif.h" 0 '' '' mpifort "-fc=$flang" "$here/hello_fixed.f" -o "fixed_$flang"
        expect_good_program "fixed_$flang"
        expect "$flang has no modules" 1 '' 'there are no module files .*-rebuild-modules' mpifort "-fc=$flang" "$here/hello.f90" -o "both_$flang"
        expect "$flang compiles the modules" 0 "modules of .*flang.* are in $modules" '' mpifort "-fc=$flang" "-rebuild-modules=$modules"
        expect "$flang uses both modules" 0 '' '' mpifort "-fc=$flang" "-I$modules" "$here/hello.f90" -o "both_$flang"
        expect_good_program "both_$flang"
        expect "$flang uses sections" 0 '' '' mpifort "-fc=$flang" "-I$modules" "$here/hello_section.f90" -o "section_$flang"
        expect_good_program "section_$flang"
    done
    [ $n != 0 ] || {
        echo "skipped: there is no flang-new"
        exit 77
    }
}

test_make() {
    need make
    cp -r "$here/make_project" project && cp "$here"/*.[ch] "$here"/*.cpp .
    expect "make" 0 '*' '' make -C project
    cd project || exit 1
    expect_good_program hello
    expect_good_program hello_cpp
}

test_autoconf() {
    need autoconf
    need make
    cp -r "$here/autoconf_project" project && cp "$here"/hello.[ch] . && cd project || exit 1
    expect "autoconf" 0 '*' '*' autoconf
    expect "configure" 0 'checking for MPI_Init... yes' '' ./configure
    expect "configure knows the size of types" 0 'SIZEOF_MPI_AINT 8' '' cat config.log
    expect "make" 0 '*' '' make
    expect_good_program hello
}

case $part in
options) test_options ;;
compilers) test_compilers ;;
nvcc) test_nvcc ;;
nvcc_device) test_nvcc_device ;;
nvcc_cmake) test_nvcc_cmake ;;
cmake) test_cmake ;;
make) test_make ;;
fortran) test_fortran ;;
fortran_cmake) test_fortran_cmake ;;
flang) test_flang ;;
autoconf) test_autoconf ;;
*)
    echo "no such part: $part"
    exit 1
    ;;
esac
finish
