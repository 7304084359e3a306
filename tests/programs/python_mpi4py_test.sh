#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that mpi4py works in ranks of one process: examples/heat_python, spawned pools and pools on ranks, and heddle.channel
# with its example; random numbers; and the exit code after an exception while other ranks wait. Building mpi4py takes minutes:
# HEDDLE_MPI4PY_PYTHON is an interpreter with numpy and an mpi4py that was built with this mpicc (docs/python.md); without it
# the test is skipped. Usage: python_mpi4py_test.sh BUILD
set -u
build=$1
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
here=$(cd "$(dirname "$0")" && pwd)
mpirun=$build/bin/mpirun python=${HEDDLE_MPI4PY_PYTHON:-}
[ -n "$python" ] || exit 77
unset HEDDLE_OPTIONS LD_PRELOAD
for options in "-n 1" "-n 4" "-n 16 +p 2" "--procs 2 -n 4" "--procs 2 -n 2"; do
    # shellcheck disable=SC2086
    expect "heat, $options" 0 ' ranks, 64 x 64 cells, 100 steps: mean temperature 7.418357' '' "$mpirun" $options "$python" \
        "$here/../../examples/heat_python/heat.py" 64 100
done
for options in "-n 1" "-n 3" "--procs 1 -n 1" "--procs 2 -n 4"; do
    # shellcheck disable=SC2086
    expect "a pool, $options" 0 '^\[0, 1, 4, 9, 16, 25\] $' '' "$mpirun" $options "$python" "$here/python/pool.py"
done
export PYTHONPATH=$here/../../src/python PYTHONDONTWRITEBYTECODE=1
for options in "-n 1" "-n 2" "-n 4 +p 1" "-n 6 +p 2" "--procs 2 -n 2" "--procs 2 -n 4"; do
    # shellcheck disable=SC2086
    expect "channels, $options" 0 '^good [0-9] $' '' "$mpirun" $options "$python" "$here/python/channels.py"
done
for options in "-n 1" "-n 4 +p 2" "--procs 2 -n 4"; do
    # shellcheck disable=SC2086
    expect "errors of channels, $options" 0 '^good [0-9] $' '' "$mpirun" $options "$python" "$here/python/channel_errors.py"
done
for options in "-n 9" "--procs 2 -n 4"; do
    # shellcheck disable=SC2086
    expect "a manager, $options" 0 '^[38] workers: 849666 steps $' '' "$mpirun" $options "$python" \
        "$here/../../examples/manager_python/manager.py"
done
for options in "-n 1" "-n 8 +p 2" "--procs 2 -n 4"; do
    # shellcheck disable=SC2086
    expect "random numbers, $options" 0 '^good [0-9] $' '' env PYTHONHASHSEED=3 "$mpirun" $options "$python" "$here/python/seeds.py"
done
# ---- An exception in rank 1 while the others wait for it: nobody may hang ----
raises='from mpi4py import MPI; world = MPI.COMM_WORLD; world.rank == 1 and {}["key"]; '
for options in "-n 3 +p 1" "-n 3 +p 2" "--procs 2 -n 4" "--procs 3 -n 3"; do
    # shellcheck disable=SC2086
    expect "an exception before a Barrier, $options" 16 '' "KeyError: 'key' .*finalize.* barrier|KeyError: 'key' .* different" \
        "$mpirun" $options "$python" -c "$raises world.Barrier()"
    # shellcheck disable=SC2086
    expect "an exception before a message, $options" 1 '' "KeyError: 'key' .*heddle: deadlock" \
        "$mpirun" $options "$python" -c "$raises world.recv(source=1)"
    # shellcheck disable=SC2086
    expect "an exception with -m mpi4py, $options" 1 '' "KeyError: 'key' .*MPI_Abort was called with error code 1" \
        "$mpirun" $options "$python" -m mpi4py -c "$raises world.Barrier()"
done
finish
