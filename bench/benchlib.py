# SPDX-License-Identifier: BSD-3-Clause
"""Common parts of bench/compare and bench/budgets.

Finds MPIs, builds the programs of this folder with each, runs them with time limits, reads their
"key value unit" lines, measures start-up and memory, and describes the machine. The drawing is in charts.py.
"""

import concurrent.futures
import datetime
import os
import platform
import select
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

BENCH_DIR = os.path.dirname(os.path.abspath(__file__))
ROOT_DIR = os.path.dirname(BENCH_DIR)
MPI_PROGRAMS = ["latency", "bandwidth", "msgrate", "collectives", "matching", "hello", "memory", "comm_memory",
                "yield", "rma", "files"]
PLAIN_PROGRAMS = ["memcpy", "handoff"]


class BenchError(Exception):
    """An error that the user must correct; the text describes it."""


# ---- MPIs -------------------------------------------------------------------------------------------------

class Mpi:
    """One MPI library: its compiler wrapper, its launcher and how to ask it for ranks and PEs."""

    def __init__(self, name, mpicc, mpirun, kind):
        self.name = name
        self.mpicc = shlex.split(mpicc)
        self.mpirun = shlex.split(mpirun)
        self.kind = kind  # heddle, openmpi, mpich or other

    def is_there(self):
        return shutil.which(self.mpicc[0]) is not None and shutil.which(self.mpirun[0]) is not None

    def command(self, ranks, program, arguments=(), pes=None, procs=None):
        """The command line that runs a built program. Ranks get cores of their own where there are enough.
        pes and procs: of Heddle, PEs per process, and processes."""
        words = list(self.mpirun)
        fits = ranks <= core_count()
        if self.kind == "openmpi":
            words += ["--bind-to", "core"] if fits else ["--oversubscribe"]
        elif self.kind == "mpich" and fits:
            words += ["-bind-to", "core"]
        if procs:
            words += ["--procs", str(procs)]
        words += ["-n", str(ranks), program, *map(str, arguments)]
        if self.kind == "heddle" and pes:
            words += ["+p", str(pes)]
        return words

    def version(self):
        """One line."""
        code, out = run(self.mpirun + ["--version"], 20)[:2]
        lines = [line.strip() for line in out.splitlines() if line.strip()]
        if code != 0 or not lines:
            return "version unknown"
        for line in lines:
            if line.startswith("Version:"):  # MPICH's Hydra
                return "MPICH " + line.split()[-1]
        return lines[0]


def heddle(prefix):
    prefix = os.path.abspath(prefix)
    return Mpi("Heddle", shlex.quote(prefix + "/bin/mpicc"), shlex.quote(prefix + "/bin/mpirun"), "heddle")


def first_of(*names):
    return next((name for name in names if shutil.which(name)), names[0])


def peers():
    """Open MPI and MPICH as Debian and Ubuntu install them side by side."""
    return [Mpi("Open MPI", "mpicc.openmpi", "mpirun.openmpi", "openmpi"),
            Mpi("MPICH", "mpicc.mpich", "mpirun.mpich", "mpich")]


def other(text):
    """NAME=MPICC,MPIRUN from the command line."""
    name, equals, commands = text.partition("=")
    mpicc, comma, mpirun = commands.partition(",")
    if not (name and equals and mpicc and comma and mpirun):
        raise BenchError(f"--mpi {text}: expected NAME=MPICC,MPIRUN, as in --mpi AMPI=ampicc,ampirun")
    return Mpi(name, mpicc, mpirun, "other")


# ---- Running programs -------------------------------------------------------------------------------------

def environment():
    """Open MPI refuses to run as root unless told twice; nothing else is changed."""
    env = dict(os.environ)
    if os.geteuid() == 0:
        env["OMPI_ALLOW_RUN_AS_ROOT"] = env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return env


def family(pid):
    """The process and all that descend from it, parents first."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry))
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found


def end_process(process):
    """Ends a job that we started, and whatever it started: politely, then not."""
    members = family(process.pid)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in members:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            continue
        members = [pid for pid in members if os.path.exists(f"/proc/{pid}")]


def start(command, stdin):
    return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment(), start_new_session=True)


def run(command, timeout):
    """Returns (exit code, standard output, standard error, seconds); the code is None after a timeout."""
    begin = time.monotonic()
    try:
        process = start(command, subprocess.DEVNULL)
    except OSError as error:
        return 127, "", str(error), 0.0
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        end_process(process)
        process.communicate()
        return None, "", f"no end within {timeout:.0f} s", time.monotonic() - begin
    except BaseException:
        end_process(process)
        raise
    return process.returncode, out, err, time.monotonic() - begin


def parse(output):
    """The "key value unit" lines of a program: {key: value}. Percentiles are keys of their own."""
    results = {}
    for line in output.splitlines():
        words = line.split()
        if len(words) == 3 and not line.startswith("#"):
            try:
                results[words[0]] = float(words[1])
            except ValueError:
                pass  # n/a
    return results


def reason(code, err):
    """Why a run failed, in a few words."""
    lines = [line.strip() for line in err.splitlines() if line.strip(" \t=-")]
    what = lines[0] if lines else "no message"
    return what if code is None else f"exit code {code}: {what}"


# ---- Building ---------------------------------------------------------------------------------------------

def ult_switch(prefix):
    """The bare context switch: a program of the library's own build, made if it is not there yet; None where
    there is only an installation. See README.md."""
    path = os.path.join(os.path.abspath(prefix), "bench", "ult_switch")
    if not os.path.exists(path) and os.path.exists(os.path.join(prefix, "CMakeCache.txt")):
        say("building ult_switch")
        run(["cmake", "--build", prefix, "--target", "ult_switch"], 300)
    return path if os.access(path, os.X_OK) else None


def build_command(mpi, program, out_dir):
    words = list(mpi.mpicc) if mpi else [os.environ.get("CC", "cc")]
    # MPICH's MPI_STATUSES_IGNORE makes gcc see an overflow where there is none.
    words += ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-stringop-overflow"]
    if mpi is None:
        words.append("-pthread")
    elif mpi.kind == "heddle":
        words.append("-DHEDDLE")
    return words + ["-o", os.path.join(out_dir, program), os.path.join(BENCH_DIR, program + ".c")]


def build(mpi, build_dir):
    """Builds every program with an MPI (None: the plain ones). Returns {program: path}; raises BenchError."""
    out_dir = os.path.join(build_dir, mpi.name.lower().replace(" ", "") if mpi else "plain")
    os.makedirs(out_dir, exist_ok=True)
    programs = MPI_PROGRAMS if mpi else PLAIN_PROGRAMS
    with concurrent.futures.ThreadPoolExecutor(min(2, core_count())) as pool:
        commands = [build_command(mpi, program, out_dir) for program in programs]
        for command, result in zip(commands, pool.map(lambda words: run(words, 120), commands)):
            if result[0] != 0:
                raise BenchError(f"{shlex.join(command)} failed:\n{result[1]}{result[2]}")
    return {program: os.path.join(out_dir, program) for program in programs}


# ---- Measuring from outside -------------------------------------------------------------------------------

def measure_startup(command, times, timeout):
    """Wall clock of a command from start to exit, `times` times. Returns (list of seconds, error or None)."""
    seconds = []
    for _ in range(times):
        code, out, err, elapsed = run(command, timeout)
        if code != 0:
            return seconds, reason(code, err)
        if not out.split()[-1:] == ["ok"]:
            return seconds, "the program did not print ok"
        seconds.append(elapsed)
    return seconds, None


def memory_of(pids):
    """PSS, RSS and page tables of processes, in KiB, added up."""
    total = {"pss": 0, "rss": 0, "pte": 0}
    names = {"Pss:": "pss", "Rss:": "rss", "VmPTE:": "pte"}
    for pid in pids:
        for path in (f"/proc/{pid}/smaps_rollup", f"/proc/{pid}/status"):
            try:
                with open(path, encoding="ascii", errors="replace") as file:
                    for line in file:
                        words = line.split()
                        if words and words[0] in names:
                            total[names[words[0]]] += int(words[1])
            except OSError:
                continue  # it ended meanwhile, or it is a kernel thread
    return total


def memory_at(command, timeout):
    """Starts memory.c, waits for its "ready", and measures the whole job. Returns (KiB by kind, error)."""
    try:
        process = start(command, subprocess.PIPE)
    except OSError as error:
        return None, str(error)
    seen, limit, usage = b"", time.monotonic() + timeout, None
    try:
        while b"memory.ready" not in seen:
            left = limit - time.monotonic()
            if left <= 0:
                return None, f"not ready within {timeout:.0f} s"
            if select.select([process.stdout], [], [], left)[0]:
                # Not readline: it may keep back lines that select then does not see.
                more = os.read(process.stdout.fileno(), 4096)
                if not more:
                    return None, reason(process.wait(10), process.stderr.read())
                seen += more
        time.sleep(0.2)  # let the other ranks reach their barrier
        usage = memory_of(family(process.pid))
        process.communicate(timeout=max(1.0, limit - time.monotonic()))
        return usage, None
    except subprocess.TimeoutExpired:
        return usage, None if usage else "the program does not end"
    finally:
        if process.poll() is None:
            end_process(process)
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()


def measure_memory_per_rank(mpi, program, ranks, pes, timeout):
    """(usage at 2N ranks - usage at N ranks) / N in KiB, by kind; or (None, error)."""
    usages = []
    for count in (ranks, 2 * ranks):
        usage, error = memory_at(mpi.command(count, program, pes=pes), timeout)
        if error:
            return None, error
        usages.append(usage)
    return {kind: (usages[1][kind] - usages[0][kind]) / ranks for kind in usages[0]}, None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_perftest(test, len_bytes, iterations, timeout):
    """Two processes and raw UCX, without MPI: ucx_perftest's columns of numbers (iterations; median, average and
    overall latency in us; average and overall MB/s; average and overall messages/s). Returns (columns, error);
    (None, None) where there is no ucx_perftest."""
    if not shutil.which("ucx_perftest"):
        return None, None
    port = str(free_port())
    pin = ["-c", "0"] if core_count() < 2 else []
    try:
        server = start(["ucx_perftest", "-p", port] + (pin or ["-c", str(core(1))]), subprocess.DEVNULL)
    except OSError as error:
        return None, str(error)
    try:
        for _ in range(10):  # until the server listens
            time.sleep(0.1)
            command = ["ucx_perftest", "127.0.0.1", "-p", port, "-t", test, "-s", str(len_bytes),
                       "-n", str(iterations), "-w", "100", "-f", "-v"]
            code, out, err, _ = run(command + (pin or ["-c", str(core(0))]), timeout)
            lines = out.split()
            if code == 0 and len(lines) >= 2 and lines[0].startswith("iterations,50.0_percentile_lat"):
                return [float(word) for word in lines[-1].split(",")], None
        return None, reason(code, err)
    except ValueError:
        return None, "unexpected output of ucx_perftest"
    finally:
        if server.poll() is None:
            end_process(server)
        server.stdout.close()
        server.stderr.close()


def measure_ucx(len_bytes, timeout):
    """Half a round trip through raw UCX active messages: the median in us. Returns (value, error)."""
    columns, error = run_perftest("ucp_am_lat", len_bytes, 20000 if len_bytes <= 65536 else 200, timeout)
    return (columns[1] if columns else None), error


# ---- The machine ------------------------------------------------------------------------------------------

def core_count():
    return len(os.sched_getaffinity(0))


def core(place):
    """The number of one of the cores that we may use."""
    return sorted(os.sched_getaffinity(0))[place]


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def first_line(command):
    code, out = run(command, 20)[:2]
    return out.splitlines()[0].strip() if code == 0 and out.strip() else "unknown"


def busy_cores(seconds):
    """How many cores other programs keep busy, watched for this long."""
    def ticks():
        with open("/proc/stat", encoding="ascii") as file:
            return [int(word) for word in file.readline().split()[1:9]]

    before = ticks()
    time.sleep(seconds)
    spent = [after - earlier for earlier, after in zip(before, ticks())]
    idle = spent[3] + spent[4]  # idle, and waiting for disks
    return os.cpu_count() * (sum(spent) - idle) / max(1, sum(spent))


def describe_machine():
    """(what, value) pairs. Called before anything is started, so that what keeps cores busy is others'."""
    busy = busy_cores(0.5)
    if busy > 0.25:
        say(f"note: other programs keep {busy:.1f} of the cores busy; the figures will be less accurate")
    return [
        ("date", datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %z")),
        ("CPU", f"{cpu_name()}, {core_count()} cores"),
        ("kernel", f"{platform.system()} {platform.release()}"),
        ("C library", " ".join(platform.libc_ver())),
        ("compiler", first_line([os.environ.get("CC", "cc"), "--version"])),
        ("commit", first_line(["git", "-C", ROOT_DIR, "describe", "--always", "--dirty"])),
        ("other programs at the start", f"{busy:.1f} cores busy"),
    ]


# ---- Text -------------------------------------------------------------------------------------------------

def say(text):
    """Progress goes to standard error, so that the table alone is on standard output."""
    print(text, file=sys.stderr, flush=True)


def number(value):
    """Three significant digits, without an exponent."""
    if value is None:
        return "-"
    if abs(value) >= 1000 or value == 0:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def size_name(len_bytes):
    for unit, scale in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if len_bytes >= scale and len_bytes % scale == 0:
            return f"{len_bytes // scale} {unit}"
    return f"{len_bytes} B"


def median(values):
    return statistics.median(values) if values else None


def markdown_table(header, rows, right_from=1):
    """Aligned so that the text itself is a table too."""
    cells = [list(map(str, row)) for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]

    def line(row):
        padded = [cell.rjust(width) if i >= right_from else cell.ljust(width)
                  for i, (cell, width) in enumerate(zip(row, widths))]
        return "| " + " | ".join(padded) + " |"

    rule = "|" + "|".join("-" * (width + 1) + (":" if i >= right_from else "-")
                          for i, width in enumerate(widths)) + "|"
    return "\n".join([line(cells[0]), rule, *map(line, cells[1:])])
