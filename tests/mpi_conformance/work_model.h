/* SPDX-License-Identifier: BSD-3-Clause
 *
 * work_model.h: random work requests of many ranks on shared memory, and a model of the data: each request is applied to the model in the order of
 * the submissions. For programs whose ranks are in one process: work_random.c here and in tests/gpu.
 */
#ifndef WORK_MODEL_H
#define WORK_MODEL_H

#include <sched.h>

#include <mpi-ext.h>

#include "mtest.h"

#define WM_ELEMS 4096 /* of the shared area, and of each rank's own area */
#define WM_BUFFERS 4
#define WM_PENDING 12

/* A buffer: rows of an area. */
struct wm_rows {
    unsigned first, row, n, stride; /* elements */
    int access;
};

/* The arguments of a request. */
struct wm_task {
    int n_buffers;
    unsigned added;
    struct wm_rows rows[WM_BUFFERS];
};

/* Areas are in the memory of the rank that made them; all ranks of the process use them. */
struct wm_area {
    unsigned *data;  /* of the requests */
    unsigned *model; /* what it must be */
};

/* The work of a request: writes a function of all that it reads. buffers: the first element of each. */
static inline void wm_do(const struct wm_task *task, unsigned *const *buffers)
{
    unsigned sum = task->added;

    for (int i = 0; i < task->n_buffers; i++)
        for (unsigned j = 0;
             task->rows[i].access & AMPI_GPU_WORK_READ && j < task->rows[i].n * task->rows[i].row; j++)
            sum = sum * 31 + buffers[i][j / task->rows[i].row * task->rows[i].stride + j % task->rows[i].row];
    for (int i = 0; i < task->n_buffers; i++)
        for (unsigned j = 0;
             task->rows[i].access & AMPI_GPU_WORK_WRITE && j < task->rows[i].n * task->rows[i].row; j++)
            buffers[i][j / task->rows[i].row * task->rows[i].stride + j % task->rows[i].row] = sum + j;
}

static inline void wm_cpu(const void *args, const struct AMPI_GPU_Work_block *at)
{
    wm_do(args, (unsigned *const *)at->buffers);
}

static struct wm_area *wm_shared; /* the same for all ranks */
static int *wm_lock;          /* taken while a rank submits, so that the model's order is the submissions' */
static struct wm_area wm_own; /* only this rank uses it */
static uint64_t wm_seed;
static MPI_Request wm_pending[WM_PENDING];
static AMPI_GPU_Work wm_kinds[2];

static inline unsigned wm_random(unsigned n)
{
    return mtest_random(&wm_seed) % n;
}

static inline void wm_acquire(void)
{
    while (__atomic_exchange_n(wm_lock, 1, __ATOMIC_ACQUIRE))
        sched_yield();
}

static inline void wm_release(void)
{
    __atomic_store_n(wm_lock, 0, __ATOMIC_RELEASE);
}

static inline struct wm_rows wm_choose_rows(int access)
{
    struct wm_rows rows = {.access = access, .n = 1};

    rows.row = 1 + wm_random(wm_random(3) ? 64 : WM_ELEMS / 4);
    if (wm_random(3) == 0) {
        rows.row = 1 + wm_random(20);
        rows.n = 2 + wm_random(6);
    }
    rows.stride = rows.row + (rows.n > 1 ? wm_random(40) : 0);
    rows.first = wm_random(WM_ELEMS - (rows.n - 1) * rows.stride - rows.row + 1);
    return rows;
}

static inline int wm_overlap(const struct wm_rows *a, const struct wm_rows *b)
{
    for (unsigned i = 0; i < a->n; i++)
        for (unsigned j = 0; j < b->n; j++)
            if (a->first + i * a->stride < b->first + j * b->stride + b->row &&
                b->first + j * b->stride < a->first + i * a->stride + a->row)
                return 1;
    return 0;
}

/* Buffers that may be in one request. */
static inline struct wm_task wm_choose_task(void)
{
    struct wm_task task = {.n_buffers = 1 + (int)wm_random(WM_BUFFERS), .added = mtest_random(&wm_seed)};

    for (int i = 0; i < task.n_buffers; i++) {
        int is_good;
        do {
            task.rows[i] = wm_choose_rows(i == 0 ? 2 + (int)wm_random(2) : 1 + (int)wm_random(3));
            is_good = 1;
            for (int j = 0; j < i; j++)
                is_good &= !((task.rows[i].access | task.rows[j].access) & AMPI_GPU_WORK_WRITE) ||
                           !wm_overlap(&task.rows[i], &task.rows[j]);
        } while (!is_good);
    }
    return task;
}

static inline struct AMPI_GPU_Work_buffer wm_buffer(const struct wm_area *area, const struct wm_rows *rows)
{
    struct AMPI_GPU_Work_buffer buffer = {area->data + rows->first, rows->row, MPI_UNSIGNED, rows->access};

    if (rows->n > 1) {
        MTEST_OK(
            MPI_Type_vector((int)rows->n, (int)rows->row, (int)rows->stride, MPI_UNSIGNED, &buffer.datatype));
        MTEST_OK(MPI_Type_commit(&buffer.datatype));
        buffer.count = 1;
    }
    return buffer;
}

/* Submits a random request, and applies it to the model. */
static inline void wm_submit(const struct wm_area *area, MPI_Request *request)
{
    struct wm_task task = wm_choose_task();
    struct AMPI_GPU_Work_buffer buffers[WM_BUFFERS];
    unsigned *model[WM_BUFFERS];

    for (int i = 0; i < task.n_buffers; i++) {
        buffers[i] = wm_buffer(area, &task.rows[i]);
        model[i] = area->model + task.rows[i].first;
    }
    wm_acquire();
    MTEST_OK(AMPI_GPU_Work_submit(wm_kinds[wm_random(2)], 1 + (int)wm_random(5), &task, task.n_buffers,
                                  buffers, request));
    wm_do(&task, model);
    wm_release();
    for (int i = 0; i < task.n_buffers; i++)
        if (task.rows[i].n > 1)
            MTEST_OK(MPI_Type_free(&buffers[i].datatype));
}

static inline void wm_compare(const struct wm_area *area, unsigned first, unsigned n, const char *what)
{
    for (unsigned i = first; i < first + n; i++)
        if (area->data[i] != area->model[i]) {
            MTEST_CHECK(0, "%s: element %u is %u instead of %u", what, i, area->data[i], area->model[i]);
            return;
        }
}

/* Persistent requests look at the memory when they are started. */
static inline void wm_send_persistent(unsigned first, unsigned n)
{
    MPI_Request requests[2];
    unsigned got[WM_ELEMS];

    MTEST_OK(MPI_Recv_init(got, (int)n, MPI_UNSIGNED, mtest_rank, 7, MPI_COMM_WORLD, &requests[0]));
    MTEST_OK(MPI_Send_init(wm_own.data + first, (int)n, MPI_UNSIGNED, mtest_rank, 7, MPI_COMM_WORLD,
                           &requests[1]));
    for (int i = 0; i < 2; i++) {
        MPI_Request work;
        wm_submit(&wm_own, &work);
        MTEST_OK(MPI_Wait(&work, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Startall(2, requests));
        MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        MTEST_CHECK(memcmp(got, wm_own.model + first, n * sizeof(unsigned)) == 0,
                    "a persistent message has other data");
    }
    for (int i = 0; i < 2; i++)
        MTEST_OK(MPI_Request_free(&requests[i]));
}

/* The own area: no other rank uses it, so that its data can be looked at when its requests are done. */
static inline void wm_look(void)
{
    unsigned first = wm_random(WM_ELEMS), n = 1 + wm_random(WM_ELEMS - first), got[WM_ELEMS];

    MTEST_OK(AMPI_GPU_Work_wait_all());
    switch (wm_random(5)) {
    case 0:
        MTEST_OK(AMPI_GPU_Work_sync(wm_own.data + first, n * sizeof(unsigned)));
        wm_compare(&wm_own, first, n, "sync");
        break;
    case 1:
        MTEST_OK(MPI_Sendrecv(wm_own.data + first, (int)n, MPI_UNSIGNED, mtest_rank, 5, got, (int)n,
                              MPI_UNSIGNED, mtest_rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MTEST_CHECK(memcmp(got, wm_own.model + first, n * sizeof(unsigned)) == 0, "a message has other data");
        break;
    case 2:
        for (unsigned i = 0; i < n; i++)
            got[i] = wm_own.model[first + i] = mtest_random(&wm_seed);
        MTEST_OK(MPI_Sendrecv(got, (int)n, MPI_UNSIGNED, mtest_rank, 6, wm_own.data + first, (int)n,
                              MPI_UNSIGNED, mtest_rank, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        break;
    case 3:
        wm_send_persistent(first, n);
        break;
    default:
        MTEST_OK(AMPI_GPU_Work_invalidate(wm_own.data + first, n * sizeof(unsigned)));
        for (unsigned i = 0; i < n; i++)
            wm_own.data[first + i] = wm_own.model[first + i] = mtest_random(&wm_seed);
    }
}

/* A request with wrong arguments has no effect on any data. */
static inline void wm_submit_wrong(void)
{
    struct wm_task task = {2, 0, {wm_choose_rows(AMPI_GPU_WORK_WRITE), {0}}};
    struct AMPI_GPU_Work_buffer buffers[2] = {wm_buffer(wm_shared, &task.rows[0]), {0}};
    MPI_Request request = MPI_REQUEST_NULL;
    int class = MPI_ERR_BUFFER; /* both have the same bytes */

    buffers[1] = buffers[0];
    if (wm_random(2)) {
        buffers[1].count = -1;
        class = MPI_ERR_COUNT;
    } else if (wm_random(2)) {
        buffers[1].access = 0;
        class = MPI_ERR_ARG;
    }
    MTEST_CLASS(AMPI_GPU_Work_submit(wm_kinds[wm_random(2)], 1, &task, 2, buffers, &request), class);
    MTEST_CHECK(request == MPI_REQUEST_NULL, "a wrong request has a handle");
    if (task.rows[0].n > 1)
        MTEST_OK(MPI_Type_free(&buffers[0].datatype));
}

/* Ends a request: by a wait, by tests, also after MPI_Cancel, which has no effect, or by MPI_Request_free. */
static inline void wm_end(MPI_Request *request)
{
    int is_done = 0, is_cancelled = 1;
    MPI_Status status;

    switch (wm_random(5)) {
    case 0:
        MTEST_OK(MPI_Request_free(request));
        return;
    case 1:
        MTEST_OK(MPI_Cancel(request));
        break;
    case 2:
        while (!is_done)
            MTEST_OK(MPI_Test(request, &is_done, MPI_STATUS_IGNORE));
        return;
    default:
        break;
    }
    MTEST_OK(MPI_Wait(request, &status));
    MTEST_OK(MPI_Test_cancelled(&status, &is_cancelled));
    MTEST_CHECK(!is_cancelled, "a work request was cancelled");
}

static inline void wm_step(void)
{
    int i = (int)wm_random(WM_PENDING);

    if (wm_pending[i] == MPI_REQUEST_NULL)
        wm_submit(wm_random(3) ? wm_shared : &wm_own, &wm_pending[i]);
    else
        wm_end(&wm_pending[i]);
    if (wm_random(10) == 0)
        wm_submit_wrong();
    if (wm_random(20) == 0)
        wm_look();
    if (wm_random(50) == 0)
        MTEST_OK(AMPI_GPU_Work_pin(wm_own.data, 64));
    if (wm_random(50) == 0)
        MTEST_OK(AMPI_GPU_Work_unpin(wm_own.data, 64));
}

/* A broadcast of the shared area, whose data may be on a GPU, by a rank that has not asked for it. */
static inline void wm_broadcast(void)
{
    unsigned *got = mtest_alloc(WM_ELEMS * sizeof(unsigned));

    MTEST_OK(MPI_Bcast(mtest_rank == 0 ? wm_shared->data : got, WM_ELEMS, MPI_UNSIGNED, 0, MPI_COMM_WORLD));
    if (mtest_rank > 0)
        MTEST_CHECK(memcmp(got, wm_shared->model, WM_ELEMS * sizeof(unsigned)) == 0,
                    "a broadcast has other data");
    free(got);
}

/* The shared area, when nobody uses it: all of it must be as in the model. */
static inline void wm_check_shared(void)
{
    MTEST_OK(MPI_Waitall(WM_PENDING, wm_pending, MPI_STATUSES_IGNORE));
    MTEST_OK(AMPI_GPU_Work_wait_all()); /* those that were freed */
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    wm_broadcast();
    MTEST_OK(AMPI_GPU_Work_sync(wm_shared->data, WM_ELEMS * sizeof(unsigned)));
    wm_compare(wm_shared, 0, WM_ELEMS, "the shared area");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0) {
        unsigned first = wm_random(WM_ELEMS / 2);
        MTEST_OK(AMPI_GPU_Work_invalidate(wm_shared->data + first, 100 * sizeof(unsigned)));
        for (unsigned i = first; i < first + 100; i++)
            wm_shared->data[i] = wm_shared->model[i] = i;
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static inline struct wm_area wm_make_area(void)
{
    struct wm_area area = {mtest_alloc(WM_ELEMS * sizeof(unsigned)),
                           mtest_alloc(WM_ELEMS * sizeof(unsigned))};

    for (unsigned i = 0; i < WM_ELEMS; i++)
        area.data[i] = area.model[i] = i * 7;
    return area;
}

/* Rounds of random steps; the kinds are registered. */
static inline void wm_run(int n_rounds, int n_steps, unsigned seed)
{
    struct wm_area shared = {0};
    int lock = 0;

    mtest_errors_return(MPI_COMM_WORLD);
    mtest_errors_return(MPI_COMM_SELF);
    wm_seed = seed * 1000 + (unsigned)mtest_rank + 1;
    wm_own = wm_make_area();
    for (int i = 0; i < WM_PENDING; i++)
        wm_pending[i] = MPI_REQUEST_NULL;
    if (mtest_rank == 0) {
        shared = wm_make_area();
        wm_shared = &shared;
        wm_lock = &lock;
    }
    MTEST_OK(MPI_Bcast(&wm_shared, sizeof wm_shared, MPI_BYTE, 0, MPI_COMM_WORLD));
    MTEST_OK(MPI_Bcast(&wm_lock, sizeof wm_lock, MPI_BYTE, 0, MPI_COMM_WORLD));
    for (int round = 0; round < n_rounds; round++) {
        for (int step = 0; step < n_steps; step++)
            wm_step();
        wm_check_shared();
    }
    for (int i = 0; i < 2; i++)
        MTEST_OK(AMPI_GPU_Work_free(&wm_kinds[i]));
    MTEST_OK(AMPI_GPU_Work_invalidate(wm_own.data, WM_ELEMS * sizeof(unsigned)));
    free(wm_own.data);
    free(wm_own.model);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0) {
        MTEST_OK(AMPI_GPU_Work_invalidate(shared.data, WM_ELEMS * sizeof(unsigned)));
        free(shared.data);
        free(shared.model);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

#endif
