/* SPDX-License-Identifier: BSD-3-Clause
 *
 * topo_cart.c: the MPI functions on grids (MPI 5.0, sections 8.5.1 and 8.5.5 to 8.5.8).
 */
#include "ampi/create/comm_create.h"
#include "base/log.h"

static int raise_null(struct ampi_comm *comm, const char *argument)
{
    return ampi_raise(comm, MPI_ERR_ARG, "%s is NULL", argument);
}

/* The communicator and its grid; raises MPI_ERR_COMM or MPI_ERR_TOPOLOGY. */
static int look_up(struct ampi_rank *self, MPI_Comm handle, struct ampi_comm **comm_out,
                   const struct ampi_topo_cart **cart_out)
{
    struct ampi_comm *comm = ampi_comm_of(self, handle);

    if (!comm)
        return ampi_comm_raise_invalid(handle);
    if (!comm->shared->topo || comm->shared->topo->kind != MPI_CART)
        return ampi_raise(comm, MPI_ERR_TOPOLOGY, "the communicator has no Cartesian topology");
    *comm_out = comm;
    *cart_out = &comm->shared->topo->u.cart;
    return MPI_SUCCESS;
}

/* Checks a grid for a communicator, and counts its points. */
static int check_grid(struct ampi_comm *comm, int ndims, const int *dims, const int *periods, int *size_out)
{
    int size;

    if (comm->shared->is_inter)
        return ampi_raise(comm, MPI_ERR_COMM, "the communicator is an intercommunicator");
    if (ndims < 0)
        return ampi_raise(comm, MPI_ERR_DIMS, "ndims is %d", ndims);
    if (ndims > 0 && (!dims || !periods))
        return raise_null(comm, dims ? "periods" : "dims");
    for (int i = 0; i < ndims; i++) {
        if (dims[i] <= 0)
            return ampi_raise(comm, MPI_ERR_DIMS, "dims[%d] is %d", i, dims[i]);
    }
    size = ampi_cart_size(ndims, dims);
    if (size < 0 || size > comm->local->n_ranks)
        return ampi_raise(comm, MPI_ERR_ARG, "the grid has more points than the communicator's size, %d",
                          comm->local->n_ranks);
    *size_out = size;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Cart_create);
int PMPI_Cart_create(MPI_Comm comm_old, int ndims, const int dims[], const int periods[], int reorder,
                     MPI_Comm *comm_cart)
{
    struct ampi_comm *old = ampi_comm_of(ampi_enter("MPI_Cart_create"), comm_old);
    struct ampi_topo *topo;
    bool is_in;
    int size = 0;
    int error;

    (void)reorder;
    if (!old)
        return ampi_comm_raise_invalid(comm_old);
    error = check_grid(old, ndims, dims, periods, &size);
    if (error)
        return error;
    if (!comm_cart)
        return raise_null(old, "comm_cart");
    is_in = old->rank < size;
    topo = is_in ? ampi_topo_create_cart(ndims, dims, periods) : NULL;
    return ampi_comm_create_split(old, is_in ? 0 : MPI_UNDEFINED, old->rank, topo, NULL, comm_cart);
}

AMPI_EXPORT(Cart_map);
int PMPI_Cart_map(MPI_Comm comm, int ndims, const int dims[], const int periods[], int *newrank)
{
    struct ampi_comm *object = ampi_comm_of(ampi_enter("MPI_Cart_map"), comm);
    int size = 0;
    int error;

    if (!object)
        return ampi_comm_raise_invalid(comm);
    error = check_grid(object, ndims, dims, periods, &size);
    if (error)
        return error;
    if (!newrank)
        return raise_null(object, "newrank");
    *newrank = object->rank < size ? object->rank : MPI_UNDEFINED;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Cartdim_get);
int PMPI_Cartdim_get(MPI_Comm comm, int *ndims)
{
    const struct ampi_topo_cart *cart = NULL;
    struct ampi_comm *object = NULL;
    int error = look_up(ampi_enter("MPI_Cartdim_get"), comm, &object, &cart);

    if (error)
        return error;
    if (!ndims)
        return raise_null(object, "ndims");
    *ndims = cart->n_dims;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Cart_get);
int PMPI_Cart_get(MPI_Comm comm, int maxdims, int dims[], int periods[], int coords[])
{
    const struct ampi_topo_cart *cart = NULL;
    struct ampi_comm *object = NULL;
    int error = look_up(ampi_enter("MPI_Cart_get"), comm, &object, &cart);

    if (error)
        return error;
    if (maxdims < cart->n_dims)
        return ampi_raise(object, MPI_ERR_ARG, "maxdims is %d, but the grid has %d dimensions", maxdims,
                          cart->n_dims);
    if (cart->n_dims > 0 && (!dims || !periods || !coords))
        return raise_null(object, !dims ? "dims" : periods ? "coords" : "periods");
    for (int i = 0; i < cart->n_dims; i++) {
        dims[i] = cart->dims[i];
        periods[i] = cart->periods[i];
    }
    ampi_cart_coords(cart, object->rank, coords);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Cart_rank);
int PMPI_Cart_rank(MPI_Comm comm, const int coords[], int *rank)
{
    const struct ampi_topo_cart *cart = NULL;
    struct ampi_comm *object = NULL;
    int error = look_up(ampi_enter("MPI_Cart_rank"), comm, &object, &cart);
    int found;

    if (error)
        return error;
    if (!rank || (cart->n_dims > 0 && !coords))
        return raise_null(object, rank ? "coords" : "rank");
    found = ampi_cart_rank(cart, coords);
    if (found == MPI_PROC_NULL)
        return ampi_raise(object, MPI_ERR_ARG,
                          "the coordinates are outside the grid, which is not periodic there");
    *rank = found;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Cart_coords);
int PMPI_Cart_coords(MPI_Comm comm, int rank, int maxdims, int coords[])
{
    const struct ampi_topo_cart *cart = NULL;
    struct ampi_comm *object = NULL;
    int error = look_up(ampi_enter("MPI_Cart_coords"), comm, &object, &cart);

    if (error)
        return error;
    if (rank < 0 || rank >= object->local->n_ranks)
        return ampi_raise(object, MPI_ERR_RANK, "the rank is %d, but the communicator's size is %d", rank,
                          object->local->n_ranks);
    if (maxdims < cart->n_dims)
        return ampi_raise(object, MPI_ERR_ARG, "maxdims is %d, but the grid has %d dimensions", maxdims,
                          cart->n_dims);
    if (cart->n_dims > 0 && !coords)
        return raise_null(object, "coords");
    ampi_cart_coords(cart, rank, coords);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Cart_shift);
int PMPI_Cart_shift(MPI_Comm comm, int direction, int disp, int *rank_source, int *rank_dest)
{
    const struct ampi_topo_cart *cart = NULL;
    struct ampi_comm *object = NULL;
    int error = look_up(ampi_enter("MPI_Cart_shift"), comm, &object, &cart);

    if (error)
        return error;
    if (direction < 0 || direction >= cart->n_dims)
        return ampi_raise(object, MPI_ERR_DIMS, "direction is %d, but the grid has %d dimensions", direction,
                          cart->n_dims);
    if (!rank_source || !rank_dest)
        return raise_null(object, rank_source ? "rank_dest" : "rank_source");
    *rank_source = ampi_cart_neighbor(cart, object->rank, direction, -disp);
    *rank_dest = ampi_cart_neighbor(cart, object->rank, direction, disp);
    return MPI_SUCCESS;
}

/* The grid of the remaining dimensions; outputs which of the grids is the caller's (color) and its rank
 * there (key). */
static struct ampi_topo *sub_grid(const struct ampi_comm *comm, const struct ampi_topo_cart *cart,
                                  const int *remain_dims, int *color_out, int *key_out)
{
    size_t n_bytes = ((size_t)cart->n_dims + 1) * sizeof(int);
    int *coords = base_malloc(n_bytes, "a grid");
    int *dims = base_malloc(n_bytes, "a grid");
    int *periods = base_malloc(n_bytes, "a grid");
    struct ampi_topo *topo;
    int n_dims = 0, color = 0, key = 0;

    ampi_cart_coords(cart, comm->rank, coords);
    for (int i = 0; i < cart->n_dims; i++) {
        if (remain_dims[i]) {
            key = key * cart->dims[i] + coords[i];
            dims[n_dims] = cart->dims[i];
            periods[n_dims++] = cart->periods[i];
        } else {
            color = color * cart->dims[i] + coords[i];
        }
    }
    topo = ampi_topo_create_cart(n_dims, dims, periods);
    free(coords);
    free(dims);
    free(periods);
    *color_out = color;
    *key_out = key;
    return topo;
}

AMPI_EXPORT(Cart_sub);
int PMPI_Cart_sub(MPI_Comm comm, const int remain_dims[], MPI_Comm *newcomm)
{
    const struct ampi_topo_cart *cart = NULL;
    struct ampi_comm *object = NULL;
    int error = look_up(ampi_enter("MPI_Cart_sub"), comm, &object, &cart);
    struct ampi_topo *topo;
    int color, key;

    if (error)
        return error;
    if (!newcomm || (cart->n_dims > 0 && !remain_dims))
        return raise_null(object, newcomm ? "remain_dims" : "newcomm");
    topo = sub_grid(object, cart, remain_dims, &color, &key);
    return ampi_comm_create_split(object, color, key, topo, NULL, newcomm);
}
