#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that mpirun's manual page and `mpirun --help` name the same options, and that groff sets all pages without a warning.

usage: man_test.py MPIRUN MAN_PAGE ARGS_C: the page's options must be in the table of src/launch/args.c, and all options of
--help must be in the page. The other pages in its folder are set, too.
"""

import glob
import os
import re
import shutil
import subprocess
import sys

mpirun, page, table = sys.argv[1:]
with open(page, encoding="ascii") as file:
    text = file.read().replace("\\-", "-")
with open(table, encoding="ascii") as file:
    known = {name for names in re.findall(r'^    \{"(-[^"]*)"', file.read(), re.MULTILINE) for name in names.split()}
printed = subprocess.run([mpirun, "--help"], check=True, capture_output=True, text=True).stdout
# Where --help has "--procs, -procs P", the page needs the first one only.
helped = {match.group(1) for match in re.finditer(r"^  (-[-\w]+)", printed, re.MULTILINE)}
options = text[text.index(".SH OPTIONS"):text.index(".SH SEVERAL PROCESSES")]
named = set(re.findall(r"(?<![\w-])(--?[a-zA-Z][-\w]*)", options))

wrong = [f"--help has {name}, the manual page has not" for name in sorted(helped - named)]
wrong += [f"the manual page has {name}, which mpirun does not know" for name in sorted(named - known)]
if shutil.which("groff"):
    for path in sorted(glob.glob(os.path.join(os.path.dirname(page), "*.1"))):
        warnings = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", path], capture_output=True, text=True, check=False).stderr
        wrong += [f"groff: {path}: {warnings}"] if warnings else []
print("\n".join(wrong) or f"{len(helped)} options of --help, {len(named)} of the page")
sys.exit(1 if wrong or not helped or not named or not known else 0)
