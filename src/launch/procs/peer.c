/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ensures that only processes of this user reach the PMIx server. libpmix (4.2 and 5.0) listens on a TCP
 * port of the loopback interface, which every user of the node can connect to. It trusts the user id that
 * the client sends, and reads from a new connection without a timeout on the thread that serves the job. So
 * we ask the kernel for the owner of the other end before libpmix sees a connection: this file defines
 * accept and accept4, which libpmix then calls instead of the C library's (an executable comes first in the
 * order of look-up), and closes connections of other users.
 *
 * The kernel answers on a netlink socket (sock_diag) or, where that is missing, in /proc/self/net/tcp. A
 * connection whose other end is closed already has no owner and is refused, too. If the kernel does not
 * answer at all, all connections are refused.
 *
 * Everything here runs on the thread on which libpmix accepts connections.
 *
 * The namespace of the job is a secret, too (jobdir.c): 128 random bits, in no file name and no command
 * line. A Unix socket between clients and server would be simpler, but clients may have any libpmix, and
 * these know TCP only. libpmix's other way to authenticate (munge) needs a daemon that most machines lack.
 * libpmix makes no upcall before it reads, so no upcall can refuse a connection. If a future libpmix
 * accepts connections in another way, mpirun notices at the first client and ends the job.
 */
#include "launch/procs/mpirun_procs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Attempts to find a connection in /proc/self/net/tcp: entries can be missed if the list changes during the
 * read. */
enum { LIST_ATTEMPTS = 5 };

static atomic_bool is_in_use; /* libpmix calls the functions below */

/* The kernel's answer about the other end of a connection. */
enum owner { OWNER_US, OWNER_OTHER, OWNER_UNKNOWN };

static enum owner owner_of(uid_t uid, unsigned long inode)
{
    return inode != 0 && uid == getuid() ? OWNER_US : OWNER_OTHER;
}

/* ---- sock_diag ---- */

struct question {
    struct nlmsghdr header;
    struct inet_diag_req_v2 request;
};

static bool ask(int netlink, const struct sockaddr_in *from, const struct sockaddr_in *to)
{
    struct question question = {
        .header = {.nlmsg_len = sizeof question,
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST},
        .request = {.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u},
    };
    struct inet_diag_sockid *id = &question.request.id;
    id->idiag_sport = from->sin_port;
    id->idiag_dport = to->sin_port;
    id->idiag_src[0] = from->sin_addr.s_addr;
    id->idiag_dst[0] = to->sin_addr.s_addr;
    id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    return send(netlink, &question, sizeof question, 0) == (ssize_t)sizeof question;
}

static enum owner ask_netlink(const struct sockaddr_in *from, const struct sockaddr_in *to)
{
    union {
        struct nlmsghdr header;
        char bytes[4096];
    } answer;
    enum owner owner = OWNER_UNKNOWN;
    int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (netlink < 0)
        return owner;
    setsockopt(netlink, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = 1}, sizeof(struct timeval));
    ssize_t len = ask(netlink, from, to) ? recv(netlink, &answer, sizeof answer, 0) : -1;
    if (len >= (ssize_t)NLMSG_LENGTH(sizeof(struct inet_diag_msg)) &&
        answer.header.nlmsg_type == SOCK_DIAG_BY_FAMILY) {
        struct inet_diag_msg found;
        memcpy(&found, NLMSG_DATA(&answer.header), sizeof found);
        if (found.id.idiag_sport == from->sin_port && found.id.idiag_dport == to->sin_port)
            owner = owner_of(found.idiag_uid, found.idiag_inode);
    }
    close(netlink);
    return owner;
}

/* ---- /proc/self/net/tcp ---- */

static enum owner search_list(const struct sockaddr_in *from, const struct sockaddr_in *to)
{
    enum owner owner = OWNER_UNKNOWN;
    char line[512];
    FILE *list = fopen("/proc/self/net/tcp", "re");
    if (list == NULL)
        return owner;
    while (owner == OWNER_UNKNOWN && fgets(line, sizeof line, list) != NULL) {
        uint32_t local, remote, uid;
        uint16_t local_port, remote_port;
        unsigned long inode;
        if (sscanf(line,
                   " %*d: %" SCNx32 ":%" SCNx16 " %" SCNx32 ":%" SCNx16 " %*x %*x:%*x %*x:%*x %*x %" SCNu32
                   " %*d %lu",
                   &local, &local_port, &remote, &remote_port, &uid, &inode) == 6 &&
            local == from->sin_addr.s_addr && local_port == ntohs(from->sin_port) &&
            remote == to->sin_addr.s_addr && remote_port == ntohs(to->sin_port))
            owner = owner_of(uid, inode);
    }
    fclose(list);
    return owner;
}

/* ---- accept ---- */

/* True if the other end of this connection is a process of this user. */
static bool is_own(int fd)
{
    struct sockaddr_in peer, self;
    socklen_t peer_len = sizeof peer, self_len = sizeof self;
    if (getpeername(fd, (struct sockaddr *)&peer, &peer_len) != 0 ||
        getsockname(fd, (struct sockaddr *)&self, &self_len) != 0 || peer.sin_family != AF_INET ||
        self.sin_family != AF_INET)
        return false;
    enum owner owner = ask_netlink(&peer, &self);
    for (int i = 0; i < LIST_ATTEMPTS && owner == OWNER_UNKNOWN; i++)
        owner = search_list(&peer, &self);
    return owner == OWNER_US;
}

static void say_refusal(void)
{
    static bool is_said;
    if (!is_said)
        launch_say("a connection to this job was refused: the kernel does not report it as this user's "
                   "(another user of this node may be trying to get in)");
    is_said = true;
}

/* Like accept4, for connections of this user only. For others it fails with EAGAIN, which libpmix takes for
 * "no connection". */
EXPORT int accept4(int fd, struct sockaddr *addr, socklen_t *addr_len, int flags)
{
    atomic_store(&is_in_use, true);
    int accepted = (int)syscall(SYS_accept4, fd, addr, addr_len, flags | SOCK_CLOEXEC);
    if (accepted < 0 || is_own(accepted))
        return accepted;
    close(accepted);
    say_refusal();
    errno = EAGAIN;
    return -1;
}

EXPORT int accept(int fd, struct sockaddr *addr, socklen_t *addr_len)
{
    return accept4(fd, addr, addr_len, 0);
}

bool procs_peer_is_checked(void)
{
    return atomic_load(&is_in_use);
}
