/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Comm_join makes an intercommunicator of two ranks that share a socket; if the other side is not a rank of the
 * job, MPI_COMM_NULL; a closed socket is an error. */
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mtest.h"

/* A socket between the two ranks, over the loopback interface. */
static int make_socket(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int listener, fd;

    if (mtest_rank == 0) {
        listener = socket(AF_INET, SOCK_STREAM, 0);
        MTEST_CHECK(bind(listener, (struct sockaddr *)&address, len) == 0, "bind");
        MTEST_CHECK(listen(listener, 1) == 0, "listen");
        getsockname(listener, (struct sockaddr *)&address, &len);
        MTEST_OK(MPI_Send(&address, sizeof address, MPI_BYTE, 1, 0, MPI_COMM_WORLD));
        fd = accept(listener, NULL, NULL);
        close(listener);
    } else {
        MTEST_OK(MPI_Recv(&address, sizeof address, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        fd = socket(AF_INET, SOCK_STREAM, 0);
        MTEST_CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    }
    MTEST_CHECK(fd >= 0, "no socket");
    return fd;
}

/* Sends back what it receives: not a rank of the job. */
static void *echo(void *arg)
{
    int fd = *(int *)arg;
    char bytes[4096];
    ssize_t n;

    while ((n = read(fd, bytes, sizeof bytes)) > 0)
        if (write(fd, bytes, (size_t)n) != n)
            break;
    return NULL;
}

static void join_no_rank(void)
{
    MPI_Comm inter = MPI_COMM_WORLD;
    pthread_t thread;
    int fds[2];

    MTEST_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "socketpair");
    MTEST_CHECK(pthread_create(&thread, NULL, echo, &fds[1]) == 0, "pthread_create");
    MTEST_OK(MPI_Comm_join(fds[0], &inter));
    MTEST_CHECK(inter == MPI_COMM_NULL, "joined with an echo");
    shutdown(fds[0], SHUT_RDWR);
    pthread_join(thread, NULL);
    MTEST_CLASS(MPI_Comm_join(fds[0], &inter), MPI_ERR_OTHER);
    close(fds[0]);
    close(fds[1]);
    MTEST_CLASS(MPI_Comm_join(-1, &inter), MPI_ERR_OTHER);
}

int main(int argc, char **argv)
{
    MPI_Comm inter;
    int size, flag, value = -1;

    mtest_init(&argc, &argv, 2);
    mtest_errors_return(MPI_COMM_SELF);
    if (mtest_rank < 2) {
        int fd = make_socket();
        for (int round = 0; round < 2; round++) {
            MTEST_OK(MPI_Comm_join(fd, &inter));
            MTEST_OK(MPI_Comm_test_inter(inter, &flag));
            MTEST_OK(MPI_Comm_remote_size(inter, &size));
            MTEST_CHECK(flag && size == 1, "not an intercommunicator of two ranks");
            MTEST_OK(MPI_Sendrecv(&mtest_rank, 1, MPI_INT, 0, 0, &value, 1, MPI_INT, 0, 0, inter,
                                  MPI_STATUS_IGNORE));
            MTEST_CHECK(value == 1 - mtest_rank, "the other rank is %d", value);
            MTEST_OK(MPI_Comm_disconnect(&inter));
        }
        MTEST_CHECK(!(fcntl(fd, F_GETFL) & O_NONBLOCK), "the socket has become nonblocking");
        close(fd);
    }
    join_no_rank();
    return mtest_end();
}
