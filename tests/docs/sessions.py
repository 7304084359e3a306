#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that the sessions in the documentation can be typed literally and print the shown output.

usage: sessions.py BUILD WORK PAGE...

A session is an indented block that begins with "$ ". Its commands run in WORK, one after the other over all sessions of a
page, with build/ and examples/ as in a checkout (those of a page in examples/ run beside the page's copy);
PATH begins with build/bin. The lines after a command are its expected output, error messages included: numbers, addresses and
the host's name may differ, a line "..." stands for any lines, "..." in a line for any text. A command without output is only required to succeed, and one with output may
have any exit code. <!-- needs PROGRAM... --> above a block: it is skipped if one of the programs is missing.
"""

import os
import re
import shutil
import subprocess
import sys

TIMEOUT_S = 100
NUMBER = re.compile(r"0x[0-9a-f]+|(?<![\w.])[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?(?!\w)")


def blocks(text):
    """(needed programs, lines) of every indented block of a page, the indentation taken off."""
    needs, block, quoted = [], [], False
    for line in text.splitlines() + ["end"]:
        quoted ^= line.startswith("```")
        if line.startswith("    ") and not quoted or (block and not line):
            block.append(line[4:])
            continue
        if block:
            yield needs, block
            needs, block = [], []
        if line.startswith("<!-- needs "):
            needs = line.split()[2:-1]
        elif line:
            needs = []


def sessions(text):
    """(needed programs, [(command, expected lines)]) of every session of a page."""
    for needs, block in blocks(text):
        if not block[0].startswith("$ "):
            continue
        steps = []
        for line in block:
            if line.startswith("$ "):
                steps.append((line[2:], []))
            elif steps[-1][0].endswith("\\") and not steps[-1][1]:
                steps[-1] = (steps[-1][0] + "\n" + line, [])
            elif line:
                steps[-1][1].append(line)
        yield needs, steps


def pattern_of(expected):
    """What the output must match, as a regular expression for the whole of it."""
    pattern = ""
    for line in expected:
        if line == "...":
            pattern += "(.*\n)*?"
            continue
        parts = [re.escape(part) for part in normal(line).split("...")]
        pattern += ".*".join(parts) + "\n"
    return pattern


def normal(line):
    line = re.sub(r"on host \S+", "on host HOST", line.rstrip())
    return re.sub(r"\s+", " ", NUMBER.sub("#", line))


def run(command, env, where):
    process = subprocess.run(["bash", "-c", command], cwd=where, env=env, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    return process.returncode, process.stdout


def check_step(command, expected, env, where):
    """None, or what is wrong."""
    try:
        code, output = run(command, env, where)
    except subprocess.TimeoutExpired:
        return f"no end within {TIMEOUT_S} s"
    if not expected:
        return None if code == 0 else f"exit code {code}\n{output}"
    lines = [normal(line) for line in output.splitlines() if line.strip()]
    if re.fullmatch(pattern_of(expected), "".join(line + "\n" for line in lines)):
        return None
    return "it prints\n" + output


def main():
    build, work, *pages = [os.path.abspath(path) for path in sys.argv[1:]]
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    env = {name: value for name, value in os.environ.items() if not name.startswith(("HEDDLE_", "OMPI_", "MPICH_"))}
    env["PATH"] = os.path.join(build, "bin") + os.pathsep + env["PATH"]
    env["OMPI_ALLOW_RUN_AS_ROOT"] = env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    done = failed = 0
    for page in pages:
        shutil.rmtree(work, ignore_errors=True)
        os.makedirs(work)
        os.symlink(build, os.path.join(work, "build"))
        for folder in ("bench", "src"):
            os.symlink(os.path.join(root, folder), os.path.join(work, folder))
        shutil.copytree(os.path.join(root, "examples"), os.path.join(work, "examples"))
        folder = os.path.dirname(os.path.relpath(page, root))
        where = os.path.join(work, folder) if folder.startswith("examples") else work
        with open(page, encoding="utf-8") as file:
            found = list(sessions(file.read()))
        if not found:
            failed += 1
            print(f"{page}: no session in it")
        for needs, steps in found:
            missing = [program for program in needs if not shutil.which(program, path=env["PATH"])]
            if missing:
                print(f"{page}: skipped, {' '.join(missing)} is not installed: {steps[0][0]}")
                continue
            for command, expected in steps:
                done += 1
                wrong = check_step(command, expected, env, where)
                if wrong:
                    failed += 1
                    print(f"{page}: {command}: {wrong}\nThe page shows\n" + "\n".join(expected))
    print(f"{done} commands, {failed} not as the documentation says")
    return 1 if failed or not done else 0


sys.exit(main())
