#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Checks the sources against the agreed rules. Prints FILE:LINE for each finding, and exits with 1 if there are any.
#
#   tools/check_style.sh                   the sources, by searching them
#   tools/check_style.sh --format [--fix]  the format of the C files, with clang-format-14
#   tools/check_style.sh --spelling        common misspellings, with codespell (.codespellrc)
#   tools/check_style.sh --exports LIB     the symbols that the built library exports
#   tools/check_style.sh --commits [BASE]  subjects and bodies of the commits since BASE
#
# If a tool is not installed, the exit code is 77 (skipped); with HEDDLE_CI=1, as ./check --ci sets it, a missing
# clang-format-14 or shellcheck is a failure.
set -u
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
findings=0
shopt -s lastpipe # report, at the end of a pipe, counts in this shell

# The project's files, tracked or untracked but not ignored; without git all text files outside of git's and build folders.
list_files() {
    {
        git ls-files --cached --others --exclude-standard 2>/dev/null ||
            find . \( -path ./build\* -o -path ./.git -o -name __pycache__ \) -prune -o -type f -exec grep -Il "" {} + |
            sed 's,^\./,,'
    } | grep -E "$1" | while IFS= read -r file; do
        [ -f "$file" ] && [ ! -L "$file" ] && printf '%s\n' "$file"
    done
}

# report RULE: counts and prints the findings on standard input.
report() {
    local rule=$1 lines
    lines=$(cat)
    [ -z "$lines" ] && return
    findings=$((findings + $(wc -l <<<"$lines")))
    echo "$rule:"
    printf '%s\n' "$lines" | sed 's/^/    /'
}

# search PATTERN file...: FILE:LINE:text of each match of a Perl expression.
search() {
    local pattern=$1
    shift
    [ $# = 0 ] || grep -nHP -- "$pattern" "$@"
}

# need_tool COMMAND: ends the script if the command (also the name of its package) is not installed.
need_tool() {
    command -v "$1" >/dev/null && return
    echo "$1 is not installed (apt-get install $1)"
    [ "${HEDDLE_CI:-}" = 1 ] && exit 1
    exit 77
}

check_sources() {
    local code_files all_files src_files tool_files
    mapfile -t code_files < <(list_files '\.(c|h|S|cpp|cu|cuh|bindings)$')
    mapfile -t src_files < <(list_files '^src/.*\.(c|h|S|cu|cuh|bindings)$')
    mapfile -t all_files < <(list_files '\.(c|h|S|cpp|cu|cuh|bindings|py|sh|cmake|in|map|pc|tsv|1|md|txt)$|^[^.]*$')

    search '[^\x00-\x7F]' "${all_files[@]}" | report "not ASCII"
    search '\t' "${code_files[@]}" | report "tabs in C (four spaces)"
    search '[ \t]+$' "${code_files[@]}" | report "blanks at the end of a line"
    search '\b(v?sprintf|strcpy|strcat|stpcpy|gets)\s*\(' "${code_files[@]}" |
        report "use snprintf or memcpy, which take the size of the buffer"
    search '(^|[^_[:alnum:]])getenv\(' "${src_files[@]}" |
        grep -Ev '^src/(launch/|machine_ucx/|image/libc/rebind_|ampi/(job/job_options|procs/launcher_env)\.c)' |
        report "use secure_getenv: setuid programs must not take settings from their callers (src/base/privilege.h)"
    search '^\s*typedef\b[^(]*\b\w+_t;|^\}\s*\w+_t;' "${src_files[@]}" | grep -v '^src/mqd/interface.h' |
        report "names that end in _t are reserved by POSIX"
    mapfile -t tool_files < <(list_files '^tools/')
    check_sizes "${src_files[@]}" "${tool_files[@]}"
    check_maps "${code_files[@]}"
    check_includes "${src_files[@]}"
    check_names "${src_files[@]}"
    search '#\s*include\s*[<"](cuda|cu[a-z]*_runtime|nvml|(nvtx3/)?nvToolsExt)' "${src_files[@]}" | grep -Ev '^src/(gpu|nvtx)/' |
        report "CUDA headers outside src/gpu"
    search '#\s*include\s*[<"](uc[ptsm]/|pmix)' "${src_files[@]}" | grep -Ev '^src/(machine_ucx|launch)/' |
        report "UCX and PMIx headers outside src/machine_ucx"
    search '\b(ucp|ucs|uct|pmix)_\w+\s*\([^;]*$' "${src_files[@]}" | grep -Ev '^src/(machine_ucx|launch)/' |
        report "names that are reserved by UCX and PMIx"
    check_licences
    check_version
}

# One concept, one file: at most 600 lines.
check_sizes() {
    [ $# = 0 ] || wc -l "$@" | awk '$1 > 600 && $2 != "total" { printf "%s:%d: %d lines\n", $2, $1, $1 }' |
        report "more than 600 lines"
}

# Drawings, tables and lists in comments keep their lines; a formatter that fills paragraphs destroys them.
check_maps() {
    [ $# = 0 ] || awk '
        function found(line) { printf "%s:%d:%s\n", FILENAME, line, $0 }
        FNR == 1 { before = ""; is_item = 0 }
        # table columns belong on indented lines; on other lines they are rows that were run together
        /^ \*[ ]?[^ *].*[^ ]   +[^ ]/ { found(FNR) }
        # the lines of a list item that follow the first are indented, too
        is_item && /^ \* [^ ]/ { found(FNR) }
        # "int *" alone on a line, or "*/" alone after a comment of one line: moved there by the formatter
        before ~ /^ +(struct |enum |union |const |unsigned |static )*[a-z_0-9]+( \*+)?$/ && /^ +\**[a-z_0-9\[\]A-Z]+; +\/\*/ { found(FNR) }
        before ~ /\/\* [^ ]/ && before !~ /\*\// && /^ *\*\/$/ { found(FNR) }
        {
            is_item = /^ \*   *([0-9]+\.|-) [^ ]/ && !/[.;:]$/
            before = $0
        }' "$@" | report "a table or list that the formatter has run together"
}

# The headers that a file may include, by its folder: those of modules to its left (base <- ult <- image <- ampi ->
# {machine_ucx, gpu}), and inside a module those of rooms before its own: src/{image,ampi,gpu}/README.md have the rooms.
check_includes() {
    [ $# = 0 ] || awk '
        # The rooms of a module, lowest first, and the files of its floor: a header there is below all rooms, another file above them.
        function add_rooms(module, names, floor,    i, n, name) {
            n = split(names, name, " ")
            for (i = 1; i <= n; i++)
                rank[module "/" name[i]] = i
            n = split(floor, name, " ")
            for (i = 1; i <= n; i++)
                rank[module "/" name[i]] = name[i] ~ /\.h$/ ? 0 : 1000
            has_rooms[module] = 1
        }
        # The place of a file in the order of its module: that of its folder, or of the nearest one above that is a room.
        function rank_of(path) {
            while (!(path in rank) && sub(/\/[^\/]*$/, "", path))
                continue
            return path in rank ? rank[path] : -1
        }
        BEGIN {
            may["base"] = "base"
            may["ult"] = "base ult"
            may["image"] = "base ult image"
            may["ampi"] = "base ult image ampi machine_ucx gpu mqd"
            may["machine_ucx"] = "base ult machine_ucx"
            may["gpu"] = "base ult gpu"
            may["launch"] = "base launch"
            may["mpifort"] = "mpifort"
            may["nvtx"] = "nvtx"
            may["mqd"] = "mqd"
            add_rooms("image", "arch copy libc", "image.h")
            add_rooms("ampi", "object datatype op match procs comm p2p p2p/thread p2p/partitioned meet coll/engine coll/device coll/between coll/plan create " \
                      "enqueue handlers work topo rma io dynamic tool fortran misuse job")
            add_rooms("gpu", "kernels driver copy nccl rank streams work", "gpu.h gpu_connect.c detect_source.c null.c")
        }
        FNR == 1 {
            n = split(FILENAME, part, "/")
            module = n == 2 ? "base" : part[2]
            where = substr(FILENAME, length("src/") + 1)
            if (module in has_rooms && rank_of(where) < 0 && FILENAME ~ /\.(c|h|S|cu|cuh)$/)
                printf "%s:1: is in no room of src/%s\n", FILENAME, module
        }
        /^[ \t]*#[ \t]*include[ \t]*"/ && module in may {
            split($0, quoted, "\"")
            if (quoted[2] ~ /^\.\.?\//) {
                printf "%s:%d:%s\n", FILENAME, FNR, $0
                next
            }
            if (split(quoted[2], path, "/") < 2 || !(path[1] in may))
                next
            if (index(" " may[module] " ", " " path[1] " ") == 0)
                printf "%s:%d:%s\n", FILENAME, FNR, $0
            if (module in has_rooms && path[1] == module) {
                # The seams of coll (engine/device_ops.h, engine/between_ops.h).
                is_seam = quoted[2] ~ /^ampi\/coll\/(device|between)\// && where ~ /^ampi\/coll\/(engine|plan)\//
                if (rank_of(quoted[2]) > rank_of(where) || is_seam)
                    printf "%s:%d:%s\n", FILENAME, FNR, $0
            }
        }' "$@" | report "includes a header of a module or room to its right (docs/architecture.md), or by a relative path"
}

# Two files with the same name make searches, editors and backtraces ambiguous.
check_names() {
    printf '%s\n' "$@" | grep -E '\.(c|h|S|cu)$' | awk -F/ '
        $NF in seen { printf "%s:1: the same name as %s\n", $0, seen[$NF] }
        { seen[$NF] = $0 }' | report "a file name that another file of src has"
}

# Every file that can contain a comment names its licence within its first five lines.
check_licences() {
    local file lines
    list_files '\.(c|h|S|cpp|cu|cuh|bindings|py|sh|cmake)$|(^|/)CMakeLists.txt$|^(quickstart|check|\.ci/run)$|^wrappers/mpicc.in$' |
        while IFS= read -r file; do
            mapfile -t -n 5 lines <"$file" 2>/dev/null
            [[ ${lines[*]} == *'SPDX-License-Identifier: BSD-3-Clause'* ]] || echo "$file:1"
        done | report "no SPDX line"
}

check_shell() {
    if ! command -v shellcheck >/dev/null; then
        [ "${HEDDLE_CI:-}" != 1 ] || echo "shellcheck is not installed" | report "a missing tool"
        return
    fi
    local scripts file line
    mapfile -t scripts < <(list_files '.' | while IFS= read -r file; do
        read -r -n 40 line <"$file"
        [[ $line =~ ^#!.*(/|env\ )(ba|da)?sh ]] && printf '%s\n' "$file"
    done 2>/dev/null | grep -v '^wrappers/mpicc.in$')
    [ ${#scripts[@]} = 0 ] || shellcheck -x -f gcc "${scripts[@]}" | report "shellcheck"
}

check_format() {
    local files
    need_tool clang-format-14
    mapfile -t files < <(list_files '^(src|tests|examples|bench)/.*\.(c|h|cpp)$|^include/(mpi-ext|heddle_mpi_compat|heddle_mpi_gpu|heddle_mpi_stream|heddle_mpi_prequest|heddle_prequest|heddle_mpi_handlers|heddle_mpi_work|heddle_work|heddle_handlers(_memory|_device)?).h$')
    if [ "${1:-}" = --fix ]; then
        clang-format-14 -i "${files[@]}"
        return
    fi
    clang-format-14 --dry-run "${files[@]}" 2>&1 | grep ' warning: ' | sed 's/ warning: .*//' |
        report "not formatted by clang-format-14 (tools/check_style.sh --format --fix)"
}

# Only names of MPI and of AMPI, and those that replace the C library's (src/exports.map).
check_exports() {
    [ -f "$1" ] || {
        echo "no such library: $1"
        exit 1
    }
    nm -D --defined-only "$1" | awk '{ print $NF }' | sed 's/@.*//' |
        grep -vE "^(P?MPI_|MPIX_|AMPI_)|^(MPIR_dll_name|MPIR_heddle_queues|__libc_start_main|_dl_find_object|dl_iterate_phdr|pthread_create|pthread_join|thrd_create|timer_create|mq_notify|dlsym|_exit|_Exit)\$" | report "exported, but neither an MPI nor an AMPI name"
}

check_spelling() {
    local files
    command -v codespell >/dev/null || {
        echo "skipped: codespell is not installed (apt-get install codespell)"
        exit 77
    }
    mapfile -t files < <(list_files '\.(c|h|S|cpp|cu|cuh|py|sh|cmake|in|tsv|1|md|txt)$|^[^.]*$' | grep -v '^LICENSE$')
    codespell "${files[@]}" 2>/dev/null | report "misspelled (or add the word to .codespellrc)"
}

# The commits since BASE; without BASE, those since origin/main, or the last one.
check_commits() {
    local base=${1:-${HEDDLE_BASE:-}} commit subject lines
    git rev-parse -q --verify HEAD >/dev/null || exit 77
    [ -n "$base" ] || base=$(git merge-base HEAD origin/main 2>/dev/null)
    if [ -z "$base" ] || [ "$(git rev-parse "$base")" = "$(git rev-parse HEAD)" ]; then
        base=$(git rev-parse -q --verify HEAD^) || exit 77
    fi
    git rev-list --no-merges "$base"..HEAD | while read -r commit; do
        subject=$(git log -1 --format=%s "$commit")
        [ ${#subject} -le 72 ] || echo "$commit: the subject has ${#subject} characters, more than 72: $subject"
        grep -qE '^[a-z0-9][a-zA-Z0-9_.,/ -]*: [^ ]' <<<"$subject" || echo "$commit: the subject is not 'area: what changes': $subject"
        ! grep -qiwE 'wip|fixup!?|squash!?' <<<"$subject" || echo "$commit: unfinished work: $subject"
        lines=$(git show --numstat --format= -M "$commit" | awk '{ n += $1 + $2 } END { print n + 0 }')
        [ "$lines" -le 50 ] || [ -n "$(git log -1 --format=%b "$commit")" ] ||
            echo "$commit: changes $lines lines without a body that gives the reason: $subject"
    done | report "commit messages"
}

# The first version in CHANGELOG.md is that of CMakeLists.txt.
check_version() {
    local version
    [ -f CHANGELOG.md ] || return 0
    version=$(sed -nE 's/^project\(.* VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
    [ "$(sed -nE '/^## /{s/^## ([0-9.]+).*/\1/p;q}' CHANGELOG.md)" = "$version" ] ||
        echo "CHANGELOG.md: the newest section is not $version, the version in CMakeLists.txt" | report "version"
}

case ${1:-} in
'')
    check_sources
    check_shell
    ;;
--format) check_format "${2:-}" ;;
--spelling) check_spelling ;;
--exports) check_exports "${2:-}" ;;
--commits) check_commits "${2:-}" ;;
*)
    echo "unknown option $1 (--format, --spelling, --exports LIB, --commits)"
    exit 1
    ;;
esac
if [ "$findings" != 0 ]; then
    echo "$findings findings"
    exit 1
fi
