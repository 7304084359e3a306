/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_ipc.c: lets other ranks run while a call waits for a message queue or a semaphore set of the system. The other end
 * may be a rank of the same PE. On Linux the descriptor of a POSIX queue can be polled.
 */
#include "image/libc/rebind.h"

#include <errno.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <mqueue.h>

/* ---- System V ---- */

static ssize_t image_libc_msgrcv(int queue, void *message, size_t size_bytes, long type, int flags)
{
    struct image_wait wait = {0};
    ssize_t received;

    if ((flags & IPC_NOWAIT) || !image_can_wait())
        return msgrcv(queue, message, size_bytes, type, flags);
    while ((received = msgrcv(queue, message, size_bytes, type, flags | IPC_NOWAIT)) < 0 && errno == ENOMSG) {
        image_cancel_point();
        image_wait_pause(&wait);
        if (image_wait_is_interrupted(&wait, false))
            break;
    }
    return received;
}
IMAGE_REBINDS(image_libc_msgrcv, "msgrcv");

static int image_libc_msgsnd(int queue, const void *message, size_t size_bytes, int flags)
{
    struct image_wait wait = {0};
    int result;

    if ((flags & IPC_NOWAIT) || !image_can_wait())
        return msgsnd(queue, message, size_bytes, flags);
    while ((result = msgsnd(queue, message, size_bytes, flags | IPC_NOWAIT)) < 0 && errno == EAGAIN) {
        image_cancel_point();
        image_wait_pause(&wait);
        if (image_wait_is_interrupted(&wait, false))
            break;
    }
    return result;
}
IMAGE_REBINDS(image_libc_msgsnd, "msgsnd");

enum { SEMAPHORES_MAX = 500 }; /* SEMOPM of Linux */

/* With an IPC_NOWAIT of the program's in one of the operations, the C library decides. */
static int image_libc_semop(int set, struct sembuf *operations, size_t n_operations)
{
    struct sembuf now[SEMAPHORES_MAX];
    struct image_wait wait = {0};
    bool is_asking = false;
    int result;

    for (size_t i = 0; i < n_operations && n_operations <= SEMAPHORES_MAX; i++) {
        now[i] = operations[i];
        now[i].sem_flg |= IPC_NOWAIT;
        is_asking |= (operations[i].sem_flg & IPC_NOWAIT) != 0;
    }
    if (is_asking || n_operations > SEMAPHORES_MAX || !image_can_wait())
        return semop(set, operations, n_operations);
    while ((result = semop(set, now, n_operations)) < 0 && errno == EAGAIN) {
        image_wait_pause(&wait);
        if (image_wait_is_interrupted(&wait, false))
            break;
    }
    return result;
}
IMAGE_REBINDS(image_libc_semop, "semop");

/* ---- POSIX ---- */

static ssize_t image_libc_mq_receive(mqd_t queue, char *message, size_t size_bytes, unsigned *priority_out)
{
    return image_wait_until_ready(queue, POLLIN, "mq_receive")
               ? mq_receive(queue, message, size_bytes, priority_out)
               : -1;
}
IMAGE_REBINDS(image_libc_mq_receive, "mq_receive");

static int image_libc_mq_send(mqd_t queue, const char *message, size_t size_bytes, unsigned priority)
{
    return image_wait_until_ready(queue, POLLOUT, "mq_send") ? mq_send(queue, message, size_bytes, priority)
                                                             : -1;
}
IMAGE_REBINDS(image_libc_mq_send, "mq_send");
