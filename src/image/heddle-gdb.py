# SPDX-License-Identifier: BSD-3-Clause
"""heddle-gdb.py: symbols of the ranks' copies of a program, for gdb.

gdb knows the program where ld.so loaded it (the prototype, whose code never runs) and nothing of the copies. This script adds the
symbols of each copy before its code runs, so that `break main` stops in every rank, and a backtrace has names and lines. gdb loads it
with the library if the library's folder is safe for it; once, in ~/.gdbinit:

    add-auto-load-safe-path PREFIX/lib

    (gdb) heddle-images            lists the ranks' copies, and marks the one that the selected frame is in
    (gdb) heddle-symbols           adds the symbols of the copy that the selected frame is in
    (gdb) heddle-symbols RANK      the same for the copy of a rank of this process
    (gdb) heddle-symbols 0xADDR    the same for the copy that an address lies in
    (gdb) heddle-symbols all       for all copies (slow, and much memory, beyond some tens)
    (gdb) set heddle-ranks N       adds the symbols of the first N ranks of a process by itself (32; 0: of none)

It reads what it needs from image_program and ampi_job of the library, which has to have its debug information.
"""

import gdb

ADDED = set()


def library_variable(name):
    for objfile in gdb.objfiles():
        symbol = "libmpi_abi" in (objfile.filename or "") and objfile.lookup_global_symbol(name)
        if symbol:
            return symbol.value()
    raise gdb.GdbError("%s not found: is the library loaded, with debug information?" % name)


def images():
    """Pairs of rank and base of every copy that has been made."""
    job = library_variable("ampi_job")
    for i in range(int(job["n_local"])):
        image = job["ranks"][i]["image"]
        if int(image) != 0:
            yield int(job["first_rank"]) + i, int(image["base"])


def span():
    return int(library_variable("image_program")["span_bytes"])


def base_of(addr):
    """The base of the copy that addr lies in; None: in none."""
    size = span()
    for _, base in images():
        if base <= addr < base + size:
            return base
    return None


def selected_pc():
    try:
        return gdb.selected_frame().pc()
    except gdb.error:
        return 0


def add_symbols(base):
    if base in ADDED:
        return
    program = library_variable("image_program")
    for i in range(int(program["n_modules"])):
        module = program["modules"][i]
        offset = (base + int(module["copy_shift"])) % 2**64
        path = module["name"].string()
        gdb.execute("add-symbol-file %s -o 0x%x" % (path, offset), to_string=True)
    ADDED.add(base)


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

    def stop(self):
        try:
            base = int(gdb.selected_frame().read_var("image")["base"])
            if len(ADDED) < RANKS.value:
                add_symbols(base)
        except (gdb.error, ValueError) as error:
            print("heddle-gdb.py: %s" % error)
        return False


def add_started():
    """For a process that gdb has attached to: adds the symbols of the first ranks."""
    try:
        for _, base in list(images())[: RANKS.value]:
            add_symbols(base)
    except (gdb.error, gdb.GdbError):
        pass  # no process yet, or no debug information


def forget(_):
    """The process has ended: its copies are gone."""
    ADDED.clear()


class ListImages(gdb.Command):
    """List the ranks' copies of the program; an arrow marks the one of the selected frame."""

    def __init__(self):
        super().__init__("heddle-images", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        pc, size = selected_pc(), span()
        for rank, base in images():
            mark = "->" if base <= pc < base + size else "  "
            known = " (symbols)" if base in ADDED else ""
            print("%s rank %d  0x%x-0x%x%s" % (mark, rank, base, base + size, known))


class AddSymbols(gdb.Command):
    """Add the symbols of one copy of the program: of the selected frame, a rank, an address, or of all."""

    def __init__(self):
        super().__init__("heddle-symbols", gdb.COMMAND_FILES)

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


ListImages()
AddSymbols()
RANKS = Ranks()
StartOfRank()
gdb.events.exited.connect(forget)
gdb.post_event(add_started)
