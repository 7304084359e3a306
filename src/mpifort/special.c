/* SPDX-License-Identifier: BSD-3-Clause
 *
 * special.c: addresses with a meaning (MPI_BOTTOM, ...), values of LOGICAL, handles of unknown integers, errors of the bindings.
 * Called by the entry points.
 */
#include "fort.h"

#include <pthread.h>
#include <stdio.h>

/* The library's blocks, under each name that a COMMON block can have. They are initialized, so they lie in .data: GNU
 * ld then takes the COMMON blocks of Fortran objects as references to them, and every library of the program has the
 * same addresses, even one that is opened with RTLD_LOCAL or exports nothing. A program that is linked in another way
 * has its own block, which replaces the library's. Programs have copies of this size, so the blocks cannot grow. */
static struct fort_special own __attribute__((aligned(64))) = {.bottom = 1};
static struct fort_special_text own_text __attribute__((aligned(64))) = {.argv_null = 1};
FORT_NAME(heddlef_, own);
FORT_NAME(heddlef, own);
FORT_NAME(HEDDLEF, own);
FORT_NAME(heddlec_, own_text);
FORT_NAME(heddlec, own_text);
FORT_NAME(HEDDLEC, own_text);

struct fort_special *fort_common = &own;
struct fort_special_text *fort_common_text = &own_text;
MPI_Fint fort_true = 1;

/* The dynamic linker has replaced the name that the program has (a copy or a definition). volatile: the compiler takes aliases for equal. */
static struct fort_special *const volatile names[] = {&heddlef_, &heddlef, &HEDDLEF};
static struct fort_special_text *const volatile text_names[] = {&heddlec_, &heddlec, &HEDDLEC};

__attribute__((constructor)) static void find_common(void)
{
    for (size_t i = sizeof names / sizeof *names; i-- > 0;) {
        if (names[i] != &own)
            fort_common = names[i];
        if (text_names[i] != &own_text)
            fort_common_text = text_names[i];
    }
}

void *fort_special_buffer(const void *address)
{
    if (address == &fort_common->in_place)
        return MPI_IN_PLACE;
    if (address == &fort_common->buffer_automatic)
        return MPI_BUFFER_AUTOMATIC;
    return MPI_BOTTOM;
}

/* For C code that Fortran calls. mpi.h may leave out its declaration. */
__attribute__((visibility("default"))) MPI_Fint *heddle_fortran_status_ignore(int is_array);
MPI_Fint *heddle_fortran_status_ignore(int is_array)
{
    return is_array ? fort_common->statuses_ignore : fort_common->status_ignore;
}

void fort_logical_init(void)
{
    MPI_Fint is_true = 1, is_false = 0;
    int is_set = 0;

    if (PMPI_Abi_get_fortran_booleans(sizeof is_true, &is_true, &is_false, &is_set) != MPI_SUCCESS)
        return;
    if (is_set)
        fort_true = is_true;
    else
        PMPI_Abi_set_fortran_booleans(sizeof fort_true, &fort_true, &is_false);
}

void fort_indices_out(MPI_Fint *indices, int n, int error)
{
    if ((error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS) || n == MPI_UNDEFINED)
        return;
    for (int i = 0; i < n; i++)
        indices[i] = fort_index(indices[i]);
}

/* An error code with its text. */
struct code {
    struct code *next; /* in codes */
    const char *text;  /* a literal: its address identifies it */
    int code;
};
static struct code *codes; /* guarded by codes_lock */
static pthread_mutex_t codes_lock = PTHREAD_MUTEX_INITIALIZER;

/* The error code of the text, which is added to MPI's at the first error; the class if that is not possible. */
static int code_of(int error_class, const char *text)
{
    struct code *found;
    int code;

    pthread_mutex_lock(&codes_lock);
    for (found = codes; found && found->text != text; found = found->next)
        ;
    if (!found && PMPI_Add_error_code(error_class, &code) == MPI_SUCCESS) {
        PMPI_Add_error_string(code, text);
        found = fort_alloc(sizeof *found);
        *found = (struct code){.next = codes, .text = text, .code = code};
        codes = found;
    }
    code = found ? found->code : error_class;
    pthread_mutex_unlock(&codes_lock);
    return code;
}

int fort_raise(MPI_Comm comm, int error_class, const char *text)
{
    int code = code_of(error_class, text);

    PMPI_Comm_call_errhandler(comm, code);
    return code;
}

int fort_raise_on_win(MPI_Win win, int error_class, const char *text)
{
    int code = code_of(error_class, text);

    PMPI_Win_call_errhandler(win, code);
    return code;
}
