/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heddle_mpi_compat.h: names that are not in the MPI 5.0 standard ABI, but in the header of most MPI
 * libraries, so that programs compile. mpi.h includes it; HEDDLE_NO_MPI_COMPAT leaves it out.
 *
 *      handles and statuses as Fortran has them      as in MPI 4.1; MPI_Fint is int
 *      names that the standard deprecated            as in MPI 2.2
 *      functions and types that MPI 3.0 removed      work; compilers warn of the functions
 *      questions about GPUs                          in heddle_mpi_gpu.h
 *      operations in CUDA streams                    in heddle_mpi_stream.h
 *      kernels that send partitions                  in heddle_mpi_prequest.h
 *
 * It has the names that the headers of both Open MPI 4.1 and MPICH 4.0 have and the standard ABI has not,
 * and of MPICH's own those that MPI 4.1 has. They are functions, not macros, because configure scripts look
 * for symbols. MPI_LB and MPI_UB are types without data, whose values the ABI leaves free. The guard of
 * mpi.h is HEDDLE_MPI_H because PhyML has a header whose guard is MPI_H.
 */
#ifndef HEDDLE_MPI_COMPAT_H
#define HEDDLE_MPI_COMPAT_H

/* Libraries that have MPIX_ functions of their own by the same names define HEDDLE_NO_MPIX. */
#ifndef HEDDLE_NO_MPIX
#include "heddle_mpi_gpu.h"
#include "heddle_mpi_prequest.h"
#include "heddle_mpi_stream.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Handles and statuses in Fortran's form (MPI 4.1, section 19.3) ---- */

/* The addresses of MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE in the Fortran code of the calling rank, which libheddle_mpifort
 * knows; NULL in a program without Fortran. */
MPI_Fint *heddle_fortran_status_ignore(int is_array) __attribute__((weak));
#define MPI_F_STATUS_IGNORE (heddle_fortran_status_ignore ? heddle_fortran_status_ignore(0) : (MPI_Fint *)0)
#define MPI_F_STATUSES_IGNORE (heddle_fortran_status_ignore ? heddle_fortran_status_ignore(1) : (MPI_Fint *)0)

/* The type that the module mpi_f08 has for statuses: it is laid out as that of C. */
typedef MPI_Status MPI_F08_status;
#define MPI_F08_STATUS_IGNORE ((MPI_F08_status *)MPI_F_STATUS_IGNORE)
#define MPI_F08_STATUSES_IGNORE ((MPI_F08_status *)MPI_F_STATUSES_IGNORE)

MPI_Fint MPI_Comm_c2f(MPI_Comm comm);
MPI_Comm MPI_Comm_f2c(MPI_Fint comm);
MPI_Fint MPI_Type_c2f(MPI_Datatype datatype);
MPI_Datatype MPI_Type_f2c(MPI_Fint datatype);
MPI_Fint MPI_Group_c2f(MPI_Group group);
MPI_Group MPI_Group_f2c(MPI_Fint group);
MPI_Fint MPI_Request_c2f(MPI_Request request);
MPI_Request MPI_Request_f2c(MPI_Fint request);
MPI_Fint MPI_Message_c2f(MPI_Message message);
MPI_Message MPI_Message_f2c(MPI_Fint message);
MPI_Fint MPI_Op_c2f(MPI_Op op);
MPI_Op MPI_Op_f2c(MPI_Fint op);
MPI_Fint MPI_Info_c2f(MPI_Info info);
MPI_Info MPI_Info_f2c(MPI_Fint info);
MPI_Fint MPI_Errhandler_c2f(MPI_Errhandler errhandler);
MPI_Errhandler MPI_Errhandler_f2c(MPI_Fint errhandler);
MPI_Fint MPI_Win_c2f(MPI_Win win);
MPI_Win MPI_Win_f2c(MPI_Fint win);
MPI_Fint MPI_File_c2f(MPI_File file);
MPI_File MPI_File_f2c(MPI_Fint file);
MPI_Fint MPI_Session_c2f(MPI_Session session);
MPI_Session MPI_Session_f2c(MPI_Fint session);
int MPI_Status_c2f(const MPI_Status *c_status, MPI_Fint *f_status);
int MPI_Status_f2c(const MPI_Fint *f_status, MPI_Status *c_status);
int MPI_Status_c2f08(const MPI_Status *c_status, MPI_F08_status *f08_status);
int MPI_Status_f082c(const MPI_F08_status *f08_status, MPI_Status *c_status);
int MPI_Status_f2f08(const MPI_Fint *f_status, MPI_F08_status *f08_status);
int MPI_Status_f082f(const MPI_F08_status *f08_status, MPI_Fint *f_status);

MPI_Fint PMPI_Comm_c2f(MPI_Comm comm);
MPI_Comm PMPI_Comm_f2c(MPI_Fint comm);
MPI_Fint PMPI_Type_c2f(MPI_Datatype datatype);
MPI_Datatype PMPI_Type_f2c(MPI_Fint datatype);
MPI_Fint PMPI_Group_c2f(MPI_Group group);
MPI_Group PMPI_Group_f2c(MPI_Fint group);
MPI_Fint PMPI_Request_c2f(MPI_Request request);
MPI_Request PMPI_Request_f2c(MPI_Fint request);
MPI_Fint PMPI_Message_c2f(MPI_Message message);
MPI_Message PMPI_Message_f2c(MPI_Fint message);
MPI_Fint PMPI_Op_c2f(MPI_Op op);
MPI_Op PMPI_Op_f2c(MPI_Fint op);
MPI_Fint PMPI_Info_c2f(MPI_Info info);
MPI_Info PMPI_Info_f2c(MPI_Fint info);
MPI_Fint PMPI_Errhandler_c2f(MPI_Errhandler errhandler);
MPI_Errhandler PMPI_Errhandler_f2c(MPI_Fint errhandler);
MPI_Fint PMPI_Win_c2f(MPI_Win win);
MPI_Win PMPI_Win_f2c(MPI_Fint win);
MPI_Fint PMPI_File_c2f(MPI_File file);
MPI_File PMPI_File_f2c(MPI_Fint file);
MPI_Fint PMPI_Session_c2f(MPI_Session session);
MPI_Session PMPI_Session_f2c(MPI_Fint session);
int PMPI_Status_c2f(const MPI_Status *c_status, MPI_Fint *f_status);
int PMPI_Status_f2c(const MPI_Fint *f_status, MPI_Status *c_status);
int PMPI_Status_c2f08(const MPI_Status *c_status, MPI_F08_status *f08_status);
int PMPI_Status_f082c(const MPI_F08_status *f08_status, MPI_Status *c_status);
int PMPI_Status_f2f08(const MPI_Fint *f_status, MPI_F08_status *f08_status);
int PMPI_Status_f082f(const MPI_F08_status *f08_status, MPI_Fint *f_status);

/* ---- Deprecated names ---- */

typedef MPI_Comm_errhandler_function MPI_Comm_errhandler_fn;
typedef MPI_Win_errhandler_function MPI_Win_errhandler_fn;
typedef MPI_File_errhandler_function MPI_File_errhandler_fn;
typedef MPI_Session_errhandler_function MPI_Session_errhandler_fn;
typedef MPI_Comm_errhandler_function MPI_Handler_function;

/* ---- Functions and constants that MPI 3.0 removed ---- */

/* Markers of a datatype's bounds, for MPI_Type_struct and MPI_Type_create_struct: no data. */
#define MPI_LB ((MPI_Datatype)0x0000027e)
#define MPI_UB ((MPI_Datatype)0x0000027f)

/* No call returns these. */
#define MPI_COMBINER_HVECTOR_INTEGER 1001
#define MPI_COMBINER_HINDEXED_INTEGER 1002
#define MPI_COMBINER_STRUCT_INTEGER 1003

#if defined(__GNUC__) && !defined(HEDDLE_NO_MPI_DEPRECATION)
#define HEDDLE_MPI_REMOVED(instead) __attribute__((deprecated("use " instead)))
#else
#define HEDDLE_MPI_REMOVED(instead)
#endif

/* A program may give one of these names another meaning before it includes mpi.h, mostly that of its
 * successor: -DMPI_Address=MPI_Get_address. */
#ifndef MPI_Address
int MPI_Address(void *location, MPI_Aint *address) HEDDLE_MPI_REMOVED("MPI_Get_address");
#endif
#ifndef MPI_Errhandler_create
int MPI_Errhandler_create(MPI_Handler_function *function, MPI_Errhandler *errhandler)
    HEDDLE_MPI_REMOVED("MPI_Comm_create_errhandler");
#endif
#ifndef MPI_Errhandler_get
int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *errhandler)
    HEDDLE_MPI_REMOVED("MPI_Comm_get_errhandler");
#endif
#ifndef MPI_Errhandler_set
int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler errhandler)
    HEDDLE_MPI_REMOVED("MPI_Comm_set_errhandler");
#endif
#ifndef MPI_Type_extent
int MPI_Type_extent(MPI_Datatype datatype, MPI_Aint *extent) HEDDLE_MPI_REMOVED("MPI_Type_get_extent");
#endif
#ifndef MPI_Type_hindexed
int MPI_Type_hindexed(int count, int array_of_blocklengths[], MPI_Aint array_of_displacements[],
                      MPI_Datatype oldtype, MPI_Datatype *newtype)
    HEDDLE_MPI_REMOVED("MPI_Type_create_hindexed");
#endif
#ifndef MPI_Type_hvector
int MPI_Type_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype, MPI_Datatype *newtype)
    HEDDLE_MPI_REMOVED("MPI_Type_create_hvector");
#endif
#ifndef MPI_Type_lb
int MPI_Type_lb(MPI_Datatype datatype, MPI_Aint *displacement) HEDDLE_MPI_REMOVED("MPI_Type_get_extent");
#endif
#ifndef MPI_Type_struct
int MPI_Type_struct(int count, int array_of_blocklengths[], MPI_Aint array_of_displacements[],
                    MPI_Datatype array_of_types[], MPI_Datatype *newtype)
    HEDDLE_MPI_REMOVED("MPI_Type_create_struct");
#endif
#ifndef MPI_Type_ub
int MPI_Type_ub(MPI_Datatype datatype, MPI_Aint *displacement) HEDDLE_MPI_REMOVED("MPI_Type_get_extent");
#endif
#ifndef PMPI_Address
int PMPI_Address(void *location, MPI_Aint *address) HEDDLE_MPI_REMOVED("PMPI_Get_address");
#endif
#ifndef PMPI_Errhandler_create
int PMPI_Errhandler_create(MPI_Handler_function *function, MPI_Errhandler *errhandler)
    HEDDLE_MPI_REMOVED("PMPI_Comm_create_errhandler");
#endif
#ifndef PMPI_Errhandler_get
int PMPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *errhandler)
    HEDDLE_MPI_REMOVED("PMPI_Comm_get_errhandler");
#endif
#ifndef PMPI_Errhandler_set
int PMPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler errhandler)
    HEDDLE_MPI_REMOVED("PMPI_Comm_set_errhandler");
#endif
#ifndef PMPI_Type_extent
int PMPI_Type_extent(MPI_Datatype datatype, MPI_Aint *extent) HEDDLE_MPI_REMOVED("PMPI_Type_get_extent");
#endif
#ifndef PMPI_Type_hindexed
int PMPI_Type_hindexed(int count, int array_of_blocklengths[], MPI_Aint array_of_displacements[],
                       MPI_Datatype oldtype, MPI_Datatype *newtype)
    HEDDLE_MPI_REMOVED("PMPI_Type_create_hindexed");
#endif
#ifndef PMPI_Type_hvector
int PMPI_Type_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype,
                      MPI_Datatype *newtype) HEDDLE_MPI_REMOVED("PMPI_Type_create_hvector");
#endif
#ifndef PMPI_Type_lb
int PMPI_Type_lb(MPI_Datatype datatype, MPI_Aint *displacement) HEDDLE_MPI_REMOVED("PMPI_Type_get_extent");
#endif
#ifndef PMPI_Type_struct
int PMPI_Type_struct(int count, int array_of_blocklengths[], MPI_Aint array_of_displacements[],
                     MPI_Datatype array_of_types[], MPI_Datatype *newtype)
    HEDDLE_MPI_REMOVED("PMPI_Type_create_struct");
#endif
#ifndef PMPI_Type_ub
int PMPI_Type_ub(MPI_Datatype datatype, MPI_Aint *displacement) HEDDLE_MPI_REMOVED("PMPI_Type_get_extent");
#endif

#undef HEDDLE_MPI_REMOVED

#ifdef __cplusplus
}
#endif

#endif /* HEDDLE_MPI_COMPAT_H */
