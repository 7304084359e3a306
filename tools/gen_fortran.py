#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the Fortran bindings from the tables of src/ampi/abi.

usage: gen_fortran.py c ABI_DIR SOURCES_DIR OUT_DIR         fort_handles.h, fort_bindings.c: the entry points, except those that a file of
                                                            SOURCES_DIR has by FORT_EXPORT
       gen_fortran.py fortran ABI_DIR OUT_DIR [--no-ts]     mpif.h, mpi_f08_types.f90, mpi.f90, mpi_f08.f90; --no-ts: mpi_f08 for a
                                                            compiler without assumed rank: no array sections
       gen_fortran.py names ABI_DIR f90|f08|f08ts           the linker names, one per line

Each function has its parameters in parameters.tsv (kind, intent, length) and its C prototype in functions.tsv. A kind decides how an argument
is declared in Fortran and how it is converted in C; the classes of kinds are below. docs/decisions/0031-fortran.md says the rest.
"""
import pathlib
import re
import sys

from gen_bindings import read_functions

HANDLES = {  # kind: what C calls it in MPI_Xxx_toint, its type
    "comm": ("Comm", "MPI_Comm"), "datatype": ("Type", "MPI_Datatype"), "errhandler": ("Errhandler", "MPI_Errhandler"),
    "file": ("File", "MPI_File"), "group": ("Group", "MPI_Group"), "info": ("Info", "MPI_Info"),
    "message": ("Message", "MPI_Message"), "op": ("Op", "MPI_Op"), "request": ("Request", "MPI_Request"),
    "session": ("Session", "MPI_Session"), "win": ("Win", "MPI_Win"),
}
INTS = {"error", "int", "keyval", "rank", "tag"}
ADDRESSES = {"aint", "attribute", "state"}
NO_FORTRAN = {"argc", "argv", "varargs"}
VALUES = {"Wtime": "double precision", "Wtick": "double precision",
          "Aint_add": "integer(kind=MPI_ADDRESS_KIND)", "Aint_diff": "integer(kind=MPI_ADDRESS_KIND)"}
# mpi_f08 cannot tell these from their other form by the types of the arguments, so they keep their own name (MPI 5.0, 19.2).
OWN_LARGE_NAME = {"Op_create", "Register_datarep"}
# Callbacks that the program may name instead of its own, and the interface that each has in mpi_f08.
NULL_FUNCTIONS = {
    "NULL_COPY_FN": None, "DUP_FN": None, "NULL_DELETE_FN": None,
    **{f"{o}_{f}": f"MPI_{o.capitalize()}_{k}_attr_function" for o in ("COMM", "TYPE", "WIN")
       for f, k in (("NULL_COPY_FN", "copy"), ("DUP_FN", "copy"), ("NULL_DELETE_FN", "delete"))},
    "CONVERSION_FN_NULL": "MPI_Datarep_conversion_function", "CONVERSION_FN_NULL_C": "MPI_Datarep_conversion_function_c",
}
# Constants that MPI 3.0 removed, with the values of heddle_mpi_compat.h, for mpif.h and module mpi (mpi1.c has the functions).
REMOVED = [("MPI_LB", 0x27e), ("MPI_UB", 0x27f), ("MPI_COMBINER_HVECTOR_INTEGER", 1001), ("MPI_COMBINER_HINDEXED_INTEGER", 1002),
           ("MPI_COMBINER_STRUCT_INTEGER", 1003)]
SPECIALS = ["MPI_BOTTOM", "MPI_IN_PLACE", "MPI_BUFFER_AUTOMATIC", "MPI_UNWEIGHTED", "MPI_WEIGHTS_EMPTY", "MPI_ERRCODES_IGNORE"]


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


# ---- C ----

def is_count(param):
    return param.kind in ("count", "large")


def c_scalar(param, large):
    """C type of a number that Fortran and C have in the same form, or None."""
    kind = param.kind
    if kind in INTS or kind == "index":
        return "MPI_Fint"
    if kind in ("count", "displ"):
        return {False: "MPI_Fint", True: "MPI_Count" if kind == "count" else "MPI_Aint"}[large]
    return {"aint": "MPI_Aint", "aint_count": "MPI_Count" if large else "MPI_Aint", "large": "MPI_Count",
            "offset": "MPI_Offset", "attribute": "MPI_Aint", "state": "MPI_Aint", "attribute_10": "MPI_Fint",
            "state_10": "MPI_Fint"}.get(kind)


def c_length(function, param):
    """How many elements, as an expression of the entry point."""
    length = param.length
    comm = next((p.name for p in function.params if p.kind == "comm"), None)
    if length in [p.name for p in function.params]:
        return f"*{length}"
    helpers = {"peers": "fort_peers", "indegree": "fort_indegree", "outdegree": "fort_outdegree", "cart_dims": "fort_cart_dims"}
    return f"{helpers[length]}(fort_comm(*{comm}))"


def null_handle(kind):
    return f"{HANDLES[kind][1].upper()}_NULL"


class Body:
    """The parts of an entry point in C."""

    def __init__(self, function, is_f08):
        self.function, self.is_f08 = function, is_f08
        self.params, self.lens, self.locals, self.before, self.args, self.after = [], [], [], [], [], []
        for param in function.params:
            if param.kind in NO_FORTRAN:
                self.args.append("NULL")
            else:
                self.add(param)

    def add(self, param):
        name, kind, out = param.name, param.kind, param.intent != "in"
        scalar = c_scalar(param, self.function.large)
        if kind == "buffer":
            self.params.append(f"void *{name}")
            self.args.append(f"fort_buffer({name})")
        elif kind == "memory":
            self.params.append(f"MPI_Aint *{name}")
            self.locals.append(f"void *c_{name} = NULL;")
            self.args.append(f"&c_{name}")
            if name != "buffer_addr" or self.is_f08:  # module mpi has the wrong type for it (MPI 5.0, 3.6)
                self.after.append(f"if (error == MPI_SUCCESS)\n        *{name} = (MPI_Aint)c_{name};")
        elif kind == "status":
            self.params.append(f"MPI_Fint *{name}")
            self.args.append(f"fort_status({name})" if out and "set" not in self.function.name
                             else f"(MPI_Status *){name}")
        elif kind == "string":
            self.text(param, out)
        elif kind == "logical":
            self.logical(param, out)
        elif kind == "logical_value":
            self.params.append(f"void *{name}")
            self.args.append(name)
        elif kind in HANDLES:
            self.handle(param, out)
        elif kind == "index" and out:
            self.index(param)
        elif scalar:
            self.number(param, scalar, out)
        else:
            sys.exit(f"MPI_{self.function.name}: {name} has the kind {kind}: write the function by hand (FORT_EXPORT)")

    def number(self, param, scalar, out):
        name = param.name
        self.params.append(f"{'' if out else 'const '}{scalar} *{name}")
        if param.length == "n][3":
            self.args.append(f"(int(*)[3])(uintptr_t){name}")
        elif param.is_array and param.kind == "int" and name.endswith("weights"):
            self.args.append(f"fort_weights({name})")
        else:
            self.args.append(name if out or param.is_array else f"*{name}")

    def index(self, param):
        name = param.name
        self.params.append(f"MPI_Fint *{name}")
        if param.is_array:
            self.args.append(name)
            self.after.append(f"fort_indices_out({name}, *outcount, error);")
        else:
            self.locals.append(f"int c_{name} = MPI_UNDEFINED;")
            self.args.append(f"&c_{name}")
            self.after.append(f"*{name} = fort_index(c_{name});")

    def text(self, param, out):
        name = param.name
        self.params.append(f"{'' if out else 'const '}char *{name}")
        self.lens.append(f"size_t {name}_len")
        if out:
            self.locals.append(f"char c_{name}[{param.length}];")
            self.args.append(f"c_{name}")
            self.after.append(f"if (error == MPI_SUCCESS)\n        fort_text_out({name}, {name}_len, c_{name});")
        else:
            is_info = "true" if self.function.base.startswith("Info_") else "false"
            self.locals.append(f"struct fort_text c_{name};")
            self.args.append(f"fort_text_in(&c_{name}, {name}, {name}_len, {is_info})")
            self.after.append(f"fort_text_drop(&c_{name});")

    def logical(self, param, out):
        name = param.name
        self.params.append(f"{'' if out else 'const '}MPI_Fint *{name}")
        if param.is_array and out:
            self.args.append(name)
            self.after.append(f"if (error == MPI_SUCCESS)\n        fort_logicals_out({name}, {c_length(self.function, param)});")
        elif param.is_array:
            self.locals += [f"int few_{name}[FORT_FEW];",
                            f"int *c_{name} = fort_logicals_in({name}, {c_length(self.function, param)}, few_{name});"]
            self.args.append(f"c_{name}")
            self.after.append(f"fort_logicals_drop(c_{name}, few_{name});")
        elif out:
            self.locals.append(f"int c_{name} = 0;")
            self.args.append(f"&c_{name}")
            self.after.append(f"*{name} = fort_logical(c_{name});")
        else:
            self.args.append(f"*{name} != 0")

    def handle(self, param, out):
        name, kind, function = param.name, param.kind, self.function
        type_ = HANDLES[kind][1]
        self.params.append(f"{'' if out else 'const '}MPI_Fint *{name}")
        if param.is_array:
            self.handles(param, out)
        elif param.intent == "in":
            if not function.c_pointer(param):
                self.args.append(f"fort_{kind}(*{name})")
                if function.base.startswith("Request_get_status"):
                    self.after.append(f"fort_requests_look({name}, 1);")
                return
            self.locals.append(f"{type_} c_{name} = fort_{kind}(*{name});")
            self.args.append(f"&c_{name}")
        else:
            begin = f"fort_{kind}(*{name})" if param.intent == "inout" else null_handle(kind)
            self.locals.append(f"{type_} c_{name} = {begin};")
            self.args.append(f"&c_{name}")
            if kind == "request" and param.intent == "inout":
                if function.base == "Start":
                    self.before.append(f"fort_pending_start({name}, 1);")
                self.locals.append("uint64_t last_pending = fort_last_pending;")
                self.after.append(f"fort_request_out({name}, c_{name}, last_pending);")
            elif param.intent == "inout":
                self.after.append(f"*{name} = fort_{kind}_int(c_{name});")
            else:
                self.after.append(f"if (error == MPI_SUCCESS)\n        *{name} = fort_{kind}_int(c_{name});")

    def handles(self, param, out):
        name, kind, function = param.name, param.kind, self.function
        type_ = HANDLES[kind][1]
        n = c_length(function, param)
        few = f"few_{name}"
        outlives = param.is_async  # MPI may read the array until the operation ends
        first = "_new" if param.intent == "out" else "_in"
        ints = "" if param.intent == "out" else f"{name}, "
        if not outlives:
            self.locals.append(f"{type_} {few}[FORT_FEW];")
        call = f"fort_{kind}s{first}({ints}{n}, {'NULL' if outlives else few})"
        if name == "sendtypes":  # not significant with MPI_IN_PLACE
            call = f"fort_buffer(sendbuf) == MPI_IN_PLACE ? NULL : {call}"
        self.locals.append(f"{type_} *c_{name} = {call};")
        self.args.append(f"c_{name}")
        if function.base.startswith("Request_get_status"):
            self.after.append(f"fort_requests_look({name}, {n});")
        if function.base == "Startall":
            self.before.append(f"fort_pending_start({name}, {n});")
        if outlives:
            self.after.append(f"fort_pending_free(error == MPI_SUCCESS ? c_request : MPI_REQUEST_NULL, c_{name});")
        elif out:
            more = ""
            if kind == "request":
                self.locals.append("uint64_t last_pending = fort_last_pending;")
                more = ", last_pending"
            self.after.append(f"fort_{kind}s_out(c_{name}, {n}, {name}, {few}{more});")
        else:
            self.after.append(f"fort_{kind}s_drop(c_{name}, {few});")

    def all_params(self):
        ierror = ["MPI_Fint *ierror"] if self.function.has_ierror else []
        return (self.params + ierror + self.lens) or ["void"]


def wrap(head, items, end, columns=110):
    """head(item, item)end in lines that fit."""
    lines, indent = [head + "("], len(head) + 1
    for i, item in enumerate(items):
        text = item + ("," if i + 1 < len(items) else ")" + end)
        if len(lines[-1]) + 1 + len(text) > columns and len(lines[-1]) > indent:
            lines.append(" " * indent + text)
        else:
            lines[-1] += text if lines[-1].endswith("(") else " " + text
    if not items:
        lines[-1] += ")" + end
    return "\n".join(lines)


def c_entry(function, suffix=""):
    body = Body(function, suffix == "_f08")
    name = function.name
    if function.base in VALUES:
        type_ = "double" if "double" in VALUES[function.base] else "MPI_Aint"
        return (wrap(f"static {type_} fort_{name}", body.all_params(), "") +
                f"\n{{\n    return MPI_{name}({', '.join(body.args)});\n}}\n")
    text = wrap(f"static void fort_{name}{suffix}", body.all_params(), "") + "\n{\n"
    if not body.after and not body.locals:
        call = wrap(f"    fort_return(ierror, MPI_{name}", body.args, ");")
        return text + call + "\n}\n"
    call = wrap(f"    int error = MPI_{name}", body.args, ";")
    text += "".join(f"    {line}\n" for line in body.locals + body.before) + call + "\n\n"
    # Requests are written back before what waits for them is registered.
    order = sorted(body.after, key=lambda line: "fort_pending_free" in line)
    text += "".join(f"    {line}\n" for line in order)
    return text + "    fort_return(ierror, error);\n}\n"


def buffer_mode(function, param):
    """How a section that is not contiguous is passed: typed (as a datatype, or copied if there is none), in_place (as a datatype only),
    blocks (partitions as a datatype only), copied, base (only its address matters), refused."""
    params, base = function.fortran, function.base.lower()
    i = params.index(param)
    neighbors = [p.kind for p in params[max(0, i - 1):i] + params[i + 1:i + 2]]
    is_rma = any(p.kind == "win" for p in params)
    if base in ("get_address", "free_mem", "win_detach") or base.endswith("_end"):
        return "base"
    has_type = i + 2 < len(params) and is_count(params[i + 1]) and not params[i + 1].is_array and params[i + 2].kind == "datatype" \
        and not params[i + 2].is_array
    multi = ("gather" in base and param.name == "recvbuf") or "alltoall" in base or \
        ("scatter" in base and "reduce" not in base and param.name == "sendbuf")
    if base in ("psend_init", "precv_init"):
        return "blocks"
    if has_type and "buffer" not in neighbors and not multi:
        return "typed" if not is_rma or any(p.kind == "request" for p in params) else "in_place"
    if is_rma or "attach" in base or base == "win_create" or "begin" in base:
        return "refused"
    return "copied"


NO_TYPE = {"in_place": "the buffer is an array section with gaps, and so has the datatype or it ends within an element",
           "blocks": "the partitions of the array section have no common shape and distance"}


def refuse(function, comm, text):
    return f'fort_return(ierror, fort_raise({comm}, MPI_ERR_BUFFER, "MPI_{function.name}: {text}"));'


def ts_entry(function):
    """mpi_f08 with descriptors: contiguous buffers go to the entry point above, others are converted."""
    body = Body(function, True)
    names = [re.search(r"\w+$", p).group() for p in body.params]
    kinds = {p.name: p for p in function.fortran}
    buffers = {p.name: buffer_mode(function, p) for p in function.buffers}
    params = [f"const struct fort_descriptor *{n}" if n in buffers else
              f"const struct fort_descriptor *{n}" if kinds[n].kind == "string" else p
              for n, p in zip(names, body.params)]
    lower = function.name.lower()
    text = wrap(f"static void fort_{function.name}_f08ts", params + ["MPI_Fint *ierror"], "") + "\n{\n"

    def call(indent, values):
        items = [values.get(n, f"{n}->base_addr" if n in buffers or kinds[n].kind == "string" else n) for n in names] + ["ierror"]
        items += [f"{n}->elem_len" for n in names if kinds[n].kind == "string"]
        return wrap(f"{indent}fort_{function.name}", items, ";") + "\n"
    convert = [n for n, mode in buffers.items() if mode != "base"]
    if not convert:
        return text + call("    ", {}) + "}\n"
    test = " && ".join(f"fort_section_is_contiguous({n})" for n in convert)
    text += f"    if ({test}) {{\n" + call("        ", {}) + "        return;\n    }\n"
    refused = [n for n in convert if buffers[n] == "refused"]
    comm = next((f"fort_comm(*{p.name})" for p in function.fortran if p.kind == "comm"), "MPI_COMM_SELF")
    if len(refused) == len(convert):
        return text + f"    {refuse(function, comm, 'the buffer is an array section that is not contiguous')}\n}}\n"
    values, begin, end = {}, [], []
    request = next((p.name for p in function.fortran if p.kind == "request" and p.intent == "out"), None)
    if request:  # stays so if the call fails
        begin.append(f"@*{request} = fort_request_int(MPI_REQUEST_NULL);")
    for n in convert:
        param = kinds[n]
        i = function.fortran.index(param)
        begin.append(f"struct fort_section s_{n};")
        written = "true" if param.intent != "in" else "false"  # MPI may change it
        values[n] = f"s_{n}.base"
        if buffers[n] in ("typed", "in_place", "blocks"):
            count, type_ = function.fortran[i + 1:i + 3] if buffers[n] != "blocks" else function.fortran[i + 2:i + 4]
            is_large = function.large or count.kind == "large"
            values[count.name] = f"&s_{n}.{'count' if is_large else 'count_int'}"
            values[type_.name] = f"&s_{n}.datatype"
            if buffers[n] == "typed":
                begin.append(f"@fort_section_typed(&s_{n}, {n}, *{count.name}, *{type_.name}, {written});")
            else:
                blocks = f"*{function.fortran[i + 1].name}" if buffers[n] == "blocks" else "1"
                begin.append(f"@if (!fort_section_blocks(&s_{n}, {n}, {blocks}, *{count.name}, *{type_.name})) {{\n"
                             + "".join(f"        {line}\n" for line in end) +
                             f"        {refuse(function, comm, NO_TYPE[buffers[n]])}\n        return;\n    }}")
        else:
            begin.append(f"@fort_section_copied(&s_{n}, {n}, {written});")
        persistent = "true" if function.base.lower().endswith("_init") else "false"
        end.append(f"fort_section_end(&s_{n}, {persistent}, {request or 'NULL'});")
    locals_ = [line for line in begin if not line.startswith("@")]
    text = text.replace("{\n", "{\n" + "".join(f"    {line}\n" for line in locals_) + "\n", 1)
    text += "".join(f"    {line[1:]}\n" for line in begin if line.startswith("@"))
    text += call("    ", values) + "".join(f"    {line}\n" for line in end) + "}\n"
    return text


def needs_two(function):
    return any(p.name == "buffer_addr" for p in function.params)


def exports(function):
    name, lower = function.name, function.name.lower()
    if "f90" in function.languages and "f08" in function.languages:
        pointer = any(p.kind == "memory" for p in function.params)  # module mpi has these with TYPE(C_PTR), too
        return (f"FORT_EXPORT({name}, {lower}, {name.upper()});\n" +
                (f"FORT_NAME(mpi_{lower}_cptr_, fort_{name});\nFORT_NAME(pmpi_{lower}_cptr_, fort_{name});\n" if pointer else ""))
    if "f90" in function.languages:
        return f"FORT_EXPORT_F90({name}, {lower}, {name.upper()});\n"
    return f"FORT_EXPORT_F08({name}, {lower});\n"


def c_files(abi, sources, out):
    by_hand = set()
    for path in sorted(sources.glob("*.c")):
        by_hand |= set(re.findall(r"^FORT_EXPORT(?:_F90|_F08)?\((\w+),", path.read_text(encoding="ascii"), re.M))
    parts = ["/* Generated by tools/gen_fortran.py. */\n#include \"fort.h\"\n"]
    for function in read_all(abi):
        if function.name in by_hand:
            continue
        if needs_two(function):
            lower = function.name.lower()
            if "f90" in function.languages:
                parts.append(c_entry(function) + f"FORT_EXPORT_F90({function.name}, {lower}, {function.name.upper()});\n")
            parts.append(c_entry(function, "_f08") + f"FORT_NAME(mpi_{lower}_f08_, fort_{function.name}_f08);\n"
                         f"FORT_NAME(pmpi_{lower}_f08_, fort_{function.name}_f08);\n")
            continue
        parts.append(c_entry(function) + exports(function))
        if function.buffers:
            lower = function.name.lower()
            parts.append(ts_entry(function) + f"FORT_NAME(mpi_{lower}_f08ts_, fort_{function.name}_f08ts);\n"
                         f"FORT_NAME(pmpi_{lower}_f08ts_, fort_{function.name}_f08ts);\n")
    for kind, (name, type_) in HANDLES.items():
        parts.append(f"{type_} fort_{kind}_find(MPI_Fint handle)\n{{\n    return fort_handle_found(MPI_{name}_fromint(handle), "
                     f'{null_handle(kind)}, "{type_}", handle);\n}}\n')
    (out / "fort_bindings.c").write_text("\n".join(parts), encoding="ascii")
    handles = ["/* Generated by tools/gen_fortran.py: handles of C and of Fortran. Constants of the ABI are the same in both. */\n"
               "/* clang-format off */\n#ifndef FORT_HANDLES_H\n#define FORT_HANDLES_H\n"]
    for kind, (name, type_) in HANDLES.items():
        handles.append(f"""static inline {type_} fort_{kind}(MPI_Fint handle)
{{
    return fort_is_predefined(handle) ? ({type_})(uintptr_t)handle : fort_{kind}_find(handle);
}}

static inline MPI_Fint fort_{kind}_int({type_} handle)
{{
    return (uintptr_t)handle < FORT_PREDEFINED_END ? (MPI_Fint)(uintptr_t)handle : MPI_{name}_toint(handle);
}}
""")
        handles.insert(1, f"{type_} fort_{kind}_find(MPI_Fint handle);\n")
    (out / "fort_handles.h").write_text("\n".join(handles) + "\n#endif\n", encoding="ascii")


# ---- Fortran ----

def read_constants(abi):
    """(name, kind of Fortran: a handle's kind, integer or offset, value) of the constants that Fortran has."""
    constants, values = [], {}
    types = {type_: kind for kind, (_, type_) in HANDLES.items()}
    for line in (abi / "abi_constants.tsv").read_text(encoding="ascii").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, ctype, value = line.split("\t")
        if name.startswith(("MPI_T_", "MPI_F_", "MPIX_")) and not name.startswith("MPI_T_ERR"):
            continue
        if ctype in types:
            kind = types[ctype]
        elif ctype == "" and value in values:
            kind, value = values[value]
        elif ctype == "MPI_Offset":
            kind = "offset"
        elif ctype in ("int", ""):
            kind = "integer"
        else:
            continue
        number = int(str(value), 0)
        values[name] = (kind, str(number))
        if name.startswith("MPI_MAX_"):
            number -= 1  # without room for C's NUL (MPI 5.0, 2.6.2)
        constants.append((name, kind, number))
    return constants


FIXED = [("MPI_ADDRESS_KIND", 8), ("MPI_COUNT_KIND", 8), ("MPI_OFFSET_KIND", 8), ("MPI_INTEGER_KIND", 4), ("MPI_STATUS_SIZE", 8),
         ("MPI_SOURCE", 1), ("MPI_TAG", 2), ("MPI_ERROR", 3)]


def constants_text(abi, is_f08, has_sections, form):
    """Declarations of constants; form: fixed (both source forms of mpif.h) or free."""
    lines = []

    def add(type_, name, value):
        if form == "fixed":
            lines.append(f"      {type_} {name}")
            lines.append(f"      PARAMETER ({name}={value})")
        else:
            lines.append(f"  {type_.lower() if type_.startswith('INTEGER') or type_ == 'LOGICAL' else type_}, parameter, public :: {name} = {value}")
    for name, value in FIXED:
        if not (is_f08 and name in ("MPI_SOURCE", "MPI_TAG", "MPI_ERROR")) and not (form == "free" and name in TYPES_CONSTANTS):
            add("INTEGER", name, value)
    for name, kind, value in read_constants(abi):
        if kind == "integer":
            add("INTEGER", name, value)
        elif kind == "offset":
            add("INTEGER(KIND=MPI_OFFSET_KIND)", name, value)
        elif is_f08:
            add(f"type({HANDLES[kind][1]})", name, f"{HANDLES[kind][1]}({value})")
        else:
            add("INTEGER", name, value)
    for name, value in REMOVED if not is_f08 else []:
        add("INTEGER", name, value)
    true = {True: ".TRUE.", False: ".FALSE."}
    add("LOGICAL", "MPI_SUBARRAYS_SUPPORTED", true[has_sections])
    add("LOGICAL", "MPI_ASYNC_PROTECTS_NONBLOCKING", true[has_sections])
    return lines


TYPES_CONSTANTS = {"MPI_ADDRESS_KIND", "MPI_COUNT_KIND", "MPI_OFFSET_KIND", "MPI_INTEGER_KIND", "MPI_STATUS_SIZE"}


def common_text(is_f08, form):
    pad = "      " if form == "fixed" else "  "
    lines = [f"{pad}INTEGER MPI_BOTTOM, MPI_IN_PLACE, MPI_BUFFER_AUTOMATIC",
             f"{pad}INTEGER MPI_UNWEIGHTED(1), MPI_WEIGHTS_EMPTY(1)",
             f"{pad}INTEGER MPI_ERRCODES_IGNORE(1)"]
    if is_f08:
        lines += [f"{pad}TYPE(MPI_Status) MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE(1)"]
    else:
        lines += [f"{pad}INTEGER MPI_STATUS_IGNORE(MPI_STATUS_SIZE)",
                  f"{pad}INTEGER MPI_STATUSES_IGNORE(MPI_STATUS_SIZE,1)"]
    lines += [f"{pad}CHARACTER*1 MPI_ARGV_NULL(1), MPI_ARGVS_NULL(1,1)"]
    lines += [f"{pad}COMMON /HEDDLEF/ {name}" for name in SPECIALS + ["MPI_STATUS_IGNORE", "MPI_STATUSES_IGNORE"]]
    lines.append(f"{pad}COMMON /HEDDLEC/ MPI_ARGV_NULL, MPI_ARGVS_NULL")
    if form == "free":
        lines = [line.replace("CHARACTER*1", "character(len=1)") for line in lines]
    return lines


def mpif(abi, functions):
    lines = ["! mpif.h of Heddle: constants of the MPI 5.0 standard ABI. Written by tools/gen_fortran.py.",
             "! It can be included in fixed and in free source form."]
    # With an option like -fdefault-integer-8 the compiler says that these do not agree.
    lines += ["      INTEGER MPI_NEEDS_INTEGER_OF_4_BYTES(2)", "      INTEGER(KIND=4) MPI_4_BYTES(2)"]
    lines += [f"      EQUIVALENCE (MPI_NEEDS_INTEGER_OF_4_BYTES({i}),MPI_4_BYTES({i}))" for i in (1, 2)]
    lines += constants_text(abi, False, False, "fixed") + common_text(False, "fixed")
    for p in ("", "P"):
        lines += [f"      DOUBLE PRECISION {p}MPI_WTIME, {p}MPI_WTICK",
                  f"      INTEGER(KIND=MPI_ADDRESS_KIND) {p}MPI_AINT_ADD",
                  f"      INTEGER(KIND=MPI_ADDRESS_KIND) {p}MPI_AINT_DIFF"]
        lines += [f"      EXTERNAL {p}MPI_{n}" for n in ("WTIME", "WTICK", "AINT_ADD", "AINT_DIFF")]
    lines += [f"      EXTERNAL MPI_{name}" for name in NULL_FUNCTIONS]
    for line in lines:
        if len(line) > 72 and not line.startswith("!"):
            sys.exit(f"mpif.h: longer than 72 columns: {line}")
    return "\n".join(lines) + "\n"


def f_type(param, function, is_f08):
    """Declaration's type of a parameter in Fortran."""
    kind, large = param.kind, function.large
    if kind in HANDLES:
        return f"type({HANDLES[kind][1]})" if is_f08 else "integer"
    if kind == "status":
        return "type(MPI_Status)" if is_f08 else "integer"
    if kind in ("string", "strings", "string_lists"):
        return "character(len=*)"
    if kind in ("logical", "logical_value"):
        return "logical"
    if kind == "memory":
        return "type(C_PTR)" if is_f08 else "integer(kind=MPI_ADDRESS_KIND)"
    if kind in ADDRESSES:
        return "integer(kind=MPI_ADDRESS_KIND)"
    if kind == "aint_count":
        return f"integer(kind={'MPI_COUNT_KIND' if large else 'MPI_ADDRESS_KIND'})"
    if kind == "large" or (kind == "count" and large):
        return "integer(kind=MPI_COUNT_KIND)"
    if kind == "displ" and large:
        return "integer(kind=MPI_ADDRESS_KIND)"
    if kind == "offset":
        return "integer(kind=MPI_OFFSET_KIND)"
    return "integer"


def f_shape(param, is_f08):
    if param.kind == "status" and not is_f08:
        return "(MPI_STATUS_SIZE,*)" if param.is_array else "(MPI_STATUS_SIZE)"
    if param.kind == "string_lists":
        return f"({param.length},*)"
    if param.kind == "strings":
        return "(*)"
    if param.length == "n][3":
        return "(3,*)"
    return "(*)" if param.is_array else ""


def f_choice(name, intent, asynchronous, ts):
    if ts:
        return [f"type(*), dimension(..){intent}{asynchronous} :: {name}"]
    return [f"!DIR$ IGNORE_TKR {name}", f"!GCC$ ATTRIBUTES NO_ARG_CHECK :: {name}", f"!$PRAGMA IGNORE_TKR {name}",
            f"!IBM* IGNORE_TKR {name}", f"@CHOICE{intent}{asynchronous} :: {name}"]


def f_declare(param, function, is_f08, ts):
    name = param.name
    if param.kind == "function":
        type_ = param.procedure[1] if function.large and param.procedure[1] else param.procedure[0]
        return [f"procedure({type_}) :: {name}"] if is_f08 else [f"external :: {name}"]
    intent = {"in": ", intent(in)", "out": ", intent(out)", "inout": ", intent(inout)"}[param.intent]
    if param.no_intent or (param.intent != "in" and (not is_f08 or param.kind in ("buffer", "status"))):
        intent = ""
    if param.kind == "status" and param.intent == "inout" and is_f08:
        intent = ", intent(inout)"
    asynchronous = ", asynchronous" if param.is_async and is_f08 else ""
    if param.kind == "buffer" or (param.kind == "memory" and name == "buffer_addr" and not is_f08):
        return f_choice(name, intent, asynchronous, ts)
    return [f"{f_type(param, function, is_f08)}{intent}{asynchronous} :: {name}{f_shape(param, is_f08)}"]


def fold(text, columns=100):
    """A statement in lines that fit, with continuation marks."""
    lines, indent = [], len(text) - len(text.lstrip())
    while len(text) > columns:
        cut = text.rfind(",", 0, columns) + 1
        lines.append(text[:cut] + " &")
        text = " " * (indent + 4) + text[cut:].lstrip()
    return lines + [text]


def f_interface(function, fortran_name, is_f08, ts, linker=None, memory=None):
    """The body of an interface for one procedure."""
    names = [p.name for p in function.fortran]
    args = ", ".join(names + (["ierror"] if function.has_ierror else []))
    is_function = function.base in VALUES
    bind = f' bind(C, name="{linker}")' if linker else ""
    word = "function" if is_function else "subroutine"
    head = f"  {word} {fortran_name}({args})" + (" result(value)" if is_function else "") + bind
    lines = fold(head) + ["    import"]
    for param in function.fortran:
        for line in f_declare(param, function, is_f08, ts):
            if memory and param.kind == "memory":
                line = line.replace("integer(kind=MPI_ADDRESS_KIND)", "type(C_PTR)")
            lines += [line if line.startswith("!") else x for x in fold(f"    {line}")] if not line.startswith("!") else [line]
    if is_function:
        lines.append(f"    {VALUES[function.base]} :: value")
    if function.has_ierror:
        lines.append("    integer" + (", optional, intent(out)" if is_f08 else ", intent(out)") + " :: ierror")
    return lines + [f"  end {word} {fortran_name}"]


HEAD = "! Written by tools/gen_fortran.py from the tables of the MPI 5.0 standard ABI.\n"


def types_module():
    lines = [HEAD + "! Types of handles and statuses, for the modules mpi and mpi_f08.", "module mpi_f08_types",
             "  use, intrinsic :: iso_c_binding, only: C_INT", "  implicit none", "  private"]
    lines += [f"  integer, parameter, public :: {n} = {v}" for n, v in FIXED if n in TYPES_CONSTANTS]
    for _, type_ in HANDLES.values():
        lines += [f"  type, bind(C), public :: {type_}", "    integer(C_INT) :: MPI_VAL", f"  end type {type_}"]
    lines += ["  type, bind(C), public :: MPI_Status", "    integer(C_INT) :: MPI_SOURCE, MPI_TAG, MPI_ERROR",
              "    integer(C_INT), private :: MPI_internal(5)", "  end type MPI_Status"]
    for symbol, word in (("==", "eq"), ("/=", "ne")):
        lines += [f"  interface operator({symbol})"]
        for kind, (_, type_) in HANDLES.items():
            lines += [f"    elemental logical function heddle_{kind}_{word}(a, b)", f"      import :: {type_}",
                      f"      type({type_}), intent(in) :: a, b", f"    end function heddle_{kind}_{word}"]
        lines += ["  end interface", f"  public :: operator({symbol})"]
    return "\n".join(lines + ["end module mpi_f08_types"]) + "\n"


EXTRA_F90 = """  interface MPI_Sizeof
    subroutine mpi_sizeof_any(x, size, ierror) bind(C, name="heddle_sizeof")
      type(*), dimension(..), intent(in) :: x
      integer, intent(out) :: size
      integer, optional, intent(out) :: ierror
    end subroutine mpi_sizeof_any
  end interface
"""

STATUS_CONVERSIONS = """  interface @P@MPI_Status_f2f08
    subroutine @P@MPI_Status_f2f08_f08(f_status, f08_status, ierror)
      import :: MPI_Status, MPI_STATUS_SIZE
      integer, intent(in) :: f_status(MPI_STATUS_SIZE)
      type(MPI_Status), intent(out) :: f08_status
      integer, optional, intent(out) :: ierror
    end subroutine @P@MPI_Status_f2f08_f08
  end interface
  interface @P@MPI_Status_f082f
    subroutine @P@MPI_Status_f082f_f08(f08_status, f_status, ierror)
      import :: MPI_Status, MPI_STATUS_SIZE
      type(MPI_Status), intent(in) :: f08_status
      integer, intent(out) :: f_status(MPI_STATUS_SIZE)
      integer, optional, intent(out) :: ierror
    end subroutine @P@MPI_Status_f082f_f08
  end interface
"""


def sync_reg(prefix, is_f08, ts):
    name = f"{prefix}MPI_F_sync_reg"
    specific = f"{name}_f08ts" if ts else f"{name}_f08" if is_f08 else name
    bind = f' bind(C, name="{specific.lower()}_")' if ts else ""
    lines = [f"  interface {name}" if is_f08 else "  interface", f"  subroutine {specific}(buf){bind}"]
    lines += [x if x.startswith("!") else f"    {x}" for x in f_choice("buf", "", ", asynchronous" if is_f08 else "", ts)]
    return lines + [f"  end subroutine {specific}", "  end interface"]


def mpi_module(abi, functions, ts):
    lines = [HEAD + "! Module mpi (MPI 5.0, section 19.1.3).", "module mpi", "  use, intrinsic :: iso_c_binding, only: C_PTR",
             "  use mpi_f08_types", "  implicit none", "  private :: C_PTR"]
    lines += constants_text(abi, False, False, "free") + common_text(False, "free")
    lines += [f"  external :: MPI_{name}" for name in NULL_FUNCTIONS]
    for prefix in ("", "P"):
        for function in functions:
            if "f90" not in function.languages:
                continue
            name = f"{prefix}MPI_{function.name}"
            cptr = any(p.kind == "memory" and p.name == "baseptr" for p in function.params)
            lines.append(f"  interface {name}" if cptr else "  interface")
            lines += f_interface(function, name, False, False)
            if cptr:
                lines += f_interface(function, f"{name}_cptr", False, False, memory=True)
            lines.append("  end interface")
        lines += sync_reg(prefix, False, False)
        lines += STATUS_CONVERSIONS.replace("@P@", prefix).splitlines()
    if ts:
        lines += EXTRA_F90.splitlines()
    text = "\n".join(lines + ["end module mpi"]) + "\n"
    return text.replace("@CHOICE", "type(*), dimension(*)")


ATTRIBUTE_CALLBACKS = """
    subroutine MPI_@KIND_copy_attr_function(@OLD, @key_keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror)
      import
      type(@TYPE) :: @OLD
      integer :: @key_keyval, ierror
      integer(kind=MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
      logical :: flag
    end subroutine
    subroutine MPI_@KIND_delete_attr_function(@OBJECT, @key_keyval, attribute_val, extra_state, ierror)
      import
      type(@TYPE) :: @OBJECT
      integer :: @key_keyval, ierror
      integer(kind=MPI_ADDRESS_KIND) :: attribute_val, extra_state
    end subroutine
"""
ERROR_CALLBACK = """
    subroutine MPI_@KIND_errhandler_function(@OBJECT, error_code)
      import
      type(@TYPE) :: @OBJECT
      integer :: error_code
    end subroutine
"""


def of_objects(text, kinds):
    """The interfaces of one sort of callback for several kinds of objects."""
    return "".join(text.lstrip("\n").replace("@KIND", HANDLES[kind][0]).replace("@TYPE", HANDLES[kind][1])
                   .replace("@OLD", "old" + HANDLES[kind][0].lower()).replace("@OBJECT", kind).replace("@key", HANDLES[kind][0].lower())
                   for kind in kinds)


CALLBACKS = """
  abstract interface
    subroutine MPI_User_function(invec, inoutvec, len, datatype)
      import
      type(C_PTR), value :: invec, inoutvec
      integer :: len
      type(MPI_Datatype) :: datatype
    end subroutine
    subroutine MPI_User_function_c(invec, inoutvec, len, datatype)
      import
      type(C_PTR), value :: invec, inoutvec
      integer(kind=MPI_COUNT_KIND) :: len
      type(MPI_Datatype) :: datatype
    end subroutine
@OF_OBJECTS    subroutine MPI_Grequest_query_function(extra_state, status, ierror)
      import
      integer(kind=MPI_ADDRESS_KIND) :: extra_state
      type(MPI_Status) :: status
      integer :: ierror
    end subroutine
    subroutine MPI_Grequest_free_function(extra_state, ierror)
      import
      integer(kind=MPI_ADDRESS_KIND) :: extra_state
      integer :: ierror
    end subroutine
    subroutine MPI_Grequest_cancel_function(extra_state, complete, ierror)
      import
      integer(kind=MPI_ADDRESS_KIND) :: extra_state
      logical :: complete
      integer :: ierror
    end subroutine
    subroutine MPI_Datarep_extent_function(datatype, extent, extra_state, ierror)
      import
      type(MPI_Datatype) :: datatype
      integer(kind=MPI_ADDRESS_KIND) :: extent, extra_state
      integer :: ierror
    end subroutine
    subroutine MPI_Datarep_conversion_function(userbuf, datatype, count, filebuf, position, extra_state, ierror)
      import
      type(C_PTR), value :: userbuf, filebuf
      type(MPI_Datatype) :: datatype
      integer :: count, ierror
      integer(kind=MPI_OFFSET_KIND) :: position
      integer(kind=MPI_ADDRESS_KIND) :: extra_state
    end subroutine
    subroutine MPI_Datarep_conversion_function_c(userbuf, datatype, count, filebuf, position, extra_state, ierror)
      import
      type(C_PTR), value :: userbuf, filebuf
      type(MPI_Datatype) :: datatype
      integer(kind=MPI_COUNT_KIND) :: count
      integer(kind=MPI_OFFSET_KIND) :: position
      integer(kind=MPI_ADDRESS_KIND) :: extra_state
      integer :: ierror
    end subroutine
  end interface
""".replace("@OF_OBJECTS", of_objects(ATTRIBUTE_CALLBACKS, ("comm", "win", "datatype")) +
              of_objects(ERROR_CALLBACK, ("comm", "win", "file", "session")))


def null_interfaces():
    """The predefined callbacks with the interface that their callers expect."""
    lines = []
    bodies = dict(re.findall(r"    subroutine (MPI_\w+)(\(.*?)    end subroutine\n", CALLBACKS, re.S))
    for name, type_ in NULL_FUNCTIONS.items():
        if type_:
            lines += ["  interface", f"    subroutine MPI_{name}{bodies[type_].rstrip()}", f"    end subroutine MPI_{name}", "  end interface"]
    return lines


def same_types(a, b):
    """Can a generic interface not tell the two forms apart?"""
    kinds = {"MPI_COUNT_KIND": "8", "MPI_ADDRESS_KIND": "8", "MPI_OFFSET_KIND": "8"}

    def types(function):
        texts = [f_type(p, function, True) + f_shape(p, True) for p in function.fortran if p.kind != "function"]
        return [re.sub(r"MPI_\w+_KIND", lambda m: kinds[m.group()], t) for t in texts]
    return types(a) == types(b)


def f08_specific(function, prefix, ts):
    is_ts = ts and bool(function.buffers)
    name = f"{prefix}MPI_{function.name}_f08{'ts' if is_ts else ''}"
    return f_interface(function, name, True, is_ts, linker=f"{name.lower()}_" if is_ts else None)


def f08_module(abi, functions, ts):
    lines = [HEAD + "! Module mpi_f08 (MPI 5.0, section 19.1.2).", "module mpi_f08",
             "  use, intrinsic :: iso_c_binding, only: C_PTR", "  use mpi_f08_types", "  implicit none", "  private :: C_PTR"]
    lines += constants_text(abi, True, ts, "free") + common_text(True, "free")
    lines += CALLBACKS.splitlines() + null_interfaces()
    by_base = {}
    for function in functions:
        if "f08" in function.languages:
            by_base.setdefault(function.base, []).append(function)
    for prefix in ("", "P"):
        for base, forms in by_base.items():
            lines.append(f"  interface {prefix}MPI_{base}")
            lines += f08_specific(forms[0], prefix, ts)
            if len(forms) > 1 and base not in OWN_LARGE_NAME and not same_types(*forms):
                lines += f08_specific(forms[1], prefix, ts)
                forms = forms[:1]
            lines.append("  end interface")
            if len(forms) > 1:
                own = base in OWN_LARGE_NAME
                lines += [f"  interface {prefix}MPI_{base}_c" if own else "  interface"]
                lines += f08_specific(forms[1], prefix, ts) + ["  end interface"]
        lines += sync_reg(prefix, True, ts) + STATUS_CONVERSIONS.replace("@P@", prefix).splitlines()
    if ts:
        lines += EXTRA_F90.splitlines()
    return ("\n".join(lines + ["end module mpi_f08"]) + "\n").replace("@CHOICE", "type(*), dimension(*)")


def fortran_files(abi, out, ts):
    functions = read_all(abi)
    for name, text in (("mpif.h", mpif(abi, functions)), ("mpi_f08_types.f90", types_module()),
                       ("mpi.f90", mpi_module(abi, functions, ts)), ("mpi_f08.f90", f08_module(abi, functions, ts))):
        (out / name).write_text(text, encoding="ascii")


def linker_names(abi, which):
    for function in read_all(abi):
        lower = function.name.lower()
        if which == "f90" and "f90" in function.languages:
            print(f"mpi_{lower}_\npmpi_{lower}_")
        if which == "f08" and "f08" in function.languages:
            print(f"mpi_{lower}_f08_\npmpi_{lower}_f08_")
        if which == "f08ts" and "f08" in function.languages:
            suffix = "f08ts" if function.buffers else "f08"
            print(f"mpi_{lower}_{suffix}_\npmpi_{lower}_{suffix}_")


def main():
    args = sys.argv[1:]
    if len(args) == 4 and args[0] == "c":
        c_files(pathlib.Path(args[1]), pathlib.Path(args[2]), pathlib.Path(args[3]))
    elif len(args) in (3, 4) and args[0] == "fortran" and args[3:] in ([], ["--no-ts"]):
        fortran_files(pathlib.Path(args[1]), pathlib.Path(args[2]), not args[3:])
    elif len(args) == 3 and args[0] == "names":
        linker_names(pathlib.Path(args[1]), args[2])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
