/* SPDX-License-Identifier: BSD-3-Clause
 *
 * handle.h: the common form of all MPI handles.
 *
 * A handle of the standard ABI is either a small constant (a predefined object, below 4096) or the address
 * of an object. Every object starts with a magic word that identifies its kind; freeing the object
 * overwrites it, so a wrong or stale handle is detected and reported.
 */
#ifndef AMPI_HANDLE_H
#define AMPI_HANDLE_H

#include "base/base.h"

/* The library exports only the standard interface; everything else is hidden. */
#pragma GCC visibility push(default)
#define HEDDLE_NO_MPI_DEPRECATION
#include "mpi.h"
#pragma GCC visibility pop

/* Written before the definition of PMPI_<name>, as AMPI_EXPORT(name): the definition becomes the code behind the
 * gate of that name (gate.h), ampi_call_<name>. It also tells tools/gen_coverage.py that the function is
 * implemented. With the semicolon at its uses, ctags and editors see a declaration there, and behind it the
 * function. */
#define AMPI_EXPORT(name) extern __typeof__(PMPI_##name) PMPI_##name __asm__("ampi_call_" #name)

/* For a function that is not in MPI 5.0 (heddle_mpi_compat.h), which calls others that are: it has no gate. */
#define AMPI_EXPORT_COMPAT(name)              \
    extern __typeof__(PMPI_##name) MPI_##name \
        __attribute__((weak, alias("PMPI_" #name), visibility("default")))

enum ampi_magic {
    AMPI_MAGIC_DEAD = 0x44454144, /* a freed object of any kind */
    AMPI_MAGIC_COMM = 0x434f4d4d,
    AMPI_MAGIC_GROUP = 0x47525550,
    AMPI_MAGIC_TYPE = 0x54595045,
    AMPI_MAGIC_REQUEST = 0x52455155,
    AMPI_MAGIC_MESSAGE = 0x4d455353,
    AMPI_MAGIC_OP = 0x4f504f50,
    AMPI_MAGIC_INFO = 0x494e464f,
    AMPI_MAGIC_ERRHANDLER = 0x45525248,
    AMPI_MAGIC_SESSION = 0x53455353,
    AMPI_MAGIC_WIN = 0x57494e57,
    AMPI_MAGIC_FILE = 0x46494c45,
    AMPI_MAGIC_STREAM = 0x5354524d,
    AMPI_MAGIC_PREQUEST = 0x50524551, /* HEDDLE_PREQUEST_MAGIC */
    AMPI_MAGIC_HANDLERS = 0x48414e44,
    AMPI_MAGIC_WORK = 0x574f524b,
    AMPI_MAGIC_TOOL_CVAR = 0x54435652,
    AMPI_MAGIC_TOOL_PVAR = 0x54505652,
    AMPI_MAGIC_TOOL_SESSION = 0x54534553,
    AMPI_MAGIC_TOOL_ENUM = 0x54454e55,
    AMPI_MAGIC_TOOL_EVENT = 0x54455654,
    AMPI_MAGIC_TOOL_REGISTRATION = 0x54524547,
};

/* Largest value of a predefined handle, plus one. */
#define AMPI_PREDEFINED_END 4096u

static inline bool ampi_handle_is_predefined(const void *handle)
{
    return (uintptr_t)handle < AMPI_PREDEFINED_END;
}

/* True if the handle is the address of a live object of this kind. Not for predefined handles. */
static inline bool ampi_handle_has_magic(const void *handle, enum ampi_magic magic)
{
    return !ampi_handle_is_predefined(handle) && ((uintptr_t)handle & 7) == 0 &&
           *(const uint32_t *)handle == (uint32_t)magic;
}

#endif
