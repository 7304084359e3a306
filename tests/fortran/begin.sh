# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034
#
# The beginning of the tests that are shell scripts, which get BUILD_DIR WORK_DIR: sets build and here, the folders of the build
# and of these files, and goes to WORK_DIR. Exits with 77 without gfortran. Sourced.
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
command -v gfortran >/dev/null || {
    echo "skipped: there is no gfortran"
    exit 77
}
mkdir -p "$2" && cd "$2" || exit 1
