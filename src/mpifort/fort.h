/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fort.h: converts Fortran's arguments to those of the C ABI and back. Used by the entry points that
 * tools/gen_fortran.py generates and by the hand-written ones in this folder.
 *
 * Invariants:
 *   1. Only functions of mpi.h are called: the library works with any MPI that has the standard ABI.
 *   2. Every rank has its own copy of the library (image/copy/private_libraries.c), so its variables are the
 *      rank's, and fort_common is the rank's COMMON block.
 *   3. An entry point calls MPI_Xxx, not PMPI_Xxx: a tool that wraps the C functions sees the calls of
 *      Fortran, too.
 */
#ifndef FORT_H
#define FORT_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The names that Fortran compilers use for MPI_Xxx, and those of mpi_f08 (MPI 5.0, section 19.1.5). They
 * are aliases of the function fort_Xxx. */
#define FORT_NAME(name, body) \
    extern __typeof__(body) name __attribute__((alias(#body), visibility("default")))
#define FORT_EXPORT_F08(Name, lower)            \
    FORT_NAME(mpi_##lower##_f08_, fort_##Name); \
    FORT_NAME(pmpi_##lower##_f08_, fort_##Name)
#define FORT_EXPORT_F90(Name, lower, UPPER)   \
    FORT_NAME(mpi_##lower##_, fort_##Name);   \
    FORT_NAME(pmpi_##lower##_, fort_##Name);  \
    FORT_NAME(mpi_##lower##__, fort_##Name);  \
    FORT_NAME(pmpi_##lower##__, fort_##Name); \
    FORT_NAME(mpi_##lower, fort_##Name);      \
    FORT_NAME(pmpi_##lower, fort_##Name);     \
    FORT_NAME(MPI_##UPPER, fort_##Name);      \
    FORT_NAME(PMPI_##UPPER, fort_##Name)
#define FORT_EXPORT(Name, lower, UPPER)  \
    FORT_EXPORT_F90(Name, lower, UPPER); \
    FORT_EXPORT_F08(Name, lower)

enum {
    FORT_PREDEFINED_END = 4096, /* smaller handles are constants of the ABI, equal in C and Fortran */
    FORT_FEW = 64,              /* array elements that are converted without an allocation */
};

/* A procedure of the program. */
typedef void fort_procedure(void);

/* ---- Addresses with a meaning (special.c) ---- */

/* COMMON /HEDDLEF/ of mpif.h and of the modules: only the addresses matter. The program's own definition
 * overrides the library's; it is heddlef_, heddlef or HEDDLEF, as the compiler writes names. */
struct fort_special {
    MPI_Fint bottom;                             /* MPI_BOTTOM */
    MPI_Fint in_place;                           /* MPI_IN_PLACE */
    MPI_Fint buffer_automatic;                   /* MPI_BUFFER_AUTOMATIC */
    MPI_Fint unweighted;                         /* MPI_UNWEIGHTED */
    MPI_Fint weights_empty;                      /* MPI_WEIGHTS_EMPTY */
    MPI_Fint errcodes_ignore;                    /* MPI_ERRCODES_IGNORE */
    MPI_Fint status_ignore[MPI_F_STATUS_SIZE];   /* MPI_STATUS_IGNORE */
    MPI_Fint statuses_ignore[MPI_F_STATUS_SIZE]; /* MPI_STATUSES_IGNORE */
};
extern struct fort_special *fort_common; /* the program's */

/* COMMON /HEDDLEC/: the same for text arguments. */
struct fort_special_text {
    char argv_null;  /* MPI_ARGV_NULL */
    char argvs_null; /* MPI_ARGVS_NULL */
};
extern struct fort_special_text *fort_common_text; /* the program's */

static inline bool fort_is_special(const void *address)
{
    return (uintptr_t)address - (uintptr_t)fort_common < sizeof *fort_common;
}

/* The C constant for the address of a variable in /HEDDLEF/. */
void *fort_special_buffer(const void *address);

/* A choice buffer. */
static inline void *fort_buffer(const void *address)
{
    return fort_is_special(address) ? fort_special_buffer(address) : (void *)(uintptr_t)address;
}

/* One status or an array of them, with C's layout. */
static inline MPI_Status *fort_status(MPI_Fint *status)
{
    return fort_is_special(status) ? MPI_STATUS_IGNORE : (MPI_Status *)status;
}

/* Weights of a graph's edges. */
static inline int *fort_weights(const MPI_Fint *weights)
{
    return fort_is_special(weights)
               ? (weights == &fort_common->unweighted ? MPI_UNWEIGHTED : MPI_WEIGHTS_EMPTY)
               : (int *)(uintptr_t)weights;
}

/* ---- Scalars ---- */

/* The Fortran compiler's .TRUE.; .FALSE. is 0 for all compilers. */
extern MPI_Fint fort_true;

static inline MPI_Fint fort_logical(int value)
{
    return value ? fort_true : 0;
}

/* Sets the values of LOGICAL in MPI, or reads those that were set. Called before and after MPI is
 * initialized. */
void fort_logical_init(void);

/* Converts an index from 0 to one from 1. */
static inline MPI_Fint fort_index(int index)
{
    return index == MPI_UNDEFINED ? index : index + 1;
}
void fort_indices_out(MPI_Fint *indices, int n, int error);

/* mpi_f08 allows omitting ierror. */
static inline void fort_return(MPI_Fint *ierror, int error)
{
    if (ierror)
        *ierror = error;
}

/* Reports an error that C's functions cannot detect, through the error handler of comm; returns its code.
 * The text is a literal that contains the function's name. */
int fort_raise(MPI_Comm comm, int error_class, const char *text);
int fort_raise_on_win(MPI_Win win, int error_class, const char *text);

static inline bool fort_is_predefined(MPI_Fint handle)
{
    return (uint32_t)handle < FORT_PREDEFINED_END;
}

/* ---- Handles: fort_comm, fort_comm_int, ... ---- */

/* handle: the result of MPI_Xxx_fromint for the integer number. If it is null, prints the invalid integer on stderr, because
 * the call will raise an error, and returns an invalid handle. Called by fort_comm_find and so on. */
void *fort_handle_found(void *handle, const void *null, const char *type, MPI_Fint number);

#include "fort_handles.h"

/* ---- Arrays (array.c): few has room for FORT_FEW elements; others are allocated. ---- */

void *fort_alloc(size_t bytes);
MPI_Request *fort_requests_in(const MPI_Fint *ints, MPI_Count n, MPI_Request few[FORT_FEW]);
/* Stores the requests, runs the pending actions of those that completed, and frees the array. last_pending: as for
 * fort_request_out. */
void fort_requests_out(MPI_Request *requests, MPI_Count n, MPI_Fint *ints, MPI_Request few[FORT_FEW],
                       uint64_t last_pending);
void fort_requests_drop(MPI_Request *requests, MPI_Request few[FORT_FEW]);
MPI_Datatype *fort_datatypes_in(const MPI_Fint *ints, MPI_Count n, MPI_Datatype few[FORT_FEW]);
/* An array of n datatypes that MPI sets. */
MPI_Datatype *fort_datatypes_new(MPI_Count n, MPI_Datatype few[FORT_FEW]);
/* Stores the datatypes that MPI has set, and frees the array. */
void fort_datatypes_out(MPI_Datatype *datatypes, MPI_Count n, MPI_Fint *ints, MPI_Datatype few[FORT_FEW]);
void fort_datatypes_drop(MPI_Datatype *datatypes, MPI_Datatype few[FORT_FEW]);
int *fort_logicals_in(const MPI_Fint *logicals, MPI_Count n, int few[FORT_FEW]);
/* Converts in place; called when the array has C's values. */
void fort_logicals_out(MPI_Fint *logicals, MPI_Count n);
void fort_logicals_drop(int *values, int few[FORT_FEW]);
/* The number of ranks that the caller of a collective exchanges data with; of incoming and outgoing
 * neighbors; of dimensions of a Cartesian topology. 0 if the communicator is not valid: the MPI call itself
 * reports that. */
int fort_peers(MPI_Comm comm);
int fort_indegree(MPI_Comm comm);
int fort_outdegree(MPI_Comm comm);
int fort_cart_dims(MPI_Comm comm);

/* ---- Operations (callbacks.c) ---- */

/* A call that ends later uses the operation: its procedure's C function is not given to another one. */
void fort_op_keep_found(MPI_Fint op);
static inline void fort_op_keep(MPI_Fint op)
{
    if (!fort_is_predefined(op))
        fort_op_keep_found(op);
}

/* ---- Text (strings.c) ---- */

/* A Fortran text in C's form. */
struct fort_text {
    char *text;    /* NUL-terminated; few or allocated */
    char few[256]; /* for short texts */
};

/* The text without trailing blanks, and without leading ones if is_info. */
const char *fort_text_in(struct fort_text *text, const char *chars, size_t len, bool is_info);
void fort_text_drop(struct fort_text *text);
/* Pads with blanks, or truncates. */
void fort_text_out(char *chars, size_t len, const char *text);

/* ---- Requests with actions at their start and end (pending.c) ---- */

/* Actions for the start and the end of an operation. Each function gets the request's data. */
struct fort_pending {
    struct fort_pending *next; /* in the list */
    MPI_Fint request;          /* the request whose end it waits for */
    uint64_t number;           /* counts the structs that were added */
    bool is_done;              /* the operation has ended, or (persistent) has not started */
    void (*start)(struct fort_pending *pending); /* persistent requests: called at each start; NULL: others */
    void (*finish)(struct fort_pending *pending); /* called at each end, or NULL */
    void *memory;                                 /* freed with the request */
    void *before;                                 /* of section.c, in memory; NULL: none */
    void *target;                                 /* for finish: destination of a result */
    const void *source;                           /* for start and finish */
};

extern int fort_n_pending;
extern _Atomic uint64_t fort_last_pending; /* the number of the one that was added last */

/* Adds a struct from fort_alloc. Without a request (REQUEST_NULL) the action runs at once. */
void fort_pending_add(MPI_Fint request, struct fort_pending *pending);
/* Runs the actions of this request, whose operation has ended and which no longer exists: those up to the number, because
 * another thread may have got a new request with the same integer since. */
void fort_pending_finish(MPI_Fint request, uint64_t last_pending);
/* Runs the actions of this request if its operation has ended. */
void fort_pending_poll(MPI_Fint request);
/* Runs the actions for the start of n requests, before they start. */
void fort_pending_start(const MPI_Fint *requests, MPI_Count n);
/* Frees the memory when the request ends. */
void fort_pending_free(MPI_Request request, void *memory);

/* Stores a request that a call returned. last_pending: fort_last_pending before the call. */
static inline void fort_request_out(MPI_Fint *handle, MPI_Request request, uint64_t last_pending)
{
    MPI_Fint before = *handle;

    *handle = fort_request_int(request);
    if (!fort_n_pending)
        return;
    if (request != MPI_REQUEST_NULL)
        fort_pending_poll(*handle);
    else if (before != *handle)
        fort_pending_finish(before, last_pending);
}

/* After a call that returns the state of requests and does not change them. */
static inline void fort_requests_poll(const MPI_Fint *requests, MPI_Count n)
{
    for (MPI_Count i = 0; fort_n_pending && i < n; i++)
        fort_pending_poll(requests[i]);
}

/* ---- Array sections of mpi_f08 (section.c) ---- */

/* The beginning of a CFI_cdesc_t (ISO_Fortran_binding.h), with the fields' positions in gfortran (9 and
 * later) and LLVM's flang. */
struct fort_descriptor {
    void *base_addr;  /* of the first element */
    size_t elem_len;  /* bytes of an element */
    int version;      /* of the descriptor's format */
    signed char rank; /* dimensions; 0: a scalar */
    char other[3];    /* the element's type, and fields that differ between compilers */
    struct {
        ptrdiff_t lower_bound; /* unused */
        ptrdiff_t extent;      /* elements; -1: the last dimension of an assumed-size array */
        ptrdiff_t sm;          /* distance between elements, in bytes */
    } dim[];
};

/* True if the elements are contiguous, or there is no array: MPI then reports the address NULL if the count is not 0. */
bool fort_section_is_contiguous(const struct fort_descriptor *section);

/* True if an element of the datatype lies at the address: the elements are contiguous, or as large. */
bool fort_section_has_one(const struct fort_descriptor *section, MPI_Fint datatype);

/* A buffer in the form in which it is passed on. */
struct fort_section {
    void *base;                /* address for the call */
    MPI_Count count;           /* large form */
    MPI_Fint count_int;        /* for the other form */
    MPI_Fint datatype;         /* for the call */
    bool is_own_type;          /* datatype was created for this call */
    struct fort_pending *copy; /* a contiguous copy (base is its address), or NULL */
};

/* Describes n_blocks blocks of elements by a datatype: pass (base, count, datatype), with n_blocks as it is. False if there is
 * no such datatype: the given one has gaps or ends within an element, or the blocks have different shapes. */
bool fort_section_blocks(struct fort_section *section, const struct fort_descriptor *buffer, int n_blocks,
                         MPI_Count count, MPI_Fint datatype);
/* Describes the elements by a datatype; if there is none, makes a copy. is_written: MPI may change the copy. */
void fort_section_typed(struct fort_section *section, const struct fort_descriptor *buffer, MPI_Count count,
                        MPI_Fint datatype, bool is_written);
/* A contiguous copy of all elements. */
void fort_section_copied(struct fort_section *section, const struct fort_descriptor *buffer, bool is_written);
/* Called after the call. request: NULL if the operation is complete, else the copy lives until the request's end. */
void fort_section_end(struct fort_section *section, bool is_persistent, const MPI_Fint *request);
/* The address, if only that matters. */
static inline void *fort_section_base(const struct fort_descriptor *buffer)
{
    return buffer->base_addr;
}

#endif
