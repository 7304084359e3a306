#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that parallel NetCDF-4 works unchanged, on parallel HDF5: its parallel tests on 4 ranks, in one process and in 2 processes.
#
# Usage: netcdf_test.sh BUILD_DIR WORK_DIR
# The sources come from the Debian or Ubuntu source packages hdf5 and netcdf, once, into WORK_DIR, which keeps HDF5's library. Exits
# with 77 if they, CMake, ninja or zlib are not available.
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"

needs_command cmake cmake
needs_command ninja ninja-build
echo '#include <zlib.h>' | cc -E - >/dev/null 2>&1 || skip "no zlib, which NetCDF requires of HDF5 (package zlib1g-dev)"
build_parallel_hdf5 libhdf5_hl.a -DBUILD_SHARED_LIBS=OFF -DHDF5_ENABLE_Z_LIB_SUPPORT=ON
unpack_source netcdf
rm -rf "$work/build" && mkdir "$work/build" && cd "$work/build" || exit 1
build_step configure.log "$source/configure" --disable-shared --disable-nczarr --disable-dap --disable-byterange --disable-libxml2 \
    --disable-utilities --disable-examples --disable-plugins --enable-parallel-tests CC="$build/bin/mpicc" CFLAGS="-O1 -w" \
    CPPFLAGS="-I$hdf5/include" LDFLAGS="-L$hdf5/lib" LIBS="-lz -ldl -lm"
build_step make.log make -j 2
programs=(tst_mpi_parallel tst_parallel tst_parallel3 tst_parallel4 tst_parallel5 tst_parallel6 tst_simplerw_coll_r tst_quantize_par)
build_step make_tests.log make -j 2 -C nc_test4 "${programs[@]}"
build_step make_h5.log make -C h5_test tst_h_par
check_unchanged netcdf

for options in "+p 1" "--procs 2 +p 1"; do
    IFS=" " read -r -a words <<<"$options"
    for program in "${programs[@]/#/nc_test4/}" h5_test/tst_h_par; do
        cd "$work/build/${program%/*}" || exit 1
        run_program "$program, $options" "$work/${program##*/}.${options// /_}.log" "$build/bin/mpirun" -n 4 "${words[@]}" "./${program##*/}"
    done
    echo "4 ranks, $options: done"
done
finish
