#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows how files behave on a bad disk: full, with a quota, read-only, noexec, without locks, without fsync, with short and interrupted transfers, slow, shrinking,
# served by another process (FUSE); that records that were synced are there after kill -9; and that errors name the file. Usage: files_test.sh MPICC MPIRUN
set -u
mpicc=$1
mpirun=$2
here=$(dirname "$0")
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS
files=$expect_dir/files
random=$expect_dir/random
bad=$expect_dir/bad_disk.so
conformance=$here/../mpi_conformance
"$mpicc" -std=gnu11 -O1 -I "$conformance" -o "$files" "$here/files.c" || exit 1
"$mpicc" -std=gnu11 -O1 -I "$conformance" -o "$random" "$conformance/io_random.c" || exit 1
cc -O1 -shared -fPIC -o "$bad" "$here/bad_disk.c" || exit 1
jobs=("-n 4 +p 1" "-n 8 +p 2" "--procs 2 -n 4 +p 1")

# on_disk OPTIONS command...: with a small file system at $expect_dir/disk, which nobody else sees.
cat >"$expect_dir/on_disk" <<END
#!/bin/bash
exec unshare -m bash -c 'mount -t tmpfs -o size=60k,\$0 none "$expect_dir/disk" && exec "\$@"' "\$@"
END
chmod +x "$expect_dir/on_disk"
mkdir "$expect_dir/disk"
if "$expect_dir/on_disk" rw true 2>/dev/null; then
    for job in "${jobs[@]}"; do
        for hint in automatic enable disable; do
            # shellcheck disable=SC2086
            expect "full disk, $job, romio_cb_write=$hint" 0 '' '*' "$expect_dir/on_disk" rw "$mpirun" $job "$files" full "$expect_dir/disk/file" $hint
        done
        # shellcheck disable=SC2086
        expect "read-only file system, $job" 0 '' '*' "$expect_dir/on_disk" ro "$mpirun" $job "$files" readonly "$expect_dir/disk/file" automatic
        # shellcheck disable=SC2086
        expect "noexec, $job" 0 '' '*' "$expect_dir/on_disk" rw,noexec,size=9m "$mpirun" $job "$random" 5 5 "$expect_dir/disk"
    done
else
    echo "not run: a full disk needs the right to mount"
fi

# Several processes need shared memory, which is in files, too.
expect "ulimit -f, 2 processes" 1 '' 'the limit of file sizes \(ulimit -f\) .* raise it to 5000 or more' \
    bash -c 'ulimit -f 60 && exec "$@"' limited "$mpirun" --procs 2 -n 2 "$files" quota "$expect_dir/file" automatic

# A file system of a process of its own, with $expect_dir/mirrored as its store.
mkdir "$expect_dir/mirrored"
cat >"$expect_dir/on_fuse" <<END
#!/bin/bash
exec unshare -m bash -c 'bindfs "$expect_dir/mirrored" "$expect_dir/disk" && { "\$@"; code=\$?; umount -l "$expect_dir/disk"; exit \$code; }' on_fuse "\$@"
END
chmod +x "$expect_dir/on_fuse"
if command -v bindfs >/dev/null && "$expect_dir/on_fuse" true 2>/dev/null; then
    for job in "${jobs[@]}"; do
        # shellcheck disable=SC2086
        expect "FUSE, $job" 0 '' '*' "$expect_dir/on_fuse" "$mpirun" $job "$random" 5 5 "$expect_dir/disk"
    done
else
    echo "not run: FUSE needs the command bindfs and the right to mount"
fi

# The exit code is the error class.
touch "$expect_dir/file"
i=0
for class in "40 $expect_dir/file" "42 /none/such" "23 /" "21 $expect_dir/file" "42 /none/such" "41 /dev/full" "45 $expect_dir/file" \
    "54 $expect_dir/file" "20 $expect_dir/file" "55 $expect_dir/file" "35 $expect_dir/file"; do
    expect "error $i names the file" "${class% *}" '' "file ${class#* }: " "$mpirun" -n 2 "$files" named "$expect_dir/file" $i
    i=$((i + 1))
done

for job in "${jobs[@]}"; do
    for hint in automatic enable; do
        # shellcheck disable=SC2086
        [[ $job == --procs* ]] || expect "ulimit -f, $job, $hint" 0 '' '*' bash -c 'ulimit -f 60 && exec "$@"' limited "$mpirun" $job "$files" quota "$expect_dir/file" $hint
        # shellcheck disable=SC2086
        expect "shrinks, $job, $hint" 0 '' '' "$mpirun" $job "$files" shrinks "$expect_dir/file" $hint
    done
    for fault in nolocks nosync; do
        # shellcheck disable=SC2086
        expect "$fault, $job" 0 '' '*' "$mpirun" $job -x "LD_PRELOAD=$bad" -x BAD_DISK=$fault "$files" $fault "$expect_dir/file" automatic
        rm -f "$expect_dir/file"
    done
    # shellcheck disable=SC2086
    expect "aggregator, $job" 0 '' '*' "$mpirun" $job -x "LD_PRELOAD=$bad" -x BAD_DISK=none "$files" aggregator "$expect_dir/file" enable
    # shellcheck disable=SC2086
    expect "slow, $job" 0 '' '' "$mpirun" $job -x "LD_PRELOAD=$bad" -x BAD_DISK=slow "$files" slow "$expect_dir/heddle_io_slow" automatic
    for fault in short timer; do
        # shellcheck disable=SC2086
        expect "$fault, $job" 0 '' '*' "$mpirun" $job -x "LD_PRELOAD=$bad" -x BAD_DISK=$fault "$random" 5 5 "$expect_dir"
    done
    # shellcheck disable=SC2086
    timeout 180 "$mpirun" $job "$files" killed "$expect_dir/file" automatic >"$expect_dir/killed" 2>/dev/null
    n=$(awk '/^synced/ { n = $2 } END { print n + 0 }' "$expect_dir/killed")
    expect "killed after $n records, $job" 0 '' '' "$mpirun" -n 1 "$files" check "$expect_dir/file" "$n"
    [ "$n" -gt 20 ] || expect "records were synced, $job" 0 '' '' false
    rm -f "$expect_dir/file"
done
finish
