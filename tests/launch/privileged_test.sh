#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the caller of a setuid program cannot make it load code: it takes no Heddle options, is never one of
# several ranks, and reports that; otherwise it runs as one rank.
# Usage: privileged_test.sh MPICC MPIRUN. Needs root, to make the program and to call it as another user.
set -u
mpirun=$2
as_other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if [ "$(id -u)" != 0 ] || ! "${as_other[@]}" true 2>/dev/null; then
    echo "skipped: only root can make a setuid program and call it as another user"
    exit 77
fi
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS PMIX_RANK PMIX_NAMESPACE SLURM_JOB_ID
work=$(mktemp -d)
trap 'rm -rf "$expect_dir" "$work"' EXIT
chmod 755 "$work"
"$1" -O1 -o "$work/program" "$(dirname "$0")/privileged.c" || exit 1
cp "$work/program" "$work/setuid" && chown 0:0 "$work/setuid" && chmod 4755 "$work/setuid"
# The caller's code: a UCX that says as whom it runs.
mkdir "$work/ucx"
cat >"$work/evil.c" <<'END'
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void run(void) { printf("foreign code with euid %d\n", (int)geteuid()); fflush(stdout); }
END
for name in libucm libucs libuct libucp; do
    cc -shared -fPIC "$work/evil.c" -o "$work/ucx/$name.so.0" || exit 1
done

if [ "$("${as_other[@]}" "$work/setuid" 2>&1)" != "euid 0, 1 ranks" ]; then
    echo "skipped: another user cannot run a setuid program here (nosuid, or the build folder is closed to others)"
    exit 77
fi
refused='refused: this program has rights that its caller lacks'
run=("${as_other[@]}" env)
expect "an option that names a library, from the environment" 2 '' "\\+ucx .*$refused" \
    "${run[@]}" "HEDDLE_OPTIONS=+ucx $work/ucx" "$work/setuid"
expect "the same as arguments" 2 '' "\\+ucx: $refused" "${run[@]}" "$work/setuid" a +ucx "$work/ucx"
expect "as one argument" 2 '' "\\+gpu=nccl:/tmp/x.so: $refused" "${run[@]}" "$work/setuid" +gpu=nccl:/tmp/x.so
expect "several ranks" 2 '' "\\+vp: $refused" "${run[@]}" "$work/setuid" +vp 4
expect "mpirun -n 4" 2 '' "\\+vp 4: $refused" "${run[@]}" "$mpirun" -n 4 "$work/setuid"
expect "behind +- an argument is the program's" 0 '^euid 0, 1 ranks $' '' "${run[@]}" "$work/setuid" +- +vp 4
expect "a variable that names the machine" 0 '^euid 0, 1 ranks $' '' "${run[@]}" "HEDDLE_MACHINE=$work/ucx/libucp.so.0" "$work/setuid"
# As one of several processes it would load UCX and PMIx, which load what UCX_MODULE_DIR and PMIX_MCA_* name.
expect "one of several processes" 1 '' 'rights that its caller lacks.* several processes' \
    "${run[@]}" PMIX_RANK=0 PMIX_NAMESPACE=x SLURM_NTASKS=2 "HEDDLE_MACHINE=$work/ucx/libucp.so.0" "$work/setuid"
# The attack is a real one: without the other rights the code does run.
expect "a program without more rights takes them" 1 'foreign code with euid 65534' '*' \
    "${run[@]}" PMIX_RANK=0 PMIX_NAMESPACE=x SLURM_NTASKS=2 "$work/program" +ucx "$work/ucx"
finish
