#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes entry points of MPI from a specification: the int and the _c form of a function, blocking, nonblocking, persistent.

usage: gen_bindings.py FUNCTIONS.tsv ROOM.bindings OUT.c     writes the C file
       gen_bindings.py FUNCTIONS.tsv ROOM.bindings           prints the names of its functions, without MPI_

A specification begins with a C comment and #include lines, which are copied. Then templates and functions follow:

    template collective:                 a template has a part for each form; Xxx stands for the function's name:
    Xxx:                                 MPI_Bcast and MPI_Bcast_c
        struct call call = {@name};      C text; @name: "MPI_Bcast_c"

        @body                            the lines below the function
    Ixxx BASE_FLATTEN:                   MPI_Ibcast and MPI_Ibcast_c; text after the form goes before "int"
        ...
    Xxx_init:                            MPI_Bcast_init and MPI_Bcast_init_c
        ...

    collective Bcast RED:                a function: the template, the name, arguments of the template (@1: RED)
        int root = 0;                    its body; @{a|b}: a in the int form, b in the _c form

Parameters are those of FUNCTIONS.tsv. A form without a _c function (MPI_Barrier) is written once; a form that the standard
does not have is an error.

Generated are functions that check, fill the arguments and call one shared function: 211 of 662. Written by hand, with AMPI_EXPORT(Name), are
functions whose body is the work, and those of the hot path, whose body is one with the path below it. The output is ordinary C in the build
folder, for debuggers and editors, and not in git: it cannot differ from its specification. Macros would do the same, but hide `return` and
the function's name from every tool. The generator knows nothing about collectives or messages: a room writes its own templates. The entry
points take as many instructions as when they were written by hand (callgrind).
"""
import pathlib
import re
import sys

COLUMNS = 110


class Function:
    def __init__(self, name, ret, params):
        self.name, self.ret = name, ret
        self.params = params.split(", ")


def read_functions(path):
    """Name without MPI_ -> Function."""
    functions = {}
    with open(path, encoding="ascii") as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                name, ret, params = line.rstrip("\n").split("\t")
                functions[name[len("MPI_"):]] = Function(name, ret, params)
    return functions


class Template:
    def __init__(self):
        self.forms = []  # (pattern, attributes, lines)


class Entry:
    def __init__(self, template, name, args, where):
        self.template, self.name, self.args, self.where = template, name, args, where
        self.body = []


def strip_blank(lines):
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


class Spec:
    """A parsed specification: includes, templates, entries in the order of the file."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.includes, self.templates, self.entries = [], {}, []
        text = self.path.read_text(encoding="ascii")
        # Comments are the specification's own; they keep their lines, so that errors name the right one.
        text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
        target = None  # where indented lines go
        for number, line in enumerate(text.split("\n"), 1):
            where = f"{self.path}:{number}"
            if line.startswith("#include"):
                self.includes.append(line)
            elif not line.strip() or line[0] == " ":
                if target is not None:
                    target.append(line[4:])
                elif line.strip():
                    sys.exit(f"{where}: C text outside any template or function")
            else:
                target = self.header(line, where)
        for template in self.templates.values():
            for _, _, lines in template.forms:
                strip_blank(lines)
        for entry in self.entries:
            strip_blank(entry.body)

    def header(self, line, where):
        match = re.fullmatch(r"(\w+)((?: [^:]+)?):", line)
        if not match:
            sys.exit(f"{where}: not a template, a form or a function (they end with a colon): {line}")
        first, rest = match.group(1), match.group(2).split()
        if first == "template":
            self.template = self.templates[rest[0]] = Template()
            return None
        if re.fullmatch(r"I?[Xx]xx\w*", first):
            lines = []
            self.template.forms.append((first, rest, lines))
            return lines
        if first not in self.templates or not rest:
            sys.exit(f"{where}: no template {first} is defined above")
        entry = Entry(self.templates[first], rest[0], rest[1:], where)
        self.entries.append(entry)
        return entry.body

    def functions(self, table):
        """(entry, form, name without MPI_) of everything that the specification defines."""
        for entry in self.entries:
            for form in entry.template.forms:
                name = form[0].replace("xxx", entry.name[0].lower() + entry.name[1:]).replace("Xxx", entry.name)
                if name not in table:
                    sys.exit(f"{entry.where}: the standard has no function MPI_{name}")
                yield entry, form, name
                if f"{name}_c" in table:
                    yield entry, form, f"{name}_c"


def names(spec_path, table):
    return {name for _, _, name in Spec(spec_path).functions(table)}


def signature(function, attributes):
    """The first lines of a definition, with as many parameters in each as fit."""
    lines = [" ".join(attributes + [function.ret, f"P{function.name}("])]
    indent = len(lines[0])
    for i, param in enumerate(function.params):
        text = param + ("," if i + 1 < len(function.params) else ")")
        if len(lines[-1]) + 1 + len(text) > COLUMNS and len(lines[-1]) > indent:
            lines.append(" " * indent + text)
        else:
            lines[-1] += text if lines[-1].endswith("(") else " " + text
    return lines


def expand(line, values, is_large, where):
    line = re.sub(r"@\{([^|}]*)\|([^}]*)\}", lambda m: m.group(1 + is_large), line)

    def value(match):
        if match.group(1) not in values:
            sys.exit(f"{where}: @{match.group(1)} has no value")
        return values[match.group(1)]

    line = re.sub(r"@(\w+)", value, line)
    if len(line) + 4 > COLUMNS:
        sys.exit(f"{where}: longer than {COLUMNS} columns: {line}")
    return f"    {line}" if line.strip() else ""


def write_function(entry, form, function):
    _, attributes, lines = form
    is_large = function.name.endswith("_c")
    values = {"name": f'"{function.name}"'}
    values.update((str(i), arg) for i, arg in enumerate(entry.args, 1))
    values[str(len(entry.args) + 1)] = ""  # the last argument of a template may be left out
    body = []
    for line in lines:
        body += entry.body if line.strip() == "@body" else [line]
    attributes = [a for a in (re.sub(r"@(\d)", lambda m: values.get(m.group(1), ""), a) for a in attributes) if a]
    out = [f"AMPI_EXPORT({function.name[len('MPI_'):]});", *signature(function, attributes), "{"]
    out += [expand(line, values, is_large, entry.where) for line in body]
    return "\n".join(out) + "\n}\n"


def write(spec, table, root_name):
    head = (f"/* Generated by tools/gen_bindings.py from {root_name}: edit that. */\n" + "\n".join(spec.includes) + "\n")
    parts = [write_function(entry, form, table[name]) for entry, form, name in spec.functions(table)]
    return head + "\n" + "\n".join(parts)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    table = read_functions(sys.argv[1])
    spec_path = pathlib.Path(sys.argv[2])
    if len(sys.argv) == 3:
        print("\n".join(sorted(names(spec_path, table))))
        return
    parts = spec_path.resolve().parts
    root_name = "/".join(parts[len(parts) - 1 - parts[::-1].index("src"):])
    pathlib.Path(sys.argv[3]).write_text(write(Spec(spec_path), table, root_name), encoding="ascii")


if __name__ == "__main__":
    main()
