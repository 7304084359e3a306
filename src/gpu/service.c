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
 * It stays for gpu_service_us after the last order, and STAY_US at most. Who waits for all that runs on the
 * device must not wait for it: before each such call of the program's it is called away (guard.h), by a word
 * in its mailbox that any thread may write, and kept away until the call has returned. STAY_US is for the
 * calls that we do not see. What is launched after a call is not waited for.
 */
#include "gpu/service.h"

#include <pthread.h>
#include <string.h>

#include "base/log.h"
#include "gpu/driver.h"
#include "gpu/kernels/kernels.h"
#include "gpu/module.h"
#include "gpu/gpu_pack.h"
#include "gpu/repeats.h"
#include "gpu/driver_watch.h"

/* How long a kernel stays at most. */
#define STAY_US 2000

/* How long it stays after an order, unless +gpu-service says otherwise. */
#define USUAL_US 100

/* To launch it and send it away costs as much as it saves with so many orders. */
#define WORTH_ORDERS 4

/* So many copies are waited for, at most, before it is launched again though it was not worth it. */
#define RELUCTANCE_MAX 64

/* The driver is asked for errors after so many looks without news. */
#define LOOKS_PER_QUERY 1024

struct gpu_service {
    struct gpu_service *next;        /* link of the PE's list */
    struct gpu_service *next_of_all; /* link of the list of all PEs' */
    struct gpu_queue *queue;         /* what it is launched in */
    struct gpu_mailbox *mailbox;     /* pinned */
    uint64_t mailbox_at;             /* the same as the GPU sees it */
    struct gpu_ticket *first;        /* of the orders under way, in order */
    struct gpu_ticket *last;
    uint32_t issued;          /* number of the last order */
    uint32_t handled;         /* ... and of the last one that has been done, or given up */
    uint32_t launches;        /* number of the last launch */
    uint32_t first_of_launch; /* number of the first order that it may take */
    atomic_bool is_launched;  /* it has not left, as far as is known */
    bool is_broken;
    unsigned n_looks;   /* without news */
    uint64_t wanted_ns; /* when there was a copy for it last */
    int n_wanted;       /* copies that came soon after the one before, since the last launch */
    int reluctance;     /* it is launched when there were so many */
    uint64_t n_done;    /* copies */
    atomic_int n_holds; /* those who keep it away; changes under the lock of `all` */
    int device;
};

long gpu_service_us;
static bool is_asked_for;

bool gpu_service_set(const char *text)
{
    char *end;
    long us = USUAL_US;

    if (text && strcmp(text, "off") == 0)
        us = 0;
    else if (text)
        us = strtol(text, &end, 10);
    if (text && us != 0 && (*end || us < 0 || us > 1000))
        return false;
    gpu_service_us = us;
    is_asked_for = text != NULL;
    return true;
}

/* ---- All PEs' ---- */

static struct {
    pthread_mutex_t lock;
    struct gpu_service *first;
    int n_holds[GPU_DEVICES_MAX + 1]; /* of each device; of all of them: the last */
    atomic_bool is_any;
    atomic_uint_fast64_t n_sent_away;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint64_t gpu_service_times_sent_away(void)
{
    return atomic_load_explicit(&all.n_sent_away, memory_order_relaxed);
}

/* The word that calls it away is in every order: the kernel looks at some of them. */
static void set_leave(struct gpu_service *service, bool is_on)
{
    for (int i = 0; i < GPU_SERVICE_ORDERS; i++)
        __atomic_store_n(&service->mailbox->orders[i].words[GPU_SERVICE_LEAVE], is_on, __ATOMIC_SEQ_CST);
}

static void enlist(struct gpu_service *service)
{
    pthread_mutex_lock(&all.lock);
    service->n_holds = all.n_holds[service->device] + all.n_holds[GPU_DEVICES_MAX];
    set_leave(service, service->n_holds > 0);
    service->next_of_all = all.first;
    all.first = service;
    atomic_store(&all.is_any, true);
    pthread_mutex_unlock(&all.lock);
}

static void change_holds(int device, int by)
{
    if (device == GPU_SERVICE_NONE)
        return;
    pthread_mutex_lock(&all.lock);
    all.n_holds[device == GPU_SERVICE_ALL ? GPU_DEVICES_MAX : device] += by;
    for (struct gpu_service *service = all.first; service; service = service->next_of_all) {
        int before;
        if (device != GPU_SERVICE_ALL && device != service->device)
            continue;
        before = atomic_fetch_add(&service->n_holds, by);
        if (before == 0 || before + by == 0)
            set_leave(service, by > 0);
        if (before == 0 && atomic_load(&service->is_launched))
            atomic_fetch_add_explicit(&all.n_sent_away, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&all.lock);
}

static int current_device(void)
{
    CUdevice device;

    return gpu_driver.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : GPU_SERVICE_ALL;
}

int gpu_service_hold(int device)
{
    if (!atomic_load_explicit(&all.is_any, memory_order_acquire))
        return GPU_SERVICE_NONE;
    if (device == GPU_SERVICE_CURRENT)
        device = current_device();
    change_holds(device, 1);
    return device;
}

void gpu_service_release(int device)
{
    change_holds(device, -1);
}

/* ---- Making one ---- */

static BASE_COLD void say(const char *what, int device, const char *why)
{
    if (is_asked_for)
        base_log("+gpu-service: %s on GPU %d: %s", what, device, why);
    else
        base_log_verbose(1, "+gpu-service: %s on GPU %d: %s", what, device, why);
}

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

/* Whether processes of the job have to share GPUs, which the GPU does by giving each its time: a kernel that
 * stays takes its own from what others compute. What a launcher has given to each process alone
 * (CUDA_VISIBLE_DEVICES) is not shared. */
static bool are_gpus_shared(void)
{
    const char *visible = secure_getenv("CUDA_VISIBLE_DEVICES");
    int n_pes_on_node;

    (void)ult_pe_node_index(ult_pe_get(0), &n_pes_on_node);
    return !(visible && *visible) && n_pes_on_node / ult_pe_count() > gpu_device_count();
}

/* Why there can be none, whatever the GPU; NULL: nothing is in the way. */
static const char *find_obstacle(void)
{
    const char *blocking = secure_getenv("CUDA_LAUNCH_BLOCKING");

    if (!gpu_has_kernels())
        return "this library was built without nvcc";
    if (blocking && *blocking && strcmp(blocking, "0") != 0)
        return "CUDA_LAUNCH_BLOCKING is set";
    if (!is_asked_for && gpu_watch_is_late())
        return "CUDA was in use before the ranks began, so its calls that wait for a GPU are not seen";
    if (!is_asked_for && are_gpus_shared())
        return "there are more processes on this node than GPUs";
    return NULL;
}

/* Where the kernel has been loaded before anything could run. */
static atomic_bool is_loaded[GPU_DEVICES_MAX];

/* For others than these (src/CMakeLists.txt) the driver has to compile them, which takes seconds the first
 * time: too much for a program that may never send a GPU's buffer. */
static bool has_machine_code(int device)
{
    int major = 0;

    gpu_call(cuDeviceGetAttribute, (&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    return major == 9;
}

void gpu_service_load(int device, CUcontext context, CUresult (*load)(CUfunction))
{
    CUcontext before;
    CUfunction kernel;
    uint64_t begin_ns = ult_now_ns();
    int error;

    if (gpu_service_us == 0 || find_obstacle() || device >= GPU_DEVICES_MAX ||
        (!is_asked_for && !has_machine_code(device)) || gpu_context_enter(context, &before))
        return;
    error = gpu_module_function(device, GPU_KERNEL_SERVICE, &kernel);
    if (!error && load) /* else its first launch would */
        error = load(kernel) != CUDA_SUCCESS;
    if (!error)
        gpu_repeats_load(device, load);
    gpu_context_leave(context, before);
    atomic_store(&is_loaded[device], !error);
    base_log_verbose(2, "the kernel of +gpu-service was loaded on GPU %d in %.1f ms", device,
                     (double)(ult_now_ns() - begin_ns) / 1e6);
}

/* One that cannot be had is there all the same, and broken: it is not tried again. */
static BASE_COLD struct gpu_service *make(struct gpu_pe *pe, int device)
{
    struct gpu_service *made = base_calloc(1, sizeof *made, "a service on a GPU");
    const char *obstacle = find_obstacle();
    int error = 0;

    made->device = device;
    if (!obstacle && !is_asked_for && !atomic_load(&is_loaded[device]))
        obstacle = "it was not loaded when the context was made, and loading it now might take long";
    if (!obstacle) {
        made->queue = gpu_queue_of(device, GPU_LANE_SERVICE, &error);
        if (made->queue)
            error = make_mailbox(made);
        if (error)
            obstacle = gpu_error_text(error);
    }
    made->is_broken = obstacle != NULL;
    if (obstacle)
        say("none", device, obstacle);
    made->reluctance = 1;
    made->next = pe->services;
    pe->services = made;
    if (!obstacle)
        enlist(made);
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
    say("no more", service->device, gpu_error_text(error));
}

static void launch(struct gpu_service *service)
{
    struct gpu_kernel_service args = {.mailbox = service->mailbox_at,
                                      .launch = service->launches + 1,
                                      .first = service->issued + 1,
                                      .wait_ns = (uint32_t)gpu_service_us * 1000,
                                      .stay_ns = STAY_US * 1000};
    struct gpu_queue *local = gpu_pe_self()->queues[service->device][GPU_LANE_LOCAL];
    int error =
        gpu_queue_launch(service->queue, GPU_KERNEL_SERVICE, 1, GPU_SERVICE_THREADS, &args, sizeof args);

    if (local) /* the copy before this is seen to be done when this call has returned */
        gpu_queue_forget_time(local);
    service->launches++;
    service->n_wanted = 0;
    service->first_of_launch = args.first;
    service->is_launched = true;
    if (BASE_UNLIKELY(error))
        fail(service, error);
}

/* It has left: was it worth it? */
static void note_left(struct gpu_service *service)
{
    atomic_store_explicit(&service->is_launched, false, memory_order_relaxed);
    if ((int32_t)(service->mailbox->done - service->first_of_launch) + 1 >= WORTH_ORDERS)
        service->reluctance = 1;
    else if (service->reluctance < RELUCTANCE_MAX)
        service->reluctance *= 2;
}

static bool is_there(const struct gpu_service *service)
{
    return service->is_launched && has_said(service, GPU_SERVICE_HERE) &&
           atomic_load_explicit(&service->n_holds, memory_order_relaxed) == 0;
}

bool gpu_service_is_there(int device)
{
    return gpu_service_us > 0 && is_there(service_of(device));
}

void gpu_service_call(int device)
{
    struct gpu_service *service = service_of(device);
    uint64_t now_ns = ult_now_ns(), since_ns = now_ns - service->wanted_ns;

    service->wanted_ns = now_ns;
    if (service->is_broken || since_ns >= (uint64_t)gpu_service_us * 1000)
        return;
    service->n_wanted++;
    if (service->is_launched && !service->first && has_said(service, GPU_SERVICE_LEFT))
        note_left(service);
    if (!service->is_launched && service->n_wanted >= service->reluctance &&
        atomic_load_explicit(&service->n_holds, memory_order_relaxed) == 0)
        launch(service);
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
    struct gpu_pe *pe = gpu_pe_self();
    uintptr_t to_addr = (uintptr_t)to->first, from_addr = (uintptr_t)from->first;

    if (n_bytes > GPU_SERVICE_MAX / 4 && (to_addr | from_addr | n_bytes) % 16 != 0)
        return false;
    if (service->is_broken || (to_addr | from_addr) >> GPU_SERVICE_ADDRESS_BITS || !can_use(service, from) ||
        !is_there(service) || !can_use(service, to) ||
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
    service->wanted_ns = ult_now_ns();
    pe->source.pending++;
    if (from->device == to->device && pe->queues[from->device][GPU_LANE_LOCAL])
        gpu_queue_skip_local(pe->queues[from->device][GPU_LANE_LOCAL], service->wanted_ns);
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

    note_left(service); /* first: the handlers may launch the next one */
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
