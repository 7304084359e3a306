# SPDX-License-Identifier: BSD-3-Clause
"""Messages and one-sided operations between two processes of one node, beside raw UCX active messages and puts, and the
start time of many processes: for bench/budgets --procs.

Each pass measures raw UCX (ucx_perftest), Heddle and the other MPIs one after the other. The ratio is taken within the
pass, because the speed of a virtual machine's cores changes between passes; the median is reported.
ucx_perftest receives all messages in one buffer; MPI's windows are of 4 MiB here (4 messages of 1 MiB, one of 4), so
that the receive buffers do not fall out of the caches for that reason alone.
"""
import collections

import benchlib as lib

MIB = 1 << 20

# what, unit, program and its arguments, key, raw test (ucx_perftest), bytes, budget (ratio to raw), is_at_least
ROWS = [
    ("8 B half round trip", "us", "latency", ["-M", 8], "latency.8", "ucp_am_lat", 8, 1.15, False),
    ("8 B messages in windows of 64", "million/s", "msgrate", [], "msgrate.1", "ucp_am_bw", 8, 0.9, True),
    ("1 MiB one way", "GB/s", "bandwidth", ["-d", "uni", "-w", 4, "-m", MIB, "-M", MIB], f"bandwidth.{MIB}",
     "ucp_am_bw", MIB, 0.95, True),
    ("4 MiB one way", "GB/s", "bandwidth", ["-d", "uni", "-w", 1, "-m", 4 * MIB, "-M", 4 * MIB],
     f"bandwidth.{4 * MIB}", "ucp_am_bw", 4 * MIB, 0.95, True),
    ("MPI_Put of 8 B and flush", "us", "rma", ["-M", 4096], "rma.put.8", "ucp_put_lat", 8, 1.2, False),
    ("MPI_Fetch_and_op of 8 B and flush", "us", "rma", ["-M", 4096], "rma.fetch_and_op", "ucp_fadd", 8, 1.3, False),
    ("MPI_Put of 4 MiB and flush", "GB/s", "rma", ["-M", 4 * MIB], f"rma.put.{4 * MIB}", "ucp_put_bw", 4 * MIB, 0.95,
     True),
]

# A second budget of the message rate, million/s.
LEAST_RATE = 4.2

# Start-up: the budget is for MPI_Init; the measurement is the whole command from start to exit, which includes it.
START_PROCS = 16
START_BUDGET_S = 0.5
START = f"hello world, {START_PROCS} processes, start to exit"


def raw_value(unit, columns):
    """From ucx_perftest's columns: iterations, median, average and overall latency, bandwidth and rate (average,
    overall)."""
    if unit == "us":
        return float(columns[1])
    if unit == "GB/s":
        return float(columns[5]) * MIB / 1e9
    return float(columns[7]) / 1e6


def our_value(unit, program, value, len_bytes):
    """From the benchmark's value: rma prints ns for small operations and us for large ones."""
    if program != "rma" or value is None:
        return value
    return value / 1000 if unit == "us" else len_bytes / value / 1000


def measure(columns, quick, passes):
    """Runs everything; returns {(row, who): values} with "raw" and the MPIs' names, failures included in columns."""
    results = collections.defaultdict(list)
    seconds = 0.1 if quick else 0.5
    for number in range(1 if quick else passes):
        lib.say(f"pass {number + 1}")
        for what, unit, program, arguments, key, test, len_bytes, _, _ in ROWS:
            n = 2000 * MIB // max(len_bytes, 4096) // (4 if quick else 1)
            raw, error = lib.run_perftest(test, len_bytes, min(n, 500000), 60)
            if error:
                columns[0].failures["ucx_perftest"] = error
            results[what, "raw"].append(raw_value(unit, raw) if raw else None)
            for column in columns:
                run = f"{what}.procs"
                procs = 2 if column.mpi.kind == "heddle" else None
                column.run(run, program, arguments + ["-t", seconds], 2, None, 60, procs)
                values = column.results.get((run, key), [])
                value = values[-1] if len(values) == number + 1 else None
                results[what, column.mpi.name].append(our_value(unit, program, value, len_bytes))
        for column in columns:
            procs = START_PROCS if column.mpi.kind == "heddle" else None
            command = column.mpi.command(START_PROCS, column.programs["hello"], procs=procs)
            seconds_taken, error = lib.measure_startup(command, 3, 60)
            results[START, column.mpi.name] += seconds_taken
            if error:
                column.failures[START] = error
    return results


def ratios(ours, raw):
    return lib.median([a / b for a, b in zip(ours, raw) if a and b])


def table(columns, results, verdict):
    rows = []
    names = [column.mpi.name for column in columns]
    known = lambda values: lib.median([value for value in values if value])  # noqa: E731
    for what, unit, _, _, _, _, _, budget, is_at_least in ROWS:
        ratio = ratios(results[what, names[0]], results[what, "raw"])
        rows.append([what, unit, lib.number(known(results[what, "raw"]))] +
                    [lib.number(known(results[what, name])) for name in names] +
                    [("at least " if is_at_least else "at most ") + str(budget), lib.number(ratio),
                     verdict(ratio, budget, is_at_least)])
    rate = known(results[ROWS[1][0], names[0]])
    rows.append([ROWS[1][0], "million/s", "-", lib.number(rate)] + ["-"] * (len(names) - 1) +
                [f"above {LEAST_RATE} (AMPI over UCX)", "-", verdict(rate, LEAST_RATE, True)])
    start = known(results[START, names[0]])
    rows.append([START, "s", "-"] + [lib.number(known(results[START, name])) for name in names] +
                [f"at most {START_BUDGET_S}", "-", verdict(start, START_BUDGET_S, False)])
    return lib.markdown_table(["two processes, one PE each", "unit", "raw UCX", *names, "budget (ours/raw)", "ours/raw",
                               "met"], rows, 2)
