#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that mpirun starts a program whose file is damaged, or ends with an error: it never hangs, and it fails silently only where
the program alone does.

Usage: damaged_test.py FOLDER MPICC MPIRUN SEED COUNT: COUNT damaged files, chosen at random."""
import os
import random
import resource
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import elf_fields  # noqa: E402 (from tests/support)

SOURCE = """
#include <mpi.h>
static int calls = 1;
static int *where = &calls;
static _Thread_local int own = 7;
int main(int argc, char **argv)
{
    int sum = 0, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(where, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    own += sum;
    MPI_Finalize();
    return own != 7 + size;
}
"""
LIMIT_S = 20
LONG_LIMIT_S = 180  # a busy machine can keep a job waiting for a minute


def run(command, folder, limit_s=LIMIT_S):
    """(exit code or "hangs", output)"""
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
    try:
        output = process.communicate(timeout=limit_s)[0]
        return process.returncode, output.decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        return "hangs", process.communicate()[0].decode(errors="replace")


def cases(data, generator):
    """(name, contents) of damaged files, without end."""
    fields = [list(elf_fields.header_fields()), list(elf_fields.load_fields(data))]
    while True:
        kind = generator.choice(("header", "load", "load", "load", "bytes", "cut"))
        if kind == "cut":
            size = generator.choice((generator.randrange(200), generator.randrange(len(data))))
            yield f"cut to {size} bytes", data[:size]
        elif kind == "bytes":
            at, length = generator.randrange(0x1000), generator.choice((1, 1, 4, 64))
            yield f"{length} random bytes at {at:#x}", data[:at] + generator.randbytes(length) + data[at + length:]
        else:
            name, at, size = generator.choice(fields[kind == "load"])
            value = generator.choice(elf_fields.WILD + [generator.randrange(2 ** 16), len(data), 0x1000, 0x400000])
            yield f"{name} = {value:#x}", elf_fields.damage(data, at, size, value)


def judge(alone, job):
    """What is wrong with the job's end, compared with that of the program alone; None: nothing."""
    code, output = job
    if code == "hangs":
        return None if alone[0] == "hangs" else "hangs"
    if alone[0] == 0 and code != 0 and "heddle: " not in output and "mpirun: " not in output:
        return "fails without a message"
    if code != 0 and not output and alone[1]:
        return "fails silently, alone it does not"
    if code != 0 and not output and not isinstance(alone[0], str) and alone[0] >= 0:
        return "fails silently"
    return None


def main():
    folder, mpicc, mpirun, seed, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with open(os.path.join(folder, "program.c"), "w") as source:
        source.write(SOURCE)
    subprocess.run([mpicc, "-O1", "-o", "whole", "program.c"], cwd=folder, check=True)
    data = open(os.path.join(folder, "whole"), "rb").read()
    generator = random.Random(seed)
    ends = {}
    n_bad = 0
    for number, (name, contents) in zip(range(count), cases(data, generator)):
        path = os.path.join(folder, f"program{number}")
        with open(path, "wb") as out:
            out.write(contents)
        os.chmod(path, 0o755)
        try:
            alone = run([path], folder)
        except OSError as error:
            alone = "no start", str(error)
        job = run([mpirun, "-n", "2", path, "+p", "2"], folder, LIMIT_S if alone[0] == "hangs" else LONG_LIMIT_S)
        ends[(alone[0], job[0])] = ends.get((alone[0], job[0]), 0) + 1
        wrong = judge(alone, job)
        if wrong:
            n_bad += 1
            print(f"{name}: {wrong}; alone {alone[0]}: {alone[1][-200:]!r}; job {job[0]}: {job[1][-300:]!r}")
        else:
            os.unlink(path)
    for (alone, job), n in sorted(ends.items(), key=lambda item: -item[1]):
        print(f"{n} files: alone {alone}, as a job {job}")
    print(f"{count} damaged files, {n_bad} end badly")
    sys.exit(n_bad != 0 or not any(alone == 0 and job == 0 for alone, job in ends))


main()
