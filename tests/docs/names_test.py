#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that the guide's table of performance variables is that of src/ampi/mpit/pvar_table.c, row by row, and that the control variables
it names exist.

usage: names_test.py ROOT
"""

import os
import re
import sys

root = sys.argv[1]


def names(path, pattern):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return re.findall(pattern, file.read(), re.MULTILINE)


folder = "src/ampi/mpit"
sources = {name for file in os.listdir(os.path.join(root, folder)) if file.endswith((".c", ".h"))
           for name in names(os.path.join(folder, file), r'"(heddle_\w+)"')}
performance = set(names(folder + "/pvar_table.c", r'^\s*\{?\s*"(heddle_\w+)"'))
table = {name for row in names("docs/guide.md", r"^\| (`heddle_.*)$") for name in re.findall(r"`(heddle_\w+)`", row)}
named = set(names("docs/guide.md", r"`(heddle_\w+)`"))
wrong = [f"the guide's table has {name}, pvar_table.c has not" for name in sorted(table - performance)]
wrong += [f"pvar_table.c has {name}, the guide's table has not" for name in sorted(performance - table)]
wrong += [f"the guide names {name}, which is nowhere in {folder}" for name in sorted(named - sources)]
print("\n".join(wrong) or f"{len(table)} performance variables, {len(named)} names")
sys.exit(1 if wrong or not table else 0)
