/* SPDX-License-Identifier: BSD-3-Clause
 *
 * alltoall_api.c: the functions of the alltoall family.
 */
#include "ampi/coll/plan/alltoall.h"

AMPI_EXPORT(Alltoall)
int PMPI_Alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm)
{
    static const struct ampi_coll_call call = {"MPI_Alltoall", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_alltoall(&call, comm, &args);
}

AMPI_EXPORT(Alltoall_c)
int PMPI_Alltoall_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                    MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    static const struct ampi_coll_call call = {"MPI_Alltoall_c", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_alltoall(&call, comm, &args);
}

AMPI_EXPORT(Ialltoall)
int PMPI_Ialltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                   MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ialltoall", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_alltoall(&call, comm, &args);
}

AMPI_EXPORT(Ialltoall_c)
int PMPI_Ialltoall_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                     MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ialltoall_c", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_alltoall(&call, comm, &args);
}

AMPI_EXPORT(Alltoall_init)
int PMPI_Alltoall_init(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                       int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                       MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Alltoall_init", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_alltoall(&call, comm, &args);
}

AMPI_EXPORT(Alltoall_init_c)
int PMPI_Alltoall_init_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                         MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                         MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Alltoall_init_c", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_alltoall(&call, comm, &args);
}

AMPI_EXPORT(Alltoallv)
int PMPI_Alltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
                   void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                   MPI_Comm comm)
{
    static const struct ampi_coll_call call = {"MPI_Alltoallv", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_v(&args.send, sendbuf, sendcounts, sdispls, sendtype);
    ampi_coll_set_v(&args.recv, recvbuf, recvcounts, rdispls, recvtype);
    return ampi_coll_alltoall(&call, comm, &args);
}

AMPI_EXPORT(Alltoallv_c)
int PMPI_Alltoallv_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                     MPI_Datatype sendtype, void *recvbuf, const MPI_Count recvcounts[],
                     const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm)
{
    static const struct ampi_coll_call call = {"MPI_Alltoallv_c", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_v_c(&args.send, sendbuf, sendcounts, sdispls, sendtype);
    ampi_coll_set_v_c(&args.recv, recvbuf, recvcounts, rdispls, recvtype);
    return ampi_coll_alltoall(&call, comm, &args);
}

AMPI_EXPORT(Ialltoallv)
int PMPI_Ialltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
                    void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                    MPI_Comm comm, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ialltoallv", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_v(&args.send, sendbuf, sendcounts, sdispls, sendtype);
    ampi_coll_set_v(&args.recv, recvbuf, recvcounts, rdispls, recvtype);
    return ampi_coll_alltoall(&call, comm, &args);
}

AMPI_EXPORT(Ialltoallv_c)
int PMPI_Ialltoallv_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                      MPI_Datatype sendtype, void *recvbuf, const MPI_Count recvcounts[],
                      const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ialltoallv_c", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_v_c(&args.send, sendbuf, sendcounts, sdispls, sendtype);
    ampi_coll_set_v_c(&args.recv, recvbuf, recvcounts, rdispls, recvtype);
    return ampi_coll_alltoall(&call, comm, &args);
}

AMPI_EXPORT(Alltoallv_init)
int PMPI_Alltoallv_init(const void *sendbuf, const int sendcounts[], const int sdispls[],
                        MPI_Datatype sendtype, void *recvbuf, const int recvcounts[], const int rdispls[],
                        MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Alltoallv_init", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_v(&args.send, sendbuf, sendcounts, sdispls, sendtype);
    ampi_coll_set_v(&args.recv, recvbuf, recvcounts, rdispls, recvtype);
    return ampi_coll_alltoall(&call, comm, &args);
}

AMPI_EXPORT(Alltoallv_init_c)
int PMPI_Alltoallv_init_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                          MPI_Datatype sendtype, void *recvbuf, const MPI_Count recvcounts[],
                          const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                          MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Alltoallv_init_c", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_v_c(&args.send, sendbuf, sendcounts, sdispls, sendtype);
    ampi_coll_set_v_c(&args.recv, recvbuf, recvcounts, rdispls, recvtype);
    return ampi_coll_alltoall(&call, comm, &args);
}

AMPI_EXPORT(Alltoallw)
int PMPI_Alltoallw(const void *sendbuf, const int sendcounts[], const int sdispls[],
                   const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[], const int rdispls[],
                   const MPI_Datatype recvtypes[], MPI_Comm comm)
{
    static const struct ampi_coll_call call = {"MPI_Alltoallw", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_w(&args.send, sendbuf, sendcounts, false, sdispls, false, sendtypes);
    ampi_coll_set_w(&args.recv, recvbuf, recvcounts, false, rdispls, false, recvtypes);
    return ampi_coll_alltoall(&call, comm, &args);
}

AMPI_EXPORT(Alltoallw_c)
int PMPI_Alltoallw_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                     const MPI_Datatype sendtypes[], void *recvbuf, const MPI_Count recvcounts[],
                     const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm)
{
    static const struct ampi_coll_call call = {"MPI_Alltoallw_c", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_w(&args.send, sendbuf, sendcounts, true, sdispls, true, sendtypes);
    ampi_coll_set_w(&args.recv, recvbuf, recvcounts, true, rdispls, true, recvtypes);
    return ampi_coll_alltoall(&call, comm, &args);
}

AMPI_EXPORT(Ialltoallw)
int PMPI_Ialltoallw(const void *sendbuf, const int sendcounts[], const int sdispls[],
                    const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],
                    const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ialltoallw", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_w(&args.send, sendbuf, sendcounts, false, sdispls, false, sendtypes);
    ampi_coll_set_w(&args.recv, recvbuf, recvcounts, false, rdispls, false, recvtypes);
    return ampi_coll_alltoall(&call, comm, &args);
}

AMPI_EXPORT(Ialltoallw_c)
int PMPI_Ialltoallw_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                      const MPI_Datatype sendtypes[], void *recvbuf, const MPI_Count recvcounts[],
                      const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                      MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ialltoallw_c", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_w(&args.send, sendbuf, sendcounts, true, sdispls, true, sendtypes);
    ampi_coll_set_w(&args.recv, recvbuf, recvcounts, true, rdispls, true, recvtypes);
    return ampi_coll_alltoall(&call, comm, &args);
}

AMPI_EXPORT(Alltoallw_init)
int PMPI_Alltoallw_init(const void *sendbuf, const int sendcounts[], const int sdispls[],
                        const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],
                        const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Info info,
                        MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Alltoallw_init", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_w(&args.send, sendbuf, sendcounts, false, sdispls, false, sendtypes);
    ampi_coll_set_w(&args.recv, recvbuf, recvcounts, false, rdispls, false, recvtypes);
    return ampi_coll_alltoall(&call, comm, &args);
}

AMPI_EXPORT(Alltoallw_init_c)
int PMPI_Alltoallw_init_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                          const MPI_Datatype sendtypes[], void *recvbuf, const MPI_Count recvcounts[],
                          const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                          MPI_Info info, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Alltoallw_init_c", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_w(&args.send, sendbuf, sendcounts, true, sdispls, true, sendtypes);
    ampi_coll_set_w(&args.recv, recvbuf, recvcounts, true, rdispls, true, recvtypes);
    return ampi_coll_alltoall(&call, comm, &args);
}
