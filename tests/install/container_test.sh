#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that packaging/Containerfile builds an image from a clean clone, on a Debian without a compiler: the wheel by one command,
# then mpicc and mpirun, which run a job in one process and in two. Packages come from Debian; the image is removed.
# Usage: container_test.sh WORK
set -u
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
EXPECT_TIMEOUT=1500
root=$(cd "$here/../.." && pwd)

skip() {
    echo "skipped: $*"
    exit 77
}
for tool in buildah mmdebstrap; do
    command -v $tool >/dev/null || skip "there is no $tool (package $tool)"
done
[ "$(id -u)" = 0 ] || skip "only root can build in a chroot"
git -C "$root" rev-parse --git-dir >/dev/null 2>&1 || skip "$root is not a clone"
rm -rf "$1"
mkdir -p "$1" && cd "$1" || exit 1
work=$PWD
git clone -q "$root" clone || exit 1

# All of buildah's state is in this test's folder.
buildah=(buildah --root "$work/images" --runroot "$work/run" --storage-driver vfs)
# shellcheck disable=SC2317 # the trap runs it
remove_images() {
    "${buildah[@]}" rm --all >/dev/null
    "${buildah[@]}" rmi --all --force >/dev/null
    rm -rf "$work/images" "$work/run" "$work/base.tar" "$expect_dir"
}
trap remove_images EXIT
export BUILDAH_ISOLATION=chroot

timeout 600 mmdebstrap --variant=minbase bookworm base.tar >base.log 2>&1 </dev/null || skip "no base system of Debian ($work/base.log)"
base=$("${buildah[@]}" from scratch)
expect "the base image" 0 '*' '*' "${buildah[@]}" add "$base" base.tar /
expect "its name" 0 '*' '*' "${buildah[@]}" commit --rm "$base" heddle-base
timeout 1500 "${buildah[@]}" bud --build-arg BASE=localhost/heddle-base \
    -f clone/packaging/Containerfile -t heddle clone >build.log 2>&1 </dev/null || {
    ! grep -qE 'Failed to fetch|Temporary failure' build.log || skip "packages of Debian cannot be had ($work/build.log)"
    tail -n 20 build.log
    echo "FAILED: the image ($work/build.log)"
    exit 1
}
container=$("${buildah[@]}" from heddle)
expect "copy" 0 '*' '' "${buildah[@]}" copy "$container" "$here/../wrappers/hello.c" "$here/../wrappers/hello.h" /work/
expect "mpicc" 0 '' '' "${buildah[@]}" run "$container" mpicc hello.c -o hello
expect "one process" 0 '^hello from 8 ranks $' '' "${buildah[@]}" run "$container" mpirun -n 8 ./hello 8
expect "two processes" 0 '^hello from 4 ranks $' '*' "${buildah[@]}" run "$container" mpirun --procs 2 -n 4 ./hello 4
finish
