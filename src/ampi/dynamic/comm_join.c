/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_join.c: MPI_Comm_join: two ranks that share a socket create an intercommunicator (MPI 5.0, section 12.10.6).
 *
 * Each rank opens a port and sends its name through the socket, in a block of fixed size. Then it sends one byte:
 * whether the other's port belongs to this job, or its universe. If both ports do, the rank with the lower name
 * accepts at its port, and the other one connects there. A name cannot be guessed, so a side that knows one has got
 * it through the socket. Ranks of jobs that cannot connect get MPI_COMM_NULL. The socket is empty again afterwards,
 * and its flags are unchanged.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "ampi/create/comm_create.h"
#include "ampi/dynamic/registry.h"
#include "base/log.h"

/* Interval at which a rank polls the socket, in ns: first and at most. Other ranks run meanwhile. */
#define LOOK_NS_MIN 20000
#define LOOK_NS_MAX 2000000

struct block {
    char mark[16]; /* "heddle join" */
    char port[MPI_MAX_PORT_NAME];
};

/* Sends or receives all bytes; returns 0, or errno. EPIPE: the other side has closed the socket. May switch. */
static int transfer(int fd, bool is_send, void *bytes, size_t n_bytes)
{
    uint64_t pause_ns = LOOK_NS_MIN;
    size_t done = 0;

    while (done < n_bytes) {
        char *at = (char *)bytes + done;
        ssize_t n = is_send ? send(fd, at, n_bytes - done, MSG_DONTWAIT | MSG_NOSIGNAL)
                            : recv(fd, at, n_bytes - done, MSG_DONTWAIT);
        if (n > 0) {
            done += (size_t)n;
            pause_ns = LOOK_NS_MIN;
        } else if (n == 0) {
            return EPIPE;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            ult_sleep_ns(pause_ns);
            pause_ns = 2 * pause_ns < LOOK_NS_MAX ? 2 * pause_ns : LOOK_NS_MAX;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

static int exchange(int fd, void *own, void *other, size_t n_bytes)
{
    int error = transfer(fd, true, own, n_bytes);

    return error ? error : transfer(fd, false, other, n_bytes);
}

/* State of a call; ranks may have small stacks. */
struct joining {
    struct block own;
    struct block other;
    struct ampi_registry_call call;
};

/* Gets the other side's port. *is_joined_out: both sides can connect. Returns 0, or errno. */
static int introduce(int fd, struct joining *state, bool *is_joined_out)
{
    char is_own_right, is_other_right = 0;
    int error = exchange(fd, &state->own, &state->other, sizeof state->own);

    if (error)
        return error;
    state->other.port[sizeof state->other.port - 1] = '\0';
    state->call = (struct ampi_registry_call){.op = AMPI_REGISTRY_CHECK, .port = state->other.port};
    is_own_right = memcmp(state->own.mark, state->other.mark, sizeof state->own.mark) == 0 &&
                   strcmp(state->own.port, state->other.port) != 0 &&
                   ampi_registry_run(&state->call) == MPI_SUCCESS;
    error = exchange(fd, &is_own_right, &is_other_right, 1);
    *is_joined_out = is_own_right && is_other_right == 1;
    return error;
}

static int join(struct ampi_comm *self, int fd, struct joining *state, MPI_Comm *intercomm)
{
    struct ampi_registry_call *call = &state->call;
    struct ampi_comm_leader leader = {.rank = 0};
    struct ampi_comm *made;
    bool is_joined = false, is_waiting;
    int error = introduce(fd, state, &is_joined);

    *intercomm = MPI_COMM_NULL;
    if (error)
        return ampi_raise_self(MPI_ERR_OTHER, "descriptor %d: %s", fd, strerror(error));
    if (!is_joined)
        return MPI_SUCCESS;
    *call = (struct ampi_registry_call){.op = AMPI_REGISTRY_ACCEPT, .port = state->own.port, .timeout_s = -1};
    if (strcmp(state->own.port, state->other.port) > 0) {
        call->op = AMPI_REGISTRY_CONNECT;
        call->port = state->other.port;
    }
    is_waiting = ampi_registry_begin_wait(AMPI_REGISTRY_CONNECT, state->other.port);
    leader.error = ampi_registry_run(call);
    leader.key = (struct ampi_meet){.function = "comm_join", .stringtag = call->answer};
    leader.remote_world_rank = call->peer_world_rank;
    error = ampi_comm_create_inter(self, &leader, &made);
    ampi_registry_end_wait(is_waiting);
    return error ? ampi_comm_raise_creation(self, error) : ampi_comm_adopt(self, made, false, intercomm);
}

AMPI_EXPORT(Comm_join);
int PMPI_Comm_join(int fd, MPI_Comm *intercomm)
{
    struct ampi_comm *self = ampi_comm_self(ampi_enter("MPI_Comm_join"));
    struct joining *state;
    int error;

    if (!intercomm)
        return ampi_raise_self(MPI_ERR_ARG, "intercomm is NULL");
    state = base_calloc(1, sizeof *state, "MPI_Comm_join");
    memcpy(state->own.mark, "heddle join", sizeof "heddle join");
    if (!ampi_registry_open_port(state->own.port)) {
        free(state);
        return ampi_raise_self(MPI_ERR_OTHER, "the kernel gives no random number: %s", strerror(errno));
    }
    error = join(self, fd, state, intercomm);
    state->call = (struct ampi_registry_call){.op = AMPI_REGISTRY_CLOSE, .port = state->own.port};
    ampi_registry_run(&state->call);
    free(state);
    return error;
}
