#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that heddle-whatif predicts the exact time on 1 to 16 PEs, from a trace of one PE, for programs whose ranks compute for known times.

The time that is right comes from a simulation of the program, not of its trace: consecutive ranks share a PE, which runs the
first ready one. A second trace, in which four PEs make all computations take 1.5 times as long, adds what it shows (--with).
Usage: whatif_test.py BUILD WORK
"""
import collections
import heapq
import json
import os
import pathlib
import subprocess
import sys

RANKS, ROUNDS = 16, 6
PES = [1, 2, 3, 4, 8, 16]
HERE = pathlib.Path(__file__).resolve().parent / "whatif"


def steps(kind, rank):
    """What whatif.c does: ("run", units), ("reach", point), ("need", point, how often it is reached)."""
    for i in range(ROUNDS):
        if kind == "line" and rank > 0:
            yield "need", ("sent", rank - 1, i), 1
        yield "run", 1 + (rank * 7 + i * 3) % 5
        if kind == "line" and rank < RANKS - 1 or kind == "ring":
            yield "reach", ("sent", rank, i)
        if kind == "ring":
            yield "need", ("sent", (rank + RANKS - 1) % RANKS, i), 1
        if kind == "barriers":
            yield "reach", ("barrier", i)
            yield "need", ("barrier", i), RANKS


class Exact:
    """The program on some PEs."""

    def __init__(self, kind, n_pes):
        self.todo = [list(steps(kind, rank))[::-1] for rank in range(RANKS)]
        self.pe_of = [rank * n_pes // RANKS for rank in range(RANKS)]
        self.ready = [collections.deque() for _ in range(n_pes)]
        self.is_busy = [False] * n_pes
        self.reached = collections.Counter()
        self.waiting = []  # (rank, point, how often)
        self.events = []   # (time, order, rank)
        self.n_events = 0

    def later(self, time, rank):
        self.n_events += 1
        heapq.heappush(self.events, (time, self.n_events, rank))

    def enqueue(self, time, rank):
        pe = self.pe_of[rank]
        self.ready[pe].append(rank)
        if not self.is_busy[pe]:
            self.next(time, pe)

    def next(self, time, pe):
        self.is_busy[pe] = bool(self.ready[pe])
        if self.is_busy[pe]:
            self.later(time, self.ready[pe].popleft())

    def reach(self, time, point):
        self.reached[point] += 1
        woken = [wait for wait in self.waiting if wait[1] == point and self.reached[point] >= wait[2]]
        self.waiting = [wait for wait in self.waiting if wait not in woken]
        for rank, _, _ in woken:
            self.enqueue(time, rank)

    def go_on(self, time, rank):
        while self.todo[rank]:
            step = self.todo[rank][-1]
            if step[0] == "need" and self.reached[step[1]] < step[2]:
                self.waiting.append((rank, step[1], step[2]))
                break
            self.todo[rank].pop()
            if step[0] == "run":
                self.later(time + step[1], rank)
                return
            if step[0] == "reach":
                self.reach(time, step[1])
        self.next(time, self.pe_of[rank])

    def run(self):
        time = 0
        for rank in range(RANKS):
            self.enqueue(0, rank)
        while self.events:
            time, _, rank = heapq.heappop(self.events)
            self.go_on(time, rank)
        return time


def write_slower(path, slower_path):
    """Writes the trace as if it had 4 PEs, which make ranks compute 1.5 times as long."""
    trace = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    for event in trace["traceEvents"]:
        if event["name"] == "running":
            event["dur"] *= 1.5
        elif event["name"] == "heddle_process":
            event["args"]["pes"] = 4
    pathlib.Path(slower_path).write_text(json.dumps(trace), encoding="utf-8")


def find_wrong(what, right_of, command):
    """The number of predictions of the command that differ from right_of(PEs) by more than 10 %."""
    done = subprocess.run([*command, "--json"], check=True, stdout=subprocess.PIPE, text=True, timeout=180)
    n_wrong = 0
    for result in json.loads(done.stdout)["predicted"]:
        right = right_of(result["pes"])
        # The order of ranks that become ready at the same time is open.
        if abs(result["seconds"] / right - 1) > 0.1 or result["stuck_ranks"]:
            print(f"FAILED: {what}, {result['pes']} PEs: {result}, but {right} s is right")
            n_wrong += 1
    return n_wrong


def find_accepted(whatif):
    """The number of second traces that are taken but have no more PEs, or are not traces."""
    n_wrong = 0
    for first, other in (("slower.json", "run.json"), ("run.json", "run.json"), ("run.json", "none.json")):
        done = subprocess.run([whatif, first, "2", "--with", other], stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        if done.returncode != 1 or not done.stderr.startswith(f"heddle-whatif: {other}: "):
            print(f"FAILED: {first} --with {other}: code {done.returncode}, {done.stderr}")
            n_wrong += 1
    return n_wrong


def main():
    build, work = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    work.mkdir(parents=True, exist_ok=True)
    os.chdir(work)
    clock = work / "libtest_clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", clock, HERE / "clock.c"], check=True)
    subprocess.run([build / "bin" / "mpicc", "-O1", "-o", "whatif", HERE / "whatif.c", clock], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "HEDDLE_OPTIONS"}
    environment["LD_PRELOAD"] = str(clock)
    whatif = build / "bin" / "heddle-whatif"
    failures = 0
    for kind in ["alone", "barriers", "line", "ring"]:
        subprocess.run([build / "bin" / "mpirun", "-n", str(RANKS), "+p", "1", "+trace", "run.json", "./whatif", kind, str(ROUNDS)],
                       check=True, timeout=180, env=environment)
        exact = {n_pes: Exact(kind, n_pes).run() / 100 for n_pes in PES}
        command = [whatif, "run.json", ",".join(map(str, PES))]
        failures += find_wrong(kind, lambda n_pes: exact[n_pes], command)
        write_slower("run.json", "slower.json")
        failures += find_wrong(f"{kind}, --with", lambda n_pes: exact[n_pes] * (1 + 0.5 * (n_pes - 1) / 3),
                               [*command, "--with", "slower.json"])
    failures += find_accepted(whatif)
    print(f"{failures} predictions are wrong" if failures else "all predictions are right")
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
