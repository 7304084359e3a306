# SPDX-License-Identifier: BSD-3-Clause
"""Writes mpif.h and the modules mpi_f08_types, mpi and mpi_f08. For gen_fortran.py."""
import re
import sys

from fortran_table import HANDLES, VALUES, read_all

ADDRESSES = {"aint", "attribute", "state"}
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
    for name, value in FIXED if form == "fixed" else []:  # the modules have them from mpi_f08_types
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
        # KIND=8: with -fdefault-real-8 alone, DOUBLE PRECISION has 16 bytes.
        lines += [f"      REAL(KIND=8) {p}MPI_WTIME, {p}MPI_WTICK",
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
    lines += [f"  integer, parameter, public :: {n} = {v}" for n, v in FIXED]
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
