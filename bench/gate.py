# SPDX-License-Identifier: BSD-3-Clause
"""bench/compare --gate: which ratio to the best other MPI got worse?

Runs short programs of two and four ranks with all MPIs in turn, round after round, for three minutes. A round yields one
ratio per row and column of Heddle: its time divided by that of the best other MPI (the inverse of rates, so that more is
worse). The rounds of a run are its noise: their quartiles are compared with those in bench/history/gate.json. A row is
worse if its lower quartile is above the upper quartile of each committed run on a machine with as many cores. What looks
worse is measured again, in as many rounds, before it is reported.

The cores of a virtual machine may be near each other at one time and far at another: a cache line then takes three times
as long, and so does a message. Before and after each program bench/handoff measures a line. If the times of all programs
show two groups, near and far have rows of their own, and a ratio is of two programs that saw the same: the other MPI's
nearest round counts. A program during which the cores moved does not count.
"""

import collections
import json
import math
import os
import statistics
import time

import benchlib as lib

HISTORY = os.path.join(lib.BENCH_DIR, "history", "gate.json")
MIN_ROUNDS = 4  # fewer have no quartiles
TWO_GROUPS = 1.5  # times of a line are in two groups if none lies between some time and so many times that

# What a program printed, in which round, and the times of a line before and after.
Sample = collections.namedtuple("Sample", "round value before after")

# A program, its arguments, its ranks, and the keys that count. Rates are read from the keys' names.
Program = collections.namedtuple("Program", "name arguments ranks keys least_cores")
SMALL = "barrier,bcast,allreduce,allgather,alltoall,reduce,gather,scatter"
LARGE = "bcast,alltoall,allgather"
PROGRAMS = [
    Program("collectives", ["-o", SMALL, "-s", "8", "-t", "0.02"], 2,
            [f"coll.{op}.2.{0 if op == 'barrier' else 8}" for op in SMALL.split(",")], 2),
    Program("collectives", ["-o", LARGE, "-s", "1048576", "-t", "0.04"], 2,
            [f"coll.{op}.2.1048576" for op in LARGE.split(",")], 2),
    Program("collectives", ["-o", "bcast,scatter", "-s", "65536", "-t", "0.03"], 4,
            ["coll.bcast.4.65536", "coll.scatter.4.65536"], 4),
    Program("latency", ["-M", "65536", "-t", "0.02"], 2,
            ["latency.8", "latency.1024", "latency.16384", "latency.65536"], 2),
    Program("bandwidth", ["-d", "uni", "-m", "1024", "-M", "1024", "-t", "0.05"], 2, ["bandwidth.1024"], 2),
    Program("msgrate", ["-t", "0.05"], 2, ["msgrate.1"], 2),
    Program("matching", ["-m", "10000", "-M", "10000", "-t", "0.02"], 2, ["matching.inorder.10000"], 2),
]


def is_rate(key):
    return key.startswith(("bandwidth", "msgrate"))


def ratio(key, ours, best):
    return best / ours if is_rate(key) else ours / best


def quartiles(values):
    lower, middle, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, middle, upper


def find_limit(lines, history, cores):
    """The time of a line between near and far; None: there is one group, and the history knows no other."""
    lines = sorted(lines)
    gap, below = max(((after / before, before) for before, after in zip(lines, lines[1:])), default=(1, 0))
    if gap >= TWO_GROUPS:
        return below * math.sqrt(gap)
    return next((run["line_ns"] for run in reversed(history) if run["cores"] == cores and run.get("line_ns")), None)


class Rounds:
    """Samples by column and program, and the ratios by row: (column's label, key)."""

    def __init__(self, configs, handoff=None):
        self.ours = [c for c in configs if c.is_ours()]
        self.others = [c for c in configs if not c.is_ours()]
        self.handoff = handoff
        self.samples = collections.defaultdict(list)
        self.failures = {}

    def line(self):
        """The time of a cache line from core to core in ns."""
        if not self.handoff:
            return 0
        code, out, _, _ = lib.run([self.handoff, "-t", "0.002"], 20)
        return lib.parse(out).get("handoff", 0) if code == 0 else 0

    def value(self, config, program):
        """The results of one run: {key: value}."""
        ranks = program.ranks
        pes, procs = config.pes, config.procs
        if config.procs:
            procs = ranks
        elif config.pes:
            pes = ranks
        command = config.mpi.command(ranks, config.programs[program.name], program.arguments, pes, procs)
        code, out, err, _ = lib.run(command, 20)
        if code != 0:
            self.failures[f"{config.label}: {program.name}"] = lib.reason(code, err)
        return lib.parse(out) if code == 0 else {}

    def run(self, program, number):
        """One round of a program: another MPI begins in each."""
        configs = self.ours + self.others
        turn = number % len(configs)
        before = self.line()
        for config in configs[turn:] + configs[:turn]:
            values = self.value(config, program)
            after = self.line()
            for key in program.keys:
                if values.get(key):
                    self.samples[config.label, key].append(Sample(number, values[key], before, after))
            before = after

    def lines(self):
        return [line for samples in self.samples.values() for s in samples for line in (s.before, s.after) if line]

    def ratios(self, limit):
        """By row. limit: see find_limit."""
        ratios = collections.defaultdict(list)
        for place in ("", ) if limit is None else (", near", ", far"):
            def seen(label, key, place=place):
                return [s for s in self.samples[label, key]
                        if not place or {s.before < limit, s.after < limit} == {place == ", near"}]
            for label, key in list(self.samples):
                theirs = [samples for samples in (seen(c.label, key) for c in self.others) if samples]
                if not theirs or not any(c.label == label for c in self.ours):
                    continue
                for ours in seen(label, key):
                    near = [min(samples, key=lambda s: abs(s.round - ours.round)).value for samples in theirs]
                    best = max(near) if is_rate(key) else min(near)
                    ratios[label + place, key].append(ratio(key, ours.value, best))
        return ratios

    def run_until(self, programs, end):
        """Whole rounds, while there is time for one more; for MIN_ROUNDS, twice the time."""
        begin, number, longest = time.monotonic(), 0, 0
        while number < MIN_ROUNDS or time.monotonic() + longest < end:
            begin_round = time.monotonic()
            if begin_round + longest > end + (end - begin):
                raise lib.BenchError(f"only {number} rounds: the machine is too busy, or --minutes too few")
            for program in programs:
                self.run(program, number)
            number += 1
            longest = max(longest, time.monotonic() - begin_round)
            lib.say(f"[round {number}] {longest:.0f} s")


def load(path=HISTORY):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def limits(history, cores):
    """By row: the highest upper quartile of the committed runs, and the median of that run."""
    highest = {}
    for run in history:
        if run["cores"] == cores:
            for row, ratios in run["ratios"].items():
                _, middle, upper = quartiles(ratios)
                highest[row] = max(highest.get(row, (0, 0)), (upper, middle))
    return highest


def name_of(row):
    return f"{row[0]}: {row[1]}"


def find_worse(ratios, highest):
    """Rows whose lower quartile is above the limit."""
    return [row for row, values in ratios.items() if len(values) >= MIN_ROUNDS and name_of(row) in highest and
            quartiles(values)[0] > highest[name_of(row)][0]]


def table(ratios, highest, worse):
    rows = []
    for row in sorted(ratios, key=lambda row: (row[0], list(ratios).index(row))):
        if len(ratios[row]) < MIN_ROUNDS:
            continue
        lower, middle, upper = quartiles(ratios[row])
        then = highest.get(name_of(row))
        rows.append([row[0], row[1], lib.number(middle), f"{lower:.2f} to {upper:.2f}",
                     f"{then[1]:.2f}, to {then[0]:.2f}" if then else "-", "WORSE" if row in worse else ""])
    return lib.markdown_table(["column", "key", "ratio", "quartiles", "committed, upper quartile", ""], rows, 2)


def check(configs, seconds, accepts, machine, handoff):
    """The whole gate; returns the exit code. handoff: the program."""
    cores = lib.core_count()
    configs = [c for c in configs if not (c.is_ours() and c.pes == 1 and not c.procs)]
    rounds = Rounds(configs, handoff)
    if not rounds.others or not rounds.ours:
        raise lib.BenchError("--gate needs Heddle, another MPI and two cores")
    programs = [program for program in PROGRAMS if program.least_cores <= cores]
    history, begin = load(), time.monotonic()
    highest = limits(history, cores)
    rounds.run_until(programs, begin + seconds * (1 if accepts or not highest else 0.75))
    limit = find_limit(rounds.lines(), history, cores)
    ratios = rounds.ratios(limit)
    worse = find_worse(ratios, highest)
    if worse and not accepts:
        lib.say(f"measured again: {', '.join(map(name_of, worse))}")
        keys = {key for _, key in worse}
        again = Rounds(configs, handoff)
        again.run_until([p for p in programs if keys & set(p.keys)], begin + seconds)
        rounds.failures.update(again.failures)
        ratios.update((row, values) for row, values in again.ratios(limit).items() if row in worse)
        worse = [row for row in find_worse(ratios, highest) if row in worse]
    print(table(ratios, highest, worse))
    if limit:
        print(f"near, far: a cache line from core to core takes less, more than {limit:.0f} ns")
    for what, why in rounds.failures.items():
        print(f"FAILED {what}: {why}")
    if not highest and not accepts:
        print(f"{HISTORY} has no run on {cores} cores: nothing was compared (see --accept)")
    if accepts and not rounds.failures:
        history.append({"machine": dict(machine), "cores": cores, "line_ns": limit,
                        "ratios": {name_of(row): [round(r, 3) for r in values]
                                   for row, values in ratios.items() if len(values) >= MIN_ROUNDS}})
        with open(HISTORY, "w", encoding="utf-8") as file:
            json.dump(history, file, indent=1)
            file.write("\n")
        print(f"added to {HISTORY}")
    return 1 if rounds.failures or (worse and not accepts) else 0
