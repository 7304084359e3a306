/* SPDX-License-Identifier: BSD-3-Clause */
/* Corner cases of communicators: comparison, split by odd keys, attributes that outlive their keys, callbacks
 * that fail, names, error handlers that are freed while in use, hints, intercommunicators side by side. */
#include "mtest.h"

static int n_copied, n_deleted, fail_delete, fail_copy;
static int copy_fn(MPI_Comm c, int key, void *extra, void *in, void *out, int *flag)
{
    (void)c;
    (void)key;
    (void)extra;
    n_copied++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return fail_copy ? MPI_ERR_OTHER : MPI_SUCCESS;
}
static int drop_fn(MPI_Comm c, int key, void *extra, void *in, void *out, int *flag)
{
    (void)c;
    (void)key;
    (void)extra;
    (void)in;
    (void)out;
    *flag = 0;
    n_copied++;
    return MPI_SUCCESS;
}
static int delete_fn(MPI_Comm c, int key, void *val, void *extra)
{
    (void)c;
    (void)key;
    (void)val;
    (void)extra;
    n_deleted++;
    return fail_delete ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void check_attrs(void)
{
    MPI_Comm c, d;
    int key, key2, flag;
    void *val;
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
    MTEST_OK(MPI_Comm_create_keyval(copy_fn, delete_fn, &key, NULL));
    MTEST_OK(MPI_Comm_create_keyval(drop_fn, delete_fn, &key2, NULL));
    MTEST_OK(MPI_Comm_get_attr(c, key, &val, &flag));
    MTEST_CHECK(!flag, "not set");
    MTEST_OK(MPI_Comm_set_attr(c, key, (void *)100));
    MTEST_OK(MPI_Comm_set_attr(c, key2, (void *)200));
    n_deleted = 0;
    MTEST_OK(MPI_Comm_set_attr(c, key, (void *)101));
    MTEST_CHECK(n_deleted == 1, "overwritten: %d deletes", n_deleted);
    int k = key, k2 = key2;
    MTEST_OK(MPI_Comm_free_keyval(&k));
    MTEST_CHECK(k == MPI_KEYVAL_INVALID, "key after free");
    MTEST_OK(MPI_Comm_get_attr(c, key, &val, &flag));
    MTEST_CHECK(flag && val == (void *)101, "attribute of a freed key");
    k = key;
    MTEST_OK(MPI_Comm_free_keyval(&k)); /* as MPICH does */
    n_copied = 0;
    MTEST_OK(MPI_Comm_dup(c, &d));
    MTEST_CHECK(n_copied == 2, "copied %d", n_copied);
    MTEST_OK(MPI_Comm_get_attr(d, key, &val, &flag));
    MTEST_CHECK(flag && val == (void *)102, "copy %p", val);
    MTEST_OK(MPI_Comm_get_attr(d, key2, &val, &flag));
    MTEST_CHECK(!flag, "dropped");
    n_deleted = 0;
    MTEST_OK(MPI_Comm_free(&d));
    MTEST_CHECK(n_deleted == 1, "deleted with d: %d", n_deleted);
    fail_copy = 1;
    d = MPI_COMM_NULL;
    int code = MPI_Comm_dup(c, &d);
    MTEST_CHECK(code != MPI_SUCCESS, "copy failed, dup did not");
    fail_copy = 0;
    fail_delete = 1;
    n_deleted = 0;
    code = MPI_Comm_delete_attr(c, key2);
    MTEST_CHECK(code != MPI_SUCCESS && n_deleted == 1, "delete failed, delete_attr did not");
    MTEST_OK(MPI_Comm_get_attr(c, key2, &val, &flag));
    MTEST_CHECK(flag, "attribute gone although its delete failed");
    fail_delete = 0;
    MTEST_OK(MPI_Comm_delete_attr(c, key2));
    MTEST_OK(MPI_Comm_get_attr(c, key2, &val, &flag));
    MTEST_CHECK(!flag, "deleted");
    MTEST_OK(MPI_Comm_free_keyval(&k2));
    n_deleted = 0;
    MTEST_OK(MPI_Comm_free(&c));
    MTEST_CHECK(n_deleted == 1, "deleted with c: %d", n_deleted);
    static const int predefined[] = {MPI_TAG_UB, MPI_WTIME_IS_GLOBAL, MPI_UNIVERSE_SIZE, MPI_LASTUSEDCODE,
                                     MPI_APPNUM};
    for (int i = 0; i < 5; i++) {
        MTEST_CHECK(MPI_Comm_set_attr(MPI_COMM_WORLD, predefined[i], &key) != MPI_SUCCESS,
                    "predefined %d set", i);
        MTEST_CHECK(MPI_Comm_delete_attr(MPI_COMM_WORLD, predefined[i]) != MPI_SUCCESS,
                    "predefined %d deleted", i);
        k = predefined[i];
        MTEST_CHECK(MPI_Comm_free_keyval(&k) != MPI_SUCCESS, "predefined %d freed", i);
    }
    int *p;
    MTEST_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &p, &flag));
    MTEST_CHECK(flag && *p >= MPI_ERR_LASTCODE, "LASTUSEDCODE");
    int cls;
    int before = *p;
    MTEST_OK(MPI_Add_error_class(&cls));
    MTEST_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &p, &flag));
    MTEST_CHECK(*p == cls && cls > before, "LASTUSEDCODE %d, class %d", *p, cls);
    MTEST_OK(MPI_Remove_error_class(cls));
    MTEST_CLASS2(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_KEYVAL_INVALID, &val, &flag), MPI_ERR_KEYVAL,
                 MPI_ERR_ARG);
    /* type attributes */
    int tk;
    MPI_Datatype t, u;
    n_deleted = n_copied = 0;
    MTEST_OK(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &tk, NULL));
    MPI_Type_contiguous(2, MPI_INT, &t);
    MTEST_OK(MPI_Type_set_attr(t, tk, (void *)7));
    MPI_Type_dup(t, &u);
    MTEST_OK(MPI_Type_get_attr(u, tk, &val, &flag));
    MTEST_CHECK(flag && val == (void *)7, "dup fn");
    MPI_Type_free(&u);
    MPI_Type_free(&t);
    MTEST_OK(MPI_Type_set_attr(MPI_INT, tk, (void *)8));
    MTEST_OK(MPI_Type_get_attr(MPI_INT, tk, &val, &flag));
    MTEST_CHECK(flag && val == (void *)8, "on MPI_INT");
    MTEST_OK(MPI_Type_delete_attr(MPI_INT, tk));
    MTEST_OK(MPI_Type_free_keyval(&tk));
}

static void check_compare(void)
{
    MPI_Comm c, d;
    int r, rank, size;
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MPI_Comm_compare(c, MPI_COMM_WORLD, &r);
    MTEST_CHECK(r == MPI_CONGRUENT, "dup %d", r);
    MPI_Comm_compare(c, c, &r);
    MTEST_CHECK(r == MPI_IDENT, "itself");
    MPI_Comm_split(c, 0, mtest_size - mtest_rank, &d);
    MPI_Comm_compare(c, d, &r);
    MTEST_CHECK(r == (mtest_size > 1 ? MPI_SIMILAR : MPI_CONGRUENT), "reversed %d", r);
    MPI_Comm_rank(d, &rank);
    MTEST_CHECK(rank == mtest_size - 1 - mtest_rank, "reversed rank");
    MPI_Comm_free(&d);
    MPI_Comm_compare(MPI_COMM_SELF, c, &r);
    MTEST_CHECK(r == (mtest_size > 1 ? MPI_UNEQUAL : MPI_CONGRUENT), "SELF %d", r);
    MTEST_OK(MPI_Comm_split(c, mtest_rank % 2 ? MPI_UNDEFINED : 1, -mtest_rank, &d));
    if (mtest_rank % 2)
        MTEST_CHECK(d == MPI_COMM_NULL, "undefined");
    else {
        MPI_Comm_size(d, &size);
        MPI_Comm_rank(d, &rank);
        MTEST_CHECK(size == (mtest_size + 1) / 2 && rank == size - 1 - mtest_rank / 2, "negative keys");
        MPI_Comm_free(&d);
    }
    MTEST_OK(MPI_Comm_split(c, 2147483647, 0, &d));
    MPI_Comm_rank(d, &rank);
    MTEST_CHECK(rank == mtest_rank, "equal keys");
    MPI_Comm_free(&d);
    if (mtest_size == 1)
        MTEST_CLASS2(MPI_Comm_split(c, -5, 0, &d), MPI_ERR_ARG, MPI_ERR_COMM);
    /* disjoint groups in one Comm_create, and one rank with none */
    MPI_Group w, g;
    int list[64], n = 0;
    MPI_Comm_group(c, &w);
    for (int i = 0; i < mtest_size; i++)
        if (i % 3 == mtest_rank % 3)
            list[n++] = i;
    MPI_Group_incl(w, mtest_rank % 3 == 2 ? 0 : n, list, &g);
    MTEST_OK(MPI_Comm_create(c, g, &d));
    if (mtest_rank % 3 == 2)
        MTEST_CHECK(d == MPI_COMM_NULL, "empty group");
    else {
        MPI_Comm_size(d, &size);
        MTEST_CHECK(size == n, "size %d", size);
        int sum;
        MPI_Allreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, d);
        MPI_Comm_free(&d);
    }
    MPI_Group_free(&g);
    MPI_Group_incl(w, 1, &mtest_rank, &g);
    MTEST_OK(MPI_Comm_create_group(c, g, mtest_rank, &d));
    MPI_Comm_size(d, &size);
    MTEST_CHECK(size == 1, "create_group");
    MPI_Comm_free(&d);
    MPI_Group_free(&g);
    /* groups */
    int in[3] = {0, MPI_PROC_NULL, mtest_size - 1}, out[3] = {-9, -9, -9};
    MPI_Group_excl(w, 1, in, &g);
    MTEST_OK(MPI_Group_translate_ranks(w, 3, in, g, out));
    MTEST_CHECK(out[0] == MPI_UNDEFINED && out[1] == MPI_PROC_NULL &&
                    (mtest_size == 1 || out[2] == mtest_size - 2),
                "translate %d %d %d", out[0], out[1], out[2]);
    MPI_Group_compare(w, g, &r);
    MTEST_CHECK(r == MPI_UNEQUAL, "compare groups");
    MPI_Group_free(&g);
    MTEST_OK(MPI_Group_excl(w, 0, NULL, &g));
    MPI_Group_compare(w, g, &r);
    MTEST_CHECK(r == MPI_IDENT, "nothing excluded %d", r);
    MPI_Group_free(&g);
    MTEST_OK(MPI_Group_incl(w, 0, NULL, &g));
    MPI_Group_size(g, &size);
    MTEST_CHECK(size == 0, "empty");
    MPI_Group_compare(g, MPI_GROUP_EMPTY, &r);
    MTEST_CHECK(r == MPI_IDENT, "empty groups %d", r);
    MPI_Group_rank(g, &rank);
    MTEST_CHECK(rank == MPI_UNDEFINED, "rank in empty");
    MPI_Group_free(&g);
    int range[1][3] = {{mtest_size - 1, 0, -1}};
    MTEST_OK(MPI_Group_range_incl(w, 1, range, &g));
    MPI_Group_compare(w, g, &r);
    MTEST_CHECK(r == (mtest_size > 1 ? MPI_SIMILAR : MPI_IDENT), "reversed group");
    MPI_Group_free(&g);
    MPI_Group e = MPI_GROUP_EMPTY;
    MTEST_OK(MPI_Group_union(e, w, &g));
    MPI_Group_compare(w, g, &r);
    MTEST_CHECK(r == MPI_IDENT, "union with empty");
    MPI_Group_free(&g);
    MTEST_OK(MPI_Group_difference(w, w, &g));
    MPI_Group_size(g, &size);
    MTEST_CHECK(size == 0, "difference");
    MPI_Group_free(&g);
    MPI_Group_free(&w);
    MPI_Comm_free(&c);
    MTEST_CLASS(MPI_Comm_free(&c), MPI_ERR_COMM);
    c = MPI_COMM_WORLD;
    MTEST_CLASS(MPI_Comm_free(&c), MPI_ERR_COMM);
    c = MPI_COMM_SELF;
    MTEST_CLASS2(MPI_Comm_free(&c), MPI_ERR_COMM, MPI_ERR_COMM);
}

static void check_names(void)
{
    char name[MPI_MAX_OBJECT_NAME], longest[MPI_MAX_OBJECT_NAME + 50];
    int len;
    MPI_Comm c;
    MTEST_OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &len));
    MTEST_CHECK(!strcmp(name, "MPI_COMM_WORLD") && len == 14, "%s", name);
    MTEST_OK(MPI_Comm_get_name(MPI_COMM_SELF, name, &len));
    MTEST_CHECK(!strcmp(name, "MPI_COMM_SELF"), "%s", name);
    MTEST_OK(MPI_Comm_get_name(MPI_COMM_NULL, name, &len));
    MTEST_CHECK(!strcmp(name, "MPI_COMM_NULL"), "%s", name);
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MTEST_OK(MPI_Comm_get_name(c, name, &len));
    MTEST_CHECK(len == 0 && !name[0], "dup has a name: %s", name);
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = 0;
    int code = MPI_Comm_set_name(c, longest);
    MTEST_OK(MPI_Comm_get_name(c, name, &len));
    if (!code)
        MTEST_CHECK(len == MPI_MAX_OBJECT_NAME - 1, "longest name %d", len);
    MTEST_OK(MPI_Comm_set_name(c, ""));
    MTEST_OK(MPI_Comm_get_name(c, name, &len));
    MTEST_CHECK(len == 0, "empty name");
    MTEST_OK(MPI_Comm_set_name(MPI_COMM_WORLD, "the world"));
    MTEST_OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &len));
    MTEST_CHECK(!strcmp(name, "the world"), "%s", name);
    MPI_Comm_free(&c);
}

static int n_handled, last_code;
static MPI_Comm last_comm;
static void handler(MPI_Comm *c, int *code, ...)
{
    n_handled++;
    last_comm = *c;
    last_code = *code;
}

static void check_handlers(void)
{
    MPI_Comm c, d;
    MPI_Errhandler e, f;
    int x, code;
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MTEST_OK(MPI_Comm_create_errhandler(handler, &e));
    MTEST_OK(MPI_Comm_set_errhandler(c, e));
    f = e;
    MTEST_OK(MPI_Errhandler_free(&e));
    MTEST_CHECK(e == MPI_ERRHANDLER_NULL, "freed");
    n_handled = 0;
    code = MPI_Send(&x, 1, MPI_INT, mtest_size + 3, 0, c);
    MTEST_CHECK(n_handled == 1 && last_comm == c && mtest_class(last_code) == MPI_ERR_RANK &&
                    mtest_class(code) == MPI_ERR_RANK,
                "handler of freed object: %d", n_handled);
    MTEST_OK(MPI_Comm_get_errhandler(c, &e));
    MTEST_CHECK(e == f, "another handle");
    MTEST_OK(MPI_Comm_dup(c, &d));
    MTEST_OK(MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN));
    n_handled = 0;
    code = MPI_Send(&x, 1, MPI_INT, mtest_size, 0, d);
    MTEST_CHECK(n_handled == 1 && last_comm == d, "inherited");
    MTEST_OK(MPI_Comm_set_errhandler(c, e));
    MTEST_OK(MPI_Errhandler_free(&e));
    MTEST_OK(MPI_Comm_get_errhandler(d, &e));
    MTEST_OK(MPI_Errhandler_free(&e));
    MPI_Comm_free(&d);
    n_handled = 0;
    code = MPI_Recv(&x, -1, MPI_INT, 0, 0, c, MPI_STATUS_IGNORE);
    MTEST_CHECK(n_handled == 1 && mtest_class(code) == MPI_ERR_COUNT, "still there");
    n_handled = 0;
    MTEST_OK(MPI_Comm_call_errhandler(c, MPI_ERR_TOPOLOGY));
    MTEST_CHECK(n_handled == 1 && last_code == MPI_ERR_TOPOLOGY, "call_errhandler");
    MPI_Comm_free(&c);
    e = MPI_ERRHANDLER_NULL;
    MTEST_CHECK(MPI_Errhandler_free(&e) != MPI_SUCCESS, "null handler freed");
    MTEST_CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRHANDLER_NULL) != MPI_SUCCESS,
                "null handler set");
    /* user classes and codes */
    int cls, cd, len;
    char text[MPI_MAX_ERROR_STRING];
    MTEST_OK(MPI_Add_error_class(&cls));
    MTEST_OK(MPI_Add_error_code(cls, &cd));
    MTEST_OK(MPI_Error_string(cd, text, &len));
    MTEST_CHECK(len == 0, "default string %s", text);
    MTEST_OK(MPI_Add_error_string(cd, "my error"));
    MTEST_OK(MPI_Error_string(cd, text, &len));
    MTEST_CHECK(!strcmp(text, "my error") && len == 8, "%s", text);
    MTEST_OK(MPI_Error_class(cd, &x));
    MTEST_CHECK(x == cls, "class");
    MTEST_CLASS2(MPI_Add_error_string(MPI_ERR_TAG, "no"), MPI_ERR_ARG, MPI_ERR_ARG);
    MTEST_CHECK(MPI_Remove_error_class(cls) != MPI_SUCCESS, "class with codes removed");
    MTEST_OK(MPI_Remove_error_string(cd));
    MTEST_OK(MPI_Remove_error_code(cd));
    MTEST_OK(MPI_Remove_error_class(cls));
}

static void check_inter(void)
{
    MPI_Comm half, inter, inter2, merged, dup, part;
    int flag, n, rank, color = mtest_rank % 2, sum, r;
    if (mtest_size < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, color, mtest_rank, &half);
    /* two at once, over the same leaders, told apart by the tag */
    MTEST_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - color, 7, &inter));
    MTEST_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - color, 7, &inter2));
    MPI_Comm_test_inter(inter, &flag);
    MTEST_CHECK(flag, "test_inter");
    MPI_Comm_compare(inter, inter2, &r);
    MTEST_CHECK(r == MPI_CONGRUENT, "compare inter %d", r);
    MPI_Comm_compare(inter, half, &r);
    MTEST_CHECK(r == MPI_UNEQUAL, "inter and intra %d", r);
    MPI_Comm_remote_size(inter, &n);
    MTEST_CHECK(n == (color ? (mtest_size + 1) / 2 : mtest_size / 2), "remote size %d", n);
    MTEST_CLASS(MPI_Comm_remote_size(half, &n), MPI_ERR_COMM);
    MTEST_OK(MPI_Intercomm_merge(inter, 0, &merged));
    MPI_Comm_size(merged, &n);
    MTEST_CHECK(n == mtest_size, "merged same flags %d", n);
    MPI_Comm_free(&merged);
    MTEST_OK(MPI_Intercomm_merge(inter, !color, &merged));
    MPI_Comm_rank(merged, &rank);
    MTEST_CHECK(rank == (color ? mtest_rank / 2 : mtest_size / 2 + mtest_rank / 2), "merged high %d", rank);
    MPI_Allreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, merged);
    MTEST_CHECK(sum == mtest_size * (mtest_size - 1) / 2, "sum");
    MPI_Comm_free(&merged);
    MTEST_OK(MPI_Comm_dup(inter, &dup));
    MPI_Comm_test_inter(dup, &flag);
    MTEST_CHECK(flag, "dup inter");
    int out = mtest_rank, in = -1;
    MPI_Comm_rank(inter, &rank);
    MPI_Comm_remote_size(inter, &n);
    if (rank < n && rank < mtest_size / 2) {
        MTEST_OK(MPI_Sendrecv(&out, 1, MPI_INT, rank, 0, &in, 1, MPI_INT, rank, 0, dup, MPI_STATUS_IGNORE));
        MTEST_CHECK(in == (mtest_rank ^ 1), "partner %d", in);
    }
    MPI_Comm_free(&dup);
    MTEST_OK(MPI_Comm_split(inter, 0, -rank, &part));
    MTEST_CHECK(part != MPI_COMM_NULL, "split inter");
    MPI_Comm_rank(part, &r);
    MPI_Comm_size(part, &n);
    MTEST_CHECK(r == n - 1 - rank, "split inter reversed");
    MPI_Comm_free(&part);
    MTEST_OK(MPI_Comm_split(inter, mtest_rank < 2 ? 3 : MPI_UNDEFINED, 0, &part));
    if (mtest_rank < 2) {
        MPI_Comm_remote_size(part, &n);
        MTEST_CHECK(n == 1, "split inter part");
        MPI_Comm_free(&part);
    } else
        MTEST_CHECK(part == MPI_COMM_NULL, "undefined inter");
    MTEST_OK(MPI_Comm_split(inter, color, 0, &part));
    MTEST_CHECK(part == MPI_COMM_NULL, "colors of one side only");
    MPI_Group lg, rg;
    MPI_Comm_group(inter, &lg);
    MPI_Comm_remote_group(inter, &rg);
    MPI_Group_size(rg, &n);
    int i0 = 0;
    MPI_Group first;
    MPI_Group_incl(lg, 1, &i0, &first);
    MTEST_OK(MPI_Comm_create(inter, first, &part));
    if (rank == 0) {
        MPI_Comm_remote_size(part, &n);
        MTEST_CHECK(n == 1, "create inter %d", n);
        MPI_Comm_free(&part);
    } else
        MTEST_CHECK(part == MPI_COMM_NULL, "not in it");
    MPI_Group_free(&first);
    MPI_Group_free(&lg);
    MPI_Group_free(&rg);
    /* intercommunicators where intra is required */
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    int one = 1, zero = 0;
    MPI_Comm bad;
    MTEST_CLASS(MPI_Scan(&out, &in, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Exscan(&out, &in, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Cart_create(inter, 1, &one, &zero, 0, &bad), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Intercomm_create(inter, 0, MPI_COMM_WORLD, 0, 0, &bad), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Intercomm_merge(half, 0, &bad), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Dist_graph_create(inter, 0, NULL, NULL, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &bad),
                MPI_ERR_COMM);
    MTEST_CLASS(MPI_Graph_create(inter, 0, NULL, NULL, 0, &bad), MPI_ERR_COMM);
    MTEST_CLASS2(MPI_Cart_map(inter, 1, &one, &zero, &r), MPI_ERR_COMM, MPI_ERR_COMM);
    int idx1 = 0;
    MTEST_CLASS2(MPI_Graph_map(inter, 1, &idx1, &zero, &r), MPI_ERR_COMM, MPI_ERR_COMM);
    MPI_Request rq;
    MTEST_CLASS(MPI_Iscan(&out, &in, 1, MPI_INT, MPI_SUM, inter, &rq), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Scan_init(&out, &in, 1, MPI_INT, MPI_SUM, inter, MPI_INFO_NULL, &rq), MPI_ERR_COMM);
    MPI_Comm_group(inter, &lg);
    MTEST_CLASS(MPI_Comm_create_group(inter, lg, 0, &bad), MPI_ERR_COMM);
    MPI_Group_free(&lg);
    MTEST_CLASS(MPI_Comm_remote_group(half, &rg), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Dist_graph_create_adjacent(inter, 0, NULL, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED,
                                               MPI_INFO_NULL, 0, &bad),
                MPI_ERR_COMM);
    MTEST_CLASS2(MPI_Neighbor_allgather(&out, 1, MPI_INT, &in, 1, MPI_INT, inter), MPI_ERR_TOPOLOGY,
                 MPI_ERR_COMM);
    MTEST_OK(MPI_Topo_test(inter, &n));
    MTEST_CHECK(n == MPI_UNDEFINED, "topo of inter");
    MPI_Comm_free(&inter2);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

static void check_info_hints(void)
{
    MPI_Info info, used;
    MPI_Comm c;
    char v[100];
    int flag, len = 100, n;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Info_set(info, "who_knows", "x");
    MTEST_OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &c));
    MTEST_OK(MPI_Info_free(&info));
    MTEST_OK(MPI_Comm_get_info(c, &used));
    MTEST_OK(MPI_Info_get_string(used, "mpi_assert_no_any_tag", &len, v, &flag));
    MTEST_CHECK(!flag || !strcmp(v, "true"), "hint %s", v);
    MPI_Info_free(&used);
    MTEST_CLASS(MPI_Comm_set_info(c, MPI_INFO_NULL), MPI_ERR_INFO);
    MTEST_OK(MPI_Comm_get_info(c, &used));
    MPI_Info_free(&used);
    MPI_Comm_free(&c);
    MPI_Info_create(&info);
    MPI_Info_get_nkeys(info, &n);
    MTEST_CHECK(n == 0, "new info");
    char key[MPI_MAX_INFO_KEY + 10], val[MPI_MAX_INFO_VAL + 10], got[MPI_MAX_INFO_VAL + 10];
    memset(key, 'k', sizeof key);
    key[MPI_MAX_INFO_KEY - 1] = 0;
    memset(val, 'v', sizeof val);
    val[MPI_MAX_INFO_VAL - 1] = 0;
    MTEST_OK(MPI_Info_set(info, key, val));
    len = sizeof got;
    MTEST_OK(MPI_Info_get_string(info, key, &len, got, &flag));
    MTEST_CHECK(flag && len == MPI_MAX_INFO_VAL && !strcmp(got, val), "longest value %d", len);
    key[MPI_MAX_INFO_KEY - 1] = 'k';
    key[MPI_MAX_INFO_KEY] = 0;
    MTEST_CLASS(MPI_Info_set(info, key, "x"), MPI_ERR_INFO_KEY);
    val[MPI_MAX_INFO_VAL - 1] = 'v';
    val[MPI_MAX_INFO_VAL] = 0;
    MTEST_CLASS(MPI_Info_set(info, "a", val), MPI_ERR_INFO_VALUE);
    MTEST_CLASS(MPI_Info_set(info, "", "x"), MPI_ERR_INFO_KEY);
    int code = MPI_Info_set(info, "a", "");
    MTEST_CHECK(!code || mtest_class(code) == MPI_ERR_INFO_VALUE, "empty value %d", code);
    MPI_Info_free(&info);
    MPI_Info_create(&info);
    const char *keys[] = {"zeta", "alpha", "mid"};
    for (int i = 0; i < 3; i++)
        MPI_Info_set(info, keys[i], keys[i]);
    char k[MPI_MAX_INFO_KEY];
    for (int i = 0; i < 3; i++) {
        MTEST_OK(MPI_Info_get_nthkey(info, i, k));
        MTEST_CHECK(!strcmp(k, keys[i]), "key %d is %s", i, k);
    }
    MTEST_CLASS2(MPI_Info_get_nthkey(info, 3, k), MPI_ERR_ARG, MPI_ERR_INFO_KEY);
    MTEST_CLASS2(MPI_Info_get_nthkey(info, -1, k), MPI_ERR_ARG, MPI_ERR_INFO_KEY);
    MTEST_OK(MPI_Info_set(info, "alpha", "new"));
    MPI_Info_get_nkeys(info, &n);
    MTEST_CHECK(n == 3, "overwritten");
    MTEST_OK(MPI_Info_dup(info, &used));
    MPI_Info_delete(info, "zeta");
    MPI_Info_get_nthkey(info, 0, k);
    MTEST_CHECK(!strcmp(k, "alpha"), "after delete %s", k);
    MPI_Info_get_nthkey(used, 0, k);
    MTEST_CHECK(!strcmp(k, "zeta"), "dup %s", k);
    MTEST_CLASS(MPI_Info_delete(info, "zeta"), MPI_ERR_INFO_NOKEY);
    MTEST_OK(MPI_Info_get_valuelen(info, "alpha", &len, &flag));
    MTEST_CHECK(flag && len == 3, "valuelen %d", len);
    len = 77;
    MTEST_OK(MPI_Info_get_valuelen(info, "none", &len, &flag));
    MTEST_CHECK(!flag && len == 77, "no key");
    char two[3] = "##";
    MTEST_OK(MPI_Info_get(info, "alpha", 2, two, &flag));
    MTEST_CHECK(flag && !strcmp(two, "ne"), "cut %s", two);
    len = 2;
    char s2[3] = "##";
    MTEST_OK(MPI_Info_get_string(info, "alpha", &len, s2, &flag));
    MTEST_CHECK(flag && len == 4 && !strcmp(s2, "n"), "cut string %s %d", s2, len);
    len = 0;
    MTEST_OK(MPI_Info_get_string(info, "alpha", &len, NULL, &flag));
    MTEST_CHECK(flag && len == 4, "length %d", len);
    MPI_Info_free(&used);
    MPI_Info_free(&info);
    MTEST_CHECK(info == MPI_INFO_NULL, "freed");
    MTEST_CLASS2(MPI_Info_free(&info), MPI_ERR_INFO, MPI_ERR_INFO);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    check_attrs();
    check_compare();
    check_names();
    check_handlers();
    check_inter();
    check_info_hints();
    return mtest_end();
}
