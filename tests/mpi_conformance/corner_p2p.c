/* SPDX-License-Identifier: BSD-3-Clause */
/* Corner cases of point-to-point: MPI_PROC_NULL in probes, inactive requests in all waits and tests, error
 * fields, cancel, ready and buffered sends, the largest tag, empty messages without a buffer. */
#include "mtest.h"

static int me, other;
static MPI_Comm comm;

static int is_empty(const MPI_Status *st)
{
    int n = -1, c = -1;
    MPI_Get_count(st, MPI_BYTE, &n);
    MPI_Test_cancelled(st, &c);
    return st->MPI_SOURCE == MPI_ANY_SOURCE && st->MPI_TAG == MPI_ANY_TAG && n == 0 && c == 0;
}
static int is_proc_null(const MPI_Status *st)
{
    int n = -1;
    MPI_Get_count(st, MPI_BYTE, &n);
    return st->MPI_SOURCE == MPI_PROC_NULL && st->MPI_TAG == MPI_ANY_TAG && n == 0;
}
static void scribble(MPI_Status *st, int n)
{
    memset(st, 0x5a, (size_t)n * sizeof *st);
    for (int i = 0; i < n; i++)
        st[i].MPI_ERROR = 12345;
}

static void check_proc_null(void)
{
    MPI_Status st;
    int flag = 0, x = 77;
    MPI_Message m;
    MPI_Request r;
    scribble(&st, 1);
    MTEST_OK(MPI_Probe(MPI_PROC_NULL, 3, comm, &st));
    MTEST_CHECK(is_proc_null(&st), "Probe");
    MTEST_CHECK(st.MPI_ERROR == 12345, "Probe wrote MPI_ERROR");
    MTEST_OK(MPI_Iprobe(MPI_PROC_NULL, MPI_ANY_TAG, comm, &flag, &st));
    MTEST_CHECK(flag && is_proc_null(&st), "Iprobe");
    m = MPI_MESSAGE_NULL;
    MTEST_OK(MPI_Mprobe(MPI_PROC_NULL, 1, comm, &m, &st));
    MTEST_CHECK(m == MPI_MESSAGE_NO_PROC && is_proc_null(&st), "Mprobe");
    MTEST_OK(MPI_Mrecv(&x, 1, MPI_INT, &m, &st));
    MTEST_CHECK(m == MPI_MESSAGE_NULL && is_proc_null(&st) && x == 77, "Mrecv");
    flag = 0;
    MTEST_OK(MPI_Improbe(MPI_PROC_NULL, 1, comm, &flag, &m, &st));
    MTEST_CHECK(flag && m == MPI_MESSAGE_NO_PROC && is_proc_null(&st), "Improbe");
    MTEST_OK(MPI_Imrecv(&x, 1, MPI_INT, &m, &r));
    MTEST_CHECK(m == MPI_MESSAGE_NULL, "Imrecv");
    MTEST_OK(MPI_Wait(&r, &st));
    MTEST_CHECK(is_proc_null(&st), "Imrecv status");
    MTEST_CLASS2(MPI_Mrecv(&x, 1, MPI_INT, &m, &st), MPI_ERR_REQUEST, MPI_ERR_ARG);
    MTEST_OK(MPI_Irecv(&x, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &r));
    MTEST_OK(MPI_Wait(&r, &st));
    MTEST_CHECK(is_proc_null(&st), "Irecv");
    MTEST_OK(MPI_Recv_init(&x, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &r));
    for (int i = 0; i < 2; i++) {
        MTEST_OK(MPI_Start(&r));
        MTEST_OK(MPI_Wait(&r, &st));
        MTEST_CHECK(is_proc_null(&st) && r != MPI_REQUEST_NULL, "Recv_init");
    }
    MTEST_OK(MPI_Wait(&r, &st));
    MTEST_CHECK(is_empty(&st), "inactive");
    MTEST_OK(MPI_Request_free(&r));
    MTEST_OK(MPI_Sendrecv(&x, 1, MPI_INT, MPI_PROC_NULL, 0, &x, 1, MPI_INT, MPI_PROC_NULL, 0, comm, &st));
    MTEST_CHECK(is_proc_null(&st), "Sendrecv");
    MTEST_OK(MPI_Sendrecv_replace(&x, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0, comm, &st));
    MTEST_CHECK(is_proc_null(&st) && x == 77, "Sendrecv_replace");
    MTEST_OK(MPI_Isendrecv_replace(&x, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0, comm, &r));
    MTEST_OK(MPI_Wait(&r, &st));
    MTEST_CHECK(is_proc_null(&st) && x == 77, "Isendrecv_replace");
    MTEST_OK(MPI_Bsend(&x, 1, MPI_INT, MPI_PROC_NULL, 0, comm));
    MTEST_OK(MPI_Rsend(&x, 1, MPI_INT, MPI_PROC_NULL, 0, comm));
    MTEST_OK(MPI_Ssend(&x, 1, MPI_INT, MPI_PROC_NULL, 0, comm));
    MTEST_OK(MPI_Send(NULL, 0, MPI_INT, me, 4, comm));
    MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, me, 4, comm, &st));
    MTEST_CHECK(st.MPI_SOURCE == me && st.MPI_TAG == 4, "empty");
    MTEST_CLASS(MPI_Send(&x, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm), MPI_ERR_RANK);
    MTEST_CLASS(MPI_Send(&x, 1, MPI_INT, me, MPI_ANY_TAG, comm), MPI_ERR_TAG);
}

static void check_inactive(void)
{
    MPI_Request r[4];
    MPI_Status st[4];
    int x[4] = {0}, idx, flag, n, which[4];
    for (int i = 0; i < 3; i++)
        MTEST_OK(MPI_Recv_init(&x[i], 1, MPI_INT, me, i, comm, &r[i]));
    r[3] = MPI_REQUEST_NULL;
    scribble(st, 4);
    idx = 5;
    MTEST_OK(MPI_Waitany(4, r, &idx, st));
    MTEST_CHECK(idx == MPI_UNDEFINED && is_empty(st), "Waitany %d", idx);
    MTEST_CHECK(st->MPI_ERROR == 12345 || st->MPI_ERROR == MPI_SUCCESS, "Waitany error");
    flag = 0;
    MTEST_OK(MPI_Testany(4, r, &idx, &flag, st));
    MTEST_CHECK(flag && idx == MPI_UNDEFINED && is_empty(st), "Testany");
    MTEST_OK(MPI_Waitsome(4, r, &n, which, st));
    MTEST_CHECK(n == MPI_UNDEFINED, "Waitsome %d", n);
    MTEST_OK(MPI_Testsome(4, r, &n, which, st));
    MTEST_CHECK(n == MPI_UNDEFINED, "Testsome %d", n);
    flag = 0;
    scribble(st, 4);
    MTEST_OK(MPI_Testall(4, r, &flag, st));
    MTEST_CHECK(flag, "Testall");
    for (int i = 0; i < 4; i++)
        MTEST_CHECK(is_empty(&st[i]), "Testall %d", i);
    scribble(st, 4);
    MTEST_OK(MPI_Waitall(4, r, st));
    for (int i = 0; i < 4; i++)
        MTEST_CHECK(is_empty(&st[i]), "Waitall %d", i);
    flag = 0;
    MTEST_OK(MPI_Test(&r[0], &flag, st));
    MTEST_CHECK(flag && is_empty(st), "Test");
    flag = 0;
    MTEST_OK(MPI_Test(&r[3], &flag, st));
    MTEST_CHECK(flag && is_empty(st), "Test null");
    flag = 0;
    MTEST_OK(MPI_Request_get_status(r[0], &flag, st));
    MTEST_CHECK(flag && is_empty(st), "get_status");
    flag = 0;
    MTEST_OK(MPI_Request_get_status_any(4, r, &idx, &flag, st));
    MTEST_CHECK(flag && idx == MPI_UNDEFINED && is_empty(st), "get_status_any");
    MTEST_OK(MPI_Request_get_status_some(4, r, &n, which, st));
    MTEST_CHECK(n == MPI_UNDEFINED, "get_status_some");
    flag = 0;
    MTEST_OK(MPI_Request_get_status_all(4, r, &flag, st));
    MTEST_CHECK(flag && is_empty(&st[1]), "get_status_all");
    MTEST_OK(MPI_Waitany(0, NULL, &idx, st));
    MTEST_CHECK(idx == MPI_UNDEFINED, "Waitany of none");
    MTEST_OK(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
    flag = 0;
    MTEST_OK(MPI_Testall(0, NULL, &flag, MPI_STATUSES_IGNORE));
    MTEST_CHECK(flag, "Testall of none");
    MTEST_OK(MPI_Waitsome(0, NULL, &n, which, MPI_STATUSES_IGNORE));
    MTEST_CHECK(n == MPI_UNDEFINED, "Waitsome of none");
    /* one active among them */
    MTEST_OK(MPI_Start(&r[1]));
    int y = 9;
    flag = 1;
    MTEST_OK(MPI_Testany(4, r, &idx, &flag, st));
    MTEST_CHECK(!flag && idx == MPI_UNDEFINED, "Testany of one active: %d %d", flag, idx);
    MTEST_OK(MPI_Testsome(4, r, &n, which, st));
    MTEST_CHECK(n == 0, "Testsome of one active: %d", n);
    MTEST_OK(MPI_Send(&y, 1, MPI_INT, me, 1, comm));
    MTEST_OK(MPI_Waitsome(4, r, &n, which, st));
    MTEST_CHECK(n == 1 && which[0] == 1 && st[0].MPI_TAG == 1, "Waitsome of one: %d %d", n, which[0]);
    MTEST_CHECK(x[1] == 9 && r[1] != MPI_REQUEST_NULL, "received");
    MTEST_CLASS2(MPI_Start(&r[3]), MPI_ERR_REQUEST, MPI_ERR_REQUEST);
    MTEST_OK(MPI_Start(&r[0]));
    MTEST_CLASS(MPI_Start(&r[0]), MPI_ERR_REQUEST);
    MTEST_OK(MPI_Cancel(&r[0]));
    MTEST_OK(MPI_Wait(&r[0], st));
    MTEST_OK(MPI_Test_cancelled(st, &flag));
    MTEST_CHECK(flag, "cancelled");
    MTEST_OK(MPI_Start(&r[0]));
    MTEST_OK(MPI_Send(&y, 1, MPI_INT, me, 0, comm));
    MTEST_OK(MPI_Cancel(&r[0]));
    MTEST_OK(MPI_Wait(&r[0], st));
    MTEST_OK(MPI_Test_cancelled(st, &flag));
    MTEST_CHECK(!flag && x[0] == 9, "cancelled after completion");
    for (int i = 0; i < 3; i++)
        MTEST_OK(MPI_Request_free(&r[i]));
    MTEST_CHECK(r[0] == MPI_REQUEST_NULL, "freed");
    /* Startall with a null request */
    MTEST_OK(MPI_Startall(0, NULL));
}

static void check_error_fields(void)
{
    MPI_Request r[3];
    MPI_Status st[3];
    int a[2], b, c, out[4] = {1, 2, 3, 4}, n, which[3], code;
    MTEST_OK(MPI_Irecv(a, 2, MPI_INT, me, 0, comm, &r[0]));
    MTEST_OK(MPI_Irecv(&b, 1, MPI_INT, me, 1, comm, &r[1]));
    MTEST_OK(MPI_Irecv(&c, 1, MPI_INT, me, 2, comm, &r[2]));
    MTEST_OK(MPI_Send(out, 2, MPI_INT, me, 0, comm));
    MTEST_OK(MPI_Send(out, 4, MPI_INT, me, 1, comm));
    MTEST_OK(MPI_Send(out, 1, MPI_INT, me, 2, comm));
    scribble(st, 3);
    code = MPI_Waitall(3, r, st);
    MTEST_CHECK(mtest_class(code) == MPI_ERR_IN_STATUS, "Waitall %d", code);
    MTEST_CHECK(st[0].MPI_ERROR == MPI_SUCCESS && mtest_class(st[1].MPI_ERROR) == MPI_ERR_TRUNCATE &&
                    st[2].MPI_ERROR == MPI_SUCCESS,
                "fields %d %d %d", st[0].MPI_ERROR, st[1].MPI_ERROR, st[2].MPI_ERROR);
    MTEST_CHECK(b == 1 && st[1].MPI_SOURCE == me && st[1].MPI_TAG == 1, "truncated");
    MTEST_CHECK(r[0] == MPI_REQUEST_NULL && r[1] == MPI_REQUEST_NULL, "requests");
    MTEST_OK(MPI_Irecv(&b, 1, MPI_INT, me, 1, comm, &r[0]));
    MTEST_OK(MPI_Send(out, 4, MPI_INT, me, 1, comm));
    r[1] = MPI_REQUEST_NULL;
    scribble(st, 3);
    code = MPI_Waitsome(2, r, &n, which, st);
    MTEST_CHECK(mtest_class(code) == MPI_ERR_IN_STATUS && n == 1 && which[0] == 0 &&
                    mtest_class(st[0].MPI_ERROR) == MPI_ERR_TRUNCATE,
                "Waitsome %d", code);
    MTEST_OK(MPI_Irecv(&b, 1, MPI_INT, me, 1, comm, &r[0]));
    MTEST_OK(MPI_Send(out, 4, MPI_INT, me, 1, comm));
    code = MPI_Waitany(2, r, &n, st);
    MTEST_CHECK(mtest_class(code) == MPI_ERR_TRUNCATE && n == 0 && r[0] == MPI_REQUEST_NULL, "Waitany %d",
                code);
    MTEST_OK(MPI_Irecv(&b, 1, MPI_INT, me, 1, comm, &r[0]));
    MTEST_OK(MPI_Send(out, 4, MPI_INT, me, 1, comm));
    code = MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    MTEST_CHECK(mtest_class(code) == MPI_ERR_TRUNCATE, "Wait %d", code);
    MTEST_OK(MPI_Irecv(&b, 1, MPI_INT, me, 1, comm, &r[0]));
    MTEST_OK(MPI_Irecv(&c, 1, MPI_INT, me, 2, comm, &r[1]));
    MTEST_OK(MPI_Send(out, 4, MPI_INT, me, 1, comm));
    MTEST_OK(MPI_Send(out, 1, MPI_INT, me, 2, comm));
    code = MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    MTEST_CHECK(mtest_class(code) == MPI_ERR_IN_STATUS || mtest_class(code) == MPI_ERR_TRUNCATE,
                "Waitall without statuses %d", code);
    /* single-status calls leave MPI_ERROR alone */
    scribble(st, 1);
    MTEST_OK(MPI_Send(out, 1, MPI_INT, me, 0, comm));
    MTEST_OK(MPI_Recv(a, 2, MPI_INT, me, 0, comm, st));
    MTEST_CHECK(st->MPI_ERROR == 12345, "Recv wrote MPI_ERROR %d", st->MPI_ERROR);
    scribble(st, 1);
    MTEST_OK(MPI_Irecv(a, 2, MPI_INT, me, 0, comm, r));
    MTEST_OK(MPI_Send(out, 1, MPI_INT, me, 0, comm));
    MTEST_OK(MPI_Wait(r, st));
    MTEST_CHECK(st->MPI_ERROR == 12345, "Wait wrote MPI_ERROR %d", st->MPI_ERROR);
}

static void check_modes(void)
{
    int ub_flag, *ub, x, y = 5;
    MPI_Status st;
    MPI_Request r[2];
    void *addr;
    int size;
    MTEST_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &ub, &ub_flag));
    MTEST_CHECK(ub_flag && *ub >= 32767, "TAG_UB");
    MTEST_OK(MPI_Send(&y, 1, MPI_INT, me, *ub, comm));
    MTEST_OK(MPI_Recv(&x, 1, MPI_INT, me, *ub, comm, &st));
    MTEST_CHECK(st.MPI_TAG == *ub, "largest tag");
    if (*ub < 2147483647)
        MTEST_CLASS(MPI_Send(&y, 1, MPI_INT, me, *ub + 1, comm), MPI_ERR_TAG);
    MTEST_OK(MPI_Irecv(&x, 1, MPI_INT, me, 0, comm, r));
    MTEST_OK(MPI_Rsend(&y, 1, MPI_INT, me, 0, comm));
    MTEST_OK(MPI_Wait(r, &st));
    /* a buffer for exactly three messages, reused for ever; order of release differs from order of use */
    int each;
    MPI_Pack_size(10, MPI_INT, comm, &each);
    each += MPI_BSEND_OVERHEAD;
    char *buf = mtest_alloc((size_t)each * 3);
    int data[10], in[10];
    MTEST_OK(MPI_Buffer_attach(buf, each * 3));
    MTEST_CLASS2(MPI_Buffer_attach(buf, each), MPI_ERR_BUFFER, MPI_ERR_BUFFER);
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k < 3; k++) {
            for (int j = 0; j < 10; j++)
                data[j] = i * 100 + k * 10 + j;
            MTEST_OK(MPI_Bsend(data, 10 - k, MPI_INT, me, k, comm));
        }
        if (i == 0) {
            int code = MPI_Bsend(data, 10, MPI_INT, me, 9, comm);
            if (code)
                MTEST_CHECK(mtest_class(code) == MPI_ERR_BUFFER, "full buffer %d", code);
            else
                MTEST_OK(MPI_Recv(in, 10, MPI_INT, me, 9, comm, &st));
        }
        for (int k = 0; k < 3; k++) {
            int kk = (k + i) % 3;
            MTEST_OK(MPI_Recv(in, 10, MPI_INT, me, kk, comm, &st));
            MTEST_CHECK(in[9 - kk] == i * 100 + kk * 10 + 9 - kk, "round %d message %d", i, kk);
        }
    }
    MTEST_OK(MPI_Buffer_detach(&addr, &size));
    MTEST_CHECK(addr == buf && size == each * 3, "detached %d", size);
    MTEST_CHECK(MPI_Bsend(data, 10, MPI_INT, me, 0, comm) != MPI_SUCCESS || 1, "no buffer");
    int flag;
    MPI_Iprobe(me, 0, comm, &flag, &st);
    if (flag)
        MPI_Recv(in, 10, MPI_INT, me, 0, comm, &st);
    free(buf);
    MTEST_OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    for (int i = 0; i < 10; i++)
        MTEST_OK(MPI_Bsend(data, 10, MPI_INT, me, i, comm));
    for (int i = 9; i >= 0; i--)
        MTEST_OK(MPI_Recv(in, 10, MPI_INT, me, i, comm, &st));
    MTEST_OK(MPI_Buffer_flush());
    MTEST_OK(MPI_Buffer_detach(&addr, &size));
    MTEST_CHECK(addr == MPI_BUFFER_AUTOMATIC && size == 0, "detached automatic %p %d", addr, size);
    /* request freed while active */
    MTEST_OK(MPI_Irecv(&x, 1, MPI_INT, me, 5, comm, &r[0]));
    MTEST_OK(MPI_Request_free(&r[0]));
    y = 123;
    MTEST_OK(MPI_Send(&y, 1, MPI_INT, me, 5, comm));
    MTEST_CHECK(x == 123, "freed receive got %d", x);
    /* matched probe takes the message away from receives */
    MPI_Message m;
    y = 1;
    MPI_Send(&y, 1, MPI_INT, me, 6, comm);
    y = 2;
    MPI_Send(&y, 1, MPI_INT, me, 6, comm);
    MTEST_OK(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &m, &st));
    MTEST_OK(MPI_Recv(&x, 1, MPI_INT, me, 6, comm, &st));
    MTEST_CHECK(x == 2, "second %d", x);
    MTEST_OK(MPI_Mrecv(&x, 1, MPI_INT, &m, &st));
    MTEST_CHECK(x == 1, "first %d", x);
    /* the order between a wildcard and a specific receive */
    int p, q;
    MPI_Irecv(&p, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &r[0]);
    MPI_Irecv(&q, 1, MPI_INT, me, 7, comm, &r[1]);
    y = 10;
    MPI_Send(&y, 1, MPI_INT, me, 7, comm);
    y = 11;
    MPI_Send(&y, 1, MPI_INT, me, 7, comm);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    MTEST_CHECK(p == 10 && q == 11, "order %d %d", p, q);
    /* MPI_BOTTOM */
    MPI_Aint ad[2];
    int lens[2] = {1, 1}, u = 41, v = 42, u2 = 0, v2 = 0;
    MPI_Datatype t, t2;
    MPI_Get_address(&u, &ad[0]);
    MPI_Get_address(&v, &ad[1]);
    MPI_Type_create_hindexed(2, lens, ad, MPI_INT, &t);
    MPI_Type_commit(&t);
    MPI_Get_address(&u2, &ad[0]);
    MPI_Get_address(&v2, &ad[1]);
    MPI_Type_create_hindexed(2, lens, ad, MPI_INT, &t2);
    MPI_Type_commit(&t2);
    MTEST_OK(MPI_Sendrecv(MPI_BOTTOM, 1, t, me, 0, MPI_BOTTOM, 1, t2, me, 0, comm, &st));
    MTEST_CHECK(u2 == 41 && v2 == 42, "BOTTOM %d %d", u2, v2);
    MTEST_OK(MPI_Sendrecv_replace(MPI_BOTTOM, 1, t, me, 0, me, 0, comm, &st));
    MTEST_CHECK(u == 41 && v == 42, "replace BOTTOM");
    /* types freed while a request is active */
    MPI_Irecv(MPI_BOTTOM, 1, t2, me, 0, comm, &r[0]);
    MPI_Type_free(&t2);
    u = 51;
    MPI_Send(MPI_BOTTOM, 1, t, me, 0, comm);
    MPI_Wait(&r[0], &st);
    MTEST_CHECK(u2 == 51, "type freed");
    MPI_Type_free(&t);
    /* large self message by Isend and Irecv in wrong order, synchronous */
    static char big[300000], big2[300000];
    mtest_fill(big, sizeof big, 3);
    MPI_Issend(big, sizeof big, MPI_CHAR, me, 8, comm, &r[0]);
    MPI_Test(&r[0], &flag, &st);
    MTEST_CHECK(!flag, "synchronous send done early");
    MPI_Recv(big2, sizeof big2, MPI_CHAR, me, 8, comm, &st);
    MPI_Wait(&r[0], &st);
    MTEST_CHECK(mtest_differs(big2, sizeof big2, 3) < 0, "big");
}

static void check_others(void)
{
    /* a ring in which all ranks probe with wildcards, on a duplicated communicator with the parent's traffic
     * pending */
    MPI_Comm dup;
    MPI_Request r;
    int x = me, y = -1;
    MPI_Status st;
    int n;
    if (mtest_size < 2)
        return;
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Send(&x, 1, MPI_INT, other, 0, comm)); /* eager, pending */
    MTEST_OK(MPI_Comm_idup(comm, &dup, &r));
    MTEST_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    x = me + 100;
    MTEST_OK(MPI_Send(&x, 1, MPI_INT, other, 0, dup));
    MTEST_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, dup, &st));
    MPI_Get_count(&st, MPI_INT, &n);
    MTEST_CHECK(n == 1, "count");
    MTEST_OK(MPI_Recv(&y, 1, MPI_INT, st.MPI_SOURCE, st.MPI_TAG, dup, &st));
    MTEST_CHECK(y == st.MPI_SOURCE + 100, "dup got %d", y);
    MTEST_OK(MPI_Recv(&y, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &st));
    MTEST_CHECK(y == st.MPI_SOURCE, "comm got %d", y);
    MTEST_OK(MPI_Comm_free(&dup));
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A request that is twice in the array of MPI_Startall is started once; receives that come later get their messages. */
static void check_started_twice(void)
{
    int in[4] = {-1, -1, -1, -1};
    MPI_Request twice[2], later[3];

    MTEST_OK(MPI_Recv_init(&in[3], 1, MPI_INT, mtest_rank, 3, MPI_COMM_WORLD, &twice[0]));
    twice[1] = twice[0];
    MTEST_CLASS(MPI_Startall(2, twice), MPI_ERR_REQUEST);
    MTEST_OK(MPI_Send(&mtest_rank, 1, MPI_INT, mtest_rank, 3, MPI_COMM_WORLD));
    MTEST_OK(MPI_Wait(&twice[0], MPI_STATUS_IGNORE));
    for (int i = 0; i < 3; i++)
        MTEST_OK(MPI_Irecv(&in[i], 1, MPI_INT, mtest_rank, 3, MPI_COMM_WORLD, &later[i]));
    for (int i = 0; i < 3; i++)
        MTEST_OK(MPI_Send(&mtest_rank, 1, MPI_INT, mtest_rank, 3, MPI_COMM_WORLD));
    MTEST_OK(MPI_Waitall(3, later, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 4; i++)
        MTEST_CHECK(in[i] == mtest_rank, "receive %d got %d", i, in[i]);
    MTEST_OK(MPI_Request_free(&twice[0]));
}

/* The message stays the program's when its receive is refused. */
static void check_message_nowhere(void)
{
    MPI_Message message;
    MPI_Request request;
    int in = -1;

    MTEST_OK(MPI_Send(&mtest_rank, 1, MPI_INT, mtest_rank, 4, MPI_COMM_WORLD));
    MTEST_OK(MPI_Mprobe(mtest_rank, 4, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    MTEST_CLASS(MPI_Mrecv(NULL, 1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
    MTEST_CLASS(MPI_Imrecv(NULL, 1, MPI_INT, &message, &request), MPI_ERR_BUFFER);
    MTEST_OK(MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    MTEST_CHECK(in == mtest_rank, "received %d", in);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    comm = MPI_COMM_WORLD;
    me = mtest_rank;
    other = (me + 1) % mtest_size;
    for (int i = 0; i < 2; i++) {
        check_proc_null();
        check_inactive();
        check_error_fields();
        check_modes();
        check_others();
        check_started_twice();
        check_message_nowhere();
        if (i == 0)
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    }
    MPI_Comm_free(&comm);
    return mtest_end();
}
