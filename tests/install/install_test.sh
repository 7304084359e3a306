#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a relocated installation works, also in a folder with a blank in its name: mpicc, mpirun, pkg-config and
# CMake's find_package for Heddle and for MPI, in C and in Fortran; and that the links between its pages work.
# Usage: install_test.sh CMAKE BUILD_DIR WORK_DIR
set -u
cmake=$1
build=$2
work=$3
here=$(cd "$(dirname "$0")" && pwd)
hello=$here/../wrappers/hello.c
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
EXPECT_TIMEOUT=200
unset HEDDLE_CC HEDDLE_CXX MPICH_CC MPICH_CXX OMPI_CC OMPI_CXX HEDDLE_OPTIONS MAKEFLAGS DESTDIR CC CFLAGS LDFLAGS \
    PKG_CONFIG_PATH LD_LIBRARY_PATH

rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1
work=$PWD
expect "cmake --install" 0 '*' '' "$cmake" --install "$build" --prefix "$work/first"

# try NAME PREFIX: everything that an installation is used for.
try() {
    local name=$1 prefix=$2
    mkdir "$name" || exit 1
    local pc
    pc=$(dirname "$(find "$prefix" -name heddle.pc)")
    for file in bin/mpicc bin/mpicxx bin/mpic++ bin/mpiCC bin/mpifort bin/mpif77 bin/mpif90 bin/mpirun bin/mpiexec bin/heddle-whatif bin/heddle-trace2otf2 include/mpi.h \
        include/heddle_mpi_compat.h include/heddle_mpi_gpu.h include/heddle_mpi_stream.h \
        include/heddle_mpi_prequest.h include/heddle_prequest.h include/heddle_mpi_handlers.h include/heddle_handlers.h include/heddle_handlers_memory.h include/heddle_handlers_device.h include/mpi-ext-handlers.cuh include/mpi-ext-device.cuh include/mpi-ext.h share/man/man1/mpicc.1 share/man/man1/mpirun.1 share/man/man1/heddle-whatif.1 share/man/man1/heddle-trace2otf2.1 share/heddle/timeline.html share/heddle/python/heddle/channel.py; do
        expect "$name: has $file" 0 '' '' test -r "$prefix/$file"
    done
    expect "$name: the library for debuggers is beside the other" 0 '/heddle/libheddle_mqd.so' '' \
        find "$(dirname "$(find "$prefix" -name libmpi_abi.so.1)")/heddle" -name libheddle_mqd.so
    expect "$name: heddle.mpi4py_wheel" 0 "^$prefix/bin/mpicc $" '' env PYTHONPATH="$prefix/share/heddle/python" \
        python3 -c 'import heddle.mpi4py_wheel as m; print(m.mpicc())'
    expect "$name: mpicc" 0 '' '' "$prefix/bin/mpicc" "$hello" -o "$name/hello"
    expect "$name: mpirun" 0 '^hello from 8 ranks $' '' "$prefix/bin/mpirun" -n 8 "$name/hello" 8
    expect "$name: mpiexec" 0 '^hello from 3 ranks $' '' "$prefix/bin/mpiexec" -n 3 "$name/hello" 3
    expect "$name: a trace" 0 '^hello from 2 ranks $' '' "$prefix/bin/mpirun" -n 2 "$name/hello" 2 +trace "$name/trace.json"
    expect "$name: heddle-whatif" 0 '2 PEs: ' '' "$prefix/bin/heddle-whatif" "$name/trace.json" 1,2
    expect "$name: the library is this one" 0 "libmpi_abi.so.1 => $prefix" '' ldd "$name/hello"
    expect "$name: no trace of the build folder" 1 '' '' grep -rlIF "$build" "$prefix/bin" "$pc"
    expect "$name: mpicxx" 0 '' '' "$prefix/bin/mpic++" "${hello%.c}.cpp" -o "$name/hello_cpp"
    expect "$name: C++ runs" 0 '^hello from 2 ranks $' '' "$prefix/bin/mpirun" -n 2 "$name/hello_cpp" 2
    # pkg-config itself leaves blanks in -Wl,-rpath,... unquoted.
    if command -v pkg-config >/dev/null && [[ $prefix != *' '* ]]; then
        for module in heddle mpi; do
            # eval, because pkg-config quotes for a shell.
            expect "$name: pkg-config $module" 0 '' '' env "PKG_CONFIG_PATH=$pc" \
                sh -c "eval cc -o '$name/$module' '$hello' \$(pkg-config --cflags --libs $module)"
            expect "$name: runs" 0 '^hello from 2 ranks $' '' "$prefix/bin/mpirun" -n 2 "$name/$module" 2
        done
    fi
    if command -v gfortran >/dev/null; then
        try_fortran "$name" "$prefix" "$pc"
    fi
    expect "$name: find_package(Heddle)" 0 '*' '' "$cmake" -S "$here/../wrappers/config_project" -B "$name/cmake" \
        "-DCMAKE_PREFIX_PATH=$prefix"
    expect "$name: builds" 0 '*' '' "$cmake" --build "$name/cmake"
    expect "$name: its ctest" 0 '100% tests passed' '' sh -c "cd '$name/cmake' && ctest --output-on-failure"
}

# The same for Fortran.
try_fortran() {
    local name=$1 prefix=$2 pc=$3 fc
    if command -v pkg-config >/dev/null && [[ $prefix != *' '* ]]; then
        for module in heddle-fortran mpi-fort; do
            expect "$name: pkg-config $module" 0 '' '' env "PKG_CONFIG_PATH=$pc" \
                sh -c "gfortran -fPIE -pie -o '$name/$module' '${hello%.c}.f90' \$(pkg-config --cflags --libs $module)"
            expect "$name: runs" 0 '^hello from 2 ranks $' '' "$prefix/bin/mpirun" -n 2 "$name/$module" 2
        done
        expect "$name: pkg-config for another compiler" 0 "-I[^ ]*/heddle/fortran/other " '' env "PKG_CONFIG_PATH=$pc" \
            pkg-config --cflags --define-variable=compiler=other heddle-fortran
    fi
    expect "$name: find_package(Heddle COMPONENTS Fortran)" 0 'HEDDLE_FORTRAN_MODULES=TRUE' '' "$cmake" \
        -S "$here/../wrappers/config_project" -B "$name/cmake_fortran" "-DCMAKE_PREFIX_PATH=$prefix" "-DLANGUAGES=C;Fortran"
    expect "$name: builds" 0 '*' '' "$cmake" --build "$name/cmake_fortran"
    expect "$name: its ctest" 0 '100% tests passed, 0 tests failed out of 3' '' \
        sh -c "cd '$name/cmake_fortran' && ctest --output-on-failure"
    expect "$name: the Fortran library is this one" 0 "libheddle_mpifort.so.1 => $prefix" '' ldd "$name/cmake_fortran/hello_f08"
    expect "$name: with mpifort as the compiler" 0 'HEDDLE_FORTRAN_MODULES=TRUE' '*' "$cmake" -S "$here/../wrappers/config_project" \
        -B "$name/cmake_mpifort" "-DCMAKE_PREFIX_PATH=$prefix" "-DLANGUAGES=C;Fortran" "-DCMAKE_Fortran_COMPILER=$prefix/bin/mpifort"
    expect "$name: builds" 0 '*' '' "$cmake" --build "$name/cmake_mpifort"
    # A compiler without module files of its own (it does not say that it is gfortran): mpif.h works, and how to make them
    # is said.
    fc=$work/$name/another_fc
    cat >"$fc" <<'END'
#!/bin/sh
[ "$1" = --version ] && echo "another Fortran 1.0" && exit
exec gfortran "$@"
END
    chmod +x "$fc"
    expect "$name: a compiler without modules" 0 "no module files for .*another_fc.* -rebuild-modules.*HEDDLE_FORTRAN_MODULES=FALSE" '' \
        "$cmake" -S "$here/../wrappers/config_project" -B "$name/cmake_another" "-DCMAKE_PREFIX_PATH=$prefix" "-DLANGUAGES=C;Fortran" \
        "-DCMAKE_Fortran_COMPILER=$fc"
    expect "$name: builds" 0 '*' '' "$cmake" --build "$name/cmake_another"
    expect "$name: the component without the language" 1 '*' 'needs the language Fortran' "$cmake" -S "$here/../wrappers/config_project" \
        -B "$name/cmake_c" "-DCMAKE_PREFIX_PATH=$prefix" -DLANGUAGES=C -DCOMPONENTS=Fortran
}

try as_installed "$work/first"
mv first elsewhere
try moved "$work/elsewhere"
expect "moved: find_package(MPI)" 0 '*' '*' "$here/../wrappers/wrappers_test.sh" "$work/elsewhere" "$work/find_mpi" cmake
expect "moved: the links of README.md" 0 '' '' python3 "$here/../docs/links_test.py" "$work/elsewhere/share/doc/heddle"
mv elsewhere "with a blank"
try blank "$work/with a blank"
finish
