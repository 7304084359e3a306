#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the generated pages in docs/ are up to date. Usage: docs_test.sh BUILD WORK
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
"$root/tools/gen_docs.sh" "$1" "$2" || exit 1
code=0
for page in coverage.md options.md; do
    diff -u "$root/docs/$page" "$2/$page" || code=1
done
if [ $code != 0 ]; then
    echo "docs/ is not what the sources say. To write it anew: tools/gen_docs.sh $1 docs"
fi
exit $code
