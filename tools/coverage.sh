#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Measures the lines of the library that the tests execute: tools/coverage.sh [ctest option...]
# Builds into build-coverage/ with gcc's counters, runs ctest with the options (default: the unit tests and one cell of
# the conformance matrix, as in ./check --quick), and prints the figure of each folder of src.
set -u
cd "$(dirname "$0")/.." || exit 1
build="build-coverage"
cmake -S . -B $build -G Ninja -DHEDDLE_COVERAGE=ON -DHEDDLE_LTO=OFF >/dev/null || exit 1
targets=()
[ $# != 0 ] || targets=(--target heddle unit_tests)
cmake --build $build ${targets[@]+"${targets[@]}"} >$build/build.log || exit 1
find $build -name '*.gcda' -delete
if [ $# = 0 ]; then
    export HEDDLE_CONFORMANCE="--pes 2 --max-ranks 4"
    set -- -L '^(unit|mpi)$' -LE slow
fi
ctest --test-dir $build -j "$(nproc)" "$@" | tail -n 30
python3 tools/coverage.py $build
