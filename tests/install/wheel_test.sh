#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the wheel (tools/build_wheel.py; container_test.sh builds it from the sources) works wherever pip puts it: in a virtual environment, by a link to its commands, in a
# --target, and with --user; that its tag is true; and that its heddle.channel works with mpi4py, if HEDDLE_MPI4PY_PYTHON has one.
# Usage: wheel_test.sh BUILD WORK
set -u
build=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
unset HEDDLE_CC MPICH_CC OMPI_CC HEDDLE_OPTIONS LD_LIBRARY_PATH PYTHONPATH CC CFLAGS LDFLAGS
python3 -c 'import pip, venv' 2>/dev/null || {
    echo "skipped: python3 has no pip or venv"
    exit 77
}
rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1
work=$PWD

expect "tools/build_wheel.py" 0 '^dist/heddle_mpi-[0-9.]+-py3-none-manylinux_2_[0-9]+_[a-z0-9_]+.whl $' '' \
    "$here/../../tools/build_wheel.py" --build "$build" dist
wheel=$(echo dist/*.whl)
python3 -m venv --without-pip venv || exit 1
export PIP_DISABLE_PIP_VERSION_CHECK=1
expect "pip install" 0 'Successfully installed heddle-mpi' '*' python3 -m pip --python venv/bin/python3 install --no-index "$wheel"
expect "pip install --target" 0 'Successfully installed heddle-mpi' '*' python3 -m pip install --no-index --target "a target" "$wheel"
places=(venv/bin linked "a target/bin")
if [ "$(python3 -c 'import site; print(site.ENABLE_USER_SITE)')" = True ]; then # not if python3 is a virtual environment's
    export PYTHONUSERBASE=$work/user PIP_BREAK_SYSTEM_PACKAGES=1 # Debian's pip asks for the latter
    expect "pip install --user" 0 'Successfully installed heddle-mpi' '*' python3 -m pip install --no-index --user "$wheel"
    places+=(user/bin)
fi

mkdir linked && ln -s ../venv/bin/mpicc ../venv/bin/mpiexec linked/
ln -s mpiexec linked/mpirun
for place in "${places[@]}"; do
    expect "$place: mpicc" 0 '' '' "$place/mpicc" "$here/../wrappers/hello.c" -o hello
    expect "$place: mpirun" 0 '^hello from 4 ranks $' '' "$place/mpirun" -n 4 ./hello 4
    expect "$place: the library is its own" 0 "libmpi_abi.so.1 => $work/(venv|a target|user).*/heddle/lib/" '' ldd hello
done

# Files of another glibc would need newer symbols than the tag says.
package=$(venv/bin/python3 -c 'import heddle; print(heddle.__path__[0])')
glibc=$(find "$package" -type f -exec objdump -T {} + 2>/dev/null | grep -o 'GLIBC_2\.[0-9]*' | sort -Vu | tail -1)
expect "the tag" 0 "manylinux_${glibc#GLIBC_}_" '' echo "${wheel//2_/2.}"
expect "one copy of each library" 0 '^1 $' '' sh -c "find '$package' -name 'libmpi*' -size +1000k | wc -l"
expect "heddle.mpi4py_wheel in a target" 0 "^$work/a target/heddle/bin/mpicc $" '' \
    env PYTHONPATH="$work/a target" python3 -c 'import heddle.mpi4py_wheel as m; print(m.mpicc())'
if [ -n "${HEDDLE_MPI4PY_PYTHON:-}" ]; then
    expect "mpi4py" 0 '^good 2 $' '' env PYTHONPATH="${package%/heddle}" venv/bin/mpirun -n 2 "$HEDDLE_MPI4PY_PYTHON" \
        "$here/../programs/python/channels.py"
fi
mv "$package" "$package-away"
expect "without the package" 127 '' 'mpirun: no package heddle near .*/venv/bin' venv/bin/mpirun -n 2 ./hello
finish
