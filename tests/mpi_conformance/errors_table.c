/* SPDX-License-Identifier: BSD-3-Clause */
/* Every function refuses each wrong argument with the right class and changes nothing. The calls are in
 * errors_table.inc, which gen_errors_table.py writes at build time.
 *
 * usage: errors_table world|self [freed] [-v] [MPI_Function...]
 *
 * world, self: the communicator that the calls get is a duplicate of that one. freed: also handles of freed
 * objects, which a library may only find by reading freed memory. -v: print each call before it is made.
 */
#include "mtest.h"

#include <stdbool.h>

#define N_OUTS 16 /* most parameters of a function */
#define OUT_BYTES 512
#define N_BLOCKS 256 /* most ranks */

/* One handle of each kind. */
struct handles {
    MPI_Comm comm, cart, graph, dist;
    MPI_Datatype type, loose; /* loose: not committed */
    MPI_Group group;
    MPI_Op op;
    MPI_Info info;
    MPI_Request request, psend, precv; /* a persistent receive, partitioned ones that are under way */
    MPI_Message message;
    MPI_Errhandler errhandler, session_errhandler;
    MPI_Session session;
};

/* Arguments that are only read. */
static struct {
    int size, rank; /* of the communicator */
    int buf[N_BLOCKS];
    int ints_zero[N_BLOCKS], ints_one[N_BLOCKS], ints_neg[N_BLOCKS], ints_big[N_BLOCKS];
    MPI_Count counts_zero[N_BLOCKS], counts_one[N_BLOCKS], counts_neg[N_BLOCKS], counts_big[N_BLOCKS];
    MPI_Aint aints_zero[N_BLOCKS], aints_one[N_BLOCKS], aints_neg[N_BLOCKS];
    MPI_Datatype types[N_BLOCKS], types_null[N_BLOCKS], types_loose[N_BLOCKS];
    int ranges[1][3], ranges_zero[1][3], ranges_big[1][3];
    int distribs[1], dargs[1];
    int comm_key, type_key, error_class;
    char long_key[2 * MPI_MAX_INFO_KEY], long_value[2 * MPI_MAX_INFO_VAL];
    MPI_Group group_outside; /* its member is not in the communicator; MPI_GROUP_NULL where that cannot be */
} in;

/* Everything that a call could change: compared as a whole with what it was. */
static struct {
    unsigned char out[N_OUTS][OUT_BYTES];
    struct handles ok, null, wrong, freed, predefined;
    MPI_Request requests[2], bad_requests[2], null_requests[2];
    MPI_Status status;
    int comm_key, type_key, null_key, bad_key, tag_ub_key, len;
    int dims_zero[2], dims_neg[2], dims_three[2];
    int zero, negative;
    MPI_Count zero_count, negative_count;
    MPI_Aint zero_aint, negative_aint;
} f, before;

static bool use_freed, is_verbose;
static const char *doing; /* the call that is being made */

static void comm_handler(MPI_Comm *comm, int *error, ...)
{
    MTEST_CHECK(comm == NULL && error == NULL, "%s called an error handler", doing);
}

static void session_handler(MPI_Session *session, int *error, ...)
{
    MTEST_CHECK(session == NULL && error == NULL, "%s called an error handler", doing);
}

static void user_fn(void *from, void *to, int *len, MPI_Datatype *type)
{
    MTEST_CHECK(!from || !to || !len || !type, "%s called an operation", doing);
}

static void user_fn_c(void *from, void *to, MPI_Count *len, MPI_Datatype *type)
{
    MTEST_CHECK(!from || !to || !len || !type, "%s called an operation", doing);
}

static int grequest_query(void *extra, MPI_Status *status)
{
    return extra == NULL && status == NULL;
}

static int grequest_free(void *extra)
{
    return extra == NULL ? MPI_SUCCESS : MPI_ERR_OTHER;
}

static int grequest_cancel(void *extra, int complete)
{
    return extra == NULL && complete >= 0 ? MPI_SUCCESS : MPI_ERR_OTHER;
}

static void begin(const char *call)
{
    doing = call;
    if (is_verbose && mtest_rank == 0) {
        printf("%s\n", call);
        fflush(stdout);
    }
}

static void end(int error, int class_a, int class_b, int class_c)
{
    int got = mtest_class(error);

    if (got != class_a && got != class_b && got != class_c)
        mtest_expect_class(error, class_a, doing, __FILE__, __LINE__);
    if (memcmp(&f, &before, sizeof f) != 0) {
        size_t at = 0;
        while (((unsigned char *)&f)[at] == ((unsigned char *)&before)[at])
            at++;
        mtest_fail(__FILE__, __LINE__, "%s wrote to its arguments (parameter %zu of them, byte %zu)", doing,
                   at / OUT_BYTES, at % OUT_BYTES);
        memcpy(&f, &before, sizeof f);
    }
}

/* The call must return an error of one of the classes (-1: none) and write nothing. */
#define CASE(class_a, class_b, class_c, call)         \
    do {                                              \
        begin(#call);                                 \
        end((call), (class_a), (class_b), (class_c)); \
    } while (0)
#define FREED_CASE(class_a, class_b, class_c, call) \
    do {                                            \
        if (use_freed)                              \
            CASE(class_a, class_b, class_c, call);  \
    } while (0)

struct function {
    const char *name;
    void (*wrong)(void);
};

#include "errors_table.inc"

static void set_up_inputs(void)
{
    MPI_Group world;

    for (int i = 0; i < N_BLOCKS; i++) {
        in.buf[i] = i;
        in.ints_one[i] = 1;
        in.counts_one[i] = in.aints_one[i] = 1;
        in.ints_neg[i] = -77;
        in.counts_neg[i] = in.aints_neg[i] = -77;
        in.ints_big[i] = 100000;
        in.counts_big[i] = 100000;
        in.types[i] = MPI_INT;
        in.types_null[i] = MPI_DATATYPE_NULL;
        in.types_loose[i] = f.ok.loose;
    }
    memcpy(in.ranges, (int[]){0, 0, 1}, sizeof in.ranges);
    memcpy(in.ranges_zero, (int[]){0, 0, 0}, sizeof in.ranges);
    memcpy(in.ranges_big, (int[]){0, 100000, 1}, sizeof in.ranges);
    in.distribs[0] = MPI_DISTRIBUTE_BLOCK;
    in.dargs[0] = MPI_DISTRIBUTE_DFLT_DARG;
    memset(in.long_key, 'k', sizeof in.long_key - 1);
    memset(in.long_value, 'v', sizeof in.long_value - 1);
    MTEST_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &in.comm_key, NULL));
    MTEST_OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &in.type_key, NULL));
    MTEST_OK(MPI_Add_error_class(&in.error_class));
    MTEST_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    in.group_outside = MPI_GROUP_NULL;
    if (in.size < mtest_size)
        MTEST_OK(MPI_Group_incl(world, 1, (int[]){(mtest_rank + 1) % mtest_size}, &in.group_outside));
    MTEST_OK(MPI_Group_free(&world));
}

static void set_up_comms(MPI_Comm whole)
{
    MPI_Comm_dup(whole, &f.ok.comm);
    mtest_errors_return(f.ok.comm);
    MPI_Comm_size(f.ok.comm, &in.size);
    MPI_Comm_rank(f.ok.comm, &in.rank);
    MPI_Cart_create(f.ok.comm, 1, &in.size, (int[]){1}, 0, &f.ok.cart);
    mtest_errors_return(f.ok.cart);
    for (int i = 0; i < N_BLOCKS; i++)
        in.ints_one[i] = 1;
    MPI_Graph_create(f.ok.comm, in.size, in.ints_one, (int[]){0}, 0, &f.ok.graph); /* one edge, from 0 to 0 */
    mtest_errors_return(f.ok.graph);
    MPI_Dist_graph_create_adjacent(f.ok.comm, 1, (int[]){0}, (int[]){1}, 0, NULL, NULL, MPI_INFO_NULL, 0,
                                   &f.ok.dist);
    mtest_errors_return(f.ok.dist);
}

static void set_up_objects(struct handles *h)
{
    MTEST_OK(MPI_Type_contiguous(2, MPI_INT, &h->type));
    MTEST_OK(MPI_Type_commit(&h->type));
    MTEST_OK(MPI_Type_contiguous(3, MPI_INT, &h->loose));
    MTEST_OK(MPI_Comm_group(f.ok.comm, &h->group));
    MTEST_OK(MPI_Op_create(user_fn, 1, &h->op));
    MTEST_OK(MPI_Info_create(&h->info));
    MTEST_OK(MPI_Info_set(h->info, "known", "value"));
    MTEST_OK(MPI_Recv_init(in.buf, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, &h->request));
    MTEST_OK(MPI_Comm_create_errhandler(comm_handler, &h->errhandler));
    MTEST_OK(MPI_Session_create_errhandler(session_handler, &h->session_errhandler));
    MTEST_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &h->session));
}

static void free_objects(struct handles h)
{
    MTEST_OK(MPI_Type_free(&h.type));
    MTEST_OK(MPI_Type_free(&h.loose));
    MTEST_OK(MPI_Group_free(&h.group));
    MTEST_OK(MPI_Op_free(&h.op));
    MTEST_OK(MPI_Info_free(&h.info));
    MTEST_OK(MPI_Request_free(&h.request));
    MTEST_OK(MPI_Errhandler_free(&h.errhandler));
    MTEST_OK(MPI_Errhandler_free(&h.session_errhandler));
    MTEST_OK(MPI_Session_finalize(&h.session));
}

static void set_up_wrong_handles(void)
{
    f.null = (struct handles){.comm = MPI_COMM_NULL,
                              .type = MPI_DATATYPE_NULL,
                              .group = MPI_GROUP_NULL,
                              .op = MPI_OP_NULL,
                              .info = MPI_INFO_NULL,
                              .request = MPI_REQUEST_NULL,
                              .message = MPI_MESSAGE_NULL,
                              .errhandler = MPI_ERRHANDLER_NULL,
                              .session = MPI_SESSION_NULL};
    f.predefined =
        (struct handles){.comm = MPI_COMM_WORLD, .type = MPI_INT, .op = MPI_SUM, .info = MPI_INFO_ENV};
    f.wrong = (struct handles){.comm = (MPI_Comm)f.ok.info,
                               .type = (MPI_Datatype)f.ok.info,
                               .group = (MPI_Group)f.ok.info,
                               .op = (MPI_Op)f.ok.info,
                               .info = (MPI_Info)f.ok.op,
                               .request = (MPI_Request)f.ok.info,
                               .message = (MPI_Message)f.ok.info,
                               .errhandler = (MPI_Errhandler)f.ok.info,
                               .session = (MPI_Session)f.ok.info};
    f.requests[0] = f.requests[1] = f.ok.request;
    f.bad_requests[0] = f.bad_requests[1] = f.wrong.request;
    f.null_requests[0] = f.null_requests[1] = MPI_REQUEST_NULL;
}

static void set_up(MPI_Comm whole)
{
    memset(&f, 0, sizeof f);
    memset(f.out, 0xa5, sizeof f.out);
    set_up_comms(whole);
    set_up_objects(&f.ok);
    set_up_inputs();
    MTEST_OK(MPI_Psend_init(in.buf, 2, 1, MPI_INT, MPI_PROC_NULL, 7, f.ok.comm, MPI_INFO_NULL, &f.ok.psend));
    MTEST_OK(MPI_Precv_init(in.buf, 2, 1, MPI_INT, MPI_PROC_NULL, 7, f.ok.comm, MPI_INFO_NULL, &f.ok.precv));
    MTEST_OK(MPI_Start(&f.ok.psend));
    MTEST_OK(MPI_Start(&f.ok.precv));
    f.ok.message = MPI_MESSAGE_NO_PROC;
    set_up_wrong_handles();
    f.comm_key = in.comm_key;
    f.type_key = in.type_key;
    f.null_key = MPI_KEYVAL_INVALID;
    f.bad_key = 987654;
    f.tag_ub_key = MPI_TAG_UB;
    f.len = 100;
    f.dims_neg[0] = -1;
    f.dims_three[0] = 3;
    f.negative = -1;
    f.negative_count = f.negative_aint = -1;
    if (use_freed) {
        MPI_Comm_dup(whole, &f.freed.comm);
        MPI_Comm copy = f.freed.comm;
        set_up_objects(&f.freed);
        MTEST_OK(MPI_Group_free(
            &f.freed.group)); /* that one is in use, and shared: instead one of the rank's own */
        MTEST_OK(MPI_Group_incl(f.ok.group, 1, (int[]){in.rank}, &f.freed.group));
        free_objects(f.freed);
        MPI_Comm_free(&copy);
    }
    memcpy(&before, &f, sizeof f);
}

static void tear_down(void)
{
    free_objects(f.ok);
    if (in.group_outside != MPI_GROUP_NULL)
        MTEST_OK(MPI_Group_free(&in.group_outside));
    MTEST_OK(MPI_Pready_range(0, 1, f.ok.psend));
    MTEST_OK(MPI_Wait(&f.ok.psend, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Wait(&f.ok.precv, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Request_free(&f.ok.psend));
    MTEST_OK(MPI_Request_free(&f.ok.precv));
    MTEST_OK(MPI_Comm_free_keyval(&in.comm_key));
    MTEST_OK(MPI_Type_free_keyval(&in.type_key));
    MTEST_OK(MPI_Comm_free(&f.ok.dist));
    MTEST_OK(MPI_Comm_free(&f.ok.graph));
    MTEST_OK(MPI_Comm_free(&f.ok.cart));
    MTEST_OK(MPI_Comm_free(&f.ok.comm));
}

static bool is_wanted(const char *name, int argc, char **argv)
{
    bool any = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0)
            return true;
        any |= strncmp(argv[i], "MPI_", 4) == 0;
    }
    return !any;
}

int main(int argc, char **argv)
{
    int sum = 0, one = 1;
    MPI_Comm whole = MPI_COMM_WORLD;

    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    for (int i = 1; i < argc; i++) {
        use_freed |= strcmp(argv[i], "freed") == 0;
        is_verbose |= strcmp(argv[i], "-v") == 0;
        if (strcmp(argv[i], "self") == 0)
            whole = MPI_COMM_SELF;
    }
    set_up(whole);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (is_wanted(functions[i].name, argc, argv))
            functions[i].wrong();
    }
    /* After all that everything works. */
    MTEST_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, f.ok.comm));
    MTEST_CHECK(sum == in.size, "the sum of 1 over %d ranks is %d", in.size, sum);
    tear_down();
    return mtest_end();
}
