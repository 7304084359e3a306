/* SPDX-License-Identifier: BSD-3-Clause
 *
 * callbacks.c: reduction operations, error handlers, generalized requests and data representations written
 * in Fortran.
 *
 * C calls operations and error handlers without a state argument that could identify the procedure. So there is a C
 * function per procedure: one of a fixed number of slots. The same procedure gets the same slot again. When all slots
 * are used, the slot whose operations were freed first is reused, unless a nonblocking or persistent call has used
 * one of them: that call may need the procedure later. Slots of error handlers are never released, because they may
 * be in use after they are freed. Generalized requests and data representations have a state.
 */
#include "fort.h"

#include <pthread.h>

enum { N_SLOTS = 64 };

/* The procedures of one kind of callback. */
struct slots {
    struct {
        fort_procedure *procedure; /* the first n are set */
        int n_objects;             /* operations or error handlers that have it */
        uint64_t released;         /* if there are none: counts the releases of slots */
    } slot[N_SLOTS];
    int n;               /* slots that have been used */
    uint64_t n_released; /* releases */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all slots, and the list of operations */

/* The slot that was released first; -1: none. */
static int released_slot(const struct slots *slots)
{
    int first = -1;

    for (int i = 0; i < slots->n; i++)
        if (slots->slot[i].n_objects == 0 &&
            (first < 0 || slots->slot[i].released < slots->slot[first].released))
            first = i;
    return first;
}

/* A slot for one more object with this procedure, or -1 if all are used. */
static int slot_of(struct slots *slots, fort_procedure *procedure)
{
    int i;

    pthread_mutex_lock(&lock);
    for (i = 0; i < slots->n && slots->slot[i].procedure != procedure; i++)
        ;
    if (i == N_SLOTS)
        i = released_slot(slots);
    else if (i == slots->n)
        slots->n++;
    if (i >= 0) {
        slots->slot[i].procedure = procedure;
        slots->slot[i].n_objects++;
    }
    pthread_mutex_unlock(&lock);
    return i;
}

/* The slot has one object less. With the lock. */
static void release(struct slots *slots, int slot)
{
    if (--slots->slot[slot].n_objects == 0)
        slots->slot[slot].released = ++slots->n_released;
}

/* F(0x00) ... F(0x3f), for tables of functions. */
/* clang-format off */
#define TIMES_16(F, h) \
    F(h##0) F(h##1) F(h##2) F(h##3) F(h##4) F(h##5) F(h##6) F(h##7) \
    F(h##8) F(h##9) F(h##a) F(h##b) F(h##c) F(h##d) F(h##e) F(h##f)
#define TIMES_64(F) TIMES_16(F, 0x0) TIMES_16(F, 0x1) TIMES_16(F, 0x2) TIMES_16(F, 0x3)
/* clang-format on */

static int no_slot(const char *text)
{
    return fort_raise(MPI_COMM_SELF, MPI_ERR_NO_MEM, text);
}

/* ---- Operations ---- */

static struct slots ops, large_ops;

/* An operation of the program. */
struct op {
    struct op *next;     /* in the list */
    MPI_Op handle;       /* the list has one entry for a handle */
    struct slots *slots; /* its procedure's */
    int slot;            /* the procedure's */
    bool is_kept;        /* its slot is not released */
};
static struct op *op_list; /* guarded by lock */

/* The link to the operation; *link is NULL if it is not in the list. With the lock. */
static struct op **find_op(MPI_Op handle)
{
    struct op **link = &op_list;

    while (*link && (*link)->handle != handle)
        link = &(*link)->next;
    return link;
}

/* Removes the operation from the list; NULL: it is not in it. */
static struct op *take_op(MPI_Op handle)
{
    struct op **link, *op;

    pthread_mutex_lock(&lock);
    link = find_op(handle);
    op = *link;
    if (op)
        *link = op->next;
    pthread_mutex_unlock(&lock);
    return op;
}

static void add_op(struct op *op)
{
    pthread_mutex_lock(&lock);
    op->next = op_list;
    op_list = op;
    pthread_mutex_unlock(&lock);
}

/* A removed operation does not exist any more. */
static void forget_op(struct op *op)
{
    if (op && !op->is_kept) {
        pthread_mutex_lock(&lock);
        release(op->slots, op->slot);
        pthread_mutex_unlock(&lock);
    }
    free(op);
}

/* After the creation of an operation, or the attempt. */
static void remember_op(struct slots *slots, int slot, MPI_Op handle, int error)
{
    struct op *op = fort_alloc(sizeof *op);

    *op = (struct op){.handle = handle, .slots = slots, .slot = slot};
    if (error != MPI_SUCCESS) {
        forget_op(op);
        return;
    }
    forget_op(take_op(handle)); /* C has freed an operation at this address */
    add_op(op);
}

void fort_op_keep_found(MPI_Fint number)
{
    MPI_Op handle = MPI_Op_fromint(number);
    struct op *op;

    pthread_mutex_lock(&lock);
    op = *find_op(handle);
    if (op)
        op->is_kept = true;
    pthread_mutex_unlock(&lock);
}

static void fort_Op_free(MPI_Fint *op, MPI_Fint *ierror)
{
    MPI_Op handle = fort_op(*op);
    struct op *taken = take_op(handle); /* before another thread can create an operation at this address */
    int error = MPI_Op_free(&handle);

    if (error == MPI_SUCCESS) {
        forget_op(taken);
        *op = fort_op_int(handle);
    } else if (taken) {
        add_op(taken);
    }
    fort_return(ierror, error);
}
FORT_EXPORT(Op_free, op_free, OP_FREE);

static void call_op(int slot, void *invec, void *inoutvec, int *len, MPI_Datatype *datatype)
{
    typedef void procedure(void *, void *, MPI_Fint *, MPI_Fint *);
    MPI_Fint f_len = *len, f_datatype = fort_datatype_int(*datatype);

    ((procedure *)ops.slot[slot].procedure)(invec, inoutvec, &f_len, &f_datatype);
}

static void call_large_op(int slot, void *invec, void *inoutvec, MPI_Count *len, MPI_Datatype *datatype)
{
    typedef void procedure(void *, void *, MPI_Count *, MPI_Fint *);
    MPI_Count f_len = *len;
    MPI_Fint f_datatype = fort_datatype_int(*datatype);

    ((procedure *)large_ops.slot[slot].procedure)(invec, inoutvec, &f_len, &f_datatype);
}

#define OP(n)                                                                                     \
    static void op_##n(void *invec, void *inoutvec, int *len, MPI_Datatype *datatype)             \
    {                                                                                             \
        call_op(n, invec, inoutvec, len, datatype);                                               \
    }                                                                                             \
    static void large_op_##n(void *invec, void *inoutvec, MPI_Count *len, MPI_Datatype *datatype) \
    {                                                                                             \
        call_large_op(n, invec, inoutvec, len, datatype);                                         \
    }
TIMES_64(OP)
#define OP_NAME(n) op_##n,
#define LARGE_OP_NAME(n) large_op_##n,
static MPI_User_function *const op_functions[N_SLOTS] = {TIMES_64(OP_NAME)};
static MPI_User_function_c *const large_op_functions[N_SLOTS] = {TIMES_64(LARGE_OP_NAME)};

static void fort_Op_create(fort_procedure *user_fn, const MPI_Fint *commute, MPI_Fint *op, MPI_Fint *ierror)
{
    MPI_Op c_op = MPI_OP_NULL;
    int slot = slot_of(&ops, user_fn), error;

    if (slot < 0) {
        fort_return(
            ierror,
            no_slot("MPI_Op_create: 64 procedures are operations already, or are used by nonblocking calls"));
        return;
    }
    error = MPI_Op_create(op_functions[slot], *commute != 0, &c_op);
    remember_op(&ops, slot, c_op, error);
    if (error == MPI_SUCCESS)
        *op = fort_op_int(c_op);
    fort_return(ierror, error);
}
FORT_EXPORT(Op_create, op_create, OP_CREATE);

static void fort_Op_create_c(fort_procedure *user_fn, const MPI_Fint *commute, MPI_Fint *op, MPI_Fint *ierror)
{
    MPI_Op c_op = MPI_OP_NULL;
    int slot = slot_of(&large_ops, user_fn), error;

    if (slot < 0) {
        fort_return(
            ierror,
            no_slot(
                "MPI_Op_create_c: 64 procedures are operations already, or are used by nonblocking calls"));
        return;
    }
    error = MPI_Op_create_c(large_op_functions[slot], *commute != 0, &c_op);
    remember_op(&large_ops, slot, c_op, error);
    if (error == MPI_SUCCESS)
        *op = fort_op_int(c_op);
    fort_return(ierror, error);
}
FORT_EXPORT_F08(Op_create_c, op_create_c);

/* ---- Error handlers ---- */

typedef void error_procedure(MPI_Fint *object, MPI_Fint *error_code);
static struct slots comm_errors, file_errors, session_errors, win_errors;

static void call_errhandler(struct slots *slots, int slot, MPI_Fint object, int *error_code)
{
    MPI_Fint code = *error_code;

    ((error_procedure *)slots->slot[slot].procedure)(&object, &code);
}

#define ERROR(n)                                                                     \
    static void comm_error_##n(MPI_Comm *comm, int *error_code, ...)                 \
    {                                                                                \
        call_errhandler(&comm_errors, n, fort_comm_int(*comm), error_code);          \
    }                                                                                \
    static void file_error_##n(MPI_File *file, int *error_code, ...)                 \
    {                                                                                \
        call_errhandler(&file_errors, n, fort_file_int(*file), error_code);          \
    }                                                                                \
    static void session_error_##n(MPI_Session *session, int *error_code, ...)        \
    {                                                                                \
        call_errhandler(&session_errors, n, fort_session_int(*session), error_code); \
    }                                                                                \
    static void win_error_##n(MPI_Win *win, int *error_code, ...)                    \
    {                                                                                \
        call_errhandler(&win_errors, n, fort_win_int(*win), error_code);             \
    }
TIMES_64(ERROR)
#define COMM_ERROR_NAME(n) comm_error_##n,
#define FILE_ERROR_NAME(n) file_error_##n,
#define SESSION_ERROR_NAME(n) session_error_##n,
#define WIN_ERROR_NAME(n) win_error_##n,
static MPI_Comm_errhandler_function *const comm_functions[N_SLOTS] = {TIMES_64(COMM_ERROR_NAME)};
static MPI_File_errhandler_function *const file_functions[N_SLOTS] = {TIMES_64(FILE_ERROR_NAME)};
static MPI_Session_errhandler_function *const session_functions[N_SLOTS] = {TIMES_64(SESSION_ERROR_NAME)};
static MPI_Win_errhandler_function *const win_functions[N_SLOTS] = {TIMES_64(WIN_ERROR_NAME)};

static void return_errhandler(MPI_Errhandler c_errhandler, MPI_Fint *errhandler, int error, MPI_Fint *ierror)
{
    if (error == MPI_SUCCESS)
        *errhandler = fort_errhandler_int(c_errhandler);
    fort_return(ierror, error);
}

static void fort_Comm_create_errhandler(fort_procedure *function, MPI_Fint *errhandler, MPI_Fint *ierror)
{
    MPI_Errhandler c_errhandler = MPI_ERRHANDLER_NULL;
    int slot = slot_of(&comm_errors, function);
    int error = slot < 0 ? no_slot("MPI_Comm_create_errhandler: 64 procedures are error handlers already")
                         : MPI_Comm_create_errhandler(comm_functions[slot], &c_errhandler);

    return_errhandler(c_errhandler, errhandler, error, ierror);
}
FORT_EXPORT(Comm_create_errhandler, comm_create_errhandler, COMM_CREATE_ERRHANDLER);

/* Its name in MPI-1. */
static void fort_Errhandler_create(fort_procedure *function, MPI_Fint *errhandler, MPI_Fint *ierror)
{
    fort_Comm_create_errhandler(function, errhandler, ierror);
}
FORT_EXPORT_F90(Errhandler_create, errhandler_create, ERRHANDLER_CREATE);

static void fort_File_create_errhandler(fort_procedure *function, MPI_Fint *errhandler, MPI_Fint *ierror)
{
    MPI_Errhandler c_errhandler = MPI_ERRHANDLER_NULL;
    int slot = slot_of(&file_errors, function);
    int error = slot < 0 ? no_slot("MPI_File_create_errhandler: 64 procedures are error handlers already")
                         : MPI_File_create_errhandler(file_functions[slot], &c_errhandler);

    return_errhandler(c_errhandler, errhandler, error, ierror);
}
FORT_EXPORT(File_create_errhandler, file_create_errhandler, FILE_CREATE_ERRHANDLER);

static void fort_Session_create_errhandler(fort_procedure *function, MPI_Fint *errhandler, MPI_Fint *ierror)
{
    MPI_Errhandler c_errhandler = MPI_ERRHANDLER_NULL;
    int slot = slot_of(&session_errors, function);
    int error = slot < 0 ? no_slot("MPI_Session_create_errhandler: 64 procedures are error handlers already")
                         : MPI_Session_create_errhandler(session_functions[slot], &c_errhandler);

    return_errhandler(c_errhandler, errhandler, error, ierror);
}
FORT_EXPORT(Session_create_errhandler, session_create_errhandler, SESSION_CREATE_ERRHANDLER);

static void fort_Win_create_errhandler(fort_procedure *function, MPI_Fint *errhandler, MPI_Fint *ierror)
{
    MPI_Errhandler c_errhandler = MPI_ERRHANDLER_NULL;
    int slot = slot_of(&win_errors, function);
    int error = slot < 0 ? no_slot("MPI_Win_create_errhandler: 64 procedures are error handlers already")
                         : MPI_Win_create_errhandler(win_functions[slot], &c_errhandler);

    return_errhandler(c_errhandler, errhandler, error, ierror);
}
FORT_EXPORT(Win_create_errhandler, win_create_errhandler, WIN_CREATE_ERRHANDLER);

/* ---- Generalized requests ---- */

/* C's state of a generalized request; freed by free_request. */
struct generalized {
    fort_procedure *query; /* Fortran's procedures */
    fort_procedure *free_fn;
    fort_procedure *cancel;
    MPI_Aint *extra_state; /* the program's variable, as with Open MPI and MPICH: callbacks can change it */
};

static int query_request(void *state, MPI_Status *status)
{
    typedef void procedure(MPI_Aint *, MPI_Status *, MPI_Fint *);
    struct generalized *generalized = state;
    MPI_Fint ierror = MPI_SUCCESS;

    ((procedure *)generalized->query)(generalized->extra_state, status, &ierror);
    return ierror;
}

static int free_request(void *state)
{
    typedef void procedure(MPI_Aint *, MPI_Fint *);
    struct generalized *generalized = state;
    MPI_Fint ierror = MPI_SUCCESS;

    ((procedure *)generalized->free_fn)(generalized->extra_state, &ierror);
    free(generalized);
    return ierror;
}

static int cancel_request(void *state, int complete)
{
    typedef void procedure(MPI_Aint *, MPI_Fint *, MPI_Fint *);
    struct generalized *generalized = state;
    MPI_Fint f_complete = fort_logical(complete), ierror = MPI_SUCCESS;

    ((procedure *)generalized->cancel)(generalized->extra_state, &f_complete, &ierror);
    return ierror;
}

static void fort_Grequest_start(fort_procedure *query_fn, fort_procedure *free_fn, fort_procedure *cancel_fn,
                                MPI_Aint *extra_state, MPI_Fint *request, MPI_Fint *ierror)
{
    struct generalized *generalized = fort_alloc(sizeof *generalized);
    MPI_Request c_request = MPI_REQUEST_NULL;
    int error;

    *generalized = (struct generalized){
        .query = query_fn, .free_fn = free_fn, .cancel = cancel_fn, .extra_state = extra_state};
    error = MPI_Grequest_start(query_request, free_request, cancel_request, generalized, &c_request);
    if (error == MPI_SUCCESS)
        *request = fort_request_int(c_request);
    else
        free(generalized);
    fort_return(ierror, error);
}
FORT_EXPORT(Grequest_start, grequest_start, GREQUEST_START);

/* ---- Data representations ---- */

/* C's state of a data representation; MPI never removes one. */
struct datarep {
    fort_procedure *read; /* Fortran's procedures */
    fort_procedure *write;
    fort_procedure *extent;
    MPI_Aint extra_state; /* for all of them */
};

static int extent_of(MPI_Datatype datatype, MPI_Aint *extent, void *state)
{
    typedef void procedure(MPI_Fint *, MPI_Aint *, MPI_Aint *, MPI_Fint *);
    struct datarep *datarep = state;
    MPI_Fint f_datatype = fort_datatype_int(datatype), ierror = MPI_SUCCESS;

    ((procedure *)datarep->extent)(&f_datatype, extent, &datarep->extra_state, &ierror);
    return ierror;
}

static int convert(fort_procedure *convert_fn, void *userbuf, MPI_Datatype datatype, int count, void *filebuf,
                   MPI_Offset position, struct datarep *datarep)
{
    typedef void procedure(void *, MPI_Fint *, MPI_Fint *, void *, MPI_Offset *, MPI_Aint *, MPI_Fint *);
    MPI_Fint f_datatype = fort_datatype_int(datatype), f_count = count, ierror = MPI_SUCCESS;

    ((procedure *)convert_fn)(userbuf, &f_datatype, &f_count, filebuf, &position, &datarep->extra_state,
                              &ierror);
    return ierror;
}

static int convert_large(fort_procedure *convert_fn, void *userbuf, MPI_Datatype datatype, MPI_Count count,
                         void *filebuf, MPI_Offset position, struct datarep *datarep)
{
    typedef void procedure(void *, MPI_Fint *, MPI_Count *, void *, MPI_Offset *, MPI_Aint *, MPI_Fint *);
    MPI_Fint f_datatype = fort_datatype_int(datatype), ierror = MPI_SUCCESS;

    ((procedure *)convert_fn)(userbuf, &f_datatype, &count, filebuf, &position, &datarep->extra_state,
                              &ierror);
    return ierror;
}

static int read_data(void *userbuf, MPI_Datatype datatype, int count, void *filebuf, MPI_Offset position,
                     void *state)
{
    return convert(((struct datarep *)state)->read, userbuf, datatype, count, filebuf, position, state);
}

static int write_data(void *userbuf, MPI_Datatype datatype, int count, void *filebuf, MPI_Offset position,
                      void *state)
{
    return convert(((struct datarep *)state)->write, userbuf, datatype, count, filebuf, position, state);
}

static int read_large(void *userbuf, MPI_Datatype datatype, MPI_Count count, void *filebuf,
                      MPI_Offset position, void *state)
{
    return convert_large(((struct datarep *)state)->read, userbuf, datatype, count, filebuf, position, state);
}

static int write_large(void *userbuf, MPI_Datatype datatype, MPI_Count count, void *filebuf,
                       MPI_Offset position, void *state)
{
    return convert_large(((struct datarep *)state)->write, userbuf, datatype, count, filebuf, position,
                         state);
}

/* MPI_CONVERSION_FN_NULL and its large form are never called: their addresses mean that no conversion is
 * needed. */
void mpi_conversion_fn_null_(void);
void mpi_conversion_fn_null_c_(void);
__attribute__((visibility("default"))) void mpi_conversion_fn_null_(void) {}
__attribute__((visibility("default"))) void mpi_conversion_fn_null_c_(void) {}

static struct datarep *new_datarep(fort_procedure *read_fn, fort_procedure *write_fn,
                                   fort_procedure *extent_fn, MPI_Aint extra_state)
{
    struct datarep *datarep = fort_alloc(sizeof *datarep);

    *datarep =
        (struct datarep){.read = read_fn, .write = write_fn, .extent = extent_fn, .extra_state = extra_state};
    return datarep;
}

static void fort_Register_datarep(const char *datarep, fort_procedure *read_fn, fort_procedure *write_fn,
                                  fort_procedure *extent_fn, const MPI_Aint *extra_state, MPI_Fint *ierror,
                                  size_t datarep_len)
{
    struct fort_text name;
    int error =
        MPI_Register_datarep(fort_text_in(&name, datarep, datarep_len, false),
                             read_fn == mpi_conversion_fn_null_ ? MPI_CONVERSION_FN_NULL : read_data,
                             write_fn == mpi_conversion_fn_null_ ? MPI_CONVERSION_FN_NULL : write_data,
                             extent_of, new_datarep(read_fn, write_fn, extent_fn, *extra_state));

    fort_text_drop(&name);
    fort_return(ierror, error);
}
FORT_EXPORT(Register_datarep, register_datarep, REGISTER_DATAREP);

static void fort_Register_datarep_c(const char *datarep, fort_procedure *read_fn, fort_procedure *write_fn,
                                    fort_procedure *extent_fn, const MPI_Aint *extra_state, MPI_Fint *ierror,
                                    size_t datarep_len)
{
    struct fort_text name;
    int error =
        MPI_Register_datarep_c(fort_text_in(&name, datarep, datarep_len, false),
                               read_fn == mpi_conversion_fn_null_c_ ? MPI_CONVERSION_FN_NULL_C : read_large,
                               write_fn == mpi_conversion_fn_null_c_ ? MPI_CONVERSION_FN_NULL_C : write_large,
                               extent_of, new_datarep(read_fn, write_fn, extent_fn, *extra_state));

    fort_text_drop(&name);
    fort_return(ierror, error);
}
FORT_EXPORT_F08(Register_datarep_c, register_datarep_c);
