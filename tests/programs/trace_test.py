#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that the file of +trace tells what the program did (traced.c), with several PEs and processes, and however it ends: it is
JSON, each send has its receive, the states of a rank and the ranks of a PE follow each other, and waits name their causes.

Usage: trace_test.py BUILD WORK [--show FILE]
"""
import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree

SLACK_US = 0.002  # the resolution of the file
LARGE = 100000


class Trace:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.events = json.load(file)["traceEvents"]
        self.tracks = collections.defaultdict(list)
        self.messages = collections.defaultdict(dict)
        self.one_sided = collections.defaultdict(dict)
        self.syncs = collections.Counter()
        self.operations = collections.defaultdict(lambda: collections.defaultdict(dict))
        self.processes = {}
        self.counters = collections.Counter()
        for event in self.events:
            self.take(event)

    def take(self, event):
        kind = event["ph"]
        if kind == "X":
            self.tracks[event["pid"], event["tid"]].append(event)
        elif kind in "sf":
            ends = (self.one_sided if event["cat"] == "rma" else self.messages)[event["id"]]
            assert kind not in ends, f"twice: {event}"
            ends[kind] = event
        elif event.get("cat") == "rma":
            self.syncs[event["name"], event["tid"], event["args"]["target"]] += 1
        elif event.get("cat") == "collective":
            args = event["args"]
            members = self.operations[args["context"], event["name"], args["n"]]
            assert kind not in members[event["tid"]], f"twice: {event}"
            members[event["tid"]][kind] = event["ts"]
        elif event["name"] == "heddle_process":
            self.processes[event["args"]["process"]] = event["args"]
        elif kind == "C":
            self.counters[event["name"].split(" of ")[0]] += 1

    def ranks(self):
        return {tid: track for (pid, tid), track in self.tracks.items() if pid % 2 == 0}

    def pes(self):
        return {key: track for key, track in self.tracks.items() if key[0] % 2 == 1}

    def check_tracks(self):
        for key, track in self.tracks.items():
            track.sort(key=lambda event: event["ts"])
            for before, after in zip(track, track[1:]):
                assert before["ts"] + before["dur"] <= after["ts"] + SLACK_US, f"track {key}: {before} and {after}"
        running = collections.Counter()
        for track in self.ranks().values():
            running.update(event["ts"] for event in track if event["name"] == "running")
        on_pes = collections.Counter(event["ts"] for track in self.pes().values() for event in track)
        assert running == on_pes, "the ranks that run are not those on the PEs"

    def check_messages(self, n_ranks, n_rounds):
        ends = collections.Counter()
        n_bytes = collections.Counter()
        for name, message in self.messages.items():
            pair, context, tag, number = name.split(".")
            source, dest = map(int, pair.split(">"))
            assert set(message) == {"s", "f"}, f"{name}: only {list(message)}"
            assert message["s"]["ts"] <= message["f"]["ts"] + SLACK_US, f"{name} arrives before it is sent"
            assert message["s"]["tid"] == source and message["f"]["tid"] == dest, name
            assert 0 <= int(number) < n_rounds, name
            ends[source, dest, int(tag)] += 1
            n_bytes[int(tag)] += message["s"]["args"]["bytes"]
        expected = collections.Counter()
        for rank in range(n_ranks):
            expected[rank, (rank + 1) % n_ranks, 1] += n_rounds
            expected[rank, (rank + 1) % n_ranks, 2] += n_rounds
            if rank > 0:
                expected[rank, 0, 3] += n_rounds
        assert ends == expected, f"messages: {ends - expected} too many, {expected - ends} missing"
        assert n_bytes[1] == 8 * n_ranks * n_rounds and n_bytes[2] == LARGE * n_ranks * n_rounds, n_bytes

    def check_collectives(self, n_ranks, n_rounds):
        count = collections.Counter()
        for (_, name, _), members in self.operations.items():
            if all(set(times) == {"b", "e"} for times in members.values()) and len(members) == n_ranks:
                count[name] += 1
                assert max(times["b"] for times in members.values()) <= min(times["e"] for times in members.values()) + \
                    SLACK_US, f"{name} ends before all have begun"
        assert count["allreduce"] == n_rounds and count["barrier"] >= 1, count

    def check_unmatched(self, n_ranks):
        """traced.c: send_unmatched and split. The messages of rounds have both ends, too."""
        arrows = collections.Counter()
        for name, message in self.messages.items():
            tag = int(name.split(".")[2])
            if tag > 3 and set(message) == {"s", "f"}:
                assert message["s"]["ts"] <= message["f"]["ts"] + SLACK_US, name
                arrows[tag, message["s"]["args"]["bytes"]] += 1
        assert arrows == {(5, 0): 1, (7, 24): 1}, f"arrows by tag and bytes: {arrows}"
        parts = collections.Counter(frozenset(members) for (_, name, _), members in self.operations.items()
                                    if name == "barrier")
        expected = collections.Counter({frozenset(range(n_ranks)): 3})
        for first in (2, 1):
            expected[frozenset(range(first))] += first
            expected[frozenset(range(first, n_ranks))] += first
        assert parts == expected, f"barriers by members: {parts}"

    def check_windows(self, n_ranks, n_rounds, n_procs):
        """traced.c: use_window."""
        arrows, expected, syncs = collections.Counter(), collections.Counter(), collections.Counter()
        for name, ends in self.one_sided.items():
            assert set(ends) == {"s", "f"} and ends["s"]["args"] == ends["f"]["args"], f"{name}: {ends}"
            for event in ends.values():
                assert event["pid"] == 2 * (event["tid"] * n_procs // n_ranks) + 2, event
            arrows[ends["s"]["args"]["call"], ends["s"]["tid"], ends["f"]["tid"], ends["s"]["args"]["bytes"]] += 1
        for rank in range(n_ranks):
            after = (rank + 1) % n_ranks
            expected["MPI_Put", rank, after, 8] += 2 * n_rounds
            expected["MPI_Get", after, rank, 32] += n_rounds
            expected["MPI_Accumulate", rank, after, 16] += n_rounds
            expected["MPI_Fetch_and_op", rank, 0, 8] += n_rounds
            for call, target in (("lock", after), ("unlock", after), ("lock_all", -1), ("flush", 0), ("unlock_all", -1),
                                 ("post", -1), ("start", -1), ("complete", -1), ("wait", -1)):
                syncs[f"MPI_Win_{call}", rank, target] += n_rounds
        assert arrows == expected, f"arrows: {arrows - expected} too many, {expected - arrows} missing"
        assert self.syncs == syncs, f"synchronisations: {self.syncs - syncs} too many, {syncs - self.syncs} missing"
        fences = [members for (_, name, _), members in self.operations.items() if name == "fence"]
        assert len(fences) == 2 * n_rounds, f"{len(fences)} fences"
        for members in fences:
            assert len(members) == n_ranks and max(times["b"] for times in members.values()) <= \
                min(times["e"] for times in members.values()) + SLACK_US, members

    def check_causes(self):
        """A rank that ended a wait ran then, on the same PE."""
        ranks, n = self.ranks(), 0
        for track in ranks.values():
            for event in track:
                by = event.get("args", {}).get("by")
                if event.get("cat") != "blocked" or by is None:
                    continue
                n += 1
                at = event["ts"] + event["dur"]
                assert any(other["name"] == "running" and other["ts"] - SLACK_US <= at <= other["ts"] + other["dur"] + SLACK_US
                           for other in ranks[by]), f"{event}: rank {by} did not run"
        return n


class Test:
    def __init__(self, build, work):
        self.mpirun = build / "bin" / "mpirun"
        self.work = work
        self.program = work / "traced"
        self.trace = work / "trace.json"
        self.build = build
        work.mkdir(parents=True, exist_ok=True)
        source = pathlib.Path(__file__).parent / "traced.c"
        subprocess.run([build / "bin" / "mpicc", "-O1", "-g", "-o", self.program, source], check=True)
        os.environ.pop("HEDDLE_OPTIONS", None)

    def run(self, *arguments, code=0, options=(), size=""):
        self.trace.write_text("old contents, longer than the beginning of a trace" * 100)
        command = [self.mpirun, *arguments[:-1], self.program, *arguments[-1].split(), "+trace", f"{self.trace}{size}", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        got = done.returncode if done.returncode >= 0 else 128 - done.returncode
        assert got == code, f"{command}: exit code {done.returncode}\n{done.stderr}"
        self.stderr = done.stderr
        return Trace(self.trace)

    def ends_well(self):
        for n_ranks, options in ((1, ["+p", "1"]), (2, ["+p", "1"]), (5, ["+p", "2"]), (17, ["+p", "3"]),
                                 (6, ["--procs", "3", "+p", "1"]), (8, ["--procs", "2", "+p", "2"]), (2, ["--procs", "2"])):
            trace = self.run("-n", str(n_ranks), *options, "end 5")
            trace.check_tracks()
            trace.check_messages(n_ranks, 5)
            trace.check_collectives(n_ranks, 5)
            if options == ["+p", "1"] and n_ranks > 1:
                assert trace.check_causes() > 0, "no wait has a cause"
            trace.check_causes()
            n_procs = int(options[1]) if options[0] == "--procs" else 1
            assert sorted(trace.processes) == list(range(n_procs)), trace.processes
            assert sorted(trace.ranks()) == list(range(n_ranks)), sorted(trace.ranks())
            assert all(process["dropped"] == 0 for process in trace.processes.values())
            assert set(trace.counters) == {"ready ranks", "unexpected messages", "bytes sent"}, trace.counters

    def begins_at_zero(self):
        """Rank 0 calls MPI_Init after the last rank has returned from it."""
        for options in (["+p", "2"], ["--procs", "2", "+p", "1"]):
            begun = self.work / "begun"
            begun.unlink(missing_ok=True)
            trace = self.run("-n", "4", *options, f"first_last 2 {begun}")
            trace.check_messages(4, 2)
            early = [event for event in trace.events if event["ts"] < 0]
            assert not early, f"{len(early)} events before time 0: {early[0]}"

    def leaves_arrows_out(self):
        for n_ranks, options in ((3, ["+p", "1"]), (4, ["+p", "2"]), (6, ["--procs", "3", "+p", "1"])):
            trace = self.run("-n", str(n_ranks), *options, "unmatched 2")
            trace.check_tracks()
            trace.check_unmatched(n_ranks)

    def shows_windows(self):
        for n_ranks, options in ((1, ["+p", "1"]), (3, ["+p", "1"]), (4, ["+p", "2"]), (6, ["--procs", "3", "+p", "1"])):
            sums = self.work / "windows.json"
            trace = self.run("-n", str(n_ranks), *options, "windows 3", options=["+stats", str(sums)])
            trace.check_tracks()
            trace.check_messages(n_ranks, 3)
            trace.check_windows(n_ranks, 3, int(options[1]) if options[0] == "--procs" else 1)
            for rank, row in enumerate(json.loads(sums.read_text())["ranks"]):
                assert row["one_sided"] == 15 and row["bytes_one_sided"] == 3 * (8 + 32 + 16 + 8 + 8), row
                if n_ranks > 2:  # two messages of each round, and all but the get
                    n, n_bytes = row["sent_to"][str((rank + 1) % n_ranks)]
                    to_first = 3 if (rank + 1) % n_ranks == 0 else 0
                    assert n == 3 * 5 + 2 * to_first and n_bytes == 3 * (8 + LARGE + 32) + to_first * 12, row

    def has_threads(self):
        for n_ranks in (1, 3):
            trace = self.run("-n", str(n_ranks), "+p", "2" if n_ranks > 1 else "1", "threads 50")
            trace.check_tracks()
            trace.check_messages(n_ranks, 50)

    def ends_badly(self):
        for n_ranks, options in ((4, ["+p", "1"]), (5, ["+p", "2"]), (6, ["--procs", "3", "+p", "1"])):
            trace = self.run("-n", str(n_ranks), *options, "abort 3", code=3)
            trace.check_tracks()
            trace.check_messages(n_ranks, 3)
            trace = self.run("-n", str(n_ranks), *options, "deadlock 3", code=1)
            trace.check_tracks()
            trace.check_messages(n_ranks, 3)
            last = {rank: track[-1] for rank, track in trace.ranks().items()}
            assert len(last) == n_ranks and all(event["name"] == "MPI_Recv" for event in last.values()), last
            trace = self.run("-n", str(n_ranks), *options, "crash 3", code=128 + signal.SIGSEGV)
            trace.check_tracks()
            trace.check_messages(n_ranks, 3)

        trace = self.run("-n", "4", "+p", "2", "late 1000", code=16)
        trace.check_messages(4, 1000)

    def drops_old_events(self):
        trace = self.run("-n", "4", "+p", "2", "end 500", size=",64K")
        trace.check_tracks()
        dropped = sum(process["dropped"] for process in trace.processes.values())
        assert dropped > 0 and f"{dropped} early events" in self.stderr, self.stderr
        whole = [message for message in trace.messages.values() if len(message) == 2]
        assert len(whole) > 20 and all(m["s"]["ts"] <= m["f"]["ts"] + SLACK_US for m in whole), len(whole)
        # The last ones of each pair are there, with the numbers that they have in the run.
        for rank in range(4):
            assert any(name.startswith(f"{rank}>{(rank + 1) % 4}.") and name.endswith(".1.499") and len(message) == 2
                       for name, message in trace.messages.items()), rank

    def shows_gpus(self):
        """With the fake driver: work that ranks give to a GPU is on their tracks, copies of messages on those of the PEs."""
        driver = self.build / "tests" / "support" / "fakecuda" / "libcuda.so.1"
        if not driver.exists():
            print("no fake CUDA driver: its test is skipped")
            return
        before, self.program = self.program, self.work / "traced_gpu"
        source = pathlib.Path(__file__).parent / "traced_gpu.c"
        subprocess.run([self.build / "bin" / "mpicc", "-O1", "-o", self.program, source, driver], check=True)
        os.environ.update(LD_LIBRARY_PATH=str(driver.parent), FAKECUDA_DEVICES="1", FAKECUDA_MEMORY_MIB="64")
        trace = self.run("-n", "3", "+p", "1", "x")
        del os.environ["LD_LIBRARY_PATH"]
        self.program = before
        work, copies = collections.Counter(), collections.Counter()
        for event in trace.events:
            if event.get("cat") == "gpu" and event["ph"] == "i":
                work[event["tid"], event["name"].split("_")[0]] += 1
            elif event.get("cat") == "gpu":
                copies[event["ph"], event["args"]["bytes"]] += 1
        expected = {(rank, call): 1 for rank in range(3) for call in ("cuMemcpyHtoDAsync", "cuMemsetD8Async", "cuMemcpyDtoH")}
        assert work == expected, work
        assert copies["b", 2000] == copies["e", 2000] == 3, copies
        assert any(event["name"] == "the GPU" for track in trace.ranks().values() for event in track), "no wait for the GPU"

    def cannot_be_written(self):
        command = [self.mpirun, "-n", "2", self.program, "+trace", "/nowhere/trace.json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0 and "+trace /nowhere/trace.json: cannot be written: No such file" in done.stderr, done

    def draws_matrix(self):
        """+stats FILE.svg: a cell for each pair of ranks in the JSON, with its messages and bytes."""
        sums, picture = self.work / "stats.json", self.work / "stats.svg"
        self.run("-n", "4", "+p", "2", "end 5", options=["+stats", f"{sums},{picture}"])
        expected = sorted(f"{n} messages, {n_bytes} B" for rank in json.loads(sums.read_text())["ranks"]
                          for n, n_bytes in rank["sent_to"].values())
        titles = [title.text for title in xml.etree.ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}title")]
        # To the next rank, and to rank 0: rank 3 sends both to rank 0.
        assert len(titles) == 6 and sorted(titles) == expected, f"{titles} instead of {expected}"

    def converts(self):
        """heddle-trace2otf2: otf2-print accepts the archive, whose events are those of the trace."""
        if subprocess.run(["/usr/bin/python3", "-c", "import otf2"], capture_output=True, check=False).returncode or \
                not shutil.which("otf2-print"):
            print("no libotf2: its test is skipped")
            return
        archive = self.work / "archive"
        tool = self.build / "bin" / "heddle-trace2otf2"
        for n_ranks, options in ((1, ["+p", "1"]), (5, ["+p", "2"]), (6, ["--procs", "2", "+p", "1"])):
            trace = self.run("-n", str(n_ranks), *options, "windows 4")
            shutil.rmtree(archive, ignore_errors=True)
            subprocess.run([tool, self.trace, archive], timeout=180, check=True)
            done = subprocess.run(["otf2-print", "-Werror", archive / "traces.otf2"], capture_output=True, text=True, timeout=180,
                                  check=False)
            assert done.returncode == 0 and not done.stderr, done
            lines = [line.split(None, 3) for line in done.stdout.splitlines()]
            kinds = collections.Counter(line[0] for line in lines if len(line) > 1)
            n_fences = sum(len(members) for (_, name, _), members in trace.operations.items() if name == "fence")
            n_others = sum(len(members) for members in trace.operations.values()) - n_fences
            assert kinds["ENTER"] == kinds["LEAVE"] and kinds["RMA_COLLECTIVE_END"] == n_fences == 8 * n_ranks, kinds
            assert kinds["MPI_COLLECTIVE_END"] + kinds["NON_BLOCKING_COLLECTIVE_COMPLETE"] == n_others, kinds
            assert kinds["MPI_SEND"] == kinds["MPI_RECV"] == len(trace.messages), kinds
            assert kinds["RMA_PUT"] == kinds["RMA_ATOMIC"] == 2 * kinds["RMA_GET"] == 8 * n_ranks, kinds
            assert kinds["RMA_OP_COMPLETE_BLOCKING"] == 20 * n_ranks and kinds["RMA_GROUP_SYNC"] == 16 * n_ranks, kinds
            assert kinds["RMA_ACQUIRE_LOCK"] == kinds["RMA_RELEASE_LOCK"] == 8 * n_ranks, kinds
            self.check_nesting(n_ranks, lines)
        self.converts_last_events(tool, archive)
        done = subprocess.run([tool, self.trace, "/dev/null/archive"], capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("heddle-trace2otf2: /dev/null/archive: "), done
        done = subprocess.run([tool, self.program, self.work / "none"], capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 1 and "not a trace of Heddle" in done.stderr and not (self.work / "none").exists(), done

    def converts_last_events(self, tool, archive):
        """Of a rank that has lost its early states, the first event is the beginning of a collective."""
        content = json.loads(self.trace.read_text())
        of_rank = [event for event in content["traceEvents"] if event["pid"] == 2 and event["tid"] == 0]
        first = max(event["ts"] for event in of_rank if event.get("cat") == "collective" and event["ph"] == "b")
        last = max(event["ts"] for event in of_rank if event["ph"] == "X")
        assert first < last
        content["traceEvents"] = [event for event in of_rank if event["ts"] >= (last if event["ph"] == "X" else first)]
        short = self.work / "short.json"
        short.write_text(json.dumps(content))
        shutil.rmtree(archive, ignore_errors=True)
        subprocess.run([tool, short, archive], timeout=180, check=True)
        subprocess.run(["otf2-print", "-Werror", archive / "traces.otf2"], stdout=subprocess.DEVNULL, timeout=180, check=True)

    @staticmethod
    def check_nesting(n_ranks, lines):
        """Each location leaves the region that it has entered last; its messages are in a region, and times do not go back."""
        stacks, times = [[] for _ in range(n_ranks)], [0] * n_ranks
        for line in lines:
            if len(line) < 3 or not line[1].isdigit():
                continue
            location, time = int(line[1]), int(line[2])
            assert time >= times[location], line
            times[location] = time
            if line[0] == "ENTER":
                stacks[location].append(line[3])
            elif line[0] == "LEAVE":
                assert stacks[location].pop() == line[3], line
            else:
                assert len(stacks[location]) > 1, f"in no call: {line}"
        assert not any(stacks), stacks

    def predicts(self):
        """heddle-whatif: two PEs take half of the time of one if ranks only compute."""
        self.run("-n", "4", "+p", "1", "end 20")
        done = subprocess.run([self.build / "bin" / "heddle-whatif", self.trace, "1,2,4", "--json"], capture_output=True,
                              text=True, timeout=180, check=True)
        predicted = json.loads(done.stdout)
        times = [result["seconds"] for result in predicted["predicted"]]
        assert all(result["stuck_ranks"] == 0 for result in predicted["predicted"]), predicted
        assert predicted["traced_pes"] == 1 and times[0] >= times[1] > 0 and times[1] >= times[2] > 0, predicted
        assert abs(times[0] / predicted["traced_seconds"] - 1) < 0.15, predicted  # the traced run itself


def main():
    if sys.argv[3:4] == ["--show"]:
        Trace(sys.argv[4]).check_tracks()
        return
    test = Test(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    test.ends_well()
    test.begins_at_zero()
    test.leaves_arrows_out()
    test.shows_windows()
    test.has_threads()
    test.ends_badly()
    test.drops_old_events()
    test.shows_gpus()
    test.cannot_be_written()
    test.draws_matrix()
    test.predicts()
    test.converts()


if __name__ == "__main__":
    main()
