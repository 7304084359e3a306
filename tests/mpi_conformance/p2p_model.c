/* SPDX-License-Identifier: BSD-3-Clause */
/* A random program of persistent and ordinary sends and receives has the results that a model of MPI's matching predicts:
 * all modes, wildcards, probes, matched probes, truncation, cancelled, freed and restarted requests, freed communicators.
 * Every rank makes the same random choices and keeps the same model; in each step one rank acts.
 *
 * Only the left neighbor sends the tags for which receives have wildcard sources, so there is one right result.
 *
 * usage: p2p_model [seed [steps]]
 */
#include "p2p_model.h"

/* ---- The program ---- */

static MPI_Datatype type_of(const struct op *op)
{
    return op->is_spread ? spread : MPI_INT;
}

static void fill(struct op *op)
{
    op->value = ++n_values * 10;
    for (int i = 0; is_mine(op) && i < op->len; i++)
        op->buffer->data[i << op->is_spread] = op->value + i;
}

static void clear(const struct op *op)
{
    for (int i = 0; i < 2 * LONGEST; i++)
        op->buffer->data[i] = -1;
}

static struct buffer *take_buffer(void)
{
    struct buffer *buffer = unused;

    if (buffer)
        unused = buffer->next;
    return buffer ? buffer : mtest_alloc(sizeof *buffer);
}

static void give_buffer(struct op *op, struct buffer **list)
{
    if (op->buffer) {
        op->buffer->next = *list;
        *list = op->buffer;
    }
    op->buffer = NULL;
}

static void free_buffers(struct buffer *list)
{
    while (list) {
        struct buffer *next = list->next;
        free(list);
        list = next;
    }
}

static int new_op(void)
{
    static const int lens[] = {0, 1, 2, 2, 2, 2, 40, 68, 69, 300, 1024, 2048, 2049, 4096, 4097, LONGEST};
    int at = 0, kind = pick(6);
    struct op *op;

    while (at < OPS_MAX && ops[at].state != FREE)
        at++;
    if (at == OPS_MAX)
        return -1;
    op = &ops[at];
    *op = (struct op){
        .state = INACTIVE, .is_persistent = pick(6) != 0, .is_send = pick(2), .owner = pick(mtest_size)};
    op->handle = comms[pick(4) ? 0 : pick(COMMS)];
    for (int i = 0; i < COMMS; i++)
        if (comms[i] == op->handle)
            op->comm = comm_number[i];
    op->is_sync = op->is_send && pick(4) == 0;
    op->is_buffered = op->is_send && !op->is_sync && pick(4) == 0;
    op->peer = pick(4) ? (op->owner + (op->is_send ? 1 : mtest_size - 1)) % mtest_size : pick(mtest_size);
    op->tag = op->peer == (op->owner + (op->is_send ? 1 : mtest_size - 1)) % mtest_size ? pick(2) * pick(3)
                                                                                        : 2 + pick(2);
    if (!op->is_send && kind == 0)
        op->tag = MPI_ANY_TAG;
    if (!op->is_send && kind == 1 && op->tag < 2)
        op->peer = MPI_ANY_SOURCE;
    op->len = lens[pick(16)];
    if (!op->is_send && pick(8) != 0)
        op->len = LONGEST; /* else perhaps too short */
    op->is_spread = pick(4) == 0;
    if (is_mine(op)) {
        op->buffer = take_buffer();
        clear(op);
    }
    return at;
}

static void init_persistent(struct op *op)
{
    if (!is_mine(op))
        return;
    if (!op->is_send)
        MTEST_OK(MPI_Recv_init(op->buffer->data, op->len, type_of(op), op->peer, op->tag, op->handle,
                               &op->request));
    else if (op->is_buffered)
        MTEST_OK(MPI_Bsend_init(op->buffer->data, op->len, type_of(op), op->peer, op->tag, op->handle,
                                &op->request));
    else if (op->is_sync)
        MTEST_OK(MPI_Ssend_init(op->buffer->data, op->len, type_of(op), op->peer, op->tag, op->handle,
                                &op->request));
    else
        MTEST_OK(MPI_Send_init(op->buffer->data, op->len, type_of(op), op->peer, op->tag, op->handle,
                               &op->request));
}

static void start_ordinary(struct op *op)
{
    if (!is_mine(op))
        return;
    if (!op->is_send)
        MTEST_OK(
            MPI_Irecv(op->buffer->data, op->len, type_of(op), op->peer, op->tag, op->handle, &op->request));
    else if (op->is_sync)
        MTEST_OK(
            MPI_Issend(op->buffer->data, op->len, type_of(op), op->peer, op->tag, op->handle, &op->request));
    else
        MTEST_OK(
            MPI_Isend(op->buffer->data, op->len, type_of(op), op->peer, op->tag, op->handle, &op->request));
}

/* The ints that a receive gets. */
static int arriving(const struct op *op)
{
    return op->got_len < op->len ? op->got_len : op->len;
}

static void check_received(const struct op *op, const MPI_Status *status)
{
    int count = -1, n = arriving(op);

    MPI_Get_count(status, type_of(op), &count);
    MTEST_CHECK(status->MPI_SOURCE == op->from && status->MPI_TAG == op->got_tag && count == n,
                "receive %d: source %d, tag %d, count %d; expected %d, %d, %d", (int)(op - ops),
                status->MPI_SOURCE, status->MPI_TAG, count, op->from, op->got_tag, n);
    for (int i = 0; i < n; i++)
        if (op->buffer->data[i << op->is_spread] != op->got_value + i) {
            MTEST_CHECK(0, "receive %d: element %d is %d, expected %d", (int)(op - ops), i,
                        op->buffer->data[i << op->is_spread], op->got_value + i);
            break;
        }
    for (int i = n << op->is_spread; i < 2 * LONGEST; i++)
        if (op->buffer->data[i] != -1) {
            MTEST_CHECK(0, "receive %d: wrote element %d behind the message", (int)(op - ops), i);
            break;
        }
    clear(op);
}

static int is_truncated(const struct op *op)
{
    return !op->is_send && op->got_len > op->len;
}

/* It is complete, and the program knows. */
static void retire(struct op *op)
{
    op->state = op->is_persistent ? INACTIVE : FREE;
    if (op->state == FREE)
        give_buffer(op, &unused);
}

/* ---- Steps: the rank that acts is the one of the chosen request. Each returns the program's answer, or 0. ---- */

static int step_wait_one(struct op *op)
{
    MPI_Status status;
    int flag = 0, way = pick(4), index = 7;

    if (op->state != MATCHED || op->is_detached)
        return 0;
    if (is_mine(op)) {
        int expected = is_truncated(op) ? MPI_ERR_TRUNCATE : MPI_SUCCESS, error = MPI_SUCCESS;
        MPI_Request handle = op->request;
        if (way == 3) /* it has certainly matched then, so that it is too late */
            for (flag = 0; !flag;)
                MTEST_OK(MPI_Request_get_status(op->request, &flag, MPI_STATUS_IGNORE));
        if (way == 3 && !op->is_send)
            MTEST_OK(MPI_Cancel(&op->request));
        if (way == 1)
            for (flag = 0; !flag && !error;)
                error = MPI_Test(&op->request, &flag, &status);
        else if (way == 2)
            error = MPI_Waitany(1, &op->request, &index, &status);
        else
            error = MPI_Wait(&op->request, &status);
        MTEST_CLASS(error, expected);
        MTEST_CHECK(way != 2 || index == 0, "index %d", index);
        MTEST_CHECK(op->request == (op->is_persistent ? handle : MPI_REQUEST_NULL),
                    "the request is another one");
        if (!op->is_send)
            check_received(op, &status);
    }
    retire(op);
    return 0;
}

/* All of a rank that are complete. */
static void step_wait_many(int owner)
{
    MPI_Request requests[SLOTS];
    MPI_Status statuses[SLOTS];
    struct op *of[SLOTS];
    int n = 0, n_failed = 0, way = pick(3), done = 0, n_done, indices[SLOTS], seen[SLOTS] = {0};

    for (int i = 0; i < OPS_MAX && n < SLOTS; i++)
        if (ops[i].owner == owner && ops[i].state == MATCHED) {
            n_failed += is_truncated(&ops[i]);
            of[n++] = &ops[i];
        }
    for (int i = 0; i < n && owner == mtest_rank; i++)
        requests[i] = of[i]->request;
    if (owner == mtest_rank && n > 0) {
        int error = MPI_SUCCESS, flag = 0;
        if (way == 0)
            error = MPI_Waitall(n, requests, statuses);
        else if (way == 1)
            while (!flag && !error)
                error = MPI_Testall(n, requests, &flag, statuses);
        if (way < 2)
            MTEST_CLASS(error, n_failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS);
        for (int i = 0; i < n && way < 2; i++) {
            if (n_failed)
                MTEST_CLASS(statuses[i].MPI_ERROR, is_truncated(of[i]) ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
            if (!of[i]->is_send)
                check_received(of[i], &statuses[i]);
        }
        while (way == 2 && done < n) {
            error = MPI_Waitsome(n, requests, &n_done, indices, statuses);
            MTEST_CHECK(n_done > 0 && n_done <= n - done, "%d requests of %d", n_done, n - done);
            if (n_done <= 0)
                break;
            for (int i = 0; i < n_done; i++) {
                struct op *op = of[indices[i]];
                MTEST_CHECK(!seen[indices[i]]++, "request %d twice", indices[i]);
                if (error)
                    MTEST_CLASS(statuses[i].MPI_ERROR, is_truncated(op) ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
                else
                    MTEST_CHECK(!is_truncated(op), "no error of a message that is too long");
                if (!op->is_send)
                    check_received(op, &statuses[i]);
            }
            done += n_done;
        }
        for (int i = 0; i < n; i++)
            of[i]->request = requests[i];
    }
    for (int i = 0; i < n; i++)
        retire(of[i]);
}

/* Is not complete; only a standard send may be: then the answer is 1. */
static int step_test(struct op *op)
{
    int flag = 0;

    if (op->state != PENDING || op->is_detached)
        return 0;
    if (is_mine(op)) {
        MTEST_OK(MPI_Test(&op->request, &flag, MPI_STATUS_IGNORE));
        MTEST_CHECK(!flag || (op->is_send && !op->is_sync), "%s %d is complete",
                    op->is_send ? "send" : "receive", (int)(op - ops));
    }
    return flag;
}

static void after_test(struct op *op)
{
    for (int i = 0; i < n_left; i++)
        if (left[i].op == (int)(op - ops))
            left[i].op = -1;
    retire(op);
}

static int step_cancel(struct op *op)
{
    MPI_Status status;
    int flag = 0;

    if (op->state != PENDING || op->is_detached)
        return 0;
    if (is_mine(op)) {
        MTEST_OK(MPI_Cancel(&op->request));
        MTEST_OK(MPI_Wait(&op->request, &status));
        MTEST_OK(MPI_Test_cancelled(&status, &flag));
        MTEST_CHECK(flag || op->is_send, "receive %d was not cancelled", (int)(op - ops));
        MTEST_CHECK(flag || !op->is_sync, "a synchronous send without a receive was not cancelled");
    }
    return flag;
}

static void after_cancel(struct op *op, int was_cancelled)
{
    if (op->state != PENDING || op->is_detached)
        return;
    if (!op->is_send) {
        for (int i = 0; i < n_posted; i++)
            if (posted[i] == (int)(op - ops))
                drop_posted(i--);
        retire(op);
        return;
    }
    for (int i = 0; i < n_left; i++)
        if (left[i].op == (int)(op - ops)) {
            left[i].op = -1;
            if (was_cancelled)
                drop_left(i);
            break;
        }
    retire(op);
}

/* Frees it, except receives that nobody might match. */
static void step_free(struct op *op)
{
    if (op->state == FREE || op->is_detached || (op->state == PENDING && !op->is_send))
        return;
    if (is_mine(op))
        MTEST_OK(MPI_Request_free(&op->request));
    op->is_detached = 1;
    give_buffer(op, op->state == INACTIVE ? &unused : &buffers);
    if (op->state != PENDING)
        op->state = FREE;
}

static void step_start_many(int owner)
{
    MPI_Request requests[SLOTS];
    struct op *of[SLOTS];
    int n = 0, most = 2 + pick(6), first = pick(OPS_MAX);

    for (int i = 0; i < OPS_MAX && n < most; i++) {
        struct op *op = &ops[(i + first) % OPS_MAX];
        if (op->owner == owner && op->is_persistent && may_start(op) && is_alive(op->comm))
            of[n++] = op;
    }
    for (int i = 0; i < n; i++) {
        if (of[i]->is_send)
            fill(of[i]);
        if (owner == mtest_rank)
            requests[i] = of[i]->request;
    }
    if (owner == mtest_rank)
        MTEST_OK(MPI_Startall(n, requests));
    for (int i = 0; i < n; i++)
        model_start(of[i]);
}

static void start(struct op *op)
{
    if (!may_start(op))
        return;
    if (op->is_send)
        fill(op);
    if (is_mine(op) && op->is_persistent)
        MTEST_OK(MPI_Start(&op->request));
    else
        start_ordinary(op);
    model_start(op);
}

/* Probes with the arguments of a receive; way: 0 a probe, 1 a matched probe, which takes the message. */
static void step_probe(int at, int way)
{
    struct op *like = &ops[at];
    int c = 0, m;

    while (c < COMMS && comm_number[c] != like->comm)
        c++;
    if (like->is_send || like->state == FREE || c == COMMS)
        return;
    m = find_left(like);
    if (is_mine(like)) {
        MPI_Message message;
        MPI_Status status;
        int flag, count = -1, *data;
        if (m < 0) {
            if (way)
                MTEST_OK(MPI_Improbe(like->peer, like->tag, comms[c], &flag, &message, &status));
            else
                MTEST_OK(MPI_Iprobe(like->peer, like->tag, comms[c], &flag, &status));
            MTEST_CHECK(!flag, "a probe finds a message that is not there");
            return;
        }
        if (way)
            MTEST_OK(MPI_Mprobe(like->peer, like->tag, comms[c], &message, &status));
        else
            MTEST_OK(MPI_Probe(like->peer, like->tag, comms[c], &status));
        MPI_Get_count(&status, MPI_INT, &count);
        MTEST_CHECK(status.MPI_SOURCE == left[m].from && status.MPI_TAG == left[m].tag &&
                        count == left[m].len,
                    "probe: source %d, tag %d, count %d; expected %d, %d, %d", status.MPI_SOURCE,
                    status.MPI_TAG, count, left[m].from, left[m].tag, left[m].len);
        if (way) {
            data = mtest_alloc(LONGEST * sizeof *data);
            MTEST_OK(MPI_Mrecv(data, LONGEST, MPI_INT, &message, &status));
            MTEST_CHECK(left[m].len == 0 || (data[0] == left[m].value &&
                                             data[left[m].len - 1] == left[m].value + left[m].len - 1),
                        "a matched message holds %d, expected %d", data[0], left[m].value);
            free(data);
        }
    }
    if (m >= 0 && way) {
        if (left[m].op >= 0)
            end_match(&ops[left[m].op]);
        drop_left(m);
    }
}

/* Frees a communicator that has requests, but no messages that only ordinary receives can get; makes another one. */
static void step_comm(int c)
{
    for (int i = 0; i < n_left; i++)
        if (left[i].comm == comm_number[c])
            return;
    MTEST_OK(MPI_Comm_free(&comms[c]));
    MTEST_OK(MPI_Comm_dup(control, &comms[c]));
    MTEST_OK(MPI_Comm_set_errhandler(comms[c], MPI_ERRORS_RETURN));
    comm_number[c] = n_comms++;
}

static void step_create(void)
{
    int at = new_op();

    if (at < 0)
        return;
    if (ops[at].is_persistent)
        init_persistent(&ops[at]);
    else if (may_start(&ops[at]))
        start(&ops[at]);
    else
        retire(&ops[at]);
}

/* A request that is in use, if there is one near. */
static int pick_op(void)
{
    int at = pick(OPS_MAX);

    for (int i = 0; i < OPS_MAX; i++)
        if (ops[(at + i) % OPS_MAX].state != FREE)
            return (at + i) % OPS_MAX;
    return at;
}

static int share(int answer)
{
    int all = answer;

    MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_SUM, control));
    return all;
}

static int n_live(void)
{
    int n = 0;

    for (int i = 0; i < OPS_MAX; i++)
        n += ops[i].state != FREE;
    return n;
}

static void step(void)
{
    int what = pick(100), at = pick_op();
    struct op *op = &ops[at];

    if (what < 12 && n_live() < 8 * mtest_size) {
        step_create();
    } else if (what < 45) {
        start(op);
    } else if (what < 50) {
        step_start_many(op->owner);
    } else if (what < 66) {
        step_wait_one(op);
    } else if (what < 74) {
        step_wait_many(op->owner);
    } else if (what < 80) {
        if (share(step_test(op)))
            after_test(op);
    } else if (what < 83) {
        after_cancel(op, share(step_cancel(op)));
    } else if (what < 84) {
        step_free(op);
    } else if (what < 90) {
        step_probe(at, what >= 88);
    } else if (what == 90) {
        step_comm(pick(COMMS));
    }
    share(0);
}

/* Completes all that is under way. */
static void finish(void)
{
    while (n_left > 0) {
        struct message m = left[0];
        int c = 0;
        while (comm_number[c] != m.comm)
            c++;
        if (m.to == mtest_rank) {
            int *data = mtest_alloc(LONGEST * sizeof *data);
            MTEST_OK(MPI_Recv(data, LONGEST, MPI_INT, m.from, m.tag, comms[c], MPI_STATUS_IGNORE));
            MTEST_CHECK(m.len == 0 || data[0] == m.value, "a message that was left holds %d, expected %d",
                        data[0], m.value);
            free(data);
        }
        if (m.op >= 0)
            end_match(&ops[m.op]);
        drop_left(0);
        share(0);
    }
    for (int i = 0; i < OPS_MAX; i++) {
        after_cancel(&ops[i], share(step_cancel(&ops[i])));
        step_wait_one(&ops[i]);
        step_free(&ops[i]);
        MTEST_CHECK(ops[i].state == FREE, "request %d is in state %d", i, (int)ops[i].state);
        share(0);
    }
    free_buffers(unused);
    free_buffers(buffers);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int steps = argc > 2 ? atoi(argv[2]) : 3000;

    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &control));
    void *room = mtest_alloc(64 << 20), *old;
    int room_bytes;
    MTEST_OK(MPI_Buffer_attach(room, 64 << 20));
    MTEST_OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spread));
    MTEST_OK(MPI_Type_commit(&spread));
    for (int c = 0; c < COMMS; c++) {
        MTEST_OK(MPI_Comm_dup(control, &comms[c]));
        MTEST_OK(MPI_Comm_set_errhandler(comms[c], MPI_ERRORS_RETURN));
        comm_number[c] = n_comms++;
    }
    for (int i = 0; i < steps; i++)
        step();
    finish();
    for (int c = 0; c < COMMS; c++)
        MTEST_OK(MPI_Comm_free(&comms[c]));
    MTEST_OK(MPI_Type_free(&spread));
    MTEST_OK(MPI_Comm_free(&control));
    MTEST_OK(MPI_Buffer_detach(&old, &room_bytes));
    free(room);
    return mtest_end();
}
