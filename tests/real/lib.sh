# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Common parts of the tests with third-party programs: downloading source packages of Debian or Ubuntu, building without
# changing a file, running, reporting. Sourced by tests that are called with BUILD_DIR WORK_DIR: sets `here`, their
# folder, `build`, and `work`, which keeps downloads and builds between runs and becomes the current folder.

# shellcheck disable=SC2034 # for the tests
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck disable=SC2034
build=$(cd "${1:?the folder of the build}" && pwd)
mkdir -p "${2:?a folder for downloads and builds}" && work=$(cd "$2" && pwd) && cd "$work" || exit 1
unset HEDDLE_OPTIONS MAKEFLAGS MAKELEVEL
failures=0

skip() {
    echo "skipped: $*"
    exit 77
}
fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# Ends the test with the number of failures.
finish() {
    if [ $failures != 0 ]; then
        echo "$failures failed"
        exit 1
    fi
    echo "all passed"
    exit 0
}

# apt-get with folders of its own, so that the system's configuration stays as it is.
private_apt() {
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
    timeout 900 apt-get -q -o "Dir::Etc::sourcelist=$work/apt/sources.list" -o Dir::Etc::sourceparts=- \
        -o "Dir::State::lists=$work/apt/lists" -o "Dir::Cache=$work/apt/cache" -o APT::Sandbox::User=root \
        -o Acquire::Retries=2 "$@"
}

# fetch_source PACKAGE: downloads PACKAGE_*.orig*.tar.* of this system's release into the folder $work. Skips the test if the
# package cannot be had.
fetch_source() {
    local package=$1 id codename keyring component site
    ls "$work/${package}_"*.orig.tar.* >/dev/null 2>&1 && return
    command -v apt-get >/dev/null || skip "no apt-get: $package comes as a source package of Debian or Ubuntu"
    # shellcheck disable=SC1091
    id=$(. /etc/os-release && echo "$ID")
    # shellcheck disable=SC1091
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    case $id in
    ubuntu)
        keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg
        component=universe
        site=http://archive.ubuntu.com/ubuntu
        ;;
    *)
        keyring=/usr/share/keyrings/debian-archive-keyring.gpg
        component=main
        site=http://deb.debian.org/debian
        ;;
    esac
    # The mirror that the system uses, if it is known.
    # shellcheck disable=SC2016 # $(SITE) is apt's
    site=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 2>/dev/null |
        awk -v want="$codename $component" '$1 " " $2 == want { print $3; exit }' | grep . || echo "$site")
    mkdir -p "$work/apt"
    echo "deb-src [signed-by=$keyring] $site $codename $component" >"$work/apt/sources.list"
    (cd "$work" && private_apt update && private_apt source --download-only --tar-only "$package") >"$work/download.log" 2>&1
    ls "$work/${package}_"*.orig.tar.* >/dev/null 2>&1 || {
        tail -n 5 "$work/download.log"
        skip "the source package $package cannot be had from $site"
    }
}

# unpack_source PACKAGE: unpacks it afresh and sets `source` to its folder. Remembers its files for check_unchanged.
unpack_source() {
    local package=$1
    fetch_source "$package"
    rm -rf "$work/source-$package"
    mkdir -p "$work/source-$package"
    tar xf "$work/${package}_"*.orig.tar.* -C "$work/source-$package" || exit 1
    source=$(echo "$work/source-$package"/*)
    [ -d "$source" ] || { # an archive without a folder of its own
        source=$work/source-$package
    }
    (cd "$source" && find . -type f -exec sha256sum {} +) >"$work/$package.sha256"
}

# check_unchanged PACKAGE: fails if the build changed a file of the sources.
check_unchanged() {
    (cd "$source" && sha256sum --check --quiet "$work/$1.sha256") || fail "the build changed a file of $1's sources"
}

# build_step LOG command...: runs a step of the build; ends the test if it fails.
build_step() {
    local log=$work/$1
    shift
    timeout 3000 "$@" >"$log" 2>&1 </dev/null && return
    tail -n 20 "$log"
    echo "FAILED: $* ($log)"
    exit 1
}

# needs_command COMMAND PACKAGE: skips the test if the command is missing.
needs_command() {
    command -v "$1" >/dev/null || skip "$1 is missing (package $2)"
}

# needs_openblas: skips the test if OpenBLAS, which has LAPACK, too, is missing; lets it use one thread.
needs_openblas() {
    local blas
    export OPENBLAS_NUM_THREADS=1
    blas=$(cc -print-file-name=libopenblas.so)
    [ "$blas" != libopenblas.so ] || skip "no OpenBLAS with LAPACK (package libopenblas-dev)"
}

# run_program LABEL LOG command...: runs a program with a time limit; a non-zero exit code is a failure. Returns the exit code.
run_program() {
    local label=$1 log=$2 code=0
    shift 2
    timeout -k 5 "${RUN_LIMIT:-900}" "$@" >"$log" 2>&1 </dev/null || code=$?
    if [ $code != 0 ]; then
        tail -n 10 "$log"
        fail "$label: exit code $code ($log)"
    fi
    return $code
}

# ---- Open MPI's results, to compare with ----

has_openmpi() {
    command -v mpicc.openmpi >/dev/null && command -v mpifort.openmpi >/dev/null && command -v mpirun.openmpi >/dev/null
}
# shellcheck disable=SC2034 # for the tests
openmpi_run=(mpirun.openmpi --oversubscribe --bind-to none --allow-run-as-root --mca mpi_yield_when_idle 1)

# is_same_numbers FILE OTHER DIFFERENCE: do both have the same number of lines, each with one number, that differ by at most DIFFERENCE times
# the larger one, or 1?
is_same_numbers() {
    [ -s "$1" ] && [ "$(wc -l <"$1")" = "$(wc -l <"$2")" ] && paste "$1" "$2" | awk -v limit="$3" '
        function size(x) { return x < 0 ? -x : x }
        { gsub("D", "E"); most = size($1) > size($2) ? size($1) : size($2)
          if (NF != 2 || /[Nn][Aa][Nn]|[Ii][Nn][Ff]/ || size($1 - $2) > limit * (most > 1 ? most : 1)) exit 1 }' # mawk: NaN equals all
}

# build_parallel_hdf5 LIBRARY OPTION...: sets `hdf5` to the folder of a parallel HDF5 with its high-level library, which it builds
# with these options of CMake unless LIBRARY is there.
build_parallel_hdf5() {
    hdf5=$work/hdf5
    [ ! -e "$hdf5/lib/$1" ] || return 0
    unpack_source hdf5
    rm -rf "$work/build-hdf5" && mkdir "$work/build-hdf5" && cd "$work/build-hdf5" || exit 1
    build_step hdf5_configure.log env CC="$build/bin/mpicc" cmake -G Ninja "$source" -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="-O1 -w" \
        -DHDF5_ENABLE_PARALLEL=ON -DMPI_C_COMPILER="$build/bin/mpicc" "${@:2}" -DHDF5_BUILD_TOOLS=OFF -DHDF5_BUILD_EXAMPLES=OFF \
        -DHDF5_BUILD_HL_LIB=ON -DBUILD_TESTING=OFF -DCMAKE_INSTALL_PREFIX="$hdf5"
    build_step hdf5_make.log ninja -j 2 install
    check_unchanged hdf5
}
