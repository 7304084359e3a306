#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that each rule of tools/check_style.sh finds a violation, and that clean sources give no finding.
# Usage: style_test.sh WORK_DIR
set -u
work=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"

rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1
mkdir -p tools src/{base,ult,image/{copy,libc},ampi/{object,comm,p2p/route,coll/{engine,plan},job},gpu/{driver,rank,streams},machine_ucx,mpifort}
cp "$here/../../tools/check_style.sh" tools/
mkdir bin
for tool in bash env dirname git grep sed; do
    ln -s "$(command -v $tool)" bin/
done
command -v git >/dev/null || exit 77 # the rules look at the files that git knows
git init -q . || exit 1
echo /tools >.git/info/exclude # else shellcheck reads it in each of some eighty runs
licence='/* SPDX-License-Identifier: BSD-3-Clause */'

expect "clean sources" 0 '' '' tools/check_style.sh

# refuses RULE FILE TEXT: a file with this text is refused, by this rule.
refuses() {
    printf '%s\n%b\n' "$licence" "$3" >"$2"
    expect "$1" 1 "$1.*$2:[0-9]+.*1 findings" '' tools/check_style.sh
    rm "$2"
}
accepts() {
    printf '%s\n%b\n' "$licence" "$2" >"$1"
    expect "$2" 0 '' '' tools/check_style.sh
    rm "$1"
}

refuses 'not ASCII' src/base/a.c '/* \xc3\xa9 */'
refuses 'tabs in C' src/base/a.c '\tint x;'
refuses 'blanks at the end' src/base/a.c 'int x; '
refuses 'use snprintf' src/base/a.c 'int f(void) { return sprintf(x, "a"); }'
refuses 'use snprintf' src/base/a.c 'int f(void) { strcpy(x, y); }'
refuses 'names that end in _t' src/base/a.h 'typedef struct a a_t;'
refuses 'names that end in _t' src/base/a.h 'typedef struct {\n    int x;\n} a_t;'
refuses 'more than 600 lines' src/base/a.c "$(seq -s '\n' 600)"
refuses 'to its right' src/mpifort/a.c '#include "ampi/comm/comm.h"'
refuses 'to its right' src/base/a.c '#include "ult/ult.h"'
refuses 'to its right' src/ult/a.c '#include "ampi/comm/comm.h"'
refuses 'to its right' src/image/copy/a.c '# include "ampi/comm/comm.h"'
refuses 'to its right' src/gpu/driver/a.c '#include "ampi/comm/comm.h"'
refuses 'run together' src/base/a.c '/*\n * Steps:\n * first it opens   second      it reads\n */'
refuses 'run together' src/base/a.c '/*\n *   1. An item that goes on,\n * and loses its indent.\n */'
refuses 'run together' src/base/a.h 'struct a {\n    int *\n        first; /* of them all */\n};'
refuses 'run together' src/base/a.h '/* A comment of just one line.\n */'
refuses 'to its right' src/a.c '#include "gpu/gpu.h"'
refuses 'to its right' src/ampi/comm/a.c '#include "ampi/p2p/p2p.h"'
refuses 'to its right' src/ampi/object/a.h '#include "ampi/comm/comm.h"'
refuses 'to its right' src/ampi/coll/engine/a.c '#include "ampi/coll/plan/bcast.h"'
refuses 'to its right' src/ampi/coll/plan/a.c '#include "ampi/coll/device/coll_device.h"'
refuses 'to its right' src/ampi/p2p/a.c '#include "ampi/p2p/thread/endpoint.h"'
refuses 'to its right' src/image/copy/a.c '#include "image/libc/rebind.h"'
refuses 'to its right' src/gpu/driver/a.c '#include "gpu/copy/queue.h"'
refuses 'to its right' src/gpu/rank/a.h '#include "gpu/streams/stream_sync.h"'
refuses 'to its right' src/gpu/gpu.h '#include "gpu/driver/query.h"'
refuses 'by a relative path' src/base/a.c '#include "../ult/ult.h"'
for module in ampi image gpu; do
    echo "$licence" >src/$module/a.c
    expect "a file in no room" 1 "src/$module/a.c:1: is in no room" '' tools/check_style.sh
    rm src/$module/a.c
done
refuses 'CUDA headers' src/ampi/p2p/a.c '#include <cuda.h>'
refuses 'CUDA headers' src/ult/a.c '#include <cuda_runtime.h>'
refuses 'UCX and PMIx headers' src/ampi/p2p/a.c '#include <ucp/api/ucp.h>'
refuses 'UCX and PMIx headers' src/base/a.c '#include <pmix.h>'
accepts src/ampi/p2p/a.c '#include "ult/ult.h"'
accepts src/ampi/p2p/a.c '#include "ampi/comm/comm.h"'
accepts src/ampi/coll/plan/a.c '#include "ampi/coll/engine/coll.h"'
accepts src/ampi/p2p/a.c '#include "ampi/p2p/route/remote.h"'
accepts src/ampi/p2p/route/a.c '#include "ampi/p2p/p2p.h"'
accepts src/image/libc/a.c '#include "image/copy/threads.h"'
accepts src/gpu/streams/a.c '#include "gpu/rank/guard.h"\n#include "gpu/gpu.h"'
accepts src/ampi/job/a.c '#include "ampi/coll/device/coll_device.h"'
accepts src/gpu/driver/a.c '#include <cuda.h>'
accepts src/machine_ucx/a.c '#include <ucp/api/ucp.h>'
accepts src/base/a.c '/*\n *      state   what follows\n *      1       2\n *\n *   1. An item that goes on,\n *      and on.\n */'
accepts src/base/a.h 'struct a {\n    int *first; /* of them all,\n                 * whatever they are */\n};'
accepts src/base/a.c 'int f(void) { return snprintf(x, 1, "a"); }'

echo "$licence" >src/base/a.c
cp src/base/a.c src/ult/a.c
expect "two files of one name" 1 'another file of src has.*src/ult/a.c:1: the same name as src/base/a.c' '' tools/check_style.sh
rm src/ult/a.c
echo 'int x;' >src/base/a.c
expect "no licence" 1 'no SPDX line.*src/base/a.c:1' '' tools/check_style.sh
rm src/base/a.c
if command -v shellcheck >/dev/null; then
    printf '#!/bin/sh\n# SPDX-License-Identifier: BSD-3-Clause\necho %s\n' "\$1" >a.sh
    expect "a script" 1 'shellcheck.*a.sh:3' '' tools/check_style.sh
    rm a.sh
fi
if command -v codespell >/dev/null; then
    printf '%s\n/* it %sieves a message */\n' "$licence" rec >src/base/a.c
    expect "spelling" 1 'misspelled.*src/base/a.c:2' '' tools/check_style.sh --spelling
    rm src/base/a.c
fi
# A checkout on a machine without git, with a program that the user has compiled in it.
printf '#!/bin/sh\nexit 127\n' >git-bin
mkdir no-git && mv git-bin no-git/git && chmod +x no-git/git
printf '#!/bin/sh\necho %s\n' "\$1" >.git/hooks/example.sh
printf '\177ELF\0 \351 \n' >program
expect "without git" 0 '' '' env PATH="$work/no-git:$PATH" tools/check_style.sh
rm -r no-git program .git/hooks/example.sh
expect "a missing tool is skipped" 77 'not installed' '' env PATH="$work/bin" HEDDLE_CI= bash tools/check_style.sh --format
expect "but fails in CI" 1 'not installed' '' env PATH="$work/bin" HEDDLE_CI=1 bash tools/check_style.sh --format
printf 'project(x VERSION 1.2.3 LANGUAGES C)\n' >CMakeLists.txt
printf '# SPDX-License-Identifier: BSD-3-Clause\n' >>CMakeLists.txt
printf '# Changes\n\n## 1.2.2\n' >CHANGELOG.md
expect "an old changelog" 1 'not 1.2.3' '' tools/check_style.sh
printf '# Changes\n\n## 1.2.3 (unreleased)\n\n## 1.2.2\n' >CHANGELOG.md
expect "the changelog" 0 '' '' tools/check_style.sh
rm CMakeLists.txt CHANGELOG.md

# commit SUBJECT [BODY]: a commit of LINES lines.
commit() {
    n_commits=$((n_commits + 1))
    seq "$LINES" >"file$n_commits"
    git add "file$n_commits"
    git -c user.name=x -c user.email=x@localhost commit -qm "$1" ${2:+-m "$2"}
}
LINES=3
n_commits=0
commit "start: a file"
commit "area: a change"
expect "a good commit" 0 '' '' tools/check_style.sh --commits
for subject in "A change without an area" "area: WIP" "area: $(printf 'x%.0s' {1..70})"; do
    commit "$subject"
    expect "$subject" 1 'commit messages.* 1 findings' '' tools/check_style.sh --commits
done
expect "all since the second" 1 '3 findings' '' tools/check_style.sh --commits HEAD~3
LINES=51
commit "area: a large change"
expect "no body" 1 '51 lines without a body' '' tools/check_style.sh --commits
commit "area: a large change" "Because of this."
expect "a body" 0 '' '' tools/check_style.sh --commits

if command -v clang-format-14 >/dev/null; then
    printf '%s\nint  x ;\n' "$licence" >src/base/a.c
    expect "the shape" 1 'src/base/a.c:2' '' tools/check_style.sh --format
    expect "is repaired" 0 '' '' tools/check_style.sh --format --fix
    expect "and then good" 0 '' '' tools/check_style.sh --format
    rm src/base/a.c
fi
echo 'int MPI_X; int PMPI_X; int MPIX_X; int AMPI_X; static int hidden = 1; int *p(void); int base_x;' >lib.c
expect "a library" 0 '' '' cc -shared -fPIC lib.c -o lib.so
expect "a symbol of ours" 1 'exported.* base_x' '' tools/check_style.sh --exports lib.so
expect "no library" 1 'no such library' '' tools/check_style.sh --exports none.so
finish
