#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the programs of bench/gpu whose kernels send and wait have right results, with one rank and two, on one PE and on two: on the
# fake driver, with a thread for each block (tests/support/fakeruntime).
# Usage: papers_test.sh MPICXX MPIRUN INCLUDE_OF_CUDA LIBCUDA
set -u
mpicxx=$1
mpirun=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$expect_dir

# compile NAME: kernel<<<grid, block, 0, stream>>>(arguments) becomes host_launch(kernel, grid, block, stream, arguments).
compile() {
    { echo '#include "cuda_runtime.h"'
      sed -E -e 's/([A-Za-z_]+)<<<(.*), THREADS, 0, ([^,]*)>>>\(/host_launch(\1, \2, THREADS, \3, /' \
          -e 's/asm volatile\("mov\.u64.*/ns = host_ns();/' \
          -e 's/cudaLaunchCooperativeKernel\(.*/(host_launch(iterate, n_blocks, THREADS, stream, r), 0));/' "$root/bench/gpu/$1.cu"
    } >"$work/$1.cc"
    if grep -n '<<<' "$work/$1.cc" ||
        ! "$mpicxx" -O1 -std=c++17 -ffp-contract=off -Wno-unknown-pragmas -I"$root/tests/support/fakeruntime" \
            -I"$root/tests/support/fakecuda" -I"$root/bench/gpu" -isystem "$cuda" "$work/$1.cc" -o "$work/$1" "$library"; then
        echo "$1 cannot be compiled for the CPU"
        exit 1
    fi
}
cuda=$3 library=$4
compile kernel_sends
compile resident_jacobi
cd "$work" || exit 1

# Many blocks are many threads that wait for each other: each number of PEs runs half of the cells, three steps of each.
sends() { # PEs, blocks, bytes
    expect "kernel_sends on $1 PEs, $2 blocks" 0 "bulk.$2.$3 .* thread.queue.device.$2.$3 [0-9.]+ us parrived.$2.$3 [0-9.]+ us $" '*' \
        "$mpirun" -n 2 ./kernel_sends --blocks "$2" --bytes "$3" --seconds 0 --samples 3 --limit 150 +p "$1"
}
sends 1 3 64
sends 1 70 2400
sends 2 3 2400
sends 2 70 64
for pes in 1 2; do
    expect "resident_jacobi, $pes ranks" 0 'host.64 .* resident.64.2 .* sends.64.2 [0-9.]+ us $' '*' \
        "$mpirun" -n $pes ./resident_jacobi --sizes 64 --grids 1,2 --iterations 4 --round 4 +p $pes
done
expect "kernel_sends with a wrong option" 2 '' 'usage: ' "$mpirun" -n 2 ./kernel_sends --blocks 0
expect "resident_jacobi with a wrong size" 2 '' 'multiples' "$mpirun" -n 1 ./resident_jacobi --sizes 66
finish
