#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that widespread libraries with state or threads of their own are each rank's own. Usage:
#   libraries_test.sh BUILD WORK NAME [option of the compiler...]
set -u
build=$1 work=$2 name=$3
shift 3
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
here=$(cd "$(dirname "$0")" && pwd)/libraries
mkdir -p "$work" && cd "$work" || exit 1
source=$(echo "$here/$name".c*)
case $source in
*.cc) compiler=$build/bin/mpicxx ;;
*) compiler=$build/bin/mpicc ;;
esac
grep '^#include <' "$source" | "$compiler" -std=c++17 -x c++ -fsyntax-only - 2>/dev/null || exit 77
"$compiler" -g -O1 -Wall "$source" -o "$name" "$@" || exit 1
for n in 1 3 8; do
    for pes in 1 2; do
        expect "$name, $n ranks on $pes PEs" 0 "^(ok ){$n}$" '' "$build/bin/mpirun" -n "$n" "./$name" +p $pes
    done
done
finish
