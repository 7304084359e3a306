#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the generated pages in docs/ and the table in README.md are up to date. Usage: docs_test.sh BUILD WORK
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
rm -rf "${2:?}/README.md"
"$root/tools/gen_docs.sh" "$1" "$2/docs" || exit 1
code=0
for page in README.md docs/coverage.md docs/options.md; do
    diff -u "$root/$page" "$2/$page" || code=1
done
if [ $code != 0 ]; then
    echo "The documentation is not what the sources say. To write it anew: tools/gen_docs.sh $1 docs"
fi
exit $code
