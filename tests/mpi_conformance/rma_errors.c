/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Wrong one-sided calls are refused with the error class of the chapter and change nothing; the window still
 * works.
 */
#include "mtest.h"

enum { CELLS = 8 };

static int cells[CELLS], value = 5, result;
static MPI_Win win;

/* Every call that needs an epoch, on a target that no epoch includes. */
static void check_no_epoch(int target)
{
    MPI_Request request;
    int compare = 0;

    MTEST_CLASS(MPI_Put(&value, 1, MPI_INT, target, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Get(&result, 1, MPI_INT, target, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Accumulate(&value, 1, MPI_INT, target, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(
        MPI_Get_accumulate(&value, 1, MPI_INT, &result, 1, MPI_INT, target, 0, 1, MPI_INT, MPI_SUM, win),
        MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Fetch_and_op(&value, &result, MPI_INT, target, 0, MPI_SUM, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Compare_and_swap(&value, &compare, &result, MPI_INT, target, 0, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Rput(&value, 1, MPI_INT, target, 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Rget(&result, 1, MPI_INT, target, 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Raccumulate(&value, 1, MPI_INT, target, 0, 1, MPI_INT, MPI_SUM, win, &request),
                MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Rget_accumulate(&value, 1, MPI_INT, &result, 1, MPI_INT, target, 0, 1, MPI_INT, MPI_SUM,
                                    win, &request),
                MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_unlock(target, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_flush(target, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_flush_local(target, win), MPI_ERR_RMA_SYNC);
}

static void check_outside_epochs(void)
{
    int flag;

    check_no_epoch(mtest_rank);
    MTEST_CLASS(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_flush_local_all(win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_test(win, &flag), MPI_ERR_RMA_SYNC);
}

static void check_arguments(void)
{
    MPI_Datatype mixed, uncommitted, strided;
    int two[2] = {1, 1};
    MPI_Aint at[2] = {0, 8};
    MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE};
    double real = 1;
    struct {
        double value;
        int index;
    } pair = {1, 1};

    MPI_Type_create_struct(2, two, at, parts, &mixed);
    MPI_Type_commit(&mixed);
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);
    MPI_Type_vector(2, 1, CELLS, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, mtest_rank, 0, win));
    MTEST_CLASS(MPI_Put(&value, 1, MPI_INT, mtest_size, 0, 1, MPI_INT, win), MPI_ERR_RANK);
    MTEST_CLASS(MPI_Put(&value, 1, MPI_INT, -7, 0, 1, MPI_INT, win), MPI_ERR_RANK);
    MTEST_CLASS(MPI_Put(&value, -1, MPI_INT, mtest_rank, 0, 1, MPI_INT, win), MPI_ERR_COUNT);
    MTEST_CLASS(MPI_Put(&value, 1, MPI_INT, mtest_rank, 0, -1, MPI_INT, win), MPI_ERR_COUNT);
    MTEST_CLASS(MPI_Put(&value, 1, MPI_DATATYPE_NULL, mtest_rank, 0, 1, MPI_INT, win), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Put(&value, 1, MPI_INT, mtest_rank, 0, 1, MPI_DATATYPE_NULL, win), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Put(&value, 1, MPI_INT, mtest_rank, 0, 1, uncommitted, win), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Put(NULL, 1, MPI_INT, mtest_rank, 0, 1, MPI_INT, win), MPI_ERR_BUFFER);
    MTEST_CLASS(MPI_Put(&value, 1, MPI_INT, mtest_rank, -1, 1, MPI_INT, win), MPI_ERR_DISP);
    MTEST_CLASS(MPI_Put(&value, 1, MPI_INT, mtest_rank, CELLS, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    MTEST_CLASS(MPI_Get(cells, 2, MPI_INT, mtest_rank, CELLS - 1, 2, MPI_INT, win), MPI_ERR_RMA_RANGE);
    MTEST_CLASS(MPI_Put(cells, 2, MPI_INT, mtest_rank, 0, 1, strided, win), MPI_ERR_RMA_RANGE);
    MTEST_CLASS(MPI_Put(&value, 1, MPI_INT, mtest_rank, (MPI_Aint)1 << 62, 1, MPI_INT, win),
                MPI_ERR_RMA_RANGE);
    MTEST_CLASS(MPI_Put(cells, 2, MPI_INT, mtest_rank, 0, 1, MPI_INT, win), MPI_ERR_TRUNCATE);
    MTEST_CLASS(MPI_Get(&result, 1, MPI_INT, mtest_rank, 0, 2, MPI_INT, win), MPI_ERR_TRUNCATE);
    MTEST_CLASS(MPI_Accumulate(&value, 1, MPI_INT, mtest_rank, 0, 1, MPI_INT, MPI_OP_NULL, win), MPI_ERR_OP);
    MTEST_CLASS(MPI_Accumulate(&value, 1, MPI_INT, mtest_rank, 0, 1, MPI_INT, MPI_NO_OP, win), MPI_ERR_OP);
    MTEST_CLASS(MPI_Accumulate(&real, 1, MPI_DOUBLE, mtest_rank, 0, 1, MPI_DOUBLE, MPI_BAND, win),
                MPI_ERR_OP);
    MTEST_CLASS(MPI_Accumulate(&value, 4, MPI_BYTE, mtest_rank, 0, 4, MPI_BYTE, MPI_SUM, win), MPI_ERR_OP);
    MTEST_OK(MPI_Get_accumulate(&value, 0, MPI_BYTE, &result, 0, MPI_BYTE, mtest_rank, 0, 0, MPI_BYTE,
                                MPI_SUM, win));
    MTEST_CLASS(MPI_Accumulate(&pair, 1, mixed, mtest_rank, 0, 1, mixed, MPI_SUM, win), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Accumulate(&value, 1, MPI_INT, mtest_rank, 0, 1, MPI_FLOAT, MPI_SUM, win), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Get_accumulate(&value, 1, MPI_INT, &result, 1, MPI_FLOAT, mtest_rank, 0, 1, MPI_INT,
                                   MPI_SUM, win),
                MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Fetch_and_op(cells, cells, strided, mtest_rank, 0, MPI_SUM, win), MPI_ERR_RMA_RANGE);
    MTEST_CLASS(MPI_Compare_and_swap(&real, &real, &real, MPI_DOUBLE, mtest_rank, 0, win), MPI_ERR_TYPE);
    MTEST_OK(MPI_Win_unlock(mtest_rank, win));
    MPI_Type_free(&mixed);
    MPI_Type_free(&uncommitted);
    MPI_Type_free(&strided);
}

/* MPI_IN_PLACE is not a buffer of any operation. */
static void check_in_place(void)
{
    MPI_Request request;
    int *in = MPI_IN_PLACE;

    MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, mtest_rank, 0, win));
    MTEST_CLASS(MPI_Put(in, 1, MPI_INT, mtest_rank, 0, 1, MPI_INT, win), MPI_ERR_BUFFER);
    MTEST_CLASS(MPI_Get(in, 1, MPI_INT, mtest_rank, 0, 1, MPI_INT, win), MPI_ERR_BUFFER);
    MTEST_CLASS(MPI_Rput(in, 1, MPI_INT, mtest_rank, 0, 1, MPI_INT, win, &request), MPI_ERR_BUFFER);
    MTEST_CLASS(MPI_Accumulate(in, 1, MPI_INT, mtest_rank, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_BUFFER);
    MTEST_CLASS(
        MPI_Get_accumulate(in, 1, MPI_INT, &result, 1, MPI_INT, mtest_rank, 0, 1, MPI_INT, MPI_SUM, win),
        MPI_ERR_BUFFER);
    MTEST_CLASS(
        MPI_Get_accumulate(&value, 1, MPI_INT, in, 1, MPI_INT, mtest_rank, 0, 1, MPI_INT, MPI_SUM, win),
        MPI_ERR_BUFFER);
    MTEST_CLASS(MPI_Fetch_and_op(in, &result, MPI_INT, mtest_rank, 0, MPI_SUM, win), MPI_ERR_BUFFER);
    MTEST_CLASS(MPI_Fetch_and_op(&value, in, MPI_INT, mtest_rank, 0, MPI_SUM, win), MPI_ERR_BUFFER);
    MTEST_CLASS(MPI_Compare_and_swap(in, &value, &result, MPI_INT, mtest_rank, 0, win), MPI_ERR_BUFFER);
    MTEST_CLASS(MPI_Compare_and_swap(&value, in, &result, MPI_INT, mtest_rank, 0, win), MPI_ERR_BUFFER);
    MTEST_CLASS(MPI_Compare_and_swap(&value, &value, in, MPI_INT, mtest_rank, 0, win), MPI_ERR_BUFFER);
    MTEST_OK(MPI_Fetch_and_op(in, &result, MPI_INT, mtest_rank, 0, MPI_NO_OP, win)); /* it is not read */
    MTEST_OK(MPI_Win_unlock(mtest_rank, win));
}

/* Datatypes that are as large as an int, but are none. */
static void check_like_ints(void)
{
    MPI_Datatype behind, behind_int, one;
    int length = 1, old = -1;
    MPI_Aint at = sizeof(int);

    MPI_Type_create_struct(1, &length, &at, (MPI_Datatype[]){MPI_INT}, &behind);
    MPI_Type_create_resized(behind, 0, sizeof(int), &behind_int); /* the int lies behind its extent */
    MPI_Type_commit(&behind_int);
    MPI_Type_contiguous(1, MPI_INT, &one);
    MPI_Type_commit(&one);
    MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, mtest_rank, 0, win));
    MTEST_CLASS(MPI_Put(&value, 1, MPI_INT, mtest_rank, CELLS - 1, 1, behind_int, win), MPI_ERR_RMA_RANGE);
    MTEST_CLASS(MPI_Put(cells, 1, behind_int, mtest_rank, CELLS - 1, 1, behind_int, win), MPI_ERR_RMA_RANGE);
    MTEST_OK(MPI_Put(&value, 1, MPI_INT, mtest_rank, CELLS - 2, 1, behind_int, win));
    MTEST_OK(MPI_Win_flush(mtest_rank, win));
    MTEST_OK(MPI_Get(&old, 1, MPI_INT, mtest_rank, CELLS - 1, 1, MPI_INT, win));
    MTEST_OK(MPI_Win_flush(mtest_rank, win));
    MTEST_CHECK(old == value, "the int behind its extent is %d, not %d", old, value);
    old = 0;
    MTEST_OK(MPI_Put(&old, 1, MPI_INT, mtest_rank, CELLS - 1, 1, MPI_INT, win));
    MTEST_CLASS(MPI_Fetch_and_op(&value, &result, one, mtest_rank, 0, MPI_SUM, win), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Compare_and_swap(&value, &value, &result, one, mtest_rank, 0, win), MPI_ERR_TYPE);
    MTEST_OK(MPI_Win_unlock(mtest_rank, win));
    MPI_Type_free(&behind);
    MPI_Type_free(&behind_int);
    MPI_Type_free(&one);
}

/* Datatypes that have the bytes of others, but are not allowed. */
static void check_wrong_types(int target)
{
    char old[4], packed[4] = {1, 1, 1, 1};

    MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win));
    MTEST_CLASS(MPI_Accumulate(packed, 4, MPI_PACKED, target, 0, 4, MPI_PACKED, MPI_BAND, win), MPI_ERR_OP);
    MTEST_CLASS(
        MPI_Get_accumulate(packed, 4, MPI_PACKED, old, 4, MPI_PACKED, target, 0, 4, MPI_PACKED, MPI_BOR, win),
        MPI_ERR_OP);
    MTEST_CLASS(MPI_Fetch_and_op(packed, old, MPI_PACKED, target, 0, MPI_BXOR, win), MPI_ERR_OP);
    MTEST_OK(MPI_Fetch_and_op(packed, old, MPI_PACKED, target, 0, MPI_NO_OP, win));
    MTEST_CLASS(MPI_Compare_and_swap(packed, packed, old, MPI_PACKED, target, 0, win), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Compare_and_swap(packed, packed, old, MPI_CHAR, target, 0, win), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Compare_and_swap(packed, packed, old, MPI_CHARACTER, target, 0, win), MPI_ERR_TYPE);
    MTEST_OK(MPI_Compare_and_swap(packed, packed, old, MPI_SIGNED_CHAR, target, 0, win));
    MTEST_OK(MPI_Win_unlock(target, win));
}

static void user_op(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)in;
    (void)inout;
    (void)count;
    (void)type;
}

static void check_locks(void)
{
    MPI_Op op;
    int next = (mtest_rank + 1) % mtest_size;

    MTEST_CLASS(MPI_Win_lock(1234, mtest_rank, 0, win), MPI_ERR_LOCKTYPE);
    MTEST_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, mtest_size, 0, win), MPI_ERR_RANK);
    MTEST_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, mtest_rank, MPI_MODE_NOPUT, win), MPI_ERR_ASSERT);
    MTEST_CLASS(MPI_Win_lock_all(MPI_MODE_NOSUCCEED, win), MPI_ERR_ASSERT);
    MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, mtest_rank, 0, win));
    MTEST_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, mtest_rank, 0, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_start(MPI_GROUP_EMPTY, 0, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_post(MPI_GROUP_EMPTY, 0, win), MPI_ERR_RMA_CONFLICT);
    if (next != mtest_rank)
        check_no_epoch(next);
    MPI_Op_create(user_op, 1, &op);
    MTEST_CLASS(MPI_Accumulate(&value, 1, MPI_INT, mtest_rank, 0, 1, MPI_INT, op, win), MPI_ERR_OP);
    MPI_Op_free(&op);
    MTEST_OK(MPI_Win_unlock(mtest_rank, win));
    MTEST_CLASS(MPI_Win_unlock(mtest_rank, win), MPI_ERR_RMA_SYNC);
    MTEST_OK(MPI_Win_lock_all(0, win));
    MTEST_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, mtest_rank, 0, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_unlock(mtest_rank, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_post(MPI_GROUP_EMPTY, 0, win), MPI_ERR_RMA_CONFLICT);
    MTEST_OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD); /* others may still have locked the window that is to be posted */
}

static void check_active(void)
{
    MPI_Group self, all;
    MPI_Request request;

    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, 1, &mtest_rank, &self);
    MTEST_CLASS(MPI_Win_fence(1, win), MPI_ERR_ASSERT);
    MTEST_CLASS(MPI_Win_post(self, MPI_MODE_NOSUCCEED, win), MPI_ERR_ASSERT);
    MTEST_CLASS(MPI_Win_start(self, MPI_MODE_NOPUT, win), MPI_ERR_ASSERT);
    MTEST_CLASS(MPI_Win_start(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
    MTEST_CLASS(MPI_Win_post(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
    MTEST_OK(MPI_Win_post(self, 0, win));
    MTEST_CLASS(MPI_Win_post(self, 0, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, mtest_rank, 0, win), MPI_ERR_RMA_CONFLICT);
    MTEST_CLASS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_CONFLICT);
    MTEST_OK(MPI_Win_start(self, 0, win));
    MTEST_CLASS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_start(self, 0, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Rput(&value, 1, MPI_INT, mtest_rank, 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC);
    MTEST_OK(MPI_Put(&value, 1, MPI_INT, mtest_rank, 0, 1, MPI_INT, win));
    MTEST_OK(MPI_Win_complete(win));
    MTEST_OK(MPI_Win_wait(win));
    MTEST_CHECK(cells[0] == value, "the put after the errors did not arrive");
    MPI_Group_free(&self);
    MPI_Group_free(&all);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void check_fence(void)
{
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, mtest_rank, 0, win)); /* nothing was issued: no epoch */
    MTEST_OK(MPI_Win_unlock(mtest_rank, win));
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Put(&value, 1, MPI_INT, mtest_rank, 1, 1, MPI_INT, win));
    MTEST_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, mtest_rank, 0, win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
    MTEST_CLASS(MPI_Win_fence(MPI_MODE_NOPRECEDE, win), MPI_ERR_RMA_SYNC);
    MTEST_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    MTEST_CLASS(MPI_Put(&value, 1, MPI_INT, mtest_rank, 1, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
}

static void check_proc_null(void)
{
    MPI_Request request;
    MPI_Status status;

    MTEST_OK(MPI_Put(&value, 1, MPI_INT, MPI_PROC_NULL, -1, 1, MPI_INT, win));
    MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, MPI_PROC_NULL, 0, win));
    MTEST_OK(MPI_Fetch_and_op(&value, &result, MPI_INT, MPI_PROC_NULL, 0, MPI_SUM, win));
    MTEST_OK(MPI_Rget(&result, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &request));
    MTEST_OK(MPI_Wait(&request, &status));
    MTEST_CHECK(request == MPI_REQUEST_NULL, "the request is still there");
    MTEST_OK(MPI_Win_unlock(MPI_PROC_NULL, win));
}

static void check_creation(MPI_Comm comm)
{
    MPI_Win other = MPI_WIN_NULL;
    void *base;
    int unit;
    MPI_Aint size;

    MTEST_CLASS(MPI_Win_create(cells, -1, 1, MPI_INFO_NULL, comm, &other), MPI_ERR_SIZE);
    MTEST_CLASS(MPI_Win_create(cells, 4, 0, MPI_INFO_NULL, comm, &other), MPI_ERR_DISP);
    MTEST_CLASS(MPI_Win_create(cells, 4, 1, MPI_INFO_NULL, MPI_COMM_NULL, &other), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Win_allocate(-1, 1, MPI_INFO_NULL, comm, &base, &other), MPI_ERR_SIZE);
    MTEST_CLASS(MPI_Win_attach(win, cells, 4), MPI_ERR_RMA_FLAVOR);
    MTEST_CLASS(MPI_Win_detach(win, cells), MPI_ERR_RMA_FLAVOR);
    MTEST_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &other));
    MPI_Win_set_errhandler(other, MPI_ERRORS_RETURN);
    MTEST_CLASS(MPI_Win_shared_query(other, 0, &size, &unit, &base), MPI_ERR_RMA_FLAVOR);
    MTEST_OK(MPI_Win_attach(other, cells, sizeof cells));
    MTEST_CLASS(MPI_Win_attach(other, cells + 1, 4), MPI_ERR_RMA_ATTACH);
    MTEST_CLASS(MPI_Win_attach(other, cells, -4), MPI_ERR_SIZE);
    MTEST_CLASS(MPI_Win_detach(other, cells + 1), MPI_ERR_RMA_ATTACH);
    MTEST_OK(MPI_Win_detach(other, cells));
    MTEST_CLASS(MPI_Win_detach(other, cells), MPI_ERR_RMA_ATTACH);
    MTEST_OK(MPI_Win_free(&other));
    MTEST_CLASS(MPI_Win_fence(0, MPI_WIN_NULL), MPI_ERR_WIN);
    MTEST_CLASS(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_WIN_NULL), MPI_ERR_WIN);
    MTEST_CLASS(MPI_Win_free(&other), MPI_ERR_WIN);
}

/* Memory that only some ranks can have: all of them hear of it. */
static void check_no_memory(MPI_Comm comm)
{
    MPI_Win other;
    void *base;
    MTEST_CLASS(MPI_Win_allocate(mtest_rank == mtest_size - 1 ? (MPI_Aint)1 << 60 : 8, 1, MPI_INFO_NULL, comm,
                                 &base, &other),
                MPI_ERR_NO_MEM);
}

/* The hint says that there are no locks, but other MPIs accept them, and programs have it by mistake. */
static void check_no_locks(MPI_Comm comm)
{
    MPI_Win other;
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Info_set(info, "no_locks", "true");
    MTEST_OK(MPI_Win_create(cells, sizeof cells, 4, info, comm, &other));
    MPI_Win_set_errhandler(other, MPI_ERRORS_RETURN);
    MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, mtest_rank, 0, other));
    MTEST_OK(MPI_Win_unlock(mtest_rank, other));
    MTEST_OK(MPI_Win_lock_all(0, other));
    MTEST_OK(MPI_Win_unlock_all(other));
    MTEST_OK(MPI_Win_free(&other));
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    MPI_Win freed;
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length;

    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_create(cells, sizeof cells, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    check_outside_epochs();
    check_arguments();
    check_like_ints();
    check_wrong_types(mtest_rank);
    check_wrong_types((mtest_rank + 1) % mtest_size);
    check_in_place();
    MTEST_CHECK(mtest_touched(cells, sizeof cells, 0) == -1, "a refused operation has written");
    check_locks();
    check_active();
    check_fence();
    check_proc_null();
    check_creation(MPI_COMM_WORLD);
    check_no_memory(MPI_COMM_WORLD);
    check_no_locks(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_get_name(MPI_WIN_NULL, name, &length));
    MTEST_CHECK(strcmp(name, "MPI_WIN_NULL") == 0, "the name of MPI_WIN_NULL is '%s'", name);
    freed = win;
    MTEST_OK(MPI_Win_free(&win));
    MTEST_CLASS(MPI_Win_fence(0, freed), MPI_ERR_WIN);
    MTEST_CLASS(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, freed), MPI_ERR_WIN);
    return mtest_end();
}
