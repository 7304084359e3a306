#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that the guide's tables of performance variables and events are those of src/ampi/tool/pvar_table.c and
src/ampi/object/event.h, that the control variables it names exist, and that names quoted in the documentation exist:
functions and files (`ampi_...`), options (`+...`), environment variables (`HEDDLE_...`).

usage: names_test.py ROOT
"""

import os
import re
import sys

root = sys.argv[1]


def names(path, pattern):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return re.findall(pattern, file.read(), re.MULTILINE)


MPIT = "src/ampi/tool"
sources = {name for file in os.listdir(os.path.join(root, MPIT)) if file.endswith((".c", ".h"))
           for name in names(os.path.join(MPIT, file), r'"(heddle_\w+)"')}
performance = set(names(MPIT + "/pvar_table.c", r'^\s*\{?\s*"(heddle_\w+)"'))
events = {"heddle_" + name for name in names("src/ampi/object/event.h", r'^\s*X\(\w+, (?!TIMELINE)\w+, "(\w+)"')}
sources |= events | {name.replace("heddle_", "heddle_comm_", 1) for name in events}
table = {name for row in names("docs/guide.md", r"^\| (`heddle_.*)$") for name in re.findall(r"`(heddle_\w+)`", row)}
named = set(names("docs/guide.md", r"`(heddle_\w+)`"))
wrong = [f"the guide's tables have {name}, pvar_table.c and event.h have not" for name in sorted(table - performance - events)]
wrong += [f"pvar_table.c or event.h has {name}, the guide's tables have not" for name in sorted((performance | events) - table)]
wrong += [f"the guide names {name}, which is nowhere in {MPIT}" for name in sorted(named - sources)]
words = set()
for folder in ("src", "include", "tests", "bench", "tools", "cmake", "wrappers"):
    for at, _, files in os.walk(os.path.join(root, folder)):
        for file in files:
            words.add(file.partition(".")[0])
            with open(os.path.join(at, file), encoding="utf-8", errors="replace") as text:
                words.update(re.findall(r"[A-Za-z_]\w+", text.read()))
options = set(names("docs/options.md", r"^  (\+[\w-]+)"))
pages = ["README.md", "CONTRIBUTING.md", "bench/README.md"]
for folder in ("docs", "docs/decisions"):
    pages += [os.path.join(folder, file) for file in sorted(os.listdir(os.path.join(root, folder))) if file.endswith(".md")]
for page in pages:
    for quoted in names(page, r"`([^`\n]+)`"):
        for name in re.findall(r"\b(?:ampi|image|ult|base|gpu|machine|ucxm)_[a-z_0-9]+\b|\bHEDDLE_[A-Z_]+\b", quoted):
            # A beginning is enough: exchange_*.c, HEDDLE_...
            if not any(word == name or name.endswith("_") and word.startswith(name) for word in words):
                wrong.append(f"{page} names {name}, which is nowhere")
        for option in re.findall(r"(?<![\w+/-])\+[a-z][a-z-]*", quoted):
            if option not in options:
                wrong.append(f"{page} names {option}, which +help does not")
print("\n".join(wrong) or f"{len(table)} performance variables, {len(named)} names")
sys.exit(1 if wrong or not table else 0)
