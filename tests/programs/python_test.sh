#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that an unmodified Python interpreter becomes the requested ranks, in one process where it can be copied, or fails
# with a message. Usage: python_test.sh BUILD WORK
unset PYTHONUNBUFFERED # with it, print writes the end of a line by itself, and two ranks share stdout
set -u
build=$1 work=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
here=$(cd "$(dirname "$0")" && pwd)/python
mpirun=$build/bin/mpirun
rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1
unset HEDDLE_OPTIONS LD_PRELOAD PYTHONHOME VIRTUAL_ENV
export LD_LIBRARY_PATH=$build/lib OPENBLAS_NUM_THREADS=1
python=/usr/bin/python3
[ -x $python ] && $python -c 'import ctypes' || exit 77
real=$(realpath $python) name=$(basename "$(realpath $python)")

# good RANKS EXECUTABLE PREFIX ARGUMENTS: the output of ranks.py
good() {
    echo "^$1 ranks, sum $(($1 * ($1 - 1) / 2)) good $1 $2 $3 \[$4\] \$"
}
is_copied=yes
if readelf -h "$real" | grep -q 'Type: *EXEC' && ! ls /usr/lib/*/"lib$name.so.1.0" >/dev/null 2>&1; then
    is_copied=
fi
if [ $is_copied ]; then
    expect "a script" 0 "$(good 4 $python /usr "'a', '-n'")" '' "$mpirun" -n 4 $python "$here/ranks.py" a -n +p 2
    expect "one rank" 0 "$(good 1 $python /usr '')" '' "$mpirun" -n 1 $python "$here/ranks.py"
    expect "env" 0 "$(good 3 $python /usr '')" '' "$mpirun" -n 3 env A=1 $python "$here/ranks.py"
    expect "env and a shell" 0 "$(good 2 $python /usr '')" '' "$mpirun" -n 2 env A=1 sh -c "exec $python $here/ranks.py"
    printf '#!/bin/sh\n%s %s/ranks.py "$@" || exit\nexit 4\n' $python "$here" >run.sh && chmod +x run.sh
    expect "a shell script" 4 "$(good 2 $python /usr "'b'")" '' "$mpirun" -n 2 ./run.sh b
    { echo "#!/usr/bin/env -S $python -I" && tail -n +2 "$here/ranks.py"; } >program && chmod +x program
    expect "a program in Python" 0 "$(good 2 $python /usr '')" '' "$mpirun" -n 2 ./program
    for line in "$python -u" "/usr/bin/env ${python##*/}"; do
        { echo "#!$line" && cat "$here/spawner.py"; } >spawned && chmod +x spawned
        expect "a spawned script, #!$line" 0 "^(spawned \['a', '-n'\] ){2}\$" '' \
            env PATH="${python%/*}:$PATH" "$mpirun" -n 1 $python "$here/spawner.py" ./spawned
    done
    expect "spawned interpreters end" 0 '^good $' '' "$mpirun" -n 1 $python "$here/spawn_many.py"
    expect "a module" 0 "$(good 2 $python /usr '')" '' env PYTHONPATH="$here" "$mpirun" -n 2 $python -m ranks
    $python -m venv --without-pip venv || exit 1
    expect "a virtual environment" 0 "$(good 2 "$work/venv/bin/python3" "$work/venv" '')" '' \
        "$mpirun" -n 2 venv/bin/python3 "$here/ranks.py"
    expect "processes" 0 "$(good 4 $python /usr '')" '' "$mpirun" --procs 2 -n 4 $python "$here/ranks.py"
    expect "an exit code" 3 '' 'ended with exit code 3' "$mpirun" -n 3 $python -c '
import os, sys
sys.exit(3 if os.environ["OMPI_COMM_WORLD_RANK"] == "2" else 0)'
    # interrupt NAME CODE STDOUT PROGRAM: SIGINT to two ranks that have printed "begun"
    interrupt() {
        # shellcheck disable=SC2016
        expect "$1" "$2" "$3" '*' bash -c '
set -m # SIGINT is not ignored; dash needs a terminal for that
: >begun.log # of the case before
"$@" >begun.log & job=$!
until [ "$(grep -o begun begun.log | wc -l)" = 2 ]; do sleep 0.1; done
kill -INT $job
wait $job
code=$?
cat begun.log
exit $code' - "$mpirun" -n 2 $python -c "import signal, time
$4" +p 2
    }
    interrupt "an interrupt" 130 '^(begun ){2}$' 'print("begun", flush=True); time.sleep(1000)'
    interrupt "a caught interrupt" 0 '^(begun ){2}(caught ){2}$' 'try: print("begun", flush=True); time.sleep(1000)
except KeyboardInterrupt: print("caught", flush=True)'
    interrupt "a handler in ranks that compute" 0 '^(begun ){2}(handled ){2}$' 'got = []
signal.signal(signal.SIGINT, lambda number, frame: got.append(number))
print("begun", flush=True)
while not got: sum(range(1000))
print("handled", flush=True)'
    # As uv does it: the first interpreter is asked, and its output read.
    cp /bin/sh uv
    cat >uv.py <<END
version=\$($python -c 'import sys; print(sys.version_info[0])') && UV_RUN_RECURSION_DEPTH=1 $python $here/ranks.py "\$version"
exit \$?
END
    expect "uv run" 0 "$(good 2 $python /usr "'3'")" '' "$mpirun" -n 2 ./uv uv.py $python
    # shellcheck disable=SC2016
    for start in 'os.execv(sys.executable, argv)' 'sys.exit(subprocess.call(argv))'; do
        program="import os, subprocess, sys; argv = [sys.executable, '$here/ranks.py']; $start"
        expect "a script that starts a script, $start" 1 '' 'has started this MPI program before MPI_Init: with `mpirun --procs 2`' \
            "$mpirun" -n 2 $python -c "$program"
        expect "a script that starts a script, processes, $start" 0 "$(good 2 $python /usr '')" '' \
            "$mpirun" --procs 2 -n 2 $python -c "$program"
    done
    expect "an exception" 1 '' 'ZeroDivisionError' "$mpirun" -n 2 $python -c '1/0'
    # shellcheck disable=SC2016
    for options in "-n 3" "--procs 2 -n 3"; do
        # shellcheck disable=SC2086
        expect "a traceback with its rank, $options" 1 '*' '\[1\]<stderr> Traceback .*\[1\]<stderr> ZeroDivisionError' "$mpirun" \
            --tag-output $options $python -c 'import os; 1/(int(os.environ["OMPI_COMM_WORLD_RANK"]) - 1)'
    done
    expect "a crash" 139 '' 'Fatal Python error: Segmentation fault .*File "<string>", line 3 in fail .*rank 1 of 2 .*Segmentation' \
        "$mpirun" -n 2 $python -X faulthandler -c 'import ctypes, os, time
def fail():
    ctypes.c_int.from_address(8).value = 1
os.environ["OMPI_COMM_WORLD_RANK"] == "1" and fail()
time.sleep(1000)'
fi
expect "a process for each rank" 0 "$(good 2 $python /usr '')" '' "$mpirun" --procs 2 -n 2 $python "$here/ranks.py"

# An interpreter without a library that can be copied.
mkdir -p bin && cp "$real" bin/
if readelf -h "$real" | grep -q 'Type: *EXEC'; then
    expect "no library of Python" 0 "^2 ranks, sum 1 good 2 $work/bin/$name " "no lib$name.so.1.0.* each rank gets a process" \
        "$mpirun" -n 2 "bin/$name" "$here/ranks.py"
    expect "no library of Python, env" 1 '' 'not position-independent' "$mpirun" -n 2 env A=1 "bin/$name" "$here/ranks.py"
fi

# A module that uses another MPI.
echo 'int MPI_Init(void) { return 0; }' >other.c && gcc -shared -fPIC other.c -o libmpi.so.40 || exit 1
for procs in "" "--procs 2"; do
    # shellcheck disable=SC2086
    expect "another MPI $procs" 1 '^(one ){1,2}$' 'has loaded another MPI \(libmpi.so.40\)' "$mpirun" $procs -n 2 \
        $python -c 'import ctypes; ctypes.CDLL("./libmpi.so.40"); print("one")'
    # It is linked with that MPI, and finds this library's functions.
    # shellcheck disable=SC2086
    expect "a module for another MPI $procs" 3 '' 'has loaded another MPI \(libmpi.so.40\): modules for that MPI' "$mpirun" $procs \
        -n 2 $python -c 'import ctypes, sys
ctypes.CDLL("./libmpi.so.40")
ctypes.CDLL("libmpi_abi.so.1").MPI_Init(None, None)
sys.exit(3)'
done
finish
