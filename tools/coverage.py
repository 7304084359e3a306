#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Adds up gcov's results of a build folder: executed and executable lines per folder of src, and in all."""
import collections
import json
import os
import subprocess
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))


def notes_of(build):
    for folder, _, names in os.walk(build):
        for name in names:
            if name.endswith(".gcno"):
                yield os.path.join(folder, name)


def main(build):
    lines = collections.defaultdict(dict)  # file -> line -> executed
    for notes in notes_of(os.path.abspath(build)):
        told = subprocess.run(["gcov", "--json-format", "--stdout", notes], capture_output=True, text=True, cwd=ROOT, check=False)
        for text in told.stdout.splitlines():
            if not text.startswith("{"):
                continue
            for file in json.loads(text)["files"]:
                path = os.path.relpath(os.path.join(ROOT, file["file"]), ROOT)
                if path.startswith("src/"):
                    for line in file["lines"]:
                        number = line["line_number"]
                        lines[path][number] = lines[path].get(number, False) or line["count"] > 0
    if not lines:
        sys.exit(f"{build} has no objects with coverage counters")
    folders = collections.defaultdict(lambda: [0, 0])
    for path, executed in lines.items():
        parts = os.path.dirname(path).split("/")
        for name in {"/".join(parts[:3]), "in all"}:
            folders[name][0] += sum(executed.values())
            folders[name][1] += len(executed)
    for name in sorted(folders, key=lambda name: (name == "in all", name)):
        executed, executable = folders[name]
        print(f"{name:28} {executed:6} of {executable:6} lines  {100 * executed / executable:5.1f} %")


if __name__ == "__main__":
    main(sys.argv[1])
