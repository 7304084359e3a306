#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the Debian package installs beside another MPI without replacing its commands, that selecting it in
# update-alternatives gives mpicc, mpirun and their manual pages, and that removing it leaves nothing behind. Everything
# happens in a folder that dpkg uses as root.
# Usage: deb_test.sh CPACK BUILD_DIR WORK_DIR
set -u
cpack=$1
build=$2
work=$3
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
EXPECT_TIMEOUT=200
for tool in dpkg-deb dpkg-shlibdeps update-alternatives; do
    if ! command -v $tool >/dev/null; then
        echo "skipped: no $tool"
        exit 77
    fi
done
if [ "$(id -u)" != 0 ]; then
    echo "skipped: dpkg --root needs root"
    exit 77
fi

rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1
work=$PWD
root=$work/root
mkdir -p "$root"/{var/lib/dpkg/{info,updates,triggers,alternatives},var/log,etc/alternatives,usr/bin,usr/share/man/man1}
touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"

expect "cpack" 0 'package: .*\.deb generated' '*' "$cpack" -G DEB --config "$build/CPackConfig.cmake" -B "$work"
deb=$(echo "$work"/heddle_*.deb)
expect "its name" 0 'Package: heddle' '*' dpkg-deb -I "$deb"

# Another MPI, as Debian has it: the same groups, a higher priority.
for name in mpicc mpirun; do
    printf '#!/bin/sh\necho another %s\n' $name >"$root/usr/bin/$name.another"
    chmod +x "$root/usr/bin/$name.another"
done
expect "another mpicc" 0 '*' '*' update-alternatives --root "$root" --install /usr/bin/mpicc mpi /usr/bin/mpicc.another 50
expect "another mpirun" 0 '*' '*' update-alternatives --root "$root" --install /usr/bin/mpirun mpirun /usr/bin/mpirun.another 50

dpkg_root=(dpkg "--root=$root" --force-script-chrootless --force-depends --no-triggers)
expect "installs" 0 '*' '*' "${dpkg_root[@]}" -i "$deb"
expect "the other stays chosen" 0 'Value: /usr/bin/mpicc.another' '' update-alternatives --root "$root" --query mpi
expect "ours can be chosen" 0 'Alternative: /usr/lib/heddle/bin/mpicc' '' update-alternatives --root "$root" --query mpi
expect "choose mpicc" 0 '*' '*' update-alternatives --root "$root" --set mpi /usr/lib/heddle/bin/mpicc
expect "choose mpirun" 0 '*' '*' update-alternatives --root "$root" --set mpirun /usr/lib/heddle/bin/mpirun
for name in mpicc mpicxx mpic++ mpiCC mpifort mpif77 mpif90 mpirun mpiexec heddle-whatif heddle-trace2otf2; do
    link=$name
    [ $name = mpicc ] && link=mpi
    expect "$name is ours" 0 "^/usr/lib/heddle/bin/${name//+/[+]} \$" '' readlink "$root/etc/alternatives/$link"
    page=$root$(readlink "$root/etc/alternatives/$name.1.gz")
    expect "its manual page" 0 '\.TH (MPI|HEDDLE)' '' zcat "$page"
done
expect "the copyright" 0 'BSD' '' cat "$root/usr/share/doc/heddle/copyright"
expect "compiles" 0 '' '' "$root/usr/lib/heddle/bin/mpicc" "$here/../wrappers/hello.c" -o hello
expect "runs" 0 '^hello from 8 ranks $' '' "$root/usr/lib/heddle/bin/mpirun" -n 8 ./hello 8
expect "is removed" 0 '*' '*' "${dpkg_root[@]}" -r heddle
expect "the other is back" 0 'Value: /usr/bin/mpicc.another' '' update-alternatives --root "$root" --query mpi
expect "nothing is left" 1 '' '' test -e "$root/usr/lib/heddle"
finish
