/* SPDX-License-Identifier: BSD-3-Clause */
/* Two groups connect at a port, by its name or by a published one; wrong ports, names and time-outs are errors at all
 * ranks of the group; pending messages survive a disconnect. */
#include "mtest.h"

/* All ranks of both groups exchange their world ranks. */
static void check_inter(MPI_Comm inter, int n_remote, int side)
{
    int size, sum = 0, want = 0;

    MTEST_OK(MPI_Comm_remote_size(inter, &size));
    MTEST_CHECK(size == n_remote, "the remote size is %d, not %d", size, n_remote);
    MTEST_OK(MPI_Allreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, inter));
    for (int i = 1 - side; i < mtest_size; i += 2)
        want += i;
    MTEST_CHECK(sum == want, "the sum of the other group is %d, not %d", sum, want);
}

/* Both groups pass the port through a message, then through a published name. */
static void connect_groups(MPI_Comm local, int side)
{
    char port[MPI_MAX_PORT_NAME] = "only the root's port is used";
    int root = 0, n_remote = side ? (mtest_size + 1) / 2 : mtest_size / 2;

    if (mtest_rank == 0) {
        MTEST_OK(MPI_Open_port(MPI_INFO_NULL, port));
        MTEST_OK(MPI_Publish_name("dynamic_ports", MPI_INFO_NULL, port));
        MTEST_CLASS(MPI_Publish_name("dynamic_ports", MPI_INFO_NULL, port), MPI_ERR_SERVICE);
        MTEST_OK(MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 1, 0, MPI_COMM_WORLD));
    }
    for (int round = 0; round < 3; round++) {
        MPI_Comm inter;
        int value = -1;
        if (mtest_rank == 1 && round == 0)
            MTEST_OK(MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (mtest_rank == 1 && round == 1) {
            memset(port, 0, sizeof port);
            MTEST_OK(MPI_Lookup_name("dynamic_ports", MPI_INFO_NULL, port));
        }
        if (side == 0)
            MTEST_OK(MPI_Comm_accept(port, MPI_INFO_NULL, root, local, &inter));
        else
            MTEST_OK(MPI_Comm_connect(port, MPI_INFO_NULL, root, local, &inter));
        check_inter(inter, n_remote, side);
        /* A message that is received after the other side has begun to disconnect. */
        if (mtest_rank == 1)
            MTEST_OK(MPI_Send(&round, 1, MPI_INT, 0, 7, inter));
        if (mtest_rank == 0) {
            MTEST_OK(MPI_Recv(&value, 1, MPI_INT, 0, 7, inter, MPI_STATUS_IGNORE));
            MTEST_CHECK(value == round, "received %d in round %d", value, round);
        }
        MTEST_OK(MPI_Comm_disconnect(&inter));
        MTEST_CHECK(inter == MPI_COMM_NULL, "the handle is not MPI_COMM_NULL");
    }
    if (mtest_rank == 0) {
        MTEST_CLASS(MPI_Unpublish_name("dynamic_ports", MPI_INFO_NULL, "another port"), MPI_ERR_SERVICE);
        MTEST_OK(MPI_Unpublish_name("dynamic_ports", MPI_INFO_NULL, port));
        MTEST_OK(MPI_Close_port(port));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_CLASS(MPI_Comm_connect(port, MPI_INFO_NULL, root, local, &(MPI_Comm){0}), MPI_ERR_PORT);
}

/* Every rank's own port: several clients wait for one server, which accepts all of them. */
static void accept_many(void)
{
    char port[MPI_MAX_PORT_NAME];
    int seen = 0, want = 0;
    MPI_Comm inter;

    if (mtest_rank == 0)
        MTEST_OK(MPI_Open_port(MPI_INFO_NULL, port));
    MTEST_OK(MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD));
    for (int i = 1; i < mtest_size; i++) {
        int value = mtest_rank;
        if (mtest_rank == 0) {
            MTEST_OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
            MTEST_OK(MPI_Recv(&value, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE));
            seen += value;
        } else if (i == 1) {
            MTEST_OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
            MTEST_OK(MPI_Send(&value, 1, MPI_INT, 0, 0, inter));
        }
        if (mtest_rank == 0 || i == 1)
            MTEST_OK(MPI_Comm_disconnect(&inter));
        want += i;
    }
    if (mtest_rank == 0) {
        MTEST_CHECK(seen == want, "the clients' numbers add up to %d, not %d", seen, want);
        MTEST_OK(MPI_Close_port(port));
    }
}

static void fail(MPI_Comm local)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter = MPI_COMM_NULL;
    MPI_Info info;

    MTEST_CLASS(MPI_Lookup_name("nobody published this", MPI_INFO_NULL, port), MPI_ERR_NAME);
    MTEST_CLASS(MPI_Unpublish_name("nobody published this", MPI_INFO_NULL, "port"), MPI_ERR_SERVICE);
    MTEST_CLASS(MPI_Comm_connect("heddle-port:0:0:1234", MPI_INFO_NULL, 0, local, &inter), MPI_ERR_PORT);
    MTEST_CLASS(MPI_Comm_connect("heddle-port:99:0:1234", MPI_INFO_NULL, 0, local, &inter), MPI_ERR_PORT);
    MTEST_CLASS(MPI_Comm_accept("a name of another library", MPI_INFO_NULL, 0, local, &inter), MPI_ERR_PORT);
    MTEST_CLASS(MPI_Close_port("a name of another library"), MPI_ERR_PORT);
    MTEST_CLASS(MPI_Comm_accept(NULL, MPI_INFO_NULL, 0, local, &inter), MPI_ERR_ARG);
    MTEST_CLASS(MPI_Comm_accept(port, MPI_INFO_NULL, 999, local, &inter), MPI_ERR_ROOT);
    MTEST_CLASS(MPI_Open_port(MPI_INFO_NULL, NULL), MPI_ERR_ARG);

    /* Nobody comes within the time; other ranks of the group get the error, too. */
    MTEST_OK(MPI_Open_port(MPI_INFO_NULL, port));
    MTEST_OK(MPI_Info_create(&info));
    MTEST_OK(MPI_Info_set(info, "timeout", "0.01"));
    MTEST_CLASS(MPI_Comm_connect(port, info, 0, local, &inter), MPI_ERR_PORT);
    MTEST_CLASS(MPI_Comm_accept(port, info, 0, local, &inter), MPI_ERR_PORT);
    MTEST_OK(MPI_Info_free(&info));
    MTEST_OK(MPI_Close_port(port));
    MTEST_CHECK(inter == MPI_COMM_NULL, "a failed call has set the handle");
}

int main(int argc, char **argv)
{
    MPI_Comm local;

    mtest_init(&argc, &argv, 2);
    mtest_errors_return(MPI_COMM_WORLD);
    mtest_errors_return(MPI_COMM_SELF);
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, mtest_rank % 2, mtest_rank, &local));
    if (argc > 1) { /* nobody ever connects */
        char port[MPI_MAX_PORT_NAME];
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, local, &local);
    }
    fail(local);
    connect_groups(local, mtest_rank % 2);
    accept_many();
    MTEST_OK(MPI_Comm_free(&local));
    return mtest_end();
}
