/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fortran_int.c: integers for handles (MPI 5.0, section 19.3 and chapter 20): MPI_*_toint and
 * MPI_*_fromint.
 *
 * A predefined handle is its own integer value. Other handles are addresses, which get consecutive integers
 * from AMPI_PREDEFINED_END on, in a table of the rank; the same address always has the same integer.
 * Invariants:
 *   1. handles[i] has integer AMPI_PREDEFINED_END + i.
 *   2. The hash table of 1 << log2_slots slots holds i + 1 for each i < n_handles, 0 elsewhere; it is at
 *      most half full. Entries stay when the object is freed: the integer of a freed object is as invalid
 *      as its handle.
 */
#include "ampi/fortran/fortran_int.h"

#include "ampi/object/rank.h"
#include "base/log.h"

struct ampi_handle_ints {
    void **handles;
    int n_handles;
    unsigned log2_slots;
    int *slots;
};

static size_t slot_of(const struct ampi_handle_ints *table, const void *handle)
{
    return (size_t)(((uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - table->log2_slots));
}

/* The slot of the handle, or the free slot for it. */
static int *find_slot(const struct ampi_handle_ints *table, const void *handle)
{
    size_t mask = ((size_t)1 << table->log2_slots) - 1;
    size_t slot = slot_of(table, handle);

    while (table->slots[slot] && table->handles[table->slots[slot] - 1] != handle)
        slot = (slot + 1) & mask;
    return &table->slots[slot];
}

static void grow(struct ampi_handle_ints *table)
{
    table->log2_slots = table->log2_slots ? table->log2_slots + 1 : 6;
    free(table->slots);
    table->slots = base_calloc((size_t)1 << table->log2_slots, sizeof *table->slots, "integers of handles");
    table->handles = base_realloc(
        table->handles, ((size_t)1 << table->log2_slots) / 2 * sizeof *table->handles, "integers of handles");
    for (int i = 0; i < table->n_handles; i++)
        *find_slot(table, table->handles[i]) = i + 1;
}

static int to_int(void *handle)
{
    struct ampi_rank *self = ampi_self();
    struct ampi_handle_ints *table;
    int *slot;

    if (ampi_handle_is_predefined(handle) || !self)
        return (int)(uintptr_t)handle;
    if (!self->handle_ints)
        self->handle_ints = base_calloc(1, sizeof *self->handle_ints, "integers of handles");
    table = self->handle_ints;
    if (!table->slots || table->n_handles >= 1 << (table->log2_slots - 1))
        grow(table);
    slot = find_slot(table, handle);
    if (!*slot) {
        table->handles[table->n_handles++] = handle;
        *slot = table->n_handles;
    }
    return (int)AMPI_PREDEFINED_END + *slot - 1;
}

/* The handle of an integer; null_handle for an invalid integer. */
static void *from_int(int number, void *null_handle)
{
    const struct ampi_rank *self = ampi_self();
    int index = number - (int)AMPI_PREDEFINED_END;

    if (number >= 0 && index < 0)
        return (void *)(uintptr_t)number;
    if (index < 0 || !self || !self->handle_ints || index >= self->handle_ints->n_handles)
        return null_handle;
    return self->handle_ints->handles[index];
}

void ampi_fortran_int_fini(struct ampi_rank *rank)
{
    if (!rank->handle_ints)
        return;
    free(rank->handle_ints->handles);
    free(rank->handle_ints->slots);
    free(rank->handle_ints);
    rank->handle_ints = NULL;
}

AMPI_EXPORT(Comm_toint);
int PMPI_Comm_toint(MPI_Comm comm)
{
    return to_int(comm);
}

AMPI_EXPORT(Comm_fromint);
MPI_Comm PMPI_Comm_fromint(int comm)
{
    return from_int(comm, MPI_COMM_NULL);
}

AMPI_EXPORT(Type_toint);
int PMPI_Type_toint(MPI_Datatype datatype)
{
    return to_int(datatype);
}

AMPI_EXPORT(Type_fromint);
MPI_Datatype PMPI_Type_fromint(int datatype)
{
    return from_int(datatype, MPI_DATATYPE_NULL);
}

AMPI_EXPORT(Group_toint);
int PMPI_Group_toint(MPI_Group group)
{
    return to_int(group);
}

AMPI_EXPORT(Group_fromint);
MPI_Group PMPI_Group_fromint(int group)
{
    return from_int(group, MPI_GROUP_NULL);
}

AMPI_EXPORT(Request_toint);
int PMPI_Request_toint(MPI_Request request)
{
    return to_int(request);
}

AMPI_EXPORT(Request_fromint);
MPI_Request PMPI_Request_fromint(int request)
{
    return from_int(request, MPI_REQUEST_NULL);
}

AMPI_EXPORT(Message_toint);
int PMPI_Message_toint(MPI_Message message)
{
    return to_int(message);
}

AMPI_EXPORT(Message_fromint);
MPI_Message PMPI_Message_fromint(int message)
{
    return from_int(message, MPI_MESSAGE_NULL);
}

AMPI_EXPORT(Op_toint);
int PMPI_Op_toint(MPI_Op op)
{
    return to_int(op);
}

AMPI_EXPORT(Op_fromint);
MPI_Op PMPI_Op_fromint(int op)
{
    return from_int(op, MPI_OP_NULL);
}

AMPI_EXPORT(Info_toint);
int PMPI_Info_toint(MPI_Info info)
{
    return to_int(info);
}

AMPI_EXPORT(Info_fromint);
MPI_Info PMPI_Info_fromint(int info)
{
    return from_int(info, MPI_INFO_NULL);
}

AMPI_EXPORT(Errhandler_toint);
int PMPI_Errhandler_toint(MPI_Errhandler errhandler)
{
    return to_int(errhandler);
}

AMPI_EXPORT(Errhandler_fromint);
MPI_Errhandler PMPI_Errhandler_fromint(int errhandler)
{
    return from_int(errhandler, MPI_ERRHANDLER_NULL);
}

AMPI_EXPORT(Session_toint);
int PMPI_Session_toint(MPI_Session session)
{
    return to_int(session);
}

AMPI_EXPORT(Session_fromint);
MPI_Session PMPI_Session_fromint(int session)
{
    return from_int(session, MPI_SESSION_NULL);
}

AMPI_EXPORT(Win_toint);
int PMPI_Win_toint(MPI_Win win)
{
    return to_int(win);
}

AMPI_EXPORT(Win_fromint);
MPI_Win PMPI_Win_fromint(int win)
{
    return from_int(win, MPI_WIN_NULL);
}

AMPI_EXPORT(File_toint);
int PMPI_File_toint(MPI_File file)
{
    return to_int(file);
}

AMPI_EXPORT(File_fromint);
MPI_File PMPI_File_fromint(int file)
{
    return from_int(file, MPI_FILE_NULL);
}
