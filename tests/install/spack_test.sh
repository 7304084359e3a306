#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that Spack's recipe (packaging/spack) builds a clean clone, and that its mpicc and mpirun work. Where there is no Spack
# it runs the recipe with tests/support/spack in Spack's place: this shows its options and results, not Spack's dependencies.
# Usage: spack_test.sh WORK
set -u
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
EXPECT_TIMEOUT=1500
unset HEDDLE_CC MPICH_CC OMPI_CC HEDDLE_OPTIONS LD_LIBRARY_PATH PYTHONPATH CC CFLAGS LDFLAGS
root=$(cd "$here/../.." && pwd)
git -C "$root" rev-parse --git-dir >/dev/null 2>&1 || {
    echo "skipped: $root is not a clone"
    exit 77
}
rm -rf "$1"
mkdir -p "$1" && cd "$1" || exit 1
work=$PWD
git clone -q "$root" clone && git -C clone checkout -q -B main || exit 1 # the recipe names this branch
recipes=$work/clone/packaging/spack/spack_repo/heddle

if command -v spack >/dev/null; then
    export SPACK_USER_CONFIG_PATH=$work/config SPACK_USER_CACHE_PATH=$work/cache SPACK_DISABLE_LOCAL_CONFIG=
    expect "spack's folder" 0 '*' '*' spack config --scope user add "config:install_tree:root:$work/tree"
    expect "what is there" 0 '*' '*' spack external find
    expect "spack repo add" 0 '*' '*' spack repo add "$recipes"
    expect "spack install" 0 '*' '*' spack install heddle.heddle
    prefix=$(spack location -i heddle)
else
    echo "spack is not installed: the recipe runs with tests/support/spack"
    prefix=$work/prefix
    expect "the recipe" 0 'depends on .* pmix .* ucx and provides mpi@:5.0 for dependents: HEDDLE_CC=gcc HEDDLE_CXX=g\+\+ $' '' \
        env "PYTHONPATH=$root/tests/support/spack" python3 "$root/tests/support/spack/spack_repo/builtin/build_systems/cmake.py" \
        "$recipes/packages/heddle/package.py" "$prefix" "$work/build"
fi
expect "mpicc" 0 '' '' "$prefix/bin/mpicc" "$here/../wrappers/hello.c" -o hello
expect "mpirun" 0 '^hello from 4 ranks $' '' "$prefix/bin/mpirun" -n 4 ./hello 4
finish
