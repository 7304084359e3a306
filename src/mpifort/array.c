/* SPDX-License-Identifier: BSD-3-Clause
 *
 * array.c: arrays of handles and of LOGICAL, converted element by element; and array lengths that other
 * arguments do not give. Called by the generated entry points.
 */
#include "fort.h"

#include <stdio.h>

void *fort_alloc(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);

    if (!memory) {
        fprintf(stderr, "MPI for Fortran: out of memory: cannot allocate %zu bytes\n", bytes);
        PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
        abort();
    }
    return memory;
}

/* An array for n elements: few, if it is not NULL and large enough. MPI itself rejects a negative n. */
static void *room(MPI_Count n, size_t bytes, void *few)
{
    return few && n <= FORT_FEW ? few : fort_alloc(n < 0 ? 0 : (size_t)n * bytes);
}

MPI_Request *fort_requests_in(const MPI_Fint *ints, MPI_Count n, MPI_Request few[FORT_FEW])
{
    MPI_Request *requests = room(n, sizeof *requests, few);

    for (MPI_Count i = 0; i < n; i++)
        requests[i] = fort_request(ints[i]);
    return requests;
}

void fort_requests_out(MPI_Request *requests, MPI_Count n, MPI_Fint *ints, MPI_Request few[FORT_FEW],
                       uint64_t last_pending)
{
    for (MPI_Count i = 0; i < n; i++)
        fort_request_out(&ints[i], requests[i], last_pending);
    fort_requests_drop(requests, few);
}

void fort_requests_drop(MPI_Request *requests, MPI_Request few[FORT_FEW])
{
    if (requests != few)
        free(requests);
}

MPI_Datatype *fort_datatypes_in(const MPI_Fint *ints, MPI_Count n, MPI_Datatype few[FORT_FEW])
{
    MPI_Datatype *datatypes = room(n, sizeof *datatypes, few);

    for (MPI_Count i = 0; i < n; i++)
        datatypes[i] = fort_datatype(ints[i]);
    return datatypes;
}

MPI_Datatype *fort_datatypes_new(MPI_Count n, MPI_Datatype few[FORT_FEW])
{
    MPI_Datatype *datatypes = room(n, sizeof *datatypes, few);

    for (MPI_Count i = 0; i < n; i++)
        datatypes[i] = MPI_DATATYPE_NULL;
    return datatypes;
}

void fort_datatypes_out(MPI_Datatype *datatypes, MPI_Count n, MPI_Fint *ints, MPI_Datatype few[FORT_FEW])
{
    for (MPI_Count i = 0; i < n; i++)
        if (datatypes[i] != MPI_DATATYPE_NULL)
            ints[i] = fort_datatype_int(datatypes[i]);
    fort_datatypes_drop(datatypes, few);
}

void fort_datatypes_drop(MPI_Datatype *datatypes, MPI_Datatype few[FORT_FEW])
{
    if (datatypes != few)
        free(datatypes);
}

int *fort_logicals_in(const MPI_Fint *logicals, MPI_Count n, int few[FORT_FEW])
{
    int *values = room(n, sizeof *values, few);

    for (MPI_Count i = 0; i < n; i++)
        values[i] = logicals[i] != 0;
    return values;
}

void fort_logicals_out(MPI_Fint *logicals, MPI_Count n)
{
    for (MPI_Count i = 0; i < n; i++)
        logicals[i] = fort_logical(logicals[i]);
}

void fort_logicals_drop(int *values, int few[FORT_FEW])
{
    if (values != few)
        free(values);
}

/* ---- Lengths ---- */

/* True if the communicator can be queried without raising an error. The call itself reports invalid ones. */
static bool is_comm(MPI_Comm comm)
{
    return comm != MPI_COMM_NULL &&
           ((uintptr_t)comm >= FORT_PREDEFINED_END || comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF);
}

int fort_peers(MPI_Comm comm)
{
    int is_inter = 0, size = 0;

    if (!is_comm(comm) || PMPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS)
        return 0;
    if ((is_inter ? PMPI_Comm_remote_size(comm, &size) : PMPI_Comm_size(comm, &size)) != MPI_SUCCESS)
        return 0;
    return size;
}

/* Number of the caller's neighbors in the communicator's topology, incoming or (is_out) outgoing. */
static int degree(MPI_Comm comm, bool is_out)
{
    int topology = MPI_UNDEFINED, in = 0, out = 0, is_weighted, rank;

    if (!is_comm(comm) || PMPI_Topo_test(comm, &topology) != MPI_SUCCESS)
        return 0;
    if (topology == MPI_CART)
        return 2 * fort_cart_dims(comm);
    if (topology == MPI_GRAPH && PMPI_Comm_rank(comm, &rank) == MPI_SUCCESS &&
        PMPI_Graph_neighbors_count(comm, rank, &out) == MPI_SUCCESS)
        return out;
    if (topology == MPI_DIST_GRAPH &&
        PMPI_Dist_graph_neighbors_count(comm, &in, &out, &is_weighted) == MPI_SUCCESS)
        return is_out ? out : in;
    return 0;
}

int fort_indegree(MPI_Comm comm)
{
    return degree(comm, false);
}

int fort_outdegree(MPI_Comm comm)
{
    return degree(comm, true);
}

int fort_cart_dims(MPI_Comm comm)
{
    int topology = MPI_UNDEFINED, n_dims = 0;

    if (!is_comm(comm) || PMPI_Topo_test(comm, &topology) != MPI_SUCCESS || topology != MPI_CART)
        return 0;
    return PMPI_Cartdim_get(comm, &n_dims) == MPI_SUCCESS ? n_dims : 0;
}
