# SPDX-License-Identifier: BSD-3-Clause
"""heddle-gdb.py: the ranks of a process, for gdb: of a program that runs, or of a core file.

gdb knows the program where ld.so loaded it (the prototype, whose code never runs), and the copies of the first ranks, which the
library shows as shared libraries (image/copy/debugger.c). So breakpoints and backtraces work without this script. It adds the
symbols of more ranks, and the commands below. gdb loads it with the library if the library's folder is safe for it; once, in
~/.gdbinit:

    add-auto-load-safe-path PREFIX/lib      or, for `heddle break` before the first `run`:
    source PREFIX/share/heddle/heddle-gdb.py

    (gdb) heddle ranks             where all ranks are; ranks with the same line are one
    (gdb) heddle rank 3            selects the rank: backtrace, up, info locals and print show it, also if it does not run
    (gdb) heddle rank              no rank again: the thread's own stack
    (gdb) heddle messages [3]      unexpected messages and posted receives of all ranks, or of one
    (gdb) heddle break foo rank 3  a breakpoint for one rank; conditions may use $heddle_rank()
    (gdb) print $heddle_var("x")   a variable of the selected rank; `print x` finds static and local ones, but shows the prototype's
                                   if x is global: gdb expects that a program's variables replace those of other files
    (gdb) heddle-images            lists the ranks' copies, and marks the one that the selected frame is in
    (gdb) heddle-symbols           adds the symbols of the copy that the selected frame is in
    (gdb) heddle-symbols RANK      the same for the copy of a rank of this process
    (gdb) heddle-symbols 0xADDR    the same for the copy that an address lies in
    (gdb) heddle-symbols all       for all copies (slow, and much memory, beyond some tens)
    (gdb) set heddle-ranks N       adds the symbols of the first N ranks of a process by itself (32, which gdb knows anyway)

It reads the library's own structures by the library's debug information, which every build has (CMakeLists.txt) and the package
keeps in heddle-dbgsym. A table of offsets in the library would have to be kept up to date by hand, for builds that nobody ships.

A rank that does not run has its registers on its stack (src/ult/arch). Nothing is changed in the process to show it: an unwinder
presents them as the caller of the selected thread's frame 0, which a frame filter hides. They vanish when the process goes on.
"""

import bisect
import os
import sys
import time

import gdb
import gdb.unwinder

READY, RUNNING = 1, 2  # enum ult_state
RANK_ENDED = 4  # enum ampi_rank_state
REQUEST_ACTIVE = 2  # enum ampi_request_state
MAGIC_COMM = 0x434F4D4D


def library_variable(name):
    for objfile in gdb.objfiles():
        if "libmpi_abi" in (objfile.filename or ""):
            symbol = objfile.lookup_global_symbol(name) or objfile.lookup_static_symbol(name)
            if symbol:
                return symbol.value()
    raise gdb.GdbError("%s not found: is the library loaded, with its debug information (heddle-dbgsym)?" % name)


def container(node, kind, *fields):
    """The structure that has the node as its member."""
    pointer = gdb.lookup_type("struct " + kind).pointer()
    member = gdb.Value(0).cast(pointer).dereference()
    for field in fields:
        member = member[field]
    return gdb.Value(int(node) - int(member.address)).cast(pointer).dereference()


def in_c(function):
    """For all functions that gdb calls: in Fortran's frames, expressions with pointers are others."""

    def call(*args):
        with gdb.with_parameter("language", "c"):
            return function(*args)

    return call


def text_of(pointer):
    """Without Value.string(), which depends on the language of the selected frame."""
    text, addr = b"", int(pointer)
    while addr and b"\0" not in text:
        text += bytes(gdb.selected_inferior().read_memory(addr + len(text), 1))
    return text[:-1].decode(errors="replace")


# ---- Ranks, their copies and stacks ----


class Process:
    """What is known of an inferior."""

    def __init__(self):
        self.is_known = False  # the symbols of the first ranks are there, or are added as they start
        self.added = {}  # by base, copies whose symbols have been added: an address in each file
        self.wanted = set()  # ranks whose symbols are added in any case
        self.bases = {}  # of copies, by rank
        self.modules = []  # struct image_module of the program and its libraries
        self.is_fresh = False  # the next one is complete: the process has not gone on
        self.places = []  # sorted: first address of a copy or stack, the one behind its last, rank

    def rank_at(self, addr):
        """The rank whose copy or stack contains the address; None: none."""
        at = bisect.bisect(self.places, (addr, 2**64)) - 1
        if at >= 0 and addr < self.places[at][1]:
            return self.places[at][2]
        if self.is_fresh:
            return None
        self.find_places()
        return self.rank_at(addr)

    def find_places(self):
        self.is_fresh, size = True, span()
        self.bases = dict(images())
        self.places = [(base, base + size, rank) for rank, base in self.bases.items()]
        for rank in ranks():
            lo, hi = int(rank["ult"]["stack_lo"]), int(rank["ult"]["stack_hi"])
            if lo:
                self.places.append((lo, hi, number_of(rank)))
        self.places.sort()


if "PROCESSES" not in globals():  # gdb runs the script with each library of this name: in each process, and in each run
    PROCESSES = {}  # by number of the inferior
    GONE = []  # addresses in copies whose symbols are still there
    STARTS = []  # the breakpoint


def each_process():
    """Selects each inferior that runs the library; then the first one again, unless the caller leaves the loop."""
    selected = gdb.selected_inferior(), gdb.selected_thread()
    for inferior in gdb.inferiors():
        if inferior.threads():
            inferior.threads()[0].switch()
            if any("libmpi_abi" in (objfile.filename or "") for objfile in gdb.objfiles()):
                catch_up()
                yield inferior
    if selected[1] is not None:
        selected[1].switch()


def process():
    return PROCESSES.setdefault(gdb.selected_inferior().num, Process())


def ranks():
    """struct ampi_rank of the ranks that are there."""
    job = library_variable("ampi_job")
    present = int(job["n_present"])
    for i in range(present):
        yield job["ranks"][i]


def number_of(rank):
    spawned = rank["spawned"]
    return int(rank["world_rank"]) + (
        int(spawned["first_number"]) - int(spawned["first_rank"]) if int(spawned) else 0
    )


def rank_of_number(text):
    """The rank; selects its process."""
    for _ in each_process():
        for rank in ranks():
            if text.isdigit() and number_of(rank) == int(text):
                return rank
    raise gdb.GdbError("%s is not a rank of a process that gdb has" % text)


def images():
    """Pairs of rank and base of every copy that has been made."""
    for rank in ranks():
        if int(rank["image"]) != 0:
            yield number_of(rank), int(rank["image"]["base"])


def span():
    return int(library_variable("image_program")["span_bytes"])


def base_of(addr):
    """The base of the copy that addr lies in; None: in none."""
    size = span()
    return next((base for _, base in images() if base <= addr < base + size), None)


def selected_pc():
    try:
        return gdb.selected_frame().pc()
    except gdb.error:
        return 0


def modules():
    known = process()
    if not known.modules:
        program = library_variable("image_program")
        known.modules = [program["modules"][i] for i in range(int(program["n_modules"]))]
    return known.modules


def dynamic_of(base, module):
    """The address of a module's dynamic section in the copy."""
    return (base + int(module["copy_shift"]) + int(module["dynamic"]) - int(module["bias"])) % 2**64


def is_shown(base):
    """The library itself shows this copy to gdb."""
    return gdb.solib_name(dynamic_of(base, modules()[0])) is not None


def add_symbols(base):
    if base in process().added:
        return
    process().added[base] = []
    if is_shown(base):
        return
    for module in modules():
        offset = (base + int(module["copy_shift"])) % 2**64
        gdb.execute("add-symbol-file %s -o 0x%x" % (text_of(module["name"]), offset), to_string=True)
        process().added[base].append(dynamic_of(base, module))


def frames(frame):
    while frame is not None:
        yield frame
        try:
            frame = frame.older()
        except gdb.error:
            return


VDSO_BYTES_MAX = 1 << 16


def is_of_kernel(pc):
    """The kernel's library, the vDSO, is no shared library for gdb."""
    try:
        start = gdb.execute("info auxv", to_string=True).split("AT_SYSINFO_EHDR")[1].split("\n")[0].split()[-1]
    except (gdb.error, IndexError):
        return False
    return int(start, 0) <= pc < int(start, 0) + VDSO_BYTES_MAX


def is_of_program(pc):
    if not modules():  # the only rank of a process has no copy
        return gdb.solib_name(pc) is None and not is_of_kernel(pc)
    return process().rank_at(pc) is not None and not is_binding(module_at(pc))


def program_frame(frame):
    """The innermost frame, from this one on, that is in the program, in a copy if there are any; None: none."""
    return next((frame for frame in frames(frame) if is_of_program(frame.pc())), None)


def module_at(pc):
    """The module of a copy with code at this address; None: none."""
    base = process().bases.get(process().rank_at(pc))
    for module in modules() if base else []:
        lo = base + int(module["copy_offset"])
        if lo <= pc < lo + int(module["vaddr_hi"]) - int(module["vaddr_lo"]):
            return module
    return None


def is_binding(module):
    """Our library between a Fortran program and MPI."""
    return module is not None and "libheddle_mpifort" in text_of(module["name"])


def carrier_of(rank):
    """The kernel's number of the thread that runs the rank."""
    return int(rank["ult"]["pe"]["carrier"]["tid"])


def running_thread(rank):
    """The thread whose stack pointer is in the rank's stack; None: none. Selects it, or leaves another one selected."""
    lo, hi = int(rank["ult"]["stack_lo"]), int(rank["ult"]["stack_hi"])
    for thread in gdb.selected_inferior().threads():
        try:
            thread.switch()
            if lo == 0 and thread.ptid[1] == carrier_of(rank):
                return thread
            if lo <= int(gdb.newest_frame().read_register("rsp")) < hi:
                return thread
        except gdb.error:
            pass  # it runs
    return None


def describe_place(pc):
    """FUNCTION at FILE:LINE of a return address in a copy, by the symbols of the prototype; "": not known."""
    module = module_at(pc)
    if module is not None:
        base = process().bases[process().rank_at(pc)]
        pc = (pc - base - int(module["copy_shift"]) + int(module["bias"])) % 2**64
    block, line = gdb.block_for_pc(pc - 1), gdb.find_pc_line(pc - 1)
    while block is not None and (block.function is None or block.is_global):
        block = block.superblock
    if block is None:
        known = gdb.execute("info symbol 0x%x" % (pc - 1), to_string=True)
        return "" if known.startswith("No symbol") else known.split()[0]
    return "%s at %s:%d" % (block.function.print_name, line.symtab.filename, line.line)


# ---- heddle ranks ----


class Line:
    """A text with %s for numbers, and these: value, rank that it may depend on, and size of the communicator (0: none)."""

    def __init__(self, rank):
        self.rank, self.text, self.numbers = rank, "", []

    def add(self, text, *number):
        self.text += text.replace("%", "%%") + ("%s" if number else "")
        self.numbers += [number] if number else []

    def relations(self):
        return [
            [("is", value), ("rank", value - rank)] + ([("mod", (value - rank) % size, size)] if size else [])
            for value, rank, size in self.numbers
        ]


class Group:
    """Ranks with the same text, whose numbers depend on the rank in the same way."""

    def __init__(self, line):
        self.text, self.relations, self.members = line.text, line.relations(), [line.rank]

    def take(self, line):
        common = [[r for r in a if r in b] for a, b in zip(self.relations, line.relations())]
        if line.text != self.text or not all(common):
            return False
        self.relations = common
        self.members.append(line.rank)
        return True

    def show(self):
        values = []
        for kind, value, *size in (r[0] for r in self.relations):
            sign = "" if value == 0 else "%+d" % value
            values.append(value if kind == "is" else "rank%s%s" % (sign, " modulo %d" % size[0] if size else ""))
        parts, members = [], self.members
        for i, rank in enumerate(members):
            if i == 0 or rank != members[i - 1] + 1:
                parts.append([rank, rank])
            parts[-1][1] = rank
        ranges = ", ".join(str(a) if a == b else "%d-%d" % (a, b) for a, b in parts)
        count = "" if len(members) == 1 else " (%d)" % len(members)
        print("%s %s%s: %s" % ("rank" if len(members) == 1 else "ranks", ranges, count, self.text % tuple(values)))


def show_grouped(lines):
    groups = []
    for line in lines:
        if not any(group.take(line) for group in groups):
            groups.append(Group(line))
    for group in groups:
        group.show()


def add_key(line, comm, source, tag, word):
    size = int(comm["peer"]["n_ranks"])
    if source < 0:
        line.add(" %s any rank" % word)
    else:
        line.add(" %s rank " % word, source, int(comm["rank"]), size)
    if tag < 0:
        line.add(", any tag")
    else:
        line.add(", tag ", tag, int(comm["rank"]), 0)
    if int(comm.address) == int(comm["owner"]["self"]):
        line.add(" on MPI_COMM_SELF")
    elif int(comm.address) != int(comm["owner"]["world"]):
        line.add(" on %s of size %d" % (text_of(comm["name"]) or "a communicator", size))


def add_requests(line, ult):
    waiting = ult["wait_for"].cast(gdb.lookup_type("struct ampi_request").pointer().pointer())
    for i in range(int(ult["n_wait_for"])):
        if not int(waiting[i]) or int(waiting[i]["state"]) != REQUEST_ACTIVE:
            continue
        request, p2p = waiting[i].dereference(), waiting[i]["u"]["p2p"]
        name = text_of(request["kind"]["name"])
        line.add((" in " if " in " not in line.text else ", ") + name)
        if name == "receive":
            add_key(line, request["comm"].dereference(), int(p2p["node"]["source"]), int(p2p["node"]["tag"]), "from")
        elif name == "send":
            add_key(line, request["comm"].dereference(), int(p2p["peer_rank"]), int(p2p["tag"]), "to")


def is_asleep(ult):
    """As is_asleep_now of src/ampi/job/blocked.c."""
    wake_at_ns = int(ult["wake_at_ns"])
    is_outside = int(ult["depth"]) > 0 and not int(ult["called_from"]) and not int(ult["waits_for"])
    return wake_at_ns > 0 and (is_outside or wake_at_ns > time.monotonic_ns())


def line_of(rank, running):
    """running: the place of the rank if a thread runs it; None: none does."""
    line, ult = Line(number_of(rank)), rank["ult"]
    state, call = int(ult["state"]), text_of(ult["call"])
    if int(rank["state"]) == RANK_ENDED:
        line.add("ended")
        return line
    if state == RUNNING:
        line.add("runs" + (" in " + running if running else "; last call of MPI: " + call if call else ""))
        return line
    line.add(call + ": " if call else "")
    if state != READY and is_asleep(ult):
        line.add("then sleeps")
    else:
        line.add("ready to run" if state == READY else "blocked")
    if state != READY:
        add_requests(line, ult)
    pc = int(ult["called_from"]) or int(ult["resume_at"])
    if is_binding(module_at(pc)) and running_thread(rank) is None:
        STACK.show(rank)
        frame = program_frame(gdb.newest_frame().older())
        pc = frame.pc() if frame else pc
        STACK.hide()
    place = describe_place(pc) if pc else ""
    line.add("; called at " + place if place else "")
    return line


def running_places():
    """By rank: where it is, of those that run."""
    places = {}
    for thread in gdb.selected_inferior().threads():
        try:
            thread.switch()
            frame = program_frame(gdb.newest_frame()) or gdb.newest_frame()
            rank = process().rank_at(frame.pc())
            if rank is None:
                rank = process().rank_at(int(frame.read_register("rsp")))
            if rank is None and not modules():
                rank = next((number_of(r) for r in ranks() if carrier_of(r) == thread.ptid[1]), None)
            if rank is not None:
                places[rank] = describe_place(frame.pc() + 1)
        except gdb.error:
            pass  # it runs
    return places


class Heddle(gdb.Command):
    """The ranks of an MPI program."""

    def __init__(self):
        super().__init__("heddle", gdb.COMMAND_STATUS, prefix=True)


class ShowRanks(gdb.Command):
    """Show where the ranks are, of all processes that gdb has: heddle ranks."""

    def __init__(self):
        super().__init__("heddle ranks", gdb.COMMAND_STATUS)

    @in_c
    def invoke(self, argument, from_tty):
        lines = []
        for _ in each_process():
            places = running_places()
            lines += [line_of(rank, places.get(number_of(rank))) for rank in ranks()]
        show_grouped(lines)


# ---- heddle rank ----


def forget_frames():
    """Also those of an editor: with `gdb -i dap`, gdb keeps the frames that it has sent, and has no public way to drop them."""
    gdb.invalidate_cached_frames()
    for module, name in (("frames", "_clear_frame_ids"), ("scopes", "clear_scopes")):
        clear = getattr(sys.modules.get("gdb.dap." + module), name, None)
        if clear:
            clear(None)
    send = getattr(sys.modules.get("gdb.dap.server"), "send_event", None)
    if send:
        send("invalidated", {"areas": ["stacks", "variables"]})


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class StackOfRank(gdb.unwinder.Unwinder):
    """Presents a rank that does not run as the caller of frame 0 of a thread."""

    REGISTERS = (("r15", 8), ("r14", 16), ("r13", 24), ("r12", 32), ("rbx", 40), ("rbp", 48), ("rip", 56))

    def __init__(self):
        super().__init__("heddle-rank")
        self.shown = None  # number of the inferior; pc and rsp of frame 0; the rank; its saved stack pointer

    def __call__(self, pending):
        if self.shown is None or self.shown[0] != gdb.selected_inferior().num:
            return None
        pc, rsp = pending.read_register("rip"), pending.read_register("rsp")
        if (int(pc), int(rsp)) != self.shown[1:3]:
            return None
        sp = gdb.Value(self.shown[4])
        info = pending.create_unwind_info(FrameId(sp, pc))
        word = gdb.lookup_type("unsigned long")
        for name, offset in self.REGISTERS:
            value = (sp + offset).cast(word.pointer()).dereference()
            info.add_saved_register(name, value.cast(pending.read_register(name).type))
        info.add_saved_register("rsp", (sp + 64).cast(rsp.type))
        return info

    def show(self, rank):
        frame = gdb.newest_frame()
        rsp = int(frame.read_register("rsp"))
        self.shown = (gdb.selected_inferior().num, frame.pc(), rsp, number_of(rank), int(rank["ult"]["sp"]))
        forget_frames()

    def go_on(self, _):
        for known in PROCESSES.values():
            known.is_fresh = False
        self.hide()

    def hide(self):
        if self.shown is not None:
            self.shown = None
            forget_frames()


class HideFrame0:
    """Hides the thread's own frame in a backtrace of a rank that does not run."""

    def __init__(self):
        self.name, self.priority, self.enabled = "heddle-rank", 100, True
        gdb.frame_filters[self.name] = self

    def filter(self, iterator):
        hides = STACK.shown is not None and int(gdb.newest_frame().read_register("rsp")) == STACK.shown[2]
        return (frame for frame in iterator if not (hides and frame.inferior_frame().level() == 0))


class SelectRank(gdb.Command):
    """Select a rank of the process: heddle rank N. Without N: no rank, the thread's own stack."""

    def __init__(self):
        super().__init__("heddle rank", gdb.COMMAND_STACK)

    @in_c
    def invoke(self, argument, from_tty):
        STACK.hide()
        if not argument:
            return
        rank = rank_of_number(argument.strip())
        if int(rank["state"]) == RANK_ENDED:
            raise gdb.GdbError("rank %s has ended" % argument)
        if int(rank["image"]):
            add_symbols(int(rank["image"]["base"]))
        state = int(rank["ult"]["state"])
        if running_thread(rank) is None:
            threads = gdb.selected_inferior().threads()
            next((t for t in threads if t.ptid[1] == carrier_of(rank)), threads[0]).switch()
            if state != RUNNING:  # else on another stack, such as that of a signal's handler
                STACK.show(rank)
        newest = gdb.newest_frame()
        newest = newest.older() if STACK.shown else newest
        (program_frame(newest) or newest).select()
        gdb.execute("frame", from_tty)


class RankFunction(gdb.Function):
    """$heddle_rank(): the rank that the selected frame belongs to; -1: none."""

    def __init__(self):
        super().__init__("heddle_rank")

    @in_c
    def invoke(self):
        newest = gdb.newest_frame()
        if STACK.shown and (newest.pc(), int(newest.read_register("rsp"))) == STACK.shown[1:3]:
            return STACK.shown[3]
        known = process()
        known.is_fresh = False  # in a breakpoint's condition, the process has gone on without an event
        rank = known.rank_at(newest.pc())
        if rank is None:
            rank = known.rank_at(int(newest.read_register("rsp")))
        if rank is None:
            frame = program_frame(newest)
            rank = known.rank_at(frame.pc()) if frame else None
        if rank is None and not list(images()):
            rank = next((number_of(r) for r in ranks()), None)
        return -1 if rank is None else rank


class Variable(gdb.Function):
    """$heddle_var("NAME"): a global, static or thread_local variable of the program, of the selected rank."""

    def __init__(self):
        super().__init__("heddle_var")

    @in_c
    def invoke(self, name):
        name = name.string()
        number = RANK_FUNCTION.invoke()
        rank = next((r for r in ranks() if number_of(r) == number), None)
        if rank is None:
            raise gdb.GdbError("select a rank")
        if not modules():
            return gdb.parse_and_eval(name)
        for module in modules():
            symbol = self.symbol_of(module, name)
            if symbol is None:
                continue
            known = gdb.execute("info address %s" % name, to_string=True).split("thread-local variable at offset ")
            if len(known) > 1:
                addr = self.thread_local(int(known[1].split()[0], 0) + int(module["tls_offset"]), rank["ult"])
            else:
                addr = int(symbol.value().address)
                shift = int(module["copy_shift"]) - int(module["bias"])
                base = base_of(addr)
                addr -= base + shift if base else 0  # it is that of a copy
                addr += int(rank["image"]["base"]) + shift if int(rank["image"]) else 0
            return gdb.Value(addr % 2**64).cast(symbol.type.pointer()).dereference()
        raise gdb.GdbError("%s is not a variable of the program" % name)

    @staticmethod
    def symbol_of(module, name):
        """The variable in gdb's file of the prototype or of any copy; None: there is none."""
        file = os.path.basename(text_of(module["name"]))
        objfiles = [o for o in gdb.objfiles() if os.path.basename(o.filename or "") == file]
        symbols = (o.lookup_global_symbol(name) or o.lookup_static_symbol(name) for o in objfiles)
        return next((symbol for symbol in symbols if symbol), None)

    @staticmethod
    def thread_local(offset, ult):
        """The address of the byte at an offset from the rank's thread pointer; if the rank does not run: where it is saved."""
        saved = int(ult["tls_save"]) if STACK.shown else 0
        for i in range(int(library_variable("tls_n_regions")) if saved else 0):
            region = library_variable("tls_regions")[i]
            if int(region["tp_offset"]) <= offset < int(region["tp_offset"]) + int(region["size_bytes"]):
                return saved + offset - int(region["tp_offset"])
            saved += int(region["size_bytes"])
        return (int(ult["thread_pointer"]) or int(ult["pe"]["carrier"]["thread_pointer"])) + offset


# ---- heddle messages ----


def communicators():
    shared = library_variable("ampi_comm_first_watched")
    while int(shared):
        yield shared.dereference()
        shared = shared["next_watched"]


def handles():
    """The handles of communicators that ranks of this process have."""
    for shared in communicators():
        for side in (shared["side"][0], shared["side"][1]):
            layout = side["layout"]
            for part in range(int(layout["n_local"]) if int(layout) else 0):
                handle = side["handles"][int(layout["part_members"][part])]
                if int(handle["magic"]) == MAGIC_COMM:
                    yield handle


def posted(match):
    for table in (match["posted"], match["bound"]):
        is_bound = table.type.code == gdb.TYPE_CODE_PTR
        if is_bound and not int(table):
            continue
        for i in range(1 << int(table["log2_chains"])):
            node = table["chains"][i]["first"]
            while int(node):
                if not is_bound or int(node["seq"]):
                    yield node
                node = node["next"]


def unexpected(match):
    node = match["first_arrived"]
    while int(node):
        yield node
        node = node["later"]


class ShowMessages(gdb.Command):
    """Show unexpected messages and posted receives: heddle messages [RANK]."""

    def __init__(self):
        super().__init__("heddle messages", gdb.COMMAND_STATUS)

    def line(self, comm, node, is_message):
        line = Line(number_of(comm["owner"]))
        line.add("message" if is_message else "receive")
        add_key(line, comm, int(node["source"]), int(node["tag"]), "from")
        if is_message:
            size = int(container(node, "ampi_message", "node")["size_bytes"])
        else:
            p2p = container(node, "ampi_request", "u", "p2p", "node")["u"]["p2p"]
            size = int(p2p["count"]) * int(p2p["type"]["size_bytes"])
        line.add(", %d bytes" % size)
        return line

    @in_c
    def invoke(self, argument, from_tty):
        lines = []
        for _ in each_process():
            for comm in handles():
                if not argument or number_of(comm["owner"]) == int(argument):
                    lines += [self.line(comm, node, True) for node in unexpected(comm["match"])]
                    lines += [self.line(comm, node, False) for node in posted(comm["match"])]
        show_grouped(sorted(lines, key=lambda line: line.rank))
        if not lines:
            print("no unexpected messages and no posted receives")


# ---- Breakpoints and symbols ----


class RankBreakpoint(gdb.Breakpoint):
    """Stops one rank."""

    def __init__(self, location, rank, test):
        super().__init__(location)
        self.rank, self.test = rank, test  # an expression

    def stop(self):
        return RANK_FUNCTION.invoke() == self.rank and (not self.test or bool(gdb.parse_and_eval(self.test)))


class BreakInRank(gdb.Command):
    """Set a breakpoint for one rank: heddle break LOCATION rank N [if CONDITION]."""

    def __init__(self):
        super().__init__("heddle break", gdb.COMMAND_BREAKPOINTS, gdb.COMPLETE_LOCATION)

    def invoke(self, argument, from_tty):
        location, _, rest = argument.rpartition(" rank ")
        number, _, test = rest.partition(" if ")
        if not location or not number.strip().isdigit():
            raise gdb.GdbError("usage: heddle break LOCATION rank N [if CONDITION]")
        process().wanted.add(int(number))
        for rank, base in started_images():
            if rank == int(number):
                add_symbols(base)
        RankBreakpoint(location, int(number), test)


class Ranks(gdb.Parameter):
    """The number of ranks of a process whose symbols are added when they start; the first ones."""

    set_doc = show_doc = "Number of ranks whose symbols are added when they start."

    def __init__(self):
        super().__init__("heddle-ranks", gdb.COMMAND_FILES, gdb.PARAM_ZUINTEGER)
        self.value = 32

    def get_set_string(self):
        return ""

    def get_show_string(self, value):
        return "The symbols of the first %s ranks of a process are added." % value


class StartOfRank(gdb.Breakpoint):
    """In the library's function that runs a rank's copy: never stops."""

    def __init__(self):
        super().__init__("image_run", type=gdb.BP_BREAKPOINT, internal=True)
        self.silent = True

    @staticmethod
    def watch(event=None):
        """Sets it, once, when the library is there."""
        if not STARTS and any("libmpi_abi" in (objfile.filename or "") for objfile in gdb.objfiles()):
            STARTS.append(StartOfRank())

    @in_c
    def stop(self):
        try:
            base = int(gdb.selected_frame().read_var("image")["base"])
            known = process()
            known.is_known = True
            if len(known.added) < RANKS.value or any(base == started_base(rank) for rank in known.wanted):
                add_symbols(base)
        except (gdb.error, ValueError) as error:
            print("heddle-gdb.py: %s" % error)
        return False


def started_base(number):
    """The base of the copy of a rank; None: it is not there."""
    job = library_variable("ampi_job")
    index = number - int(job["first_rank"])
    image = job["ranks"][index]["image"] if 0 <= index < int(job["n_local"]) else 0
    return int(image["base"]) if int(image) else None


def started_images():
    try:
        return list(images())
    except (gdb.error, gdb.GdbError):
        return []  # no process yet, or no debug information


@in_c
def catch_up(_=None):
    """For a process that gdb has attached to, and a core file: adds the symbols of the first ranks."""
    if not process().is_known:
        for _, base in started_images()[: RANKS.value]:
            process().is_known = True
            add_symbols(base)




def forget(event):
    """The process has ended, or is left: its copies are gone. While gdb kills it, detaches or quits, no command is possible."""
    number, known = event.inferior.num, PROCESSES.pop(event.inferior.num, Process())
    PROCESSES.setdefault(number, Process()).wanted = known.wanted
    STACK.shown = None
    if number == gdb.selected_inferior().num:
        GONE.extend(addr for copy in known.added.values() for addr in copy)
    if hasattr(event, "exit_code"):
        drop_symbols()


def drop_symbols():
    """add-symbol-file has moved gdb's sections of the program to the copy: `file` moves them back, or the next `run` would not
    find ld.so's list of libraries."""
    for addr in GONE:
        gdb.execute("remove-symbol-file -a 0x%x" % addr, to_string=True)
    if GONE:
        GONE.clear()
        gdb.execute("file " + gdb.current_progspace().filename, to_string=True)


class DebugJob(gdb.Command):
    """Run mpirun, and attach to all processes of its job before their first instruction; mpirun --debug does this."""

    def __init__(self):
        super().__init__("heddle job", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        gdb.execute("tbreak main", to_string=True)
        gdb.execute("run", to_string=True)
        gdb.execute("set var *(int *)&MPIR_being_debugged = 1")
        show = gdb.Breakpoint("MPIR_Breakpoint", internal=True)  # in mpirun-procs, too, which may replace mpirun
        gdb.execute("continue", to_string=True)
        if not gdb.selected_inferior().pid:
            raise gdb.GdbError("mpirun has ended")
        table = int(gdb.parse_and_eval("*(unsigned long *)&MPIR_proctable"))
        size = int(gdb.parse_and_eval("*(int *)&MPIR_proctable_size"))
        pids = [int(gdb.parse_and_eval("*(int *)%d" % (table + 24 * i + 16))) for i in range(size)]
        show.delete()
        gdb.execute("handle SIGCONT nostop noprint pass", to_string=True)
        numbers = []
        for pid in pids:
            before = {inferior.num for inferior in gdb.inferiors()}
            gdb.execute("add-inferior -no-connection", to_string=True)
            numbers += {inferior.num for inferior in gdb.inferiors()} - before
            gdb.execute("inferior %d" % numbers[-1], to_string=True)
            gdb.execute("attach %d" % pid, to_string=True)
        gdb.execute("detach inferiors 1", to_string=True)
        gdb.execute("remove-inferiors 1", to_string=True)
        gdb.execute("inferior %d" % numbers[0], to_string=True)
        gdb.execute("set schedule-multiple on")
        print("%d stopped at the first instruction: set breakpoints, and continue" % size)


class ListImages(gdb.Command):
    """List the ranks' copies of the program; an arrow marks the one of the selected frame."""

    def __init__(self):
        super().__init__("heddle-images", gdb.COMMAND_STATUS)

    @in_c
    def invoke(self, argument, from_tty):
        pc, size = selected_pc(), span()
        for rank, base in images():
            mark = "->" if base <= pc < base + size else "  "
            known = " (symbols)" if base in process().added or is_shown(base) else ""
            print("%s rank %d  0x%x-0x%x%s" % (mark, rank, base, base + size, known))


class AddSymbols(gdb.Command):
    """Add the symbols of one copy of the program: of the selected frame, a rank, an address, or of all."""

    def __init__(self):
        super().__init__("heddle-symbols", gdb.COMMAND_FILES)

    @in_c
    def invoke(self, argument, from_tty):
        if argument.strip() == "all":
            for _, base in images():
                add_symbols(base)
            return
        if argument.strip().isdigit():
            base = dict(images()).get(int(argument))
            if base is None:
                raise gdb.GdbError("rank %s has no copy in this process" % argument.strip())
            add_symbols(base)
            return
        addr = int(gdb.parse_and_eval(argument)) if argument else selected_pc()
        base = base_of(addr % 2**64)
        if base is None:
            raise gdb.GdbError("0x%x lies in no copy; give an address, or go up to a frame of the program" % addr)
        add_symbols(base)


if "STACK" not in globals():
    STACK = StackOfRank()
    gdb.unwinder.register_unwinder(None, STACK)
    HideFrame0()
    Heddle(), ShowRanks(), SelectRank(), ShowMessages(), BreakInRank(), ListImages(), AddSymbols(), DebugJob(), Variable()
    RANK_FUNCTION = RankFunction()
    RANKS = Ranks()
    gdb.events.new_objfile.connect(StartOfRank.watch)
    gdb.events.exited.connect(forget)
    gdb.events.before_prompt.connect(drop_symbols)
    gdb.events.before_prompt.connect(catch_up)
    gdb.events.stop.connect(catch_up)
    gdb.events.cont.connect(STACK.go_on)
    StartOfRank.watch()
