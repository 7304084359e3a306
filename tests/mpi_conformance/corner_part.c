/* SPDX-License-Identifier: BSD-3-Clause */
/* Corner cases of partitioned communication and of generalized requests: sides that partition differently,
 * MPI_PROC_NULL, restarts, wrong partitions; generalized requests in every wait. */
#include "mtest.h"

static void check_part(void)
{
    enum { N = 24 };
    int right = (mtest_rank + 1) % mtest_size, left = (mtest_rank + mtest_size - 1) % mtest_size,
        out[N] = {0}, in[N], flag;
    MPI_Request s, r, both[2];
    MPI_Status st[2];
    /* 6 partitions of 4 sent, 3 partitions of 8 received */
    MTEST_OK(MPI_Psend_init(out, 6, 4, MPI_INT, right, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &s));
    MTEST_OK(MPI_Precv_init(in, 3, 8, MPI_INT, left, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    MTEST_CLASS2(MPI_Pready(0, s), MPI_ERR_REQUEST, MPI_ERR_ARG); /* not started */
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            out[i] = mtest_rank * 1000 + round * 100 + i;
            in[i] = -1;
        }
        both[0] = r;
        both[1] = s;
        MTEST_OK(MPI_Startall(2, both));
        MTEST_CLASS2(MPI_Pready(6, s), MPI_ERR_ARG, MPI_ERR_RANK);
        MTEST_CLASS2(MPI_Pready(-1, s), MPI_ERR_ARG, MPI_ERR_RANK);
        MTEST_CLASS2(MPI_Pready(0, r), MPI_ERR_REQUEST, MPI_ERR_ARG);
        MTEST_CLASS2(MPI_Parrived(r, 3, &flag), MPI_ERR_ARG, MPI_ERR_RANK);
        MTEST_CLASS2(MPI_Parrived(s, 0, &flag), MPI_ERR_REQUEST, MPI_ERR_ARG);
        flag = 1;
        MTEST_OK(MPI_Parrived(r, 1, &flag));
        int list[2] = {5, 2};
        MTEST_OK(MPI_Pready_list(2, list, s));
        MTEST_OK(MPI_Pready_range(3, 4, s));
        MTEST_OK(MPI_Pready(1, s));
        MTEST_OK(MPI_Test(&s, &flag, MPI_STATUS_IGNORE));
        MTEST_CHECK(!flag, "done before its last partition");
        MTEST_OK(MPI_Pready(0, s));
        for (flag = 0; !flag;)
            MTEST_OK(MPI_Parrived(r, 2, &flag));
        MTEST_CHECK(in[23] == left * 1000 + round * 100 + 23, "partition 2: %d", in[23]);
        MTEST_OK(MPI_Waitall(2, both, st));
        MTEST_CHECK(both[0] == r && both[1] == s, "requests gone");
        for (int i = 0; i < N; i++)
            MTEST_CHECK(in[i] == left * 1000 + round * 100 + i, "round %d: element %d is %d", round, i,
                        in[i]);
        MTEST_CHECK(st[0].MPI_SOURCE == left && st[0].MPI_TAG == 5, "status %d %d", st[0].MPI_SOURCE,
                    st[0].MPI_TAG);
        int n;
        MPI_Get_count(&st[0], MPI_INT, &n);
        MTEST_CHECK(n == N, "count %d", n);
        flag = 0;
        MTEST_OK(MPI_Parrived(r, 0, &flag));
        MTEST_CHECK(flag, "Parrived of an inactive request");
    }
    MTEST_OK(MPI_Request_free(&s));
    MTEST_OK(MPI_Request_free(&r));
    MTEST_OK(MPI_Psend_init(out, 2, 4, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &s));
    MTEST_OK(MPI_Precv_init(in, 2, 4, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    MTEST_OK(MPI_Start(&s));
    MTEST_OK(MPI_Start(&r));
    MTEST_OK(MPI_Pready_range(0, 1, s));
    flag = 0;
    MTEST_OK(MPI_Parrived(r, 1, &flag));
    MTEST_CHECK(flag, "nothing arrives from nobody");
    MTEST_OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Wait(&r, &st[0]));
    MTEST_CHECK(st[0].MPI_SOURCE == MPI_PROC_NULL, "source %d", st[0].MPI_SOURCE);
    MPI_Request_free(&s);
    MPI_Request_free(&r);
    /* no partitions: nothing to wait for */
    MTEST_OK(MPI_Psend_init(out, 0, 4, MPI_INT, right, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &s));
    MTEST_OK(MPI_Precv_init(in, 0, 4, MPI_INT, left, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    MTEST_OK(MPI_Start(&s));
    MTEST_OK(MPI_Start(&r));
    MTEST_OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Wait(&r, &st[0]));
    MTEST_CHECK(st[0].MPI_SOURCE == left && st[0].MPI_TAG == 7, "no partitions: source %d", st[0].MPI_SOURCE);
    MPI_Request_free(&s);
    MPI_Request_free(&r);
    MTEST_CLASS2(MPI_Psend_init(out, -1, 4, MPI_INT, right, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &s),
                 MPI_ERR_ARG, MPI_ERR_COUNT);
    MTEST_CLASS(MPI_Precv_init(out, 1, 4, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &s),
                MPI_ERR_RANK);
    MTEST_CLASS(MPI_Precv_init(out, 1, 4, MPI_INT, left, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &s),
                MPI_ERR_TAG);
    /* two with the same envelope match in order; ordinary messages do not match them */
    int a[2], b[2], x = -1;
    MPI_Request p[4];
    int o1 = 1 + mtest_rank, o2 = 100 + mtest_rank;
    MTEST_OK(MPI_Psend_init(&o1, 1, 1, MPI_INT, right, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &p[0]));
    MTEST_OK(MPI_Psend_init(&o2, 1, 1, MPI_INT, right, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &p[1]));
    MTEST_OK(MPI_Precv_init(a, 1, 1, MPI_INT, left, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &p[2]));
    MTEST_OK(MPI_Precv_init(b, 1, 1, MPI_INT, left, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &p[3]));
    MTEST_OK(MPI_Startall(4, p));
    MPI_Request m;
    MTEST_OK(MPI_Irecv(&x, 1, MPI_INT, left, 6, MPI_COMM_WORLD, &m));
    MTEST_OK(MPI_Pready(0, p[1]));
    MTEST_OK(MPI_Pready(0, p[0]));
    MTEST_OK(MPI_Waitall(4, p, MPI_STATUSES_IGNORE));
    MTEST_CHECK(a[0] == 1 + left && b[0] == 100 + left, "order %d %d", a[0], b[0]);
    int y = 77;
    MTEST_OK(MPI_Send(&y, 1, MPI_INT, right, 6, MPI_COMM_WORLD));
    MTEST_OK(MPI_Wait(&m, MPI_STATUS_IGNORE));
    MTEST_CHECK(x == 77, "plain %d", x);
    for (int i = 0; i < 4; i++)
        MPI_Request_free(&p[i]);
}

static int n_query, n_free, n_cancel, query_result, free_result;
static int query_fn(void *extra, MPI_Status *st)
{
    n_query++;
    MPI_Status_set_elements(st, MPI_INT, 3);
    MPI_Status_set_cancelled(st, 0);
    st->MPI_SOURCE = 4;
    st->MPI_TAG = *(int *)extra;
    return query_result;
}
static int free_fn(void *extra)
{
    (void)extra;
    n_free++;
    return free_result;
}
static int cancel_fn(void *extra, int complete)
{
    (void)extra;
    n_cancel += complete ? 100 : 1;
    return MPI_SUCCESS;
}

static void check_grequests(void)
{
    int extra = 17, n, flag, idx, which[3];
    MPI_Request r[3];
    MPI_Status st[3];
    MTEST_OK(MPI_Grequest_start(query_fn, free_fn, cancel_fn, &extra, &r[0]));
    MTEST_OK(MPI_Test(&r[0], &flag, st));
    MTEST_CHECK(!flag && n_query == 0, "early");
    MTEST_OK(MPI_Cancel(&r[0]));
    MTEST_CHECK(n_cancel == 1, "cancel %d", n_cancel);
    MTEST_OK(MPI_Grequest_complete(r[0]));
    MTEST_OK(MPI_Cancel(&r[0]));
    MTEST_CHECK(n_cancel == 101, "cancel complete %d", n_cancel);
    MTEST_OK(MPI_Request_get_status(r[0], &flag, st));
    MTEST_CHECK(flag && n_query == 1 && n_free == 0, "get_status %d", n_query);
    MTEST_OK(MPI_Wait(&r[0], st));
    MPI_Get_count(st, MPI_INT, &n);
    MTEST_CHECK(n == 3 && st->MPI_TAG == 17 && st->MPI_SOURCE == 4 && r[0] == MPI_REQUEST_NULL && n_free == 1,
                "waited %d %d", n, n_free);
    query_result = MPI_ERR_OTHER;
    MTEST_OK(MPI_Grequest_start(query_fn, free_fn, cancel_fn, &extra, &r[0]));
    MTEST_OK(MPI_Grequest_complete(r[0]));
    int code = MPI_Wait(&r[0], st);
    MTEST_CHECK(mtest_class(code) == MPI_ERR_OTHER, "query's error: %d", code);
    query_result = 0;
    for (int i = 0; i < 3; i++)
        MTEST_OK(MPI_Grequest_start(query_fn, free_fn, cancel_fn, &extra, &r[i]));
    MTEST_OK(MPI_Grequest_complete(r[1]));
    MTEST_OK(MPI_Waitany(3, r, &idx, st));
    MTEST_CHECK(idx == 1, "Waitany %d", idx);
    MTEST_OK(MPI_Testsome(3, r, &n, which, st));
    MTEST_CHECK(n == 0, "Testsome %d", n);
    MTEST_OK(MPI_Grequest_complete(r[2]));
    MTEST_OK(MPI_Waitsome(3, r, &n, which, st));
    MTEST_CHECK(n == 1 && which[0] == 2, "Waitsome");
    n_free = 0;
    MTEST_OK(MPI_Grequest_complete(r[0]));
    MTEST_OK(MPI_Waitall(3, r, st));
    MTEST_CHECK(n_free == 1 && st[0].MPI_TAG == 17 && st[1].MPI_TAG == MPI_ANY_TAG, "Waitall");
    n_free = 0;
    MTEST_OK(MPI_Grequest_start(query_fn, free_fn, cancel_fn, &extra, &r[0]));
    MPI_Request keep = r[0];
    MTEST_OK(MPI_Request_free(&r[0]));
    MTEST_CHECK(n_free == 0, "freed while active");
    MTEST_OK(MPI_Grequest_complete(keep));
    MTEST_CHECK(n_free == 1, "free_fn %d", n_free);
    int x;
    MTEST_OK(MPI_Irecv(&x, 1, MPI_INT, mtest_rank, 0, MPI_COMM_WORLD, &r[0]));
    MTEST_CLASS(MPI_Grequest_complete(r[0]), MPI_ERR_REQUEST);
    MPI_Cancel(&r[0]);
    MPI_Wait(&r[0], st);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    check_part();
    check_grequests();
    return mtest_end();
}
