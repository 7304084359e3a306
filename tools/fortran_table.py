# SPDX-License-Identifier: BSD-3-Clause
"""The functions of MPI as the Fortran bindings need them, from the tables of src/ampi/abi. For gen_fortran.py."""
import re

from gen_bindings import read_functions

HANDLES = {  # kind: what C calls it in MPI_Xxx_toint, its type
    "comm": ("Comm", "MPI_Comm"), "datatype": ("Type", "MPI_Datatype"), "errhandler": ("Errhandler", "MPI_Errhandler"),
    "file": ("File", "MPI_File"), "group": ("Group", "MPI_Group"), "info": ("Info", "MPI_Info"),
    "message": ("Message", "MPI_Message"), "op": ("Op", "MPI_Op"), "request": ("Request", "MPI_Request"),
    "session": ("Session", "MPI_Session"), "win": ("Win", "MPI_Win"),
}
NO_FORTRAN = {"argc", "argv", "varargs"}
VALUES = {"Wtime": "double precision", "Wtick": "double precision",
          "Aint_add": "integer(kind=MPI_ADDRESS_KIND)", "Aint_diff": "integer(kind=MPI_ADDRESS_KIND)"}


class Param:
    def __init__(self, text):
        self.name, kind, self.intent, *flags = text.split(" ")
        self.kind, self.length = re.fullmatch(r"([^\[]*)(?:\[(.*)\])?", kind).groups()
        match = re.fullmatch(r"function\((\w+)(?:\|(\w+))?\)", self.kind)
        self.procedure = match and match.groups()
        if match:
            self.kind = "function"
        self.is_async = "asynchronous" in flags
        self.large_only = "large_only" in flags
        self.no_intent = "no_intent" in flags
        self.is_array = self.length is not None and self.kind != "string"


class Function:
    """One function in one form: Send or Send_c."""

    def __init__(self, base, languages, params, large, prototype):
        self.base, self.languages, self.large = base, languages, large
        self.name = base + ("_c" if large else "")
        self.params = [p for p in params if large or not p.large_only]
        self.fortran = [p for p in self.params if p.kind not in NO_FORTRAN]
        self.c_params = prototype.params
        self.has_ierror = base not in VALUES and not any(p.kind == "varargs" for p in params)
        self.buffers = [p for p in self.fortran if p.kind == "buffer"]

    def c_pointer(self, param):
        """Does C take this handle by address?"""
        return "*" in self.c_params[self.params.index(param)]


def is_count(param):
    return param.kind in ("count", "large")


def read_all(abi):
    table = read_functions(abi / "functions.tsv")
    functions = []
    for line in (abi / "parameters.tsv").read_text(encoding="ascii").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        base, languages, *rest = line.split("\t")
        if not {"f08", "f90"} & set(languages.split()):
            continue
        params = [Param(text) for text in rest[0].split("; ") if text] if rest else []
        for large in (False, True):
            name = base + ("_c" if large else "")
            if name in table:
                functions.append(Function(base, set(languages.split()) if not large else {"f08"}, params, large, table[name]))
    return functions
