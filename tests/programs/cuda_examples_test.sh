#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the GPU examples have the same results as their checks on the host, for all kinds of rank grids. Their
# kernels run on the CPU here (tests/support/hostcuda); on GPUs, run them with --check.
# Usage: cuda_examples_test.sh MPICXX MPIRUN
set -u
mpicxx=$1
mpirun=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$expect_dir

# As with an MPI that has no operations in CUDA streams: the stand-in of CUDA has no graphs.
# compile NAME: kernel<<<grid, block, shared, stream>>>(arguments) becomes host_launch(kernel, grid, block, arguments).
compile() {
    sed -E 's/([A-Za-z_]+)<<<(.*), (threads|THREADS)(, 0, stream)?>>>\(/host_launch(\1, \2, \3, /' \
        "$root/examples/$1/$1.cu" >"$work/$1.cc"
    if grep -n '<<<' "$work/$1.cc" ||
        ! "$mpicxx" -O2 -std=c++17 -ffp-contract=off -DHEDDLE_NO_MPI_COMPAT -I"$root/tests/support/hostcuda" -I"$root/examples/$1" \
            "$work/$1.cc" -o "$work/$1"; then
        echo "$1 cannot be compiled for the CPU"
        exit 1
    fi
}
compile jacobi3d_cuda
compile minimd_cuda
cd "$work" || exit 1

for ranks in 1 2 3 8 12; do
    expect "jacobi3d_cuda, $ranks ranks" 0 '^ranks .* us_per_iteration [0-9.]+ check: all points are as computed on the host $' '' \
        "$mpirun" -n $ranks ./jacobi3d_cuda 7 9 12 --iterations 20 --check
done
for mode in --staged --streams '--staged --streams' '--staged --memcpy'; do
    # shellcheck disable=SC2086
    expect "jacobi3d_cuda $mode" 0 'check: all points are as computed' '' "$mpirun" -n 6 ./jacobi3d_cuda 12 $mode --iterations 15 --check
done
expect "jacobi3d_cuda --graph, without operations in streams" 2 '' 'this MPI has no operations in CUDA streams' "$mpirun" -n 2 ./jacobi3d_cuda 12 --graph
expect "jacobi3d_cuda --datatypes" 0 'check: all points are as computed' '' "$mpirun" -n 6 ./jacobi3d_cuda 12 --datatypes --iterations 15 --check
for fusion in A B C; do
    expect "jacobi3d_cuda --fuse $fusion" 0 'check: all points are as computed' '' "$mpirun" -n 6 ./jacobi3d_cuda 7 9 12 --fuse $fusion --iterations 15 --check
done
for fusion in '' '--fuse A' '--fuse B' '--fuse C' --datatypes '--fuse B --staged'; do
    for ranks in 1 2 12; do
        # shellcheck disable=SC2086
        expect "jacobi3d_cuda --periodic $fusion, $ranks ranks" 0 'check: all points are as computed' '' \
            "$mpirun" -n $ranks ./jacobi3d_cuda 5 4 7 --periodic $fusion --iterations 15 --check
    done
done
expect "jacobi3d_cuda --fuse with an unknown strategy" 2 '' '^usage: ' "$mpirun" -n 1 ./jacobi3d_cuda 4 --fuse D
expect "jacobi3d_cuda --fuse with datatypes" 2 '' '^usage: ' "$mpirun" -n 1 ./jacobi3d_cuda 4 --fuse A --datatypes
expect "jacobi3d_cuda with too many ranks" 2 '' 'cannot be cut' "$mpirun" -n 8 ./jacobi3d_cuda 4 4 1
expect "jacobi3d_cuda with a wrong option" 2 '' '^usage: ' "$mpirun" -n 2 ./jacobi3d_cuda 4 5

# Long enough for atoms to move to other ranks.
for run in '1 4 --steps 100' '2 4 --steps 300' '3 6 --steps 60 --every 7' '8 4 5 6 --steps 100' '12 6 4 4 --steps 40'; do
    # shellcheck disable=SC2086
    expect "minimd_cuda: $run" 0 'energy drift [0-9.]+e-0[4-9] ranks .*check: as the host' '' "$mpirun" -n ${run%% *} ./minimd_cuda ${run#* } --check
done
expect "minimd_cuda with lists that are kept for too long" 1 '*' 'further than the lists allow' "$mpirun" -n 2 ./minimd_cuda 4 --every 100
expect "minimd_cuda with too small blocks" 2 '' 'smaller than the reach' "$mpirun" -n 8 ./minimd_cuda 3
finish
