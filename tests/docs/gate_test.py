#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows what bench/compare --gate reports: a ratio that got worse by more than its rounds vary, and no other.

usage: gate_test.py
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))

import gate  # noqa: E402

COLUMN = "Heddle, 2 PEs"


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: {got} instead of {wanted}")


class FakeMpi:
    def __init__(self, label, is_ours):
        self.label, self.is_ours = label, lambda: is_ours


def test_rounds():
    """A row's ratio is to the best other MPI of the round; of a rate it is the inverse."""
    results = {COLUMN: {"latency.8": 3.0, "msgrate.1": 5.0}, "A": {"latency.8": 2.0, "msgrate.1": 10.0},
               "B": {"latency.8": 1.5, "msgrate.1": 4.0}}
    rounds = gate.Rounds([FakeMpi(COLUMN, True), FakeMpi("A", False), FakeMpi("B", False)])
    rounds.value = lambda config, program: results[config.label]
    rounds.run(gate.Program("any", [], 2, ["latency.8", "msgrate.1", "absent"], 2), 1)
    expect("ratios", dict(rounds.ratios(None)), {(COLUMN, "latency.8"): [2.0], (COLUMN, "msgrate.1"): [2.0]})


def test_places():
    """What ran on near cores is compared with what ran on near ones, in the nearest round."""
    places = iter([70, 75, 210, 220, 230, 230, 225, 80, 70])  # before the first program of a round, and after each
    values = iter([("A", 1.0), (COLUMN, 5.0), (COLUMN, 3.0), ("A", 2.0), ("A", 9.0), (COLUMN, 1.5)])
    rounds = gate.Rounds([FakeMpi(COLUMN, True), FakeMpi("A", False)])
    rounds.line = lambda: next(places)

    def value(config, _):
        label, number = next(values)
        expect("the order", label, config.label)
        return {"latency.8": number}
    rounds.value = value
    for number in (1, 2, 3):
        rounds.run(gate.Program("any", [], 2, ["latency.8"], 2), number)
    limit = gate.find_limit(rounds.lines(), [], 2)
    expect("the limit", 80 < limit < 210, True)
    # The second program, and that of 9.0, ran while the cores moved.
    expect("ratios", dict(rounds.ratios(limit)), {(COLUMN + ", near", "latency.8"): [1.5], (COLUMN + ", far", "latency.8"): [1.5]})
    expect("one group", gate.find_limit([70, 75, 80, 75], [], 2), None)
    expect("the history's limit", gate.find_limit([70, 75], [{"cores": 2, "line_ns": 120}, {"cores": 4, "line_ns": 9}], 2), 120)


def test_worse():
    row, other = (COLUMN, "latency.8"), (COLUMN, "coll.barrier.2.0")

    def run(cores, values):
        return {"cores": cores, "ratios": {gate.name_of(row): values}}

    history = [run(2, [0.9, 1.0, 1.0, 1.1]), run(2, [1.0, 1.1, 1.2, 1.3]), run(16, [0.1, 0.1, 0.1, 0.1])]
    highest = gate.limits(history, 2)
    expect("the limit", [round(value, 3) for value in highest[gate.name_of(row)]], [1.225, 1.15])
    for what, values, wanted in (("within the noise", [1.1, 1.2, 1.3, 1.4], []),
                                 ("noisy", [0.5, 1.0, 2.0, 3.0], []),
                                 ("worse", [1.3, 1.3, 1.4, 1.4], [row]),
                                 ("too few rounds", [9.0, 9.0], [])):
        expect(what, gate.find_worse({row: values}, highest), wanted)
    expect("a new row", gate.find_worse({other: [9.0, 9.0, 9.0, 9.0]}, highest), [])
    expect("another machine", gate.find_worse({row: [9.0, 9.0, 9.0, 9.0]}, gate.limits(history, 4)), [])


test_rounds()
test_places()
test_worse()
