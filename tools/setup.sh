# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2034 # variables for those who source this
#
# Common parts of quickstart and check: installing missing packages, configuring, building, and running a
# step with one line of output unless it fails. Sourced; sets root (the checkout).

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc)
step_log=
bold='' plain=''
if [ -t 1 ]; then
    bold=$'\033[1m'
    plain=$'\033[0m'
fi

die() {
    printf '\n%s\n' "$*" >&2
    exit 1
}

# What is done and what is running, from the output of ctest, ninja or make: "312 of 1066, now mpi.p2p_order nodes.2".
progress_of() {
    awk '
        match($0, /^\[ *[0-9]+\/[0-9]+\]/) { state = substr($0, 2, RLENGTH - 2) }
        match($0, /^\[ *[0-9]+%\]/) { state = substr($0, 2, RLENGTH - 2) }
        $1 == "Start" { sub(/:$/, "", $2); running[$2] = $3 }
        match($0, /^ *[0-9]+\/[0-9]+ Test +#/) { state = $1; sub(/^#/, "", $3); sub(/:.*/, "", $3); delete running[$3]
                                                 if ($3 == "") { sub(/:.*/, "", $4); delete running[$4] } }
        END {
            sub(/\//, " of ", state)
            for (number in running)
                now = now " " running[number]
            print state (now == "" ? "" : ", now" now)
        }' "$1" 2>/dev/null
}

# While a step runs: on a terminal its time and its last line of output, elsewhere each minute what is done.
show_progress() {
    local name=$1 start=$SECONDS last next=60
    while sleep 1; do
        if [ -t 1 ]; then
            last=$(tail -n 1 "$step_log" 2>/dev/null | tr -d '\r' | cut -c1-60)
            printf '\r\033[K  %-28s %4d s  %s' "$name" $((SECONDS - start)) "$last"
        elif [ $((SECONDS - start)) -ge $next ]; then
            next=$((next + 60))
            printf '  %-28s %4d s  %s\n' "$name" $((SECONDS - start)) "$(progress_of "$step_log" | cut -c1-150)"
        fi
    done
}

# step NAME LOG command...: runs the command with its output in LOG, prints one line with its time, and returns
# its exit code.
step() {
    local name=$1 start=$SECONDS code=0 watcher=
    step_log=$2
    shift 2
    mkdir -p "$(dirname "$step_log")"
    : >"$step_log"
    show_progress "$name" &
    watcher=$!
    # shellcheck disable=SC2064 # this watcher
    trap "kill $watcher 2>/dev/null" EXIT
    "$@" >"$step_log" 2>&1 </dev/null || code=$?
    kill "$watcher" && wait "$watcher" 2>/dev/null
    trap - EXIT
    [ -t 1 ] && printf '\r\033[K'
    if [ "$code" = 0 ]; then
        printf '  %-28s %4d s\n' "$name" $((SECONDS - start))
    else
        printf '  %-28s %4d s  failed\n' "$name" $((SECONDS - start))
    fi
    return "$code"
}

# The same for steps that must succeed: if one fails, prints the end of its output and exits.
must_step() {
    step "$@" && return
    echo
    tail -n 40 "$step_log"
    die "$1 failed. The whole output is in $step_log"
}

# ---- Packages ----

# Is a command, or a pkg-config module, installed?
has_command() {
    command -v "$1" >/dev/null
}
has_module() {
    has_command pkg-config && pkg-config --exists "$1"
}
has_builder() {
    has_command ninja || has_command make
}

# One line per dependency: the test for it, and its package in Debian and Ubuntu.
needed_always='
has_command gcc         gcc
has_command g++         g++
has_command gfortran    gfortran
has_command cmake       cmake
has_builder -           ninja-build
has_command python3     python3
has_command pkg-config  pkg-config
has_module check        check
has_module ucx          libucx-dev
has_module pmix         libpmix-dev
'

# Runs a command as root; fails if that is not possible without a password.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

apt_install() {
    local options=(-y --no-install-recommends -o DPkg::Lock::Timeout=300)
    export DEBIAN_FRONTEND=noninteractive
    # A fresh container has no package lists; lists may also be too old.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install "$@" ||
        { as_root apt-get update && as_root env DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install "$@"; }
}

# need_packages LIST: installs the packages whose test fails.
need_packages() {
    local missing=() probe what package
    while read -r probe what package; do
        [ -n "$probe" ] || continue
        "$probe" "$what" || missing+=("$package")
    done <<<"$1"
    # If pkg-config itself was missing, its answers above mean nothing; installing again does no harm.
    if [ ${#missing[@]} != 0 ]; then
        has_command apt-get ||
            die "Missing: ${missing[*]} (names of Debian packages). apt-get is not available: install them with your package manager."
        [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null ||
            die "Missing: ${missing[*]}. Run this, then start again:
    sudo apt-get update && sudo apt-get install ${missing[*]}"
        must_step "install ${missing[*]}" "$root/build/log/packages.log" apt_install "${missing[@]}"
    fi
    local version
    version=$(cmake --version | sed -n '1s/[^0-9]*//p')
    [ "$(printf '%s\n3.25\n' "$version" | sort -V | head -n 1)" = 3.25 ] ||
        die "CMake 3.25 or newer is needed; this is $version. Debian 12 and Ubuntu 24.04 have it; otherwise: pip install cmake"
}

# ---- Building ----

# configure FOLDER [option of cmake...]
configure() {
    local build=$1 home
    shift
    # A build folder that was copied or moved cannot be used again.
    home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt" 2>/dev/null)
    if [ -n "$home" ] && [ "$home" != "$root" ]; then
        rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles"
    fi
    local generator=()
    if [ ! -f "$build/CMakeCache.txt" ] && has_command ninja; then
        generator=(-G Ninja)
    fi
    must_step "configure ${build##*/}" "$build/log/configure.log" cmake -S "$root" -B "$build" "${generator[@]}" "$@"
}

# build FOLDER [target...]
build() {
    local build=$1
    shift
    must_step "build ${build##*/}" "$build/log/build.log" cmake --build "$build" -j "$jobs" ${1:+--target "$@"}
}
