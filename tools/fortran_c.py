# SPDX-License-Identifier: BSD-3-Clause
"""Writes the entry points of the Fortran bindings, in C: fort_bindings.c and fort_handles.h. For gen_fortran.py."""
import re
import sys

from fortran_table import HANDLES, NO_FORTRAN, VALUES, is_count, read_all

INTS = {"error", "int", "keyval", "rank", "tag"}

# Lengths of texts that are too long for the stack of a rank or thread.
LONG_TEXTS = {"MPI_MAX_LIBRARY_VERSION_STRING"}


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
            is_long = param.length in LONG_TEXTS
            self.locals.append(f"char *c_{name} = fort_alloc({param.length});" if is_long else
                               f"char c_{name}[{param.length}];")
            self.args.append(f"c_{name}")
            self.after.append(f"if (error == MPI_SUCCESS)\n        fort_text_out({name}, {name}_len, c_{name});")
            if is_long:
                self.after.append(f"free(c_{name});")
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
                if kind == "op" and any(p.kind == "request" and p.intent == "out" for p in function.params):
                    self.before.append(f"fort_op_keep(*{name});")
                if function.base.startswith("Request_get_status"):
                    self.after.append(f"fort_requests_poll({name}, 1);")
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
            self.after.append(f"fort_requests_poll({name}, {n});")
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
    blocks (partitions as a datatype only), copied, one (its first element), base (only its address matters), refused."""
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
    if base in ("compare_and_swap", "fetch_and_op"):
        return "one"
    if base in ("psend_init", "precv_init"):
        return "blocks"
    if has_type and "buffer" not in neighbors and not multi:
        return "typed" if not is_rma or any(p.kind == "request" for p in params) else "in_place"
    if is_rma or "attach" in base or base == "win_create" or "begin" in base:
        return "refused"
    return "copied"


NO_TYPE = {"in_place": "the buffer is an array section with gaps, and so has the datatype or it ends within an element",
           "blocks": "the partitions of the array section have no common shape and distance"}


def refuse(function, text):
    """Raises the error on the window or communicator of the call."""
    call = next((f"fort_raise{on}(fort_{kind}(*{p.name})" for kind, on in (("win", "_on_win"), ("comm", "")) for p in function.fortran
                 if p.kind == kind and p.intent == "in"), "fort_raise(MPI_COMM_SELF")
    return f'fort_return(ierror, {call}, MPI_ERR_BUFFER, "MPI_{function.name}: {text}"));'


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
    test = " && ".join(f"fort_section_has_one({n}, *datatype)" if buffers[n] == "one" else f"fort_section_is_contiguous({n})"
                       for n in convert)
    text += f"    if ({test}) {{\n" + call("        ", {}) + "        return;\n    }\n"
    refused = [n for n in convert if buffers[n] in ("one", "refused")]
    if len(refused) == len(convert):
        return text + f"    {refuse(function, 'the buffer is an array section that is not contiguous')}\n}}\n"
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
                             f"        {refuse(function, NO_TYPE[buffers[n]])}\n        return;\n    }}")
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
