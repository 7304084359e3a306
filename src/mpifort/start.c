/* SPDX-License-Identifier: BSD-3-Clause
 *
 * start.c: start of MPI from Fortran, and the functions that only Fortran has: comparison of handles,
 * MPI_Sizeof, MPI_F_sync_reg, statuses of mpif.h and of mpi_f08.
 */
#include "fort.h"

#include <string.h>

/* Fortran has no arguments of main: MPI finds them itself. */
static void fort_Init(MPI_Fint *ierror)
{
    int error;

    fort_logical_init();
    error = MPI_Init(NULL, NULL);
    fort_return(ierror, error);
}
FORT_EXPORT(Init, init, INIT);

static void fort_Init_thread(const MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierror)
{
    int error;

    fort_logical_init();
    error = MPI_Init_thread(NULL, NULL, *required, provided);
    fort_return(ierror, error);
}
FORT_EXPORT(Init_thread, init_thread, INIT_THREAD);

static void fort_Session_init(const MPI_Fint *info, const MPI_Fint *errhandler, MPI_Fint *session,
                              MPI_Fint *ierror)
{
    MPI_Session c_session = MPI_SESSION_NULL;
    int error;

    fort_logical_init();
    error = MPI_Session_init(fort_info(*info), fort_errhandler(*errhandler), &c_session);
    if (error == MPI_SUCCESS)
        *session = fort_session_int(c_session);
    fort_return(ierror, error);
}
FORT_EXPORT(Session_init, session_init, SESSION_INIT);

static void fort_Info_create_env(MPI_Fint *info, MPI_Fint *ierror)
{
    MPI_Info c_info = MPI_INFO_NULL;
    int error = MPI_Info_create_env(0, NULL, &c_info);

    if (error == MPI_SUCCESS)
        *info = fort_info_int(c_info);
    fort_return(ierror, error);
}
FORT_EXPORT(Info_create_env, info_create_env, INFO_CREATE_ENV);

static void fort_Pcontrol(const MPI_Fint *level)
{
    MPI_Pcontrol(*level);
}
FORT_EXPORT(Pcontrol, pcontrol, PCONTROL);

/* ---- Comparison of handles in mpi_f08 ---- */

static MPI_Fint is_equal(const MPI_Fint *a, const MPI_Fint *b)
{
    return fort_logical(*a == *b);
}

static MPI_Fint is_different(const MPI_Fint *a, const MPI_Fint *b)
{
    return fort_logical(*a != *b);
}

#define COMPARE(kind)                         \
    FORT_NAME(heddle_##kind##_eq_, is_equal); \
    FORT_NAME(heddle_##kind##_ne_, is_different)
COMPARE(comm);
COMPARE(datatype);
COMPARE(errhandler);
COMPARE(file);
COMPARE(group);
COMPARE(info);
COMPARE(message);
COMPARE(op);
COMPARE(request);
COMPARE(session);
COMPARE(win);

/* ---- The rest ---- */

static void size_of(const struct fort_descriptor *x, MPI_Fint *size, MPI_Fint *ierror)
{
    *size = (MPI_Fint)x->elem_len;
    fort_return(ierror, MPI_SUCCESS);
}
FORT_NAME(heddle_sizeof, size_of);

/* It only has to make the compiler pass the variable (MPI 5.0, section 19.1.17). */
static void fort_F_sync_reg(void *buf)
{
    (void)buf;
}
FORT_EXPORT(F_sync_reg, f_sync_reg, F_SYNC_REG);
FORT_NAME(mpi_f_sync_reg_f08ts_, fort_F_sync_reg);
FORT_NAME(pmpi_f_sync_reg_f08ts_, fort_F_sync_reg);

/* Both forms have the layout of MPI_Status. */
static void fort_Status_f2f08(const MPI_Fint *f_status, MPI_Status *f08_status, MPI_Fint *ierror)
{
    memcpy(f08_status, f_status, sizeof *f08_status);
    fort_return(ierror, MPI_SUCCESS);
}
FORT_EXPORT(Status_f2f08, status_f2f08, STATUS_F2F08);

static void fort_Status_f082f(const MPI_Status *f08_status, MPI_Fint *f_status, MPI_Fint *ierror)
{
    memcpy(f_status, f08_status, sizeof *f08_status);
    fort_return(ierror, MPI_SUCCESS);
}
FORT_EXPORT(Status_f082f, status_f082f, STATUS_F082F);
