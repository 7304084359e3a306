/* SPDX-License-Identifier: BSD-3-Clause
 *
 * resident.c: the CPU side of the resident kernel (kernels/resident_kernel.h). There is one kernel per PE
 * and device where small copies begin, in its own stream.
 *
 *      1 AWAY      --a copy soon after another: launch-->             2 CALLED
 *      2 CALLED    --the kernel reports that it is there-->           3 THERE: takes orders
 *      3 THERE     --the kernel reports that it is leaving-->         4 LEAVING: takes no more
 *      4 LEAVING   --it reports that it has left, or its stream ends-->  1 AWAY
 *      any         --its stream fails-->                              5 BROKEN, for good
 *
 * The kernel causes the transitions from 2 to 4, in the word mailbox.state; the CPU reads it when there is
 * a copy, and while orders are in progress. A copy never waits for the kernel to start: on a full GPU that
 * may take long. An order that was written while the kernel was leaving may have been seen or not: orders
 * that are not done when it has left are done another way, and their numbers are never reused. So the
 * kernel is launched only after the previous one has left, and no launch waits in the stream.
 *
 * It stays for gpu_resident_us after the last order, and STAY_US at most. Calls that wait for all work on
 * the device must not wait for it. Before each such call of the program it is evicted (guard.h), by a word
 * in its mailbox that any thread may write, and kept away until the call has returned. STAY_US covers calls
 * that are not intercepted. Such a call does not wait for kernels launched after it.
 *
 * The kernel is one block of 512 threads. It copies up to 64 KiB (16 KiB if not all sizes and addresses are
 * multiples of 16); 128 KiB would take two rounds of loads. Orders check themselves (16 bits of the order's
 * number in each word), so the kernel relies on no order of writes over PCIe. It reads past its
 * multiprocessor's cache, because others write new data while it runs. Launching and evicting it costs as
 * much as four orders save, and holds up the launches of all PEs that use the GPU: if it did fewer than
 * four for each PE that has such a kernel there, twice as many copies must come before the next launch, up
 * to 64. Copies that start together do not call it: one launch makes them all (batch.h). It is loaded just
 * after the primary context is created, because loading a module waits for all work of the GPU.
 *
 * Measured on H200s: 3.7 to 4.6 us for half a round trip of 8 bytes to 8 KiB within a GPU, 3.8 to 5.1
 * between two, where driver calls take 8 to 10. cudaDeviceSynchronize just after a message takes 6 us, 104
 * without eviction, 2 without the kernel.
 */
#include "gpu/copy/resident.h"

#include <string.h>

#include "base/log.h"
#include "gpu/copy/gpu_pack.h"
#include "gpu/copy/pool.h"
#include "gpu/copy/queue.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/driver_monitor.h"
#include "gpu/driver/module.h"
#include "gpu/kernels/kernels.h"

/* Maximum time that a kernel stays. */
#define STAY_US 2000

/* Time that it stays after an order, unless +gpu service:US sets another. */
#define USUAL_US 100

/* Launching and evicting it costs as much as this many orders save, on each PE that uses the GPU. */
#define WORTH_ORDERS 4

/* Cap of the launch back-off. */
#define RELUCTANCE_MAX 64

/* Polls without news after which the driver is queried for errors. */
#define LOOKS_PER_QUERY 1024

struct gpu_resident {
    struct gpu_resident *next; /* next in the PE's list */
    struct gpu_evictable evictable;
    struct gpu_queue *queue;     /* the kernel's stream */
    struct gpu_mailbox *mailbox; /* pinned */
    uint64_t mailbox_at;         /* the GPU's address of the mailbox */
    struct gpu_ticket *first;    /* orders in progress, oldest first */
    struct gpu_ticket *last;
    uint32_t issued;          /* number of the last order */
    uint32_t handled;         /* ... and of the last one done or given up */
    uint32_t launches;        /* number of the last launch */
    uint32_t first_of_launch; /* number of the first order that this launch may take */
    bool is_broken;
    unsigned n_looks;   /* polls without news */
    uint64_t wanted_ns; /* time of the last copy that could have used it */
    int n_wanted;       /* copies in close succession since the last launch */
    int reluctance;     /* launch back-off: n_wanted must reach this number */
    uint64_t n_done;    /* copies done */
    int device;
};

long gpu_resident_us;
static bool is_asked_for;

void gpu_resident_set(long us)
{
    gpu_resident_us = us >= 0 ? us : USUAL_US;
    is_asked_for = us >= 0;
}

/* Kernels, by device. */
static _Atomic int n_residents[GPU_DEVICES_MAX];

/* The eviction word is in every order: the kernel reads only some of them. */
static void set_leave(struct gpu_evictable *evictable, bool is_on)
{
    struct gpu_resident *resident = BASE_CONTAINER(evictable, struct gpu_resident, evictable);

    for (int i = 0; i < GPU_RESIDENT_ORDERS; i++)
        __atomic_store_n(&resident->mailbox->orders[i].words[GPU_RESIDENT_LEAVE], is_on, __ATOMIC_SEQ_CST);
}

/* ---- Creation ---- */

static BASE_COLD void say(const char *what, int device, const char *why)
{
    if (is_asked_for)
        base_log("+gpu service: %s on GPU %d: %s", what, device, why);
    else
        base_log_verbose(1, "+gpu service: %s on GPU %d: %s", what, device, why);
}

static int make_mailbox(struct gpu_resident *resident)
{
    size_t size;
    int error = 0;
    void *memory = gpu_pinned_get(sizeof *resident->mailbox, &size, &error);
    CUcontext context = gpu_context_of(resident->device), before;
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
    memset(memory, 0, sizeof *resident->mailbox);
    resident->mailbox = memory;
    resident->mailbox_at = at;
    return 0;
}

/* True if processes of the job must share GPUs. The GPU gives each a time slice, and a resident kernel
 * would take it from the computations of others. GPUs that a launcher has assigned to one process
 * (CUDA_VISIBLE_DEVICES) are not shared. */
static bool are_gpus_shared(void)
{
    const char *visible = secure_getenv("CUDA_VISIBLE_DEVICES");
    int n_pes_on_node;

    (void)ult_pe_node_index(ult_pe_get(0), &n_pes_on_node);
    return !(visible && *visible) && n_pes_on_node / ult_pe_count() > gpu_device_count();
}

bool gpu_launches_block(void)
{
    const char *blocking = secure_getenv("CUDA_LAUNCH_BLOCKING");

    return blocking && *blocking && strcmp(blocking, "0") != 0;
}

const char *gpu_resident_obstacle(void)
{
    if (gpu_launches_block())
        return "CUDA_LAUNCH_BLOCKING is set";
    if (!is_asked_for && gpu_monitor_is_late())
        return "CUDA was in use before the ranks began, so its calls that wait for a GPU are not seen";
    if (!is_asked_for && are_gpus_shared())
        return "there are more processes on this node than GPUs";
    return NULL;
}

/* The reason why no GPU can have one; NULL: none. */
static const char *find_obstacle(void)
{
    return gpu_has_kernels() ? gpu_resident_obstacle() : "this library was built without nvcc";
}

/* True if the kernel was loaded before any work could run. */
static atomic_bool is_loaded[GPU_DEVICES_MAX];

void gpu_resident_load(int device, CUcontext context, CUresult (*load)(CUfunction))
{
    CUcontext before;
    CUfunction kernel;
    uint64_t begin_ns = ult_now_ns();
    int error;

    if (gpu_resident_us == 0 || find_obstacle() || device >= GPU_DEVICES_MAX ||
        (!is_asked_for && !gpu_module_has_machine_code(device)) || gpu_context_enter(context, &before))
        return;
    error = gpu_module_function(device, GPU_KERNEL_RESIDENT, &kernel);
    if (!error && load) /* otherwise its first launch would load it */
        error = load(kernel) != CUDA_SUCCESS;
    gpu_context_leave(context, before);
    atomic_store(&is_loaded[device], !error);
    base_log_verbose(2, "the kernel of +gpu service was loaded on GPU %d in %.1f ms", device,
                     (double)(ult_now_ns() - begin_ns) / 1e6);
}

/* If it cannot be created, the entry exists in state BROKEN: it is not tried again. */
static BASE_COLD struct gpu_resident *make(struct gpu_pe *pe, int device)
{
    struct gpu_resident *made = base_calloc(1, sizeof *made, "the resident kernel of a GPU");
    const char *obstacle = find_obstacle();
    int error = 0;

    made->device = device;
    if (!obstacle && !is_asked_for && !atomic_load(&is_loaded[device]))
        obstacle = "it was not loaded when the context was made, and loading it now might take long";
    if (!obstacle) {
        made->queue = gpu_queue_of(device, GPU_STREAM_RESIDENT, &error);
        if (made->queue)
            error = make_mailbox(made);
        if (error)
            obstacle = gpu_error_text(error);
    }
    made->is_broken = obstacle != NULL;
    if (obstacle)
        say("none", device, obstacle);
    made->reluctance = 1;
    made->next = pe->residents;
    pe->residents = made;
    if (!obstacle) {
        made->evictable.device = device;
        made->evictable.set_leave = set_leave;
        atomic_fetch_add_explicit(&n_residents[device], 1, memory_order_relaxed);
        gpu_evictable_add(&made->evictable);
    }
    return made;
}

static struct gpu_resident *resident_of(int device)
{
    struct gpu_pe *pe = gpu_pe_self();
    struct gpu_resident *resident = pe->residents;

    while (resident && resident->device != device)
        resident = resident->next;
    return BASE_LIKELY(resident != NULL) ? resident : make(pe, device);
}

static bool can_use(const struct gpu_resident *resident, const struct gpu_move_side *side)
{
    return gpu_peer_access(resident->device, side->addr, side->device, side->buffer) ==
           GPU_PEER_ACCESS_KERNEL;
}

/* ---- Launch and departure ---- */

static uint32_t state_of(const struct gpu_resident *resident)
{
    return __atomic_load_n(&resident->mailbox->state, __ATOMIC_SEQ_CST);
}

static bool has_said(const struct gpu_resident *resident, enum gpu_resident_phase phase)
{
    return state_of(resident) == GPU_RESIDENT_SAYS(resident->launches, phase);
}

static void fail(struct gpu_resident *resident, int error)
{
    resident->is_broken = true;
    resident->evictable.is_launched = false;
    say("no more", resident->device, gpu_error_text(error));
}

static void launch(struct gpu_resident *resident)
{
    struct gpu_kernel_resident args = {.mailbox = resident->mailbox_at,
                                       .launch = resident->launches + 1,
                                       .first = resident->issued + 1,
                                       .wait_ns = (uint32_t)gpu_resident_us * 1000,
                                       .stay_ns = STAY_US * 1000};
    struct gpu_queue *local = gpu_pe_self()->queues[resident->device][GPU_STREAM_LOCAL];
    int error =
        gpu_queue_launch(resident->queue, GPU_KERNEL_RESIDENT, 1, GPU_RESIDENT_THREADS, &args, sizeof args);

    if (local) /* the previous copy is known to be done when this call has returned */
        gpu_queue_forget_time(local);
    resident->launches++;
    resident->n_wanted = 0;
    resident->first_of_launch = args.first;
    resident->evictable.is_launched = true;
    if (BASE_UNLIKELY(error))
        fail(resident, error);
}

/* The kernel has left: adapts the launch back-off to the number of orders that it has done. */
static void mark_left(struct gpu_resident *resident)
{
    int worth = WORTH_ORDERS * atomic_load_explicit(&n_residents[resident->device], memory_order_relaxed);

    atomic_store_explicit(&resident->evictable.is_launched, false, memory_order_relaxed);
    if ((int32_t)(resident->mailbox->done - resident->first_of_launch) + 1 >= worth)
        resident->reluctance = 1;
    else if (resident->reluctance < RELUCTANCE_MAX)
        resident->reluctance *= 2;
}

static bool is_there(const struct gpu_resident *resident)
{
    return resident->evictable.is_launched && has_said(resident, GPU_RESIDENT_HERE) &&
           !gpu_evictable_is_held(&resident->evictable);
}

bool gpu_resident_is_there(int device)
{
    return gpu_resident_us > 0 && is_there(resident_of(device));
}

bool gpu_resident_is_near(void)
{
    const struct gpu_resident *resident = gpu_pe_self()->residents;

    while (resident && !is_there(resident))
        resident = resident->next;
    return resident != NULL;
}

void gpu_resident_call(int device)
{
    struct gpu_resident *resident = resident_of(device);
    uint64_t now_ns = ult_now_ns(), since_ns = now_ns - resident->wanted_ns;

    resident->wanted_ns = now_ns;
    if (resident->is_broken || since_ns >= (uint64_t)gpu_resident_us * 1000)
        return;
    resident->n_wanted++;
    if (resident->evictable.is_launched && !resident->first && has_said(resident, GPU_RESIDENT_LEFT))
        mark_left(resident);
    if (!resident->evictable.is_launched && resident->n_wanted >= resident->reluctance &&
        !gpu_evictable_is_held(&resident->evictable))
        launch(resident);
}

/* ---- Orders ---- */

static void write_order(struct gpu_resident *resident, uint64_t to, uint64_t from, uint64_t n_bytes)
{
    uint32_t number = ++resident->issued;
    uint64_t tag = (uint64_t)(number & 0xffff) << GPU_RESIDENT_ADDRESS_BITS;
    uint64_t *words = resident->mailbox->orders[number % GPU_RESIDENT_ORDERS].words;

    __atomic_store_n(&words[2], tag | n_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&words[1], tag | from, __ATOMIC_RELAXED);
    __atomic_store_n(&words[0], tag | to, __ATOMIC_RELEASE);
}

bool gpu_resident_copy(const struct gpu_move_side *from, const struct gpu_move_side *to, size_t n_bytes,
                       struct gpu_ticket *ticket)
{
    struct gpu_resident *resident = resident_of(from->device);
    struct gpu_pe *pe = gpu_pe_self();
    uintptr_t to_addr = (uintptr_t)to->first, from_addr = (uintptr_t)from->first;

    if (n_bytes > GPU_RESIDENT_MAX / 4 && (to_addr | from_addr | n_bytes) % 16 != 0)
        return false;
    if (resident->is_broken || (to_addr | from_addr) >> GPU_RESIDENT_ADDRESS_BITS ||
        !can_use(resident, from) || !is_there(resident) || !can_use(resident, to) ||
        resident->issued - resident->handled >= GPU_RESIDENT_ORDERS)
        return false;
    write_order(resident, to_addr, from_addr, n_bytes);
    ticket->number = resident->issued;
    ticket->next = NULL;
    if (resident->first)
        resident->last->next = ticket;
    else
        resident->first = ticket;
    resident->last = ticket;
    resident->wanted_ns = ult_now_ns();
    pe->source.pending++;
    if (from->device == to->device && pe->queues[from->device][GPU_STREAM_LOCAL])
        gpu_queue_skip_local(pe->queues[from->device][GPU_STREAM_LOCAL], resident->wanted_ns);
    return true;
}

/* ---- Completion ---- */

/* Ends the oldest order. */
static void end_first(struct gpu_pe *pe, struct gpu_resident *resident, int error)
{
    struct gpu_ticket *ticket = resident->first;

    resident->first = ticket->next;
    resident->handled = ticket->number;
    resident->n_done += error == 0;
    pe->source.pending--;
    ticket->handle(ticket, error);
}

static int end_done(struct gpu_pe *pe, struct gpu_resident *resident)
{
    uint32_t done = __atomic_load_n(&resident->mailbox->done, __ATOMIC_ACQUIRE);
    int n_ended = 0;

    while (resident->first && (int32_t)(done - resident->first->number) >= 0) {
        end_first(pe, resident, 0);
        n_ended++;
    }
    return n_ended;
}

/* The kernel will do nothing more: ends the orders that are in progress, but not those that their handlers
 * add. */
static int end_all(struct gpu_pe *pe, struct gpu_resident *resident, int error)
{
    uint32_t last = resident->issued;
    int n_ended;

    mark_left(resident); /* first, because the handlers may launch the next one */
    n_ended = end_done(pe, resident);
    while (resident->first && (int32_t)(last - resident->first->number) >= 0) {
        end_first(pe, resident, error);
        n_ended++;
    }
    return n_ended;
}

static int poll_resident(struct gpu_pe *pe, struct gpu_resident *resident)
{
    int n_ended, error;

    if (!resident->first)
        return 0;
    n_ended = end_done(pe, resident);
    if (n_ended || !resident->first) {
        resident->n_looks = 0;
        return n_ended;
    }
    if (has_said(resident, GPU_RESIDENT_LEFT))
        return end_all(pe, resident, GPU_RESIDENT_NOT_DONE);
    if (++resident->n_looks % LOOKS_PER_QUERY != 0)
        return 0;
    error = gpu_queue_ask(resident->queue);
    if (error == GPU_QUEUE_BUSY)
        return 0;
    if (error)
        fail(resident, error);
    return end_all(pe, resident, error ? error : GPU_RESIDENT_NOT_DONE);
}

int gpu_resident_poll(struct gpu_pe *pe)
{
    int n_ended = 0;

    for (struct gpu_resident *resident = pe->residents; resident; resident = resident->next)
        n_ended += poll_resident(pe, resident);
    return n_ended;
}

uint64_t gpu_resident_count(void)
{
    uint64_t n_done = 0;

    for (const struct gpu_resident *resident = gpu_pe_self()->residents; resident; resident = resident->next)
        n_done += resident->n_done;
    return n_done;
}
