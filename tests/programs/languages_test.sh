#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that programs in Go and in D, whose runtimes start threads, collect garbage and handle signals, run with one and with several
# ranks in a process. Skipped (77) without a compiler. Usage:
#   languages_test.sh BUILD WORK go|d
set -u
build=$1 work=$2 language=$3
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
here=$(cd "$(dirname "$0")" && pwd)/languages
mpicc=$build/bin/mpicc mpirun=$build/bin/mpirun
mkdir -p "$work" && cd "$work" || exit 1
unset HEDDLE_OPTIONS

case $language in
go)
    command -v go >/dev/null || exit 77
    CC=$mpicc GOCACHE=$work/cache GO111MODULE=off GOPROXY=off GOFLAGS='' go build -p 2 -buildmode=pie -o program "$here/main.go" || exit 1
    ;;
d)
    command -v gdc >/dev/null || exit 77
    gdc -O1 -fPIE -c "$here/main.d" -o main.o && "$mpicc" -c "$here/world.c" -o world.o || exit 1
    "$mpicc" main.o world.o -o program -lgphobos -lgdruntime -lm -lstdc++ || exit 1
    ;;
esac

for cell in "1 1" "1 2" "4 1" "4 2"; do
    read -r ranks pes <<<"$cell"
    expect "$language, $ranks ranks on $pes PEs" 0 "^(rank [0-3]: 0 errors ){$ranks}\$" '' "$mpirun" -n "$ranks" +p "$pes" ./program
done
expect "$language, processes" 0 '^(rank [0-1]: 0 errors ){2}$' '' "$mpirun" --procs 2 -n 2 ./program
if [ "$language" = go ]; then
    expect "go, a rank's exit code" 5 '^(rank [0-3]: 0 errors ){4}$' 'rank 2 of 4.*exit code 5' "$mpirun" -n 4 +p 2 ./program fail
fi
finish
