#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the benchmarks take device buffers (-B 0,1, on the fake driver), mixed ones among them, and report an error
# if there are no GPUs. Usage: buffers_test.sh BUILD FAKECUDA
set -u
build=$1
fake=$2
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS
for name in latency bandwidth msgrate collectives; do
    program=$expect_dir/$name
    expect "$name compiles without CUDA" 0 '' '' "$build/bin/mpicc" -O1 "$here/../../bench/$name.c" -o "$program"
    expect "$name on two GPUs, which the library sees" 0 "^(coll\.[a-z]+|$name)\.[0-9.]+ .*[0-9] " 'uses GPU [01].* uses GPU [01]' \
        env "LD_LIBRARY_PATH=$fake" FAKECUDA_DEVICES=2 "$build/bin/mpirun" -n 4 "$program" -B 0,1 -t 0.01 -M 64 -s 64 +v
    expect "$name where there is no such GPU" 2 '' 'cuDeviceGet: CUDA error' \
        env "LD_LIBRARY_PATH=$fake" FAKECUDA_DEVICES=1 "$build/bin/mpirun" -n 2 "$program" -B 1
    expect "$name with a word for a GPU" 2 '' '-B is host, or numbers' \
        env "LD_LIBRARY_PATH=$fake" FAKECUDA_DEVICES=1 "$build/bin/mpirun" -n 2 "$program" -B gpu0
done
finish
