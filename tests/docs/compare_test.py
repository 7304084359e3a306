#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that bench/compare builds the benchmarks with two MPIs, runs them, and writes a complete report: every table with
figures of both, ratios, complete pictures. No figure is judged.

usage: compare_test.py BUILD WORK. The other MPI is Heddle again, by --mpi.
"""

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree

build, work = map(os.path.abspath, sys.argv[1:])
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
shutil.rmtree(work, ignore_errors=True)
run = subprocess.run(
    [os.path.join(root, "bench", "compare"), "--quick", "--minutes", "8", "--heddle", build, "--only", "Heddle", "--only", "Again",
     "--mpi", f"Again={build}/bin/mpicc,{build}/bin/mpirun", "--build", work + "/bin", "--out", work + "/out"],
    capture_output=True, text=True, timeout=570, check=False)
wrong = []


def require(what, is_so):
    if not is_so:
        wrong.append(what)


require("exit code 0", run.returncode == 0)
require("progress", "[pass 1 of 1," in run.stderr)
with open(work + "/out/results.md", encoding="utf-8") as file:
    report = file.read()
with open(work + "/out/results.json", encoding="utf-8") as file:
    columns = json.load(file)["columns"]
# On a busy machine a barrier may take so long that runs with more ranks are omitted.
missing = report.partition("## Missing measurements")[2].partition("## Commands")[0]
require("nothing is missing: " + missing, all("slow already" in line for line in missing.splitlines() if line))
for table in ("| Point to point", "| Matching", "| Collectives", "| Start-up and memory", "| Switching", "| Limits of the machine",
              "<!-- in short -->\n| on "):
    require(f"a table {table}", table in report and (table in run.stdout or "short" in table))
require("ratios", "x)" in report)
for name, at_least in (("Heddle, 1 PE", 60), ("Again", 150)):
    require(f"results of {name}: {len(columns.get(name, ()))}", len(columns.get(name, ())) >= at_least)
for key in ("latency.8", "latency.8.p95", "bandwidth.4194304", "bibandwidth.4194304", "msgrate.1", "msgrate.2", "matching.shuffled.1000",
            "coll.barrier.2.0", "coll.allreduce.2.8", "startup.16"):
    require(f"a figure for {key}", min(columns.get("Again", {}).get(key) or [0]) > 0)
require("a figure for memory.pss", "memory.pss" in columns.get("Again", {}))  # of 4 ranks more: noise may make it negative
for name in ("latency", "bandwidth", "collectives"):
    picture = xml.etree.ElementTree.parse(f"{work}/out/{name}.svg").getroot()
    width = float(picture.get("width"))
    texts = list(picture.iter("{http://www.w3.org/2000/svg}text"))
    words = [text.text for text in texts]
    require(f"{name}.svg names both", {"Again", "Heddle, 2 PEs"} <= set(words))
    require(f"{name}.svg has lines", len(list(picture.iter("{http://www.w3.org/2000/svg}polyline"))) >= 3)
    # The legend is inside the picture; a letter takes 8 pixels at most.
    require(f"{name}.svg: its legend fits",
            all(float(text.get("x")) + 8 * len(text.text) <= width for text in texts if text.get("font-size") == "13"))
if wrong:
    print(run.stdout[-4000:], run.stderr[-4000:], sep="\n")
print("\n".join("not as expected: " + what for what in wrong) or "the report is whole")
sys.exit(1 if wrong else 0)
