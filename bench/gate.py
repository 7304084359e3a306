# SPDX-License-Identifier: BSD-3-Clause
"""bench/compare --gate: which ratio to the best other MPI got worse?

Runs short programs of two and four ranks with all MPIs in turn, round after round, for three minutes. A round yields one
ratio per row and column of Heddle: its time divided by that of the best other MPI in the same round (the inverse of
rates, so that more is worse). The rounds of a run are its noise: their quartiles are compared with those in
bench/history/gate.json. A row is worse if its lower quartile is above the upper quartile of each committed run on a
machine with as many cores. What looks worse is measured again, in as many rounds, before it is reported.
"""

import collections
import json
import os
import statistics
import time

import benchlib as lib

HISTORY = os.path.join(lib.BENCH_DIR, "history", "gate.json")
MIN_ROUNDS = 4  # fewer have no quartiles

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


class Rounds:
    """Ratios by row: (column's label, key)."""

    def __init__(self, configs):
        self.ours = [c for c in configs if c.is_ours()]
        self.others = [c for c in configs if not c.is_ours()]
        self.ratios = collections.defaultdict(list)
        self.failures = {}

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
        results = {c.label: self.value(c, program) for c in configs[turn:] + configs[:turn]}
        for key in program.keys:
            theirs = [results[c.label][key] for c in self.others if results[c.label].get(key)]
            for c in self.ours:
                ours = results[c.label].get(key)
                if ours and theirs:
                    best = max(theirs) if is_rate(key) else min(theirs)
                    self.ratios[c.label, key].append(ratio(key, ours, best))

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


def check(configs, seconds, accepts, machine):
    """The whole gate; returns the exit code."""
    cores = lib.core_count()
    configs = [c for c in configs if not (c.is_ours() and c.pes == 1 and not c.procs)]
    rounds = Rounds(configs)
    if not rounds.others or not rounds.ours:
        raise lib.BenchError("--gate needs Heddle, another MPI and two cores")
    programs = [program for program in PROGRAMS if program.least_cores <= cores]
    history, begin = load(), time.monotonic()
    highest = limits(history, cores)
    rounds.run_until(programs, begin + seconds * (1 if accepts or not highest else 0.75))
    worse = find_worse(rounds.ratios, highest)
    if worse and not accepts:
        lib.say(f"measured again: {', '.join(map(name_of, worse))}")
        keys = {key for _, key in worse}
        again = Rounds(configs)
        again.run_until([p for p in programs if keys & set(p.keys)], begin + seconds)
        rounds.failures.update(again.failures)
        for row in worse:
            rounds.ratios[row] = again.ratios[row]
        worse = [row for row in find_worse(rounds.ratios, highest) if row in worse]
    print(table(rounds.ratios, highest, worse))
    for what, why in rounds.failures.items():
        print(f"FAILED {what}: {why}")
    if not highest and not accepts:
        print(f"{HISTORY} has no run on {cores} cores: nothing was compared (see --accept)")
    if accepts and not rounds.failures:
        history.append({"machine": dict(machine), "cores": cores,
                        "ratios": {name_of(row): [round(r, 3) for r in values]
                                   for row, values in rounds.ratios.items() if len(values) >= MIN_ROUNDS}})
        with open(HISTORY, "w", encoding="utf-8") as file:
            json.dump(history, file, indent=1)
            file.write("\n")
        print(f"added to {HISTORY}")
    return 1 if rounds.failures or (worse and not accepts) else 0
