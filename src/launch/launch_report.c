/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Detects whether the program has started ranks. A script, a shell or env passes the number of ranks
 * through the environment to the programs it starts; these may use another MPI and run as one rank each, or
 * there may be none. So each program that is linked with the library reports its start in a datagram to an
 * abstract Unix socket: this leaves no file behind, and the kernel reports the sender's user. Part of
 * mpirun and of mpirun-procs.
 *
 * mpirun asks for reports only if the program is a starter (a script, a shell, an interpreter, a program
 * with an MPI program among its arguments) and several ranks are wanted. A program without MPI runs once
 * per rank, as with other MPIs. A script does not: its commands are unknown, and four copies of a script
 * that starts four ranks each would be 16. Another launcher's processes may be on other nodes, so no
 * reports are asked for there.
 */
#include "launch/launch.h"

#include "base/launched.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int launch_report_open(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint64_t random;
    int yes = 1, fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    char *name = address.sun_path + 1;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        goto err_close;
    int len =
        snprintf(name, sizeof address.sun_path - 1, "heddle-report-%d-%016" PRIx64, (int)getpid(), random);
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) != 0 ||
        bind(fd, (struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)) != 0 ||
        setenv(BASE_LAUNCHED_REPORT_ENV, name, 1) != 0)
        goto err_close;
    return fd;
err_close:
    close(fd);
    return -1;
}

/* The user id of a datagram's sender; -1: unknown. */
static uid_t sender_of(struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL; part = CMSG_NXTHDR(message, part)) {
        struct ucred sender;
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS)
            continue;
        memcpy(&sender, CMSG_DATA(part), sizeof sender);
        return sender.uid;
    }
    return (uid_t)-1;
}

bool launch_report_next(int fd, struct launch_report *report_out)
{
    for (;;) {
        char text[64], control[CMSG_SPACE(sizeof(struct ucred))] __attribute__((aligned(16)));
        struct iovec part = {text, sizeof text - 1};
        struct msghdr message = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        ssize_t len = fd < 0 ? -1 : recvmsg(fd, &message, MSG_DONTWAIT);
        if (len < 0)
            return false;
        text[len] = '\0';
        if (sender_of(&message) == getuid() &&
            sscanf(text, BASE_LAUNCHED_REPORT_FORMAT, &report_out->proc_id, &report_out->num_ranks) == 2)
            return true;
    }
}
