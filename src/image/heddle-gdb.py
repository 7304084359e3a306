# SPDX-License-Identifier: BSD-3-Clause
"""heddle-gdb.py: symbols of the ranks' copies of a program, for gdb.

    (gdb) source heddle-gdb.py
    (gdb) heddle-images            lists the copies, and marks the one that the selected frame is in
    (gdb) heddle-symbols           adds the symbols of the copy that the selected frame is in
    (gdb) heddle-symbols 0xADDR    the same for the copy that an address lies in
    (gdb) heddle-symbols all       for all copies (slow, and much memory, beyond some tens)

gdb knows the program where ld.so loaded it (the prototype, whose code never runs) and nothing of the copies. It reads
what it needs from image_program and all_images of the library, which has to have its debug information.
"""

import gdb

ADDED = set()


def library_variable(name):
    symbol = gdb.lookup_global_symbol(name) or gdb.lookup_static_symbol(name)
    if symbol is None:
        raise gdb.GdbError("%s not found: is the library loaded, with debug information?" % name)
    return symbol.value()


def images():
    """Pairs of number and base of every copy, the oldest first."""
    bases = []
    image = library_variable("all_images")
    while int(image) != 0:
        bases.append(int(image["base"]))
        image = image["next"]
    bases.reverse()
    return list(enumerate(bases))


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


class ListImages(gdb.Command):
    """List the copies of the program; an arrow marks the one of the selected frame."""

    def __init__(self):
        super().__init__("heddle-images", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        pc, size = selected_pc(), span()
        for number, base in images():
            mark = "->" if base <= pc < base + size else "  "
            known = " (symbols)" if base in ADDED else ""
            print("%s %5d  0x%x-0x%x%s" % (mark, number, base, base + size, known))


class AddSymbols(gdb.Command):
    """Add the symbols of one copy of the program: of the selected frame, of an address, or of all."""

    def __init__(self):
        super().__init__("heddle-symbols", gdb.COMMAND_FILES)

    def invoke(self, argument, from_tty):
        if argument.strip() == "all":
            for _, base in images():
                add_symbols(base)
            return
        addr = int(gdb.parse_and_eval(argument)) if argument else selected_pc()
        base = base_of(addr % 2**64)
        if base is None:
            raise gdb.GdbError("0x%x lies in no copy; give an address, or go up to a frame of the program" % addr)
        add_symbols(base)


ListImages()
AddSymbols()
