#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the end of a request leaves alone what belongs to a later one that has the same handle (reused_request_app.f90).
#
# Usage: reused_request_test.sh BUILD_DIR WORK_DIR. Exits with 77 without gfortran.
set -u
# shellcheck source=tests/fortran/begin.sh
. "$(dirname "$0")/begin.sh"
"$build/bin/mpicc" -c "$here/reused_request_tool.c" -o tool.o || exit 1
"$build/bin/mpifort" "$here/reused_request_app.f90" tool.o -o app || exit 1
timeout 180 "$build/bin/mpirun" -n 2 ./app
