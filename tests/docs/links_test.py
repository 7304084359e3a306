#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that the links of the documentation work: the target of every relative link, and in a checkout every `path/of/a/file` (".c" may be
omitted), of every Markdown page exists.

usage: links_test.py FOLDER: a checkout, or an installation's share/doc/heddle (whose pages may name sources, but not link to them).
"""

import os
import re
import subprocess
import sys

root = os.path.abspath(sys.argv[1])
is_checkout = os.path.exists(os.path.join(root, "src"))
if is_checkout and os.path.exists(os.path.join(root, ".git")):
    listed = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
                            capture_output=True, text=True, check=True).stdout.split()
    pages = [os.path.join(root, name) for name in listed if os.path.exists(os.path.join(root, name))]
else:
    pages = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names if name.endswith(".md")]
wrong, checked = [], 0
for page in pages:
    with open(page, encoding="utf-8") as file:
        text = file.read()
    here = os.path.relpath(page, root)
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    for link in links:
        if "://" not in link:
            checked += 1
            if not os.path.exists(os.path.join(os.path.dirname(page), link)):
                wrong.append(f"{here} links to {link}")
    if is_checkout and "results" not in here:
        for path in re.findall(r"`((?:src|tests|bench|tools|docs|examples|cmake|wrappers|man)/[-\w./]+)`", text):
            checked += 1
            if "NNNN" not in path and not any(os.path.exists(os.path.join(root, path + end)) for end in ("", ".c")):
                wrong.append(f"{here} names {path}")
print("\n".join(what + ", which does not exist" for what in wrong) or (f"{checked} links" if is_checkout else ""), end="")
sys.exit(1 if wrong or not checked else 0)
