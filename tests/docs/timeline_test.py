#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that docs/timeline.html draws a trace: opens it in Chromium without a window, gives it a file as a person does, and looks at
the colours and texts that it draws, the causes of waits, and the critical path. Exit code 77: there is no Chromium.

Usage: timeline_test.py BUILD WORK PAGE [--picture PNG TRACE]
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

NAMES = ("chromium", "chromium-browser", "google-chrome")


class Browser:
    """Chromium behind a pair of pipes: its debugging protocol, one JSON text after another, with a zero byte behind each."""

    def __init__(self, path, profile):
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()

        def connect():
            # Descriptors 3 and 4, wherever the pipes are: first out of the way.
            high = os.dup(to_read), os.dup(to_write)
            while min(high) < 5:
                high = tuple(os.dup(descriptor) for descriptor in high)
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(  # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
            [path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
             "--no-first-run", f"--user-data-dir={profile}", "--window-size=1200,700", "about:blank"],
            preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.rest = b""
        self.number = 0
        self.session = None
        page = None
        while not page:  # a browser that has just begun may not have its page yet
            targets = self.call("Target.getTargets")["targetInfos"]
            page = next((target for target in targets if target["type"] == "page"), None)
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "DOM"):
            self.call(f"{domain}.enable")

    def receive(self):
        while b"\0" not in self.rest:
            more = os.read(self.from_browser, 1 << 16)
            if not more:
                raise RuntimeError("the browser has ended")
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def open(self, page):
        self.call("Page.navigate", url=page.resolve().as_uri())
        while True:
            if self.receive().get("method") == "Page.loadEventFired":
                return

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, f"{expression}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def choose_file(self, path):
        """As a person does; then waits until the page shows the file, or an error."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
        self.evaluate("window.shown = new Promise(done => new MutationObserver(done).observe(byId('summary'), {childList: true})); 0")
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])
        self.evaluate("window.shown.then(() => 1)")

    def end(self):
        self.process.terminate()
        self.process.wait()


def x(kind, pid, tid, ts, dur, name, **args):
    event = {"ph": "X", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "name": name, "args": args}
    return dict(event, cat=kind) if kind else event


def small_trace():
    """Rank 0 computes, then sends to rank 1 of another PE, which waits for that; rank 2 waits for both in a barrier."""
    events = [{"ph": "M", "pid": 1, "tid": 0, "ts": 0, "name": "heddle_process",
               "args": {"process": 0, "pes": 2, "dropped": 7}}]
    running = [(0, 0, 0, 600), (1, 1, 0, 100), (1, 1, 650, 350), (2, 0, 600, 100), (2, 0, 1000, 20)]
    for rank, pe, ts, dur in running:
        events += [x("state", 2, rank, ts, dur, "running", pe=pe), x(None, 1, pe, ts, dur, f"rank {rank}")]
    events += [x("blocked", 2, 1, 100, 545, "MPI_Recv"), x("state", 2, 1, 645, 5, "ready"),
               x("blocked", 2, 0, 600, 400, "MPI_Barrier"), x("state", 2, 2, 0, 600, "ready"),
               x("blocked", 2, 2, 700, 300, "MPI_Barrier"),
               {"ph": "s", "pid": 2, "tid": 0, "ts": 590, "cat": "message", "name": "message", "id": "0>1.1.5.0",
                "args": {"bytes": 64}},
               {"ph": "f", "bp": "e", "pid": 2, "tid": 1, "ts": 640, "cat": "message", "name": "message", "id": "0>1.1.5.0"}]
    for rank, begin, end in ((0, 599, 1000), (1, 995, 1000), (2, 699, 1000)):
        for phase, ts in (("b", begin), ("e", end)):
            events.append({"ph": phase, "pid": 2, "tid": rank, "ts": ts, "cat": "collective", "name": "barrier",
                           "id": f"{rank}.1.0", "args": {"context": 1, "n": 0}})
    return {"traceEvents": events}


def colour_at(browser, row, time):
    return browser.evaluate(f"[...pen.getImageData(Math.round(xOf({time})), Math.round(yOf({row}) + 2), 1, 1).data].slice(0, 3)")


def check_small(browser, work):
    path = work / "small.json"
    path.write_text(json.dumps(small_trace()))
    browser.choose_file(path)
    text = browser.evaluate("document.body.innerText")
    assert "events that are missing\t7" in text and "messages\t1" in text and "ranks\t3" in text, text
    assert browser.evaluate("byId('messages').checked = byId('critical').checked = false; draw(); view.drawn") == \
        {"slices": 15, "arrows": 0, "path": 0}
    green, red, yellow = [0x4c, 0x9f, 0x50], [0xd9, 0x53, 0x4f], [0xe6, 0xc2, 0x29]
    # Rows: PE 0, PE 1, ranks 0, 1, 2.
    for row, time, colour in ((2, 300, green), (2, 800, red), (3, 300, red), (3, 800, green), (4, 300, yellow), (4, 650, green)):
        assert colour_at(browser, row, time) == colour, (row, time, colour_at(browser, row, time))
    assert colour_at(browser, 1, 300) in ([255, 255, 255], [0, 0, 0]), "PE 1 is idle"
    assert browser.evaluate("byId('messages').checked = byId('critical').checked = true; draw(); view.drawn.arrows") == 1
    # Rank 1 waited for rank 0; the path: rank 0 computes, sends to rank 1, which comes last to the barrier, then rank 2 ends.
    path = browser.evaluate("view.path.filter(step => step.to > step.from).map(step => [step.rank, step.kind])")
    assert [step for step in path if step[1] == "running"] == [[0, "running"], [1, "running"], [2, "running"]], path
    assert [1, "message"] in path, path
    browser.evaluate("showDetails(xOf(300), yOf(3) + 2); 0")
    assert "message of 64 B from rank 0" in browser.evaluate("byId('details').innerText")
    assert "MPI_Recv: rank 1 for rank 0" in browser.evaluate("byId('waits').innerText")
    browser.evaluate("zoom(xOf(640), 0.03); 0")
    assert colour_at(browser, 3, 642) == red and colour_at(browser, 3, 647) == yellow


def check_run(browser, build, work):
    """A file of a run: all of its states and messages are there."""
    subprocess.run([build / "bin" / "mpicc", "-O1", "-o", work / "traced",
                    pathlib.Path(__file__).parents[1] / "programs" / "traced.c"], check=True)
    trace = work / "run.json"
    subprocess.run([build / "bin" / "mpirun", "-n", "6", "+p", "2", work / "traced", "end", "10", "+trace", trace],
                   check=True, timeout=180)
    events = json.loads(trace.read_text())["traceEvents"]
    browser.choose_file(trace)
    counts = browser.evaluate("[view.trace.arrows.length, view.trace.ranks.size, view.trace.pes.size,"
                              " view.trace.tracks.reduce((sum, track) => sum + track.from.length, 0)]")
    assert counts == [sum(event["ph"] == "s" for event in events), 6, 2, sum(event["ph"] == "X" for event in events)], counts
    path = browser.evaluate("view.path")
    assert path and all(step["from"] <= step["to"] for step in path), path
    assert all(before["to"] <= after["from"] + 0.003 for before, after in zip(path, path[1:])), "the path goes back in time"
    assert browser.evaluate("view.path[0].from === view.trace.ranks.get(view.path[0].rank).from[0]"), path[0]


def check_bad(browser, work):
    path = work / "bad.json"
    path.write_text("no JSON")
    browser.choose_file(path)
    assert "bad.json: not a trace of Heddle" in browser.evaluate("byId('summary').innerText")


def take_picture(browser, png, trace):
    browser.choose_file(pathlib.Path(trace).resolve())
    print(browser.evaluate("[view.openMs, view.ms, view.drawn, view.path.length]"))
    pathlib.Path(png).write_bytes(base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"]))


def main():
    build, work, page = map(pathlib.Path, sys.argv[1:4])
    chromium = next((path for path in map(shutil.which, NAMES) if path), None)
    if not chromium:
        print("no Chromium: skipped")
        return 77
    work.mkdir(parents=True, exist_ok=True)
    # Processes of the browser may write there a little longer than it lives.
    with tempfile.TemporaryDirectory(dir=work, ignore_cleanup_errors=True) as profile:
        browser = Browser(chromium, profile)
        try:
            browser.open(page)
            if sys.argv[4:5] == ["--picture"]:
                take_picture(browser, *sys.argv[5:7])
            else:
                check_small(browser, work.resolve())
                check_run(browser, build.resolve(), work.resolve())
                check_bad(browser, work.resolve())
        finally:
            browser.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
