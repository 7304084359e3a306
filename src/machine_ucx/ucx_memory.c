/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ucx_memory.c: access to other processes' memory (struct machine_rma of machine.h).
 *
 *      DIRECT   a process of this node: the kernel copies (process_vm_readv and _writev). Each process
 *               publishes a number and its address. Reading it once shows that the kernel allows copies, and
 *               that the process id means that process here, too
 *      KEYED    UCX's put and get, where the job has several nodes with RDMA devices. Elsewhere UCX does
 *               them by messages to itself, in small pieces, which takes longer than MPI's own messages.
 *               HEDDLE_UCX_RMA=y and =n override this
 *
 * UCX_TLS without shared memory turns DIRECT off.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>

#include "base/base.h"
#include "base/log.h"
#include "machine_ucx/ucxm.h"

/* ---- Direct ---- */

static uint64_t probed; /* this process's number */

struct ucxm_probe ucxm_memory_probe(void)
{
    if (getrandom(&probed, sizeof probed, GRND_NONBLOCK) != sizeof probed)
        probed = (uint64_t)(uintptr_t)&probed;
    return (struct ucxm_probe){(uintptr_t)&probed, probed};
}

static int copy_result(int error)
{
    return error == ESRCH ? MACHINE_PEER_FAILED : MACHINE_FAILED;
}

static int copy(int proc_id, bool is_put, const struct machine_piece *own, int n_own,
                const struct machine_piece *others, int n_others, size_t *n_bytes_out)
{
    const struct iovec *local = (const struct iovec *)own, *remote = (const struct iovec *)others;
    pid_t pid = ucxm.processes[proc_id].published->rings.pid;
    ssize_t n_bytes;

    _Static_assert(sizeof(struct machine_piece) == sizeof(struct iovec) && MACHINE_PIECES_MAX <= IOV_MAX,
                   "pieces are the kernel's");
    if (ucxm_is_failed(proc_id))
        return MACHINE_PEER_FAILED; /* another process may have its id */
    n_bytes = is_put ? process_vm_writev(pid, local, (unsigned long)n_own, remote, (unsigned long)n_others, 0)
                     : process_vm_readv(pid, local, (unsigned long)n_own, remote, (unsigned long)n_others, 0);
    if (n_bytes <= 0)
        return copy_result(n_bytes < 0 ? errno : EFAULT);
    *n_bytes_out = (size_t)n_bytes;
    return MACHINE_DONE;
}

static bool can_copy(int proc_id)
{
    const struct ucxm_probe *probe = &ucxm.processes[proc_id].published->probe;
    uint64_t found = 0;
    struct machine_piece own = {(uintptr_t)&found, sizeof found}, other = {probe->address, sizeof found};
    size_t n_bytes;

    return copy(proc_id, false, &own, 1, &other, 1, &n_bytes) == MACHINE_DONE && n_bytes == sizeof found &&
           found == probe->number;
}

/* ---- Which ---- */

bool ucxm_memory_is_keyed(void)
{
    const char *given = getenv("HEDDLE_UCX_RMA");

    if (given)
        return given[0] == 'y';
    return ucxm.place.node_n_procs != ucxm.place.n_procs && ucxm_transports_have_rdma();
}

static enum machine_access find_access(int proc_id)
{
    if (ucxm_n_pes_of(proc_id) < 0)
        return MACHINE_NO_ACCESS;
    if (ucxm.is_near[proc_id] && ucxm.processes[proc_id].published->rings.pid && can_copy(proc_id))
        return MACHINE_DIRECT_ACCESS;
    return ucxm_memory_is_keyed() ? MACHINE_KEYED_ACCESS : MACHINE_NO_ACCESS;
}

static enum machine_access access_to(int proc_id)
{
    struct ucxm_process *process = &ucxm.processes[proc_id];
    int known = __atomic_load_n(&process->access, __ATOMIC_ACQUIRE);

    if (BASE_UNLIKELY(known == 0)) {
        known = 1 + (int)find_access(proc_id);
        __atomic_store_n(&process->access, known, __ATOMIC_RELEASE);
    }
    return (enum machine_access)(known - 1);
}

/* ---- Keys ---- */

static void *expose(void *memory, size_t n_bytes, void **key_out, size_t *key_bytes_out)
{
    ucp_mem_map_params_t params = {.field_mask =
                                       UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = memory,
                                   .length = n_bytes};
    ucp_mem_h mapped;
    void *packed;
    size_t packed_bytes;

    if (!ucxm_memory_is_keyed() || ucp_mem_map(ucxm.context, &params, &mapped) != UCS_OK)
        return NULL;
    if (ucp_rkey_pack(ucxm.context, mapped, &packed, &packed_bytes) != UCS_OK) {
        ucp_mem_unmap(ucxm.context, mapped);
        return NULL;
    }
    *key_out = malloc(packed_bytes + 1);
    if (!*key_out)
        base_fatal(1, "out of memory: cannot allocate the key of a window's memory");
    memcpy(*key_out, packed, packed_bytes);
    *key_bytes_out = packed_bytes;
    ucp_rkey_buffer_release(packed);
    return mapped;
}

static void conceal(void *exposed)
{
    ucp_mem_unmap(ucxm.context, exposed);
}

static void *import_key(int pe_id, int proc_id, int dest_pe, const void *key)
{
    ucp_ep_h ep = ucxm_endpoint(&ucxm.ports[pe_id], proc_id, dest_pe);
    ucp_rkey_h imported;

    return ep && ucp_ep_rkey_unpack(ep, key, &imported) == UCS_OK ? imported : NULL;
}

static void drop_key(void *key)
{
    ucp_rkey_destroy(key);
}

/* ---- Put, get, flush ---- */

static int begun(struct ucxm_port *port, int proc_id, ucs_status_ptr_t request, machine_done_fn done,
                 void *arg)
{
    if (UCS_PTR_IS_ERR(request))
        return ucxm_result_of(UCS_PTR_STATUS(request));
    if (request == NULL)
        return MACHINE_DONE;
    ucxm_request_link(request, port, proc_id, true, done, arg);
    return MACHINE_PENDING;
}

static ucp_request_param_t param_of(void)
{
    return (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.send = ucxm_request_sent};
}

static int put(int pe_id, int proc_id, int dest_pe, void *key, const void *from, uint64_t to, size_t n_bytes,
               machine_done_fn done, void *arg)
{
    struct ucxm_port *port = &ucxm.ports[pe_id];
    ucp_ep_h ep = ucxm_endpoint(port, proc_id, dest_pe);
    ucp_request_param_t param = param_of();

    if (!ep)
        return MACHINE_PEER_FAILED;
    return begun(port, proc_id, ucp_put_nbx(ep, from, n_bytes, to, key, &param), done, arg);
}

static int get(int pe_id, int proc_id, int dest_pe, void *key, void *into, uint64_t from, size_t n_bytes,
               machine_done_fn done, void *arg)
{
    struct ucxm_port *port = &ucxm.ports[pe_id];
    ucp_ep_h ep = ucxm_endpoint(port, proc_id, dest_pe);
    ucp_request_param_t param = param_of();

    if (!ep)
        return MACHINE_PEER_FAILED;
    return begun(port, proc_id, ucp_get_nbx(ep, into, n_bytes, from, key, &param), done, arg);
}

static int flush(int pe_id, int proc_id, int dest_pe, machine_done_fn done, void *arg)
{
    struct ucxm_port *port = &ucxm.ports[pe_id];
    ucp_ep_h ep = ucxm_endpoint(port, proc_id, dest_pe);
    ucp_request_param_t param = param_of();

    if (!ep)
        return MACHINE_PEER_FAILED;
    return begun(port, proc_id, ucp_ep_flush_nbx(ep, &param), done, arg);
}

const struct machine_rma ucxm_rma = {
    .access = access_to,
    .copy = copy,
    .expose = expose,
    .conceal = conceal,
    .import_key = import_key,
    .drop_key = drop_key,
    .put = put,
    .get = get,
    .flush = flush,
};
