/* SPDX-License-Identifier: BSD-3-Clause */
/* While a rank waits in a system call for data of another rank, or for the other end of a FIFO or of a queue, the others
 * run; with a fortified call, too. A signal that only the call's mask permits ends the call. */
#define _GNU_SOURCE
#ifndef _FORTIFY_SOURCE
#define _FORTIFY_SOURCE 2
#endif
#include "mtest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_BYTES = 6, LARGE = 1 << 20 };
static char fifo[64];
static int queue, semaphores;

/* ---- Calls of rank 0 that wait for a byte; size is unknown to the compiler ---- */

static char buffer[64];
static volatile size_t size = N_BYTES;

static int wait_read(int fd)
{
    return read(fd, buffer, size) == N_BYTES;
}

static int wait_recv(int fd)
{
    return recv(fd, buffer, size, 0) == N_BYTES;
}

static int wait_recv_all(int fd)
{
    return recv(fd, buffer, size, MSG_WAITALL) == N_BYTES;
}

static int wait_recvfrom(int fd)
{
    return recvfrom(fd, buffer, size, 0, NULL, NULL) == N_BYTES;
}

static int wait_recvmmsg(int fd)
{
    struct iovec part = {buffer, size};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};

    return recvmmsg(fd, &message, 1, 0, NULL) == 1 && message.msg_len == N_BYTES;
}

static int wait_poll(int fd)
{
    struct pollfd one[2] = {{.fd = fd, .events = POLLIN}};

    return poll(one, size / N_BYTES, -1) == 1 && wait_read(fd);
}

static int wait_ppoll(int fd)
{
    struct pollfd one[2] = {{.fd = fd, .events = POLLIN}};
    struct timespec limit = {100, 0};

    return ppoll(one, size / N_BYTES, &limit, NULL) == 1 && wait_read(fd);
}

static int wait_select(int fd)
{
    fd_set set;
    struct timeval limit = {100, 0};

    FD_ZERO(&set);
    FD_SET(fd, &set);
    return select(fd + 1, &set, NULL, NULL, &limit) == 1 && FD_ISSET(fd, &set) && limit.tv_sec < 100 &&
           wait_read(fd);
}

static int wait_pselect(int fd)
{
    fd_set set;

    FD_ZERO(&set);
    FD_SET(fd, &set);
    return pselect(fd + 1, &set, NULL, NULL, NULL, NULL) == 1 && FD_ISSET(fd, &set) && wait_read(fd);
}

static int wait_epoll(int fd)
{
    struct epoll_event event = {.events = EPOLLIN}, found;
    int epoll_fd = epoll_create1(0), n;

    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
    n = epoll_pwait(epoll_fd, &found, 1, -1, NULL);
    close(epoll_fd);
    return n == 1 && wait_read(fd);
}

static int (*const waits[])(int fd) = {wait_read, wait_recv,  wait_recv_all, wait_recvfrom, wait_recvmmsg,
                                       wait_poll, wait_ppoll, wait_select,   wait_pselect,  wait_epoll};

/* ---- Calls of rank 0 that need room for a large message ---- */

static char large[LARGE];

static int fill_write(int fd)
{
    return write(fd, large, sizeof large) == LARGE;
}

static int fill_send(int fd)
{
    return send(fd, large, sizeof large, 0) == LARGE;
}

static int fill_sendto(int fd)
{
    return sendto(fd, large, sizeof large, MSG_NOSIGNAL, NULL, 0) == LARGE;
}

static int fill_writev(int fd)
{
    struct iovec parts[] = {{large, 7}, {large + 7, LARGE - 10}, {NULL, 0}, {large + LARGE - 3, 3}};

    return writev(fd, parts, 4) == LARGE;
}

static int fill_sendmsg(int fd)
{
    struct iovec parts[] = {{large, LARGE / 2}, {large + LARGE / 2, LARGE / 2}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

    return sendmsg(fd, &message, 0) == LARGE;
}

static int (*const fills[])(int fd) = {fill_write, fill_send, fill_sendto, fill_writev, fill_sendmsg};

/* ---- Tests of two ranks: rank 1 acts once rank 0 is about to wait, but on one PE not before rank 0 lets it run ---- */

static void let_go(void)
{
    MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD);
}

static void await(void)
{
    MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void test_waits(const int *fds)
{
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
        if (mtest_rank == 0) {
            let_go();
            MTEST_CHECK(waits[i](fds[0]), "waiting call %zu failed", i);
        } else {
            await();
            MTEST_CHECK(write(fds[1], "hello", N_BYTES) == N_BYTES, "write failed");
        }
}

static void test_fills(const int *fds)
{
    static char received[LARGE];

    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++) {
        for (int j = 0; j < LARGE; j++)
            large[j] = (char)(j * 7 + (j >> 8) + (int)i);
        if (mtest_rank == 0) {
            let_go();
            MTEST_CHECK(fills[i](fds[0]), "sending call %zu failed", i);
            continue;
        }
        await();
        MTEST_CHECK(recv(fds[1], received, LARGE, MSG_WAITALL) == LARGE, "sending call %zu: too few bytes",
                    i);
        MTEST_CHECK(memcmp(received, large, LARGE) == 0, "sending call %zu: wrong bytes", i);
    }
}

static void test_fifo(void)
{
    char text[N_BYTES] = "";
    FILE *file;
    int fd;

    for (int way = 0; way < 2; way++) {
        int is_reader = way == mtest_rank;

        if (mtest_rank == 0)
            let_go();
        else
            await();
        if (is_reader) {
            fd = open(fifo, O_RDONLY);
            MTEST_CHECK(read(fd, text, N_BYTES) == N_BYTES, "nothing comes from the FIFO");
            close(fd);
        } else {
            file = fopen(fifo, "w");
            MTEST_CHECK(file && fwrite("hello", 1, N_BYTES, file) == N_BYTES && fclose(file) == 0,
                        "nothing goes into the FIFO");
        }
        MPI_Barrier(MPI_COMM_WORLD); /* the next end must not meet this one */
    }
}

static void test_ipc(void)
{
    struct {
        long type;
        int value;
    } message = {1, 17};
    struct sembuf down = {.sem_op = -1}, up = {.sem_op = 1};

    if (mtest_rank == 0) {
        message.value = 0;
        let_go();
        MTEST_CHECK(msgrcv(queue, &message, sizeof message.value, 1, 0) == sizeof message.value &&
                        message.value == 17,
                    "msgrcv failed");
        MTEST_CHECK(semop(semaphores, &down, 1) == 0, "semop failed");
    } else {
        await();
        MTEST_CHECK(msgsnd(queue, &message, sizeof message.value, 0) == 0, "msgsnd failed");
        MTEST_CHECK(semop(semaphores, &up, 1) == 0, "semop failed");
    }
}

/* A listener whose queue is full lets a rank connect when another one accepts. */
static void test_connect(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    static int listener, connected[3];

    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s", fifo);
    if (mtest_rank == 1) {
        listener = socket(AF_UNIX, SOCK_STREAM, 0);
        MTEST_CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 &&
                        listen(listener, 0) == 0,
                    "cannot listen");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++)
        if (mtest_rank == 0) {
            let_go();
            connected[i] = socket(AF_UNIX, SOCK_STREAM, 0);
            MTEST_CHECK(connect(connected[i], (struct sockaddr *)&address, sizeof address) == 0,
                        "connect failed");
        }
    for (int i = 0; i < 3 && mtest_rank == 1; i++) {
        await();
        close(accept(listener, NULL, NULL));
    }
    for (int i = 0; i < 3; i++)
        if (mtest_rank == 0)
            close(connected[i]);
}

/* A socket's queue of errors is read without waiting. */
static void test_no_wait(void)
{
    int receiver = socket(AF_INET, SOCK_DGRAM, 0);
    struct msghdr message = {0};

    MTEST_CHECK(recvmsg(receiver, &message, MSG_ERRQUEUE) == -1 && errno == EAGAIN,
                "an empty queue of errors is not EAGAIN");
    close(receiver);
}

/* A connect with a time limit ends with an error if nobody accepts in time. */
static void test_connect_limit(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_usec = 1000};
    int listener, connected[2], results[2];

    if (mtest_rank != 0)
        return;
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s-limit", fifo);
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    MTEST_CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 0) == 0,
                "cannot listen");
    for (int i = 0; i < 2; i++) {
        connected[i] = socket(AF_UNIX, SOCK_STREAM, 0);
        setsockopt(connected[i], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        results[i] = connect(connected[i], (struct sockaddr *)&address, sizeof address);
    }
    MTEST_CHECK(results[0] == 0 && results[1] == -1 && errno == EAGAIN,
                "connect returned %d and %d instead of 0 and -1", results[0], results[1]);
    close(connected[0]);
    close(connected[1]);
    close(listener);
}

/* waitid waits for the rank's own child. */
static void test_child(void)
{
    siginfo_t info = {0};
    pid_t pid;

    if (mtest_rank == 0)
        let_go();
    else
        await();
    pid = fork();
    if (pid == 0)
        _exit(10 + mtest_rank);
    MTEST_CHECK(waitid(P_ALL, 0, &info, WEXITED) == 0 && info.si_pid == pid &&
                    info.si_status == 10 + mtest_rank,
                "waitid found child %d with %d, not %d", (int)info.si_pid, info.si_status, (int)pid);
    MTEST_CHECK(waitid(P_ALL, 0, &info, WEXITED) == -1, "waitid found one more child");
}

/* ---- Calls of rank 0 that wait for a signal ---- */

static volatile sig_atomic_t n_signals;

static void count_signal(int number)
{
    (void)number;
    n_signals++;
}

static int signal_ppoll(const sigset_t *mask)
{
    return ppoll(NULL, 0, NULL, mask);
}

static int signal_pselect(const sigset_t *mask)
{
    return pselect(0, NULL, NULL, NULL, NULL, mask);
}

static int signal_epoll(const sigset_t *mask)
{
    struct epoll_event found;
    int epoll_fd = epoll_create1(0), n, error;

    n = epoll_pwait(epoll_fd, &found, 1, -1, mask);
    error = errno;
    close(epoll_fd);
    errno = error;
    return n;
}

static void send_signal(int thread)
{
    syscall(SYS_tgkill, syscall(SYS_getpid), thread, SIGUSR1);
}

/* The signal is blocked outside of the call. It comes before the call or, from rank 1, during it. */
static void test_signal(int (*call)(const sigset_t *mask), int is_early)
{
    int thread = gettid();
    sigset_t blocked, before;

    if (mtest_rank == 1 && !is_early) {
        MPI_Recv(&thread, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        send_signal(thread);
    }
    if (mtest_rank != 0)
        return;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    n_signals = 0;
    if (is_early)
        send_signal(thread);
    else
        MPI_Send(&thread, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    MTEST_CHECK(call(&before) == -1 && errno == EINTR, "the signal did not end the call");
    MTEST_CHECK(n_signals == 1, "%d signals", (int)n_signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static void test_signals(void)
{
    struct sigaction action = {.sa_handler = count_signal};

    if (mtest_rank == 0)
        sigaction(SIGUSR1, &action, NULL);
    for (int is_early = 0; is_early < 2; is_early++) {
        test_signal(signal_ppoll, is_early);
        test_signal(signal_pselect, is_early);
        test_signal(signal_epoll, is_early);
    }
}

int main(int argc, char **argv)
{
    int fds[2] = {-1, -1}, pids[2] = {(int)syscall(SYS_getpid), (int)syscall(SYS_getpid)}, is_one_process;

    mtest_init(&argc, &argv, 2);
    MPI_Bcast(pids, 1, MPI_INT, 0, MPI_COMM_WORLD);
    pids[0] = pids[0] == pids[1];
    MPI_Allreduce(pids, &is_one_process, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!is_one_process) {
        MPI_Finalize();
        return MTEST_SKIP_CODE;
    }
    snprintf(fifo, sizeof fifo, "/tmp/heddle-env-blocking-%d", (int)syscall(SYS_getpid));
    if (mtest_rank == 0) {
        socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
        MTEST_CHECK(mkfifo(fifo, 0600) == 0, "mkfifo failed");
        queue = msgget(IPC_PRIVATE, 0600);
        semaphores = semget(IPC_PRIVATE, 1, 0600);
    }
    MPI_Bcast(fds, 2, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(&queue, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(&semaphores, 1, MPI_INT, 0, MPI_COMM_WORLD);
    test_waits(fds);
    test_fills(fds);
    test_fifo();
    test_ipc();
    test_connect();
    test_connect_limit();
    test_no_wait();
    test_child();
    test_signals();
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == 0) {
        unlink(fifo);
        msgctl(queue, IPC_RMID, NULL);
        semctl(semaphores, 0, IPC_RMID);
    }
    return mtest_end();
}
