#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that an editor that speaks the debug adapter protocol, such as VS Code, debugs all ranks of a process with `gdb -i dap`:
breakpoints by line and function, those of one rank, stacks, variables, gdb's commands for ranks, launched and attached.

Usage: dap_test.py BUILD WORK
GDB: another gdb. Skipped (77) without gdb 14 or later, the first one that speaks the protocol.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

SKIP_CODE = 77
LIMIT_S = 200  # then gdb ends, and the test with it
HERE = pathlib.Path(__file__).resolve().parent
GDB = os.environ.get("GDB", "gdb")


class Editor:
    """The editor's side of one session."""

    def __init__(self, build, env):
        command = [GDB, "-q", "-nx", "-iex", f"add-auto-load-safe-path {build}/lib", "-i", "dap"]
        self.gdb = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        self.net = threading.Timer(LIMIT_S, self.gdb.kill)
        self.net.daemon = True
        self.net.start()
        self.events = []
        self.responses = {}
        self.n_sent = 0
        self.output = ""

    def send(self, command, **arguments):
        self.n_sent += 1
        text = json.dumps({"seq": self.n_sent, "type": "request", "command": command, "arguments": arguments}).encode()
        self.gdb.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        self.gdb.stdin.flush()
        return self.n_sent

    def take(self):
        length = None
        while (line := self.gdb.stdout.readline().strip()) or length is None:
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
            elif not line and self.gdb.poll() is not None:
                sys.exit(f"gdb ended with {self.gdb.returncode}; events: {self.events}\n{self.output}")
        message = json.loads(self.gdb.stdout.read(length))
        if message["type"] == "response":
            self.responses[message["request_seq"]] = message
        elif message["event"] == "output":
            self.output += message["body"]["output"]
        else:
            self.events.append(message)

    def answer(self, number):
        while number not in self.responses:
            self.take()
        response = self.responses.pop(number)
        if not response["success"]:
            sys.exit(f"{response['command']}: {response.get('message')}\n{self.output}")
        return response.get("body")

    def ask(self, command, **arguments):
        return self.answer(self.send(command, **arguments))

    def event(self, name):
        """The body of the next event of this name; those before it are forgotten."""
        while True:
            while not self.events:
                self.take()
            event = self.events.pop(0)
            if event["event"] == name:
                return event.get("body")

    def end(self):
        self.ask("disconnect", terminateDebuggee=True)
        self.gdb.wait()
        self.net.cancel()

    # ---- What editors show ----

    def begin(self, how, functions, lines, **arguments):
        """All requests up to the first stop or the program's end."""
        capabilities = self.ask("initialize", clientID="vscode", adapterID="gdb", linesStartAt1=True, columnsStartAt1=True, pathFormat="path",
                                supportsVariableType=True, supportsRunInTerminalRequest=True)
        expect(capabilities.get("supportsConfigurationDoneRequest"), f"capabilities {capabilities}")
        begun = self.send(how, **arguments)
        self.event("initialized")
        self.ask("setBreakpoints", source={"name": "debugged.c", "path": str(HERE / "debugged.c")}, breakpoints=[{"line": n} for n in lines])
        self.ask("setFunctionBreakpoints", breakpoints=functions)
        self.ask("setExceptionBreakpoints", filters=[])
        self.ask("configurationDone")
        self.answer(begun)

    def stack(self, thread):
        return self.ask("stackTrace", threadId=thread, startFrame=0, levels=20)["stackFrames"]

    def variables(self, frame):
        found = {}
        for scope in self.ask("scopes", frameId=frame["id"])["scopes"]:
            if scope["name"] != "Registers":
                for variable in self.ask("variables", variablesReference=scope["variablesReference"])["variables"]:
                    found[variable["name"]] = variable["value"]
        return found

    def command(self, text):
        """In the editor's debug console."""
        return self.ask("evaluate", expression=text, context="repl")["result"]


def expect(is_right, what):
    if not is_right:
        sys.exit(f"FAILED: {what}")


def line_of(text):
    return next(number for number, line in enumerate((HERE / "debugged.c").read_text().splitlines(), 1) if text in line)


def stopped_in_last(editor, thread):
    """Rank 3 is in twice, the other ones wait for it."""
    frames = editor.stack(thread)
    names = [frame["name"] for frame in frames if frame["name"]]
    expect(names[:3] == ["twice", "in_order", "main"], f"stack {names}")
    expect(editor.variables(frames[0]).get("number") == "100", "variables of twice")
    shown = editor.command("heddle ranks")
    expect("ranks 0-2 (3): MPI_Recv: blocked in receive from rank rank+1, tag 7" in shown, f"heddle ranks: {shown}")
    shown = editor.command("heddle messages")
    expect("ranks 1-3 (3): message from rank 0, tag 42, 4 bytes" in shown, f"heddle messages: {shown}")
    editor.command("heddle rank 1")
    editor.event("invalidated")
    frames = [frame for each in editor.ask("threads")["threads"] for frame in editor.stack(each["id"])]
    seen = sorted(editor.variables(frame)["rank"] for frame in frames if frame["name"] == "in_order")
    expect(seen == ["1"], f"ranks {seen} in {frames}")
    expect(editor.ask("evaluate", expression='$heddle_var("everyones")', context="watch")["result"] == "1001", "a variable of rank 1")
    editor.command("heddle rank")


def launched(build, env, n_pes):
    """Each rank stops at the line, then rank 2 alone in the function, then the program ends."""
    editor = Editor(build, env)
    editor.begin("launch", [], [line_of("own += rank;")], program="./debugged", args=["+vp", "4", "+p", str(n_pes), "wait"], cwd=os.getcwd())
    ranks = set()
    while len(ranks) < 4:
        thread = editor.event("stopped")["threadId"]
        expect(thread in [each["id"] for each in editor.ask("threads")["threads"]], f"thread {thread} is not among the threads")
        top = editor.stack(thread)[0]
        expect(top["name"] == "main" and top["source"]["path"].endswith("debugged.c"), f"stack {top}")
        ranks.add(editor.variables(top)["rank"])
        if len(ranks) < 4:
            editor.ask("continue", threadId=thread)
    expect(ranks == {"0", "1", "2", "3"}, f"stops in ranks {ranks}")
    shown = editor.command("heddle ranks")
    expect(re.search(r"rank.* in main at [^ ]*debugged\.c:\d+", shown), f"heddle ranks: {shown}")

    editor.ask("setBreakpoints", source={"path": str(HERE / "debugged.c")}, breakpoints=[])
    editor.ask("setFunctionBreakpoints", breakpoints=[{"name": "twice", "condition": "number == 100 && $heddle_rank() == 3"}])
    editor.ask("continue", threadId=thread)
    thread = editor.event("stopped")["threadId"]
    if n_pes == 1:  # with more, another rank may run at that moment
        stopped_in_last(editor, thread)
    editor.ask("continue", threadId=thread)
    code = editor.event("exited")["exitCode"]
    expect(code == 0, f"exit code {code}")
    editor.end()


def attached(build, env):
    """A process that runs already shows its ranks, and goes on when the editor leaves it."""
    with subprocess.Popen(["./debugged", "+vp", "3", "+p", "1", "stay"], env=env, stdout=subprocess.PIPE) as program:
        try:
            expect(program.stdout.readline() == b"here\n", "the program's line")
            editor = Editor(build, env)
            editor.begin("attach", [], [], program="./debugged", pid=program.pid)
            names = [frame["name"] for each in editor.ask("threads")["threads"] for frame in editor.stack(each["id"])]
            expect("stay" in names, f"no function stay in {names}")
            shown = editor.command("heddle ranks")
            expect("ranks 0-1 (2): MPI_Recv: blocked" in shown and "rank 2: runs in stay at" in shown, f"heddle ranks: {shown}")
            editor.end()
        finally:
            program.kill()


def main():
    build, work = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    env = dict(os.environ, DEBUGINFOD_URLS="")
    env.pop("HEDDLE_OPTIONS", None)
    try:
        version = subprocess.run([GDB, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError):
        sys.exit(SKIP_CODE)
    if int(re.search(r"(\d+)\.\d+\S*$", version).group(1)) < 14:
        print(f"skipped: {version}")
        sys.exit(SKIP_CODE)
    work.mkdir(parents=True, exist_ok=True)
    os.chdir(work)
    subprocess.run([build / "bin/mpicc", "-g", "-O0", HERE / "debugged.c", "-o", "debugged"], check=True)
    if "ptrace: Operation not permitted" in subprocess.run([GDB, "-nx", "-batch", "-ex", "run", "./debugged"], capture_output=True,
                                                            text=True, env=env, check=False).stderr:
        sys.exit(SKIP_CODE)
    for n_pes in 1, 2:
        launched(build, env, n_pes)
    attached(build, env)
    print("all passed")


main()
