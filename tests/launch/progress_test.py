#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that mpirun --progress draws what each rank does below the job's output in a terminal, with one process and with several, and
gives the terminal back; that it prints lines elsewhere; and that neither a stopped terminal nor a pipe without a reader stops the
job. Usage: progress_test.py MPICC MPIRUN"""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank < size - 1)
        MPI_Send(NULL, 0, MPI_INT, size - 1, 1, MPI_COMM_WORLD);
    if (rank == size - 1) {
        for (int i = 0; i < size - 1; i++) /* the others of this PE go on until they are blocked */
            MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        puts("a line of the job");
        fflush(stdout);
        while (access("go", F_OK) != 0)
            ; /* it runs */
        MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD);
    } else if (rank == 1) {
        while (access("go", F_OK) != 0)
            usleep(100000);
    } else if (rank == 0) {
        MPI_Recv(NULL, 0, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && argc > 1)
        puts("the last line");
    MPI_Finalize();
    return argc > 1 ? 0 : 3 * (rank == 0);
}
"""


def read_until(fd, text, pattern):
    """Reads until the pattern is there; None: until the end."""
    while pattern is None or not re.search(pattern, text, re.S):
        try:
            data = os.read(fd, 65536).decode()
        except OSError:  # the other end of a terminal is closed
            data = ""
        if not data:
            break
        text += data
    return text


def limit_time(job):
    """The test fails after a minute, and leaves no job behind."""

    def end(*_):
        job.kill()
        sys.exit("FAILED: no end within 60 s")

    signal.signal(signal.SIGALRM, end)
    signal.alarm(60)


def run(work, mpirun, words, is_terminal, patterns, n_rows=24):
    """Patterns: what is shown before the job may go on, in any order, and after it."""
    name = " ".join(words) + (" in a terminal" if is_terminal else "")
    if os.path.exists(work + "/go"):
        os.remove(work + "/go")
    command = [mpirun, "--progress", *words, "./app"]
    if is_terminal:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", n_rows, 80, 0, 0))
    else:
        ours, theirs = os.pipe()
    env = dict(os.environ, TERM="xterm")
    job = subprocess.Popen(command, cwd=work, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    limit_time(job)
    text = ""
    for pattern in patterns[:-1]:
        text = read_until(ours, text, pattern)
    open(work + "/go", "w").close()
    text = read_until(ours, text, None)
    code = job.wait()
    for pattern in patterns:
        if not re.search(pattern, text, re.S):
            print("FAILED: %s: no %r in %r" % (name, pattern, text))
            return False
    if code != 3:
        print("FAILED: %s: exit code %d in %r" % (name, code, text))
    return code == 3


def run_unseen(work, mpirun, words, is_terminal):
    """Nobody reads what is shown, as soon as the first picture is there (a terminal), or from the beginning (a pipe)."""
    name = " ".join(words) + (": a stopped terminal" if is_terminal else ": a pipe without a reader")
    command = [mpirun, "--progress", *words, "./app", "0"]
    os.remove(work + "/go")
    ours, theirs = pty.openpty() if is_terminal else os.pipe()
    if is_terminal:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    else:
        os.close(ours)
    env = dict(os.environ, TERM="xterm")
    job = subprocess.Popen(command, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, env=env)
    limit_time(job)
    text = read_until(job.stdout.fileno(), "", "a line of the job")
    if is_terminal:
        read_until(ours, "", "rank 3: runs")
        termios.tcflow(theirs, termios.TCOOFF)
    time.sleep(1.2)  # mpirun shows something more, or it does not: nobody can see that
    open(work + "/go", "w").close()
    text = read_until(job.stdout.fileno(), text, "the last line")
    if is_terminal:
        termios.tcflow(theirs, termios.TCOON)
        read_until(ours, "", r"\x1b\[r")
    code = job.wait()
    if code != 0 or "the last line" not in text:
        print("FAILED: %s: exit code %d, %r" % (name, code, text))
    return code == 0 and "the last line" in text


def main():
    mpicc, mpirun = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        with open(work + "/app.c", "w") as out:
            out.write(PROGRAM)
        subprocess.run([mpicc, work + "/app.c", "-o", work + "/app"], check=True)
        # Rows 20 to 23, above them the part that scrolls; at the end this part is the whole terminal, and the rows are empty.
        rows = [r"\x1b\[1;20r", r"a line of the job", r"\x1b\[21;1H\x1b\[2Krank 0: blocked in MPI_Recv\x1b\[22;1H"]
        rows += [r"rank 1: sleeps\x1b", r"rank 2: blocked in MPI_Barrier\x1b", r"rank 3: runs\x1b", r"\x1b\[r\x1b\[21;1H\x1b\[J\x1b8\Z"]
        many = [r"37 blocked in MPI_Barrier: 2-38\x1b", r"1 sleeps: 1\x1b", r"1 runs: 39\x1b", r"1 blocked in MPI_Recv: 0\x1b", r"\x1b\[r"]
        results = [
            run(work, mpirun, ["-n", "4", "+p", "2"], True, rows),
            run(work, mpirun, ["-n", "4", "--procs", "2"], True, rows),
            # A process with one rank does not see that it sleeps.
            run(work, mpirun, ["-n", "4", "--procs", "4"], True, [row.replace("1: sleeps", "1: runs") for row in rows]),
            run(work, mpirun, ["-n", "40", "+p", "2"], True, many),
            run(work, mpirun, ["-n", "4", "+p", "2"], False, [r"after \d+ s, ranks: .*1 ", r"a line of the job\n"]),
            run(work, mpirun, ["-n", "4", "+p", "2"], True, [r"after \d+ s, ranks: .*1 ", r"a line of the job"], 0),
            run_unseen(work, mpirun, ["-n", "4", "--procs", "2"], True),
            run_unseen(work, mpirun, ["-n", "4", "+p", "2"], False),
        ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
