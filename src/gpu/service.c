/* SPDX-License-Identifier: BSD-3-Clause
 *
 * service.c: the CPU's side of the kernel that stays on a GPU (kernels/service_kernel.h). One per PE and
 * device that small copies begin at, in a stream of its own.
 *
 *      1 AWAY      --a copy soon after another: launch-->             2 CALLED
 *      2 CALLED    --it says that it is there-->                      3 THERE: takes orders
 *      3 THERE     --it says that it leaves-->                        4 LEAVING: takes no more
 *      4 LEAVING   --it says that it has left, or its stream ends-->  1 AWAY
 *      any         --its stream fails-->                              5 BROKEN, for good
 *
 * The kernel moves it on from 2 to 4, in the word mailbox.state; we look at it when there is a copy, and
 * while orders are under way. A copy never waits for the kernel to come: on a GPU that is full that may take
 * long. An order that was written while the kernel left may have been seen or not: what is not done when it
 * has left is done another way, and its number is never used again. So the kernel is launched only when the
 * one before has left, and no launch waits in the stream.
 *
 * It stays for gpu_service_us after the last order, and STAY_US at most: whoever waits for the device (or
 * frees memory) while others send messages all the time has to get his turn. What is launched after it is not
 * waited for.
 */
#include "gpu/service.h"

#include <string.h>

#include "base/log.h"
#include "gpu/driver.h"
#include "gpu/kernels/kernels.h"
#include "gpu/pack.h"

/* How long a kernel stays at most. */
#define STAY_US 2000

/* The driver is asked for errors after so many looks without news. */
#define LOOKS_PER_QUERY 1024

struct gpu_service {
    struct gpu_service *next;    /* link of the PE's list */
    struct gpu_queue *queue;     /* what it is launched in */
    struct gpu_mailbox *mailbox; /* pinned */
    uint64_t mailbox_at;         /* the same as the GPU sees it */
    struct gpu_ticket *first;    /* of the orders under way, in order */
    struct gpu_ticket *last;
    uint32_t issued;   /* number of the last order */
    uint32_t handled;  /* ... and of the last one that has been done, or given up */
    uint32_t launches; /* number of the last launch */
    bool is_launched;  /* it has not left */
    bool is_broken;
    unsigned n_looks;   /* without news */
    uint64_t wanted_ns; /* when there was a copy for it last */
    uint64_t n_done;    /* copies */
    int device;
};

long gpu_service_us;

/* ---- Making one ---- */

static int make_mailbox(struct gpu_service *service)
{
    size_t size;
    int error = 0;
    void *memory = gpu_pinned_get(sizeof *service->mailbox, &size, &error);
    CUcontext context = gpu_context_of(service->device), before;
    CUdeviceptr at = 0;

    if (!memory)
        return error;
    error = gpu_context_enter(context, &before);
    if (!error) {
        error = gpu_call(cuMemHostGetDevicePointer, (&at, memory, 0));
        gpu_context_leave(context, before);
    }
    if (error) {
        gpu_pinned_put(memory);
        return error;
    }
    memset(memory, 0, sizeof *service->mailbox);
    service->mailbox = memory;
    service->mailbox_at = at;
    return 0;
}

/* One that cannot be had is there all the same, and broken: it is not tried again. */
static BASE_COLD struct gpu_service *make(struct gpu_pe *pe, int device)
{
    struct gpu_service *made = base_calloc(1, sizeof *made, "a service on a GPU");
    int error = 0;

    made->device = device;
    made->queue = gpu_queue_of(device, GPU_LANE_SERVICE, &error);
    if (made->queue)
        error = make_mailbox(made);
    made->is_broken = error || !gpu_has_kernels();
    if (made->is_broken)
        base_log("+gpu-service: none on GPU %d: %s", device,
                 error ? gpu_error_text(error) : "this library was built without nvcc");
    made->next = pe->services;
    pe->services = made;
    return made;
}

static struct gpu_service *service_of(int device)
{
    struct gpu_pe *pe = gpu_pe_self();
    struct gpu_service *service = pe->services;

    while (service && service->device != device)
        service = service->next;
    return BASE_LIKELY(service != NULL) ? service : make(pe, device);
}

static bool can_use(const struct gpu_service *service, const struct gpu_move_side *side)
{
    return gpu_reach(service->device, side->addr, side->device, side->buffer) == GPU_REACH_KERNEL;
}

/* ---- The kernel comes and goes ---- */

static uint32_t state_of(const struct gpu_service *service)
{
    return __atomic_load_n(&service->mailbox->state, __ATOMIC_SEQ_CST);
}

static bool has_said(const struct gpu_service *service, enum gpu_service_phase phase)
{
    return state_of(service) == GPU_SERVICE_SAYS(service->launches, phase);
}

static void fail(struct gpu_service *service, int error)
{
    service->is_broken = true;
    service->is_launched = false;
    base_log("+gpu-service: no more on GPU %d: %s", service->device, gpu_error_text(error));
}

static void launch(struct gpu_service *service)
{
    struct gpu_kernel_service args = {.mailbox = service->mailbox_at,
                                      .launch = service->launches + 1,
                                      .first = service->issued + 1,
                                      .wait_ns = (uint32_t)gpu_service_us * 1000,
                                      .stay_ns = STAY_US * 1000};
    int error =
        gpu_queue_launch(service->queue, GPU_KERNEL_SERVICE, 1, GPU_SERVICE_THREADS, &args, sizeof args);

    service->launches++;
    service->is_launched = true;
    if (BASE_UNLIKELY(error))
        fail(service, error);
}

/* Is the kernel there for another order? If not, it is called if copies come so soon after one another that
 * it will be of use. */
static bool is_there(struct gpu_service *service)
{
    uint64_t now_ns = ult_now_ns(), since_ns = now_ns - service->wanted_ns;

    service->wanted_ns = now_ns;
    if (service->is_launched && has_said(service, GPU_SERVICE_HERE))
        return true;
    if (service->is_launched && !service->first && has_said(service, GPU_SERVICE_LEFT))
        service->is_launched = false;
    if (!service->is_launched && since_ns < (uint64_t)gpu_service_us * 1000)
        launch(service);
    return false;
}

/* ---- Orders ---- */

static void write_order(struct gpu_service *service, uint64_t to, uint64_t from, uint64_t n_bytes)
{
    uint32_t number = ++service->issued;
    uint64_t tag = (uint64_t)(number & 0xffff) << GPU_SERVICE_ADDRESS_BITS;
    uint64_t *words = service->mailbox->orders[number % GPU_SERVICE_ORDERS].words;

    __atomic_store_n(&words[2], tag | n_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&words[1], tag | from, __ATOMIC_RELAXED);
    __atomic_store_n(&words[0], tag | to, __ATOMIC_RELEASE);
}

bool gpu_service_copy(const struct gpu_move_side *from, const struct gpu_move_side *to, size_t n_bytes,
                      struct gpu_ticket *ticket)
{
    struct gpu_service *service = service_of(from->device);
    uintptr_t to_addr = (uintptr_t)to->first, from_addr = (uintptr_t)from->first;

    if (n_bytes > GPU_SERVICE_MAX / 4 && (to_addr | from_addr | n_bytes) % 16 != 0)
        return false;
    if (service->is_broken || (to_addr | from_addr) >> GPU_SERVICE_ADDRESS_BITS || !can_use(service, from) ||
        !can_use(service, to) || !is_there(service) ||
        service->issued - service->handled >= GPU_SERVICE_ORDERS)
        return false;
    write_order(service, to_addr, from_addr, n_bytes);
    ticket->number = service->issued;
    ticket->next = NULL;
    if (service->first)
        service->last->next = ticket;
    else
        service->first = ticket;
    service->last = ticket;
    gpu_pe_self()->source.pending++;
    return true;
}

/* ---- Completion ---- */

/* Ends the first order under way. */
static void end_first(struct gpu_pe *pe, struct gpu_service *service, int error)
{
    struct gpu_ticket *ticket = service->first;

    service->first = ticket->next;
    service->handled = ticket->number;
    service->n_done += error == 0;
    pe->source.pending--;
    ticket->handle(ticket, error);
}

static int end_done(struct gpu_pe *pe, struct gpu_service *service)
{
    uint32_t done = __atomic_load_n(&service->mailbox->done, __ATOMIC_ACQUIRE);
    int n_ended = 0;

    while (service->first && (int32_t)(done - service->first->number) >= 0) {
        end_first(pe, service, 0);
        n_ended++;
    }
    return n_ended;
}

/* Nothing will be done any more: ends those that are under way now, not what is ordered by their handlers. */
static int end_all(struct gpu_pe *pe, struct gpu_service *service, int error)
{
    uint32_t last = service->issued;
    int n_ended;

    service->is_launched = false; /* first: the handlers may launch the next one */
    n_ended = end_done(pe, service);
    while (service->first && (int32_t)(last - service->first->number) >= 0) {
        end_first(pe, service, error);
        n_ended++;
    }
    return n_ended;
}

static int poll_service(struct gpu_pe *pe, struct gpu_service *service)
{
    int n_ended, error;

    if (!service->first)
        return 0;
    n_ended = end_done(pe, service);
    if (n_ended || !service->first) {
        service->n_looks = 0;
        return n_ended;
    }
    if (has_said(service, GPU_SERVICE_LEFT))
        return end_all(pe, service, GPU_SERVICE_NOT_DONE);
    if (++service->n_looks % LOOKS_PER_QUERY != 0)
        return 0;
    error = gpu_queue_ask(service->queue);
    if (error == GPU_QUEUE_BUSY)
        return 0;
    if (error)
        fail(service, error);
    return end_all(pe, service, error ? error : GPU_SERVICE_NOT_DONE);
}

int gpu_service_poll(struct gpu_pe *pe)
{
    int n_ended = 0;

    for (struct gpu_service *service = pe->services; service; service = service->next)
        n_ended += poll_service(pe, service);
    return n_ended;
}

uint64_t gpu_service_count(void)
{
    uint64_t n_done = 0;

    for (const struct gpu_service *service = gpu_pe_self()->services; service; service = service->next)
        n_done += service->n_done;
    return n_done;
}
