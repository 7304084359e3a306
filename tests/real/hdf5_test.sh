#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that parallel HDF5 works unchanged: its programs of testpar on 4 ranks, in one process and in 2 processes.
#
# Usage: hdf5_test.sh BUILD_DIR WORK_DIR
# The sources come from the Debian or Ubuntu source package hdf5, once, into WORK_DIR. Exits with 77 if they, CMake or ninja are not
# available. 20 minutes on two cores. Left out is t_bigio, which needs files of several GiB, and t_cache_image unless
# HEDDLE_HDF5_CACHE_IMAGE is set: each of its ranks reads 400,000 pieces of 400 bytes, several times. t_cache took 116 s in one process and 300 s
# in two on two cores that were shared with other work.
set -u
# shellcheck source=tests/real/lib.sh
. "$(dirname "$0")/lib.sh"

needs_command cmake cmake
needs_command ninja ninja-build
unpack_source hdf5
programs=(t_mpi testphdf5 t_pflush1 t_pflush2 t_shapesame t_filters_parallel t_pread t_init_term t_pshutdown t_prestart t_cache)
[ -z "${HEDDLE_HDF5_CACHE_IMAGE:-}" ] || programs+=(t_cache_image)
rm -rf "$work/build" && mkdir "$work/build" && cd "$work/build" || exit 1
build_step configure.log env CC="$build/bin/mpicc" cmake -G Ninja "$source" -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="-O1 -w" \
    -DHDF5_ENABLE_PARALLEL=ON -DMPI_C_COMPILER="$build/bin/mpicc" -DBUILD_SHARED_LIBS=OFF -DHDF5_BUILD_TOOLS=OFF \
    -DHDF5_BUILD_EXAMPLES=OFF -DHDF5_BUILD_HL_LIB=OFF -DHDF5_ENABLE_Z_LIB_SUPPORT=OFF -DBUILD_TESTING=ON
build_step make.log ninja -j 2 "${programs[@]}"
check_unchanged hdf5

export HDF5_PARAPREFIX=$work/build
for options in "+p 1" "--procs 2 +p 1"; do
    IFS=" " read -r -a words <<<"$options"
    for program in "${programs[@]}"; do
        log=$work/$program.${options// /_}.log
        if [ "$program" = t_pflush1 ]; then # it ends with exit code 1, without closing its file, and t_pflush2 looks at that
            timeout 100 "$build/bin/mpirun" -n 4 "${words[@]}" "bin/$program" >"$log" 2>&1
        elif [ "$program" = t_cache_image ]; then # its rank 0 executes it once more, as ./t_cache_image without ranks
            cd bin || exit 1
            RUN_LIMIT=7200 run_program "$program, $options" "$log" "$build/bin/mpirun" -n 2 "${words[@]}" "./$program"
            grep -q "tests finished with no failures" "$log" || fail "$program, $options: not finished ($log)"
            cd .. || exit 1
        else
            run_program "$program, $options" "$log" "$build/bin/mpirun" -n 4 "${words[@]}" "bin/$program"
        fi
    done
    echo "4 ranks, $options: done"
done
finish
