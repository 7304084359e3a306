#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that ordinary Python scripts (python/scripts) print in each rank of a process the same as without mpirun, and have the
# same exit code. HEDDLE_MPI4PY_PYTHON: another interpreter than Debian's. Usage: python_scripts_test.sh BUILD WORK [RANKS [SCRIPT]]
set -u
build=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)/python/scripts
python=${HEDDLE_MPI4PY_PYTHON:-/usr/bin/python3} ranks=${3:-4} n_wrong=0
rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1
unset HEDDLE_OPTIONS LD_PRELOAD PYTHONHOME VIRTUAL_ENV
export OPENBLAS_NUM_THREADS=1
[ -x "$python" ] && "$python" -c 'import ctypes, sqlite3, ssl' || exit 77
for script in "$here"/*.py; do
    [ -z "${4:-}" ] || [ "${script##*/}" = "$4.py" ] || continue
    timeout 180 "$python" "$script" >plain 2>plain_errors </dev/null
    plain=$?
    timeout 120 "$build/bin/mpirun" --tag-output -n "$ranks" "$python" "$script" +p 2 >all 2>errors </dev/null
    code=$? wrong=
    [ $plain = $code ] || wrong="exit code $code, without mpirun $plain"
    for ((i = 0; i < ranks; i++)); do
        diff <(sed -n "s/^\[$i\]<stdout> //p" all | awk 1) <(awk 1 plain) >difference || wrong="$wrong; rank $i differs"
    done
    if [ "$wrong" ]; then
        echo "FAILED: $script: $wrong" && cat difference errors plain_errors
        n_wrong=$((n_wrong + 1))
    fi
done
exit $((n_wrong > 0))
