#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the Debian package installs beside this machine's Open MPI and MPICH: their commands stay selected, Heddle
# can be selected and then runs as mpicc and mpirun, and purging it restores theirs and leaves nothing. Everything
# happens in a temporary copy of the machine (an overlay over /, in a mount namespace).
# Usage: deb_beside_test.sh CPACK BUILD_DIR WORK_DIR
set -u
cpack=$1
build=$2
work=$3
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
EXPECT_TIMEOUT=200
for tool in mpicc.openmpi mpicc.mpich dpkg-shlibdeps update-alternatives unshare; do
    if ! command -v $tool >/dev/null; then
        echo "skipped: no $tool"
        exit 77
    fi
done
rm -rf "$work"
mkdir -p "$work"/{up,work,root} && cd "$work" || exit 1
work=$PWD

# inside command...: runs it as root of the copy. /sys is what libpmix and UCX look at.
cat >inside <<'END'
mount -t overlay overlay -o "lowerdir=/,upperdir=$PWD/up,workdir=$PWD/work" root || exit 77
for folder in proc dev sys; do mount --rbind /$folder root/$folder; done
exec chroot root "$@"
END
inside=(unshare --mount bash "$work/inside")
if ! "${inside[@]}" true 2>/dev/null || [ ! -x "$(command -v dpkg)" ]; then
    echo "skipped: no right to mount an overlay over this machine"
    exit 77
fi

expect "cpack" 0 'package: .*\.deb generated' '*' "$cpack" -G DEB --config "$build/CPackConfig.cmake" -B "$work"
expect "installs" 0 'Setting up heddle' '*' "${inside[@]}" dpkg -i "$(echo "$work"/heddle_*.deb)"
expect "theirs stays chosen: mpicc" 0 '^/usr/bin/mpicc.openmpi $' '' "${inside[@]}" readlink /etc/alternatives/mpi
expect "theirs stays chosen: mpirun" 0 '^/usr/bin/mpirun.openmpi $' '' "${inside[@]}" readlink /etc/alternatives/mpirun
for mpi in openmpi mpich; do
    expect "mpicc.$mpi is what it was" 0 "$mpi" '' "${inside[@]}" mpicc.$mpi -show x.c
done
expect "choose mpicc" 0 '*' '' "${inside[@]}" update-alternatives --set mpi /usr/lib/heddle/bin/mpicc
expect "choose mpirun" 0 '*' '' "${inside[@]}" update-alternatives --set mpirun /usr/lib/heddle/bin/mpirun
expect "mpicc is ours" 0 '^mpicc: Heddle' '' "${inside[@]}" mpicc -showme:version
expect "its manual page" 0 '/usr/lib/heddle/' '' "${inside[@]}" readlink -f /usr/share/man/man1/mpicc.1.gz
expect "compiles" 0 '' '' "${inside[@]}" mpicc "$here/../wrappers/hello.c" -o /tmp/heddle_hello
expect "runs" 0 '^hello from 8 ranks $' '' "${inside[@]}" mpirun -n 8 /tmp/heddle_hello 8
expect "runs in two processes" 0 '^hello from 8 ranks $' '' "${inside[@]}" mpirun -n 8 --procs 2 /tmp/heddle_hello 8
expect "a program of theirs is told from ours" 126 '' 'Open MPI|another MPI|libmpi' "${inside[@]}" sh -c \
    "mpicc.openmpi $here/../wrappers/hello.c -o /tmp/theirs && mpirun -n 2 /tmp/theirs 2"
expect "is purged" 0 'Removing heddle' '*' "${inside[@]}" dpkg -P heddle
expect "theirs is back: mpicc" 0 '^/usr/bin/mpicc.openmpi $' '' "${inside[@]}" readlink /etc/alternatives/mpi
expect "theirs is back: mpirun" 0 '^/usr/bin/mpirun.openmpi $' '' "${inside[@]}" readlink /etc/alternatives/mpirun
expect "nothing is left" 0 '' '' "${inside[@]}" sh -c \
    'find /usr/lib/heddle /usr/share/doc/heddle /var/lib/dpkg/info/heddle.* 2>/dev/null; update-alternatives --query mpi | grep heddle; update-alternatives --query mpirun | grep heddle; true'
finish
