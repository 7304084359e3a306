/* SPDX-License-Identifier: BSD-3-Clause
 *
 * neighbor_api.c: the functions of the neighborhood collectives.
 */
#include "ampi/coll/plan/neighbor.h"

AMPI_EXPORT(Neighbor_allgather)
int PMPI_Neighbor_allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                            int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    static const struct ampi_coll_call call = {"MPI_Neighbor_allgather", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_allgather_plan, &args);
}

AMPI_EXPORT(Neighbor_allgather_c)
int PMPI_Neighbor_allgather_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                              MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    static const struct ampi_coll_call call = {"MPI_Neighbor_allgather_c", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_allgather_plan, &args);
}

AMPI_EXPORT(Ineighbor_allgather)
int PMPI_Ineighbor_allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                             int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ineighbor_allgather", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_allgather_plan, &args);
}

AMPI_EXPORT(Ineighbor_allgather_c)
int PMPI_Ineighbor_allgather_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                               MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                               MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ineighbor_allgather_c", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_allgather_plan, &args);
}

AMPI_EXPORT(Neighbor_allgather_init)
int PMPI_Neighbor_allgather_init(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                                 int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                 MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Neighbor_allgather_init", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_allgather_plan, &args);
}

AMPI_EXPORT(Neighbor_allgather_init_c)
int PMPI_Neighbor_allgather_init_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                   void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                   MPI_Info info, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Neighbor_allgather_init_c", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_allgather_plan, &args);
}

AMPI_EXPORT(Neighbor_allgatherv)
int PMPI_Neighbor_allgatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                             const int recvcounts[], const int displs[], MPI_Datatype recvtype, MPI_Comm comm)
{
    static const struct ampi_coll_call call = {"MPI_Neighbor_allgatherv", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_v(&args.recv, recvbuf, recvcounts, displs, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_allgather_plan, &args);
}

AMPI_EXPORT(Neighbor_allgatherv_c)
int PMPI_Neighbor_allgatherv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                               const MPI_Count recvcounts[], const MPI_Aint displs[], MPI_Datatype recvtype,
                               MPI_Comm comm)
{
    static const struct ampi_coll_call call = {"MPI_Neighbor_allgatherv_c", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_v_c(&args.recv, recvbuf, recvcounts, displs, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_allgather_plan, &args);
}

AMPI_EXPORT(Ineighbor_allgatherv)
int PMPI_Ineighbor_allgatherv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                              const int recvcounts[], const int displs[], MPI_Datatype recvtype,
                              MPI_Comm comm, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ineighbor_allgatherv", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_v(&args.recv, recvbuf, recvcounts, displs, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_allgather_plan, &args);
}

AMPI_EXPORT(Ineighbor_allgatherv_c)
int PMPI_Ineighbor_allgatherv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                void *recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[],
                                MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ineighbor_allgatherv_c", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_v_c(&args.recv, recvbuf, recvcounts, displs, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_allgather_plan, &args);
}

AMPI_EXPORT(Neighbor_allgatherv_init)
int PMPI_Neighbor_allgatherv_init(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                                  const int recvcounts[], const int displs[], MPI_Datatype recvtype,
                                  MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Neighbor_allgatherv_init", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_v(&args.recv, recvbuf, recvcounts, displs, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_allgather_plan, &args);
}

AMPI_EXPORT(Neighbor_allgatherv_init_c)
int PMPI_Neighbor_allgatherv_init_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                    void *recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[],
                                    MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Neighbor_allgatherv_init_c", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_v_c(&args.recv, recvbuf, recvcounts, displs, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_allgather_plan, &args);
}

AMPI_EXPORT(Neighbor_alltoall)
int PMPI_Neighbor_alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                           int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    static const struct ampi_coll_call call = {"MPI_Neighbor_alltoall", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}

AMPI_EXPORT(Neighbor_alltoall_c)
int PMPI_Neighbor_alltoall_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                             MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    static const struct ampi_coll_call call = {"MPI_Neighbor_alltoall_c", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}

AMPI_EXPORT(Ineighbor_alltoall)
int PMPI_Ineighbor_alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                            int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ineighbor_alltoall", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}

AMPI_EXPORT(Ineighbor_alltoall_c)
int PMPI_Ineighbor_alltoall_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                              MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ineighbor_alltoall_c", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}

AMPI_EXPORT(Neighbor_alltoall_init)
int PMPI_Neighbor_alltoall_init(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                                int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Neighbor_alltoall_init", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}

AMPI_EXPORT(Neighbor_alltoall_init_c)
int PMPI_Neighbor_alltoall_init_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                  void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                  MPI_Info info, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Neighbor_alltoall_init_c", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}

AMPI_EXPORT(Neighbor_alltoallv)
int PMPI_Neighbor_alltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[],
                            MPI_Datatype sendtype, void *recvbuf, const int recvcounts[], const int rdispls[],
                            MPI_Datatype recvtype, MPI_Comm comm)
{
    static const struct ampi_coll_call call = {"MPI_Neighbor_alltoallv", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_v(&args.send, sendbuf, sendcounts, sdispls, sendtype);
    ampi_coll_set_v(&args.recv, recvbuf, recvcounts, rdispls, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}

AMPI_EXPORT(Neighbor_alltoallv_c)
int PMPI_Neighbor_alltoallv_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                              MPI_Datatype sendtype, void *recvbuf, const MPI_Count recvcounts[],
                              const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm)
{
    static const struct ampi_coll_call call = {"MPI_Neighbor_alltoallv_c", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_v_c(&args.send, sendbuf, sendcounts, sdispls, sendtype);
    ampi_coll_set_v_c(&args.recv, recvbuf, recvcounts, rdispls, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}

AMPI_EXPORT(Ineighbor_alltoallv)
int PMPI_Ineighbor_alltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[],
                             MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
                             const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ineighbor_alltoallv", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_v(&args.send, sendbuf, sendcounts, sdispls, sendtype);
    ampi_coll_set_v(&args.recv, recvbuf, recvcounts, rdispls, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}

AMPI_EXPORT(Ineighbor_alltoallv_c)
int PMPI_Ineighbor_alltoallv_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                               MPI_Datatype sendtype, void *recvbuf, const MPI_Count recvcounts[],
                               const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
                               MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ineighbor_alltoallv_c", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_v_c(&args.send, sendbuf, sendcounts, sdispls, sendtype);
    ampi_coll_set_v_c(&args.recv, recvbuf, recvcounts, rdispls, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}

AMPI_EXPORT(Neighbor_alltoallv_init)
int PMPI_Neighbor_alltoallv_init(const void *sendbuf, const int sendcounts[], const int sdispls[],
                                 MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
                                 const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                 MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Neighbor_alltoallv_init", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_v(&args.send, sendbuf, sendcounts, sdispls, sendtype);
    ampi_coll_set_v(&args.recv, recvbuf, recvcounts, rdispls, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}

AMPI_EXPORT(Neighbor_alltoallv_init_c)
int PMPI_Neighbor_alltoallv_init_c(const void *sendbuf, const MPI_Count sendcounts[],
                                   const MPI_Aint sdispls[], MPI_Datatype sendtype, void *recvbuf,
                                   const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                   MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Neighbor_alltoallv_init_c", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_v_c(&args.send, sendbuf, sendcounts, sdispls, sendtype);
    ampi_coll_set_v_c(&args.recv, recvbuf, recvcounts, rdispls, recvtype);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}

AMPI_EXPORT(Neighbor_alltoallw)
int PMPI_Neighbor_alltoallw(const void *sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
                            const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],
                            const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm)
{
    static const struct ampi_coll_call call = {"MPI_Neighbor_alltoallw", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_w(&args.send, sendbuf, sendcounts, false, sdispls, true, sendtypes);
    ampi_coll_set_w(&args.recv, recvbuf, recvcounts, false, rdispls, true, recvtypes);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}

AMPI_EXPORT(Neighbor_alltoallw_c)
int PMPI_Neighbor_alltoallw_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                              const MPI_Datatype sendtypes[], void *recvbuf, const MPI_Count recvcounts[],
                              const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm)
{
    static const struct ampi_coll_call call = {"MPI_Neighbor_alltoallw_c", AMPI_COLL_BLOCKING, NULL};
    struct ampi_coll_args args;

    ampi_coll_set_w(&args.send, sendbuf, sendcounts, true, sdispls, true, sendtypes);
    ampi_coll_set_w(&args.recv, recvbuf, recvcounts, true, rdispls, true, recvtypes);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}

AMPI_EXPORT(Ineighbor_alltoallw)
int PMPI_Ineighbor_alltoallw(const void *sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
                             const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],
                             const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                             MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ineighbor_alltoallw", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_w(&args.send, sendbuf, sendcounts, false, sdispls, true, sendtypes);
    ampi_coll_set_w(&args.recv, recvbuf, recvcounts, false, rdispls, true, recvtypes);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}

AMPI_EXPORT(Ineighbor_alltoallw_c)
int PMPI_Ineighbor_alltoallw_c(const void *sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                               const MPI_Datatype sendtypes[], void *recvbuf, const MPI_Count recvcounts[],
                               const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                               MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Ineighbor_alltoallw_c", AMPI_COLL_NONBLOCKING, request};
    struct ampi_coll_args args;

    ampi_coll_set_w(&args.send, sendbuf, sendcounts, true, sdispls, true, sendtypes);
    ampi_coll_set_w(&args.recv, recvbuf, recvcounts, true, rdispls, true, recvtypes);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}

AMPI_EXPORT(Neighbor_alltoallw_init)
int PMPI_Neighbor_alltoallw_init(const void *sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
                                 const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],
                                 const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                                 MPI_Info info, MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Neighbor_alltoallw_init", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_w(&args.send, sendbuf, sendcounts, false, sdispls, true, sendtypes);
    ampi_coll_set_w(&args.recv, recvbuf, recvcounts, false, rdispls, true, recvtypes);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}

AMPI_EXPORT(Neighbor_alltoallw_init_c)
int PMPI_Neighbor_alltoallw_init_c(const void *sendbuf, const MPI_Count sendcounts[],
                                   const MPI_Aint sdispls[], const MPI_Datatype sendtypes[], void *recvbuf,
                                   const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                   const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Info info,
                                   MPI_Request *request)
{
    struct ampi_coll_call call = {"MPI_Neighbor_alltoallw_init_c", ampi_coll_init_form(info), request};
    struct ampi_coll_args args;

    ampi_coll_set_w(&args.send, sendbuf, sendcounts, true, sdispls, true, sendtypes);
    ampi_coll_set_w(&args.recv, recvbuf, recvcounts, true, rdispls, true, recvtypes);
    return ampi_coll_neighbor(&call, comm, &ampi_coll_neighbor_alltoall_plan, &args);
}
