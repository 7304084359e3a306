/* SPDX-License-Identifier: BSD-3-Clause
 *
 * relaxed_machine.c: a machine that takes device memory calls CUDA. While the program captures a stream in CUDA's default
 * mode, CUDA refuses queries of events and allocations to all threads. Such a call ends the capture, and the message is
 * not done before the capture is. So these functions of the machine run with captures relaxed (gpu_relax_begin).
 */
#include "ampi/procs/procs.h"
#include "gpu/gpu.h"

/* X(result, function of the machine, parameters, arguments) */
#define RELAXED(X)                                                                                       \
    X(int, send,                                                                                         \
      (int pe_id, int dest_proc, int dest_pe, const void *header, size_t header_bytes, const void *data, \
       size_t n_bytes, enum machine_memory memory, machine_done_fn done, void *arg),                     \
      (pe_id, dest_proc, dest_pe, header, header_bytes, data, n_bytes, memory, done, arg))               \
    X(int, push,                                                                                         \
      (int pe_id, int dest_proc, int dest_pe, const void *header, size_t header_bytes, const void *data, \
       size_t n_bytes, enum machine_memory memory, machine_done_fn done, void *arg),                     \
      (pe_id, dest_proc, dest_pe, header, header_bytes, data, n_bytes, memory, done, arg))               \
    X(int, fetch,                                                                                        \
      (int pe_id, int src_proc, void *token, void *buf, size_t n_bytes, enum machine_memory memory,      \
       machine_done_fn done, void *arg),                                                                 \
      (pe_id, src_proc, token, buf, n_bytes, memory, done, arg))                                         \
    X(void, release, (int pe_id, void *token), (pe_id, token))                                           \
    X(int, poll, (int pe_id), (pe_id))                                                                   \
    X(bool, arm, (int pe_id), (pe_id))                                                                   \
    X(void, forget, (int pe_id, int proc_id), (pe_id, proc_id))                                          \
    X(void, close, (double limit_s), (limit_s))

/* The same for its access to other processes' memory, where it may register host memory with CUDA. */
#define RELAXED_RMA(X)                                                                                     \
    X(void *, expose, (void *memory, size_t n_bytes, void **key_out, size_t *key_bytes_out),               \
      (memory, n_bytes, key_out, key_bytes_out))                                                           \
    X(void, conceal, (void *exposed), (exposed))                                                           \
    X(void *, import_key, (int pe_id, int proc_id, int dest_pe, const void *key),                          \
      (pe_id, proc_id, dest_pe, key))                                                                      \
    X(void, drop_key, (void *imported), (imported))                                                        \
    X(int, put,                                                                                            \
      (int pe_id, int proc_id, int dest_pe, void *imported, const void *from, uint64_t to, size_t n_bytes, \
       machine_done_fn done, void *arg),                                                                   \
      (pe_id, proc_id, dest_pe, imported, from, to, n_bytes, done, arg))                                   \
    X(int, get,                                                                                            \
      (int pe_id, int proc_id, int dest_pe, void *imported, void *into, uint64_t from, size_t n_bytes,     \
       machine_done_fn done, void *arg),                                                                   \
      (pe_id, proc_id, dest_pe, imported, into, from, n_bytes, done, arg))                                 \
    X(int, flush, (int pe_id, int proc_id, int dest_pe, machine_done_fn done, void *arg),                  \
      (pe_id, proc_id, dest_pe, done, arg))

static struct machine real;
static struct machine_rma real_rma;

static inline void end(const int *mode)
{
    gpu_relax_end(*mode);
}

#define FUNCTION(result, name, parameters, arguments)               \
    static result relaxed_##name parameters                         \
    {                                                               \
        int mode __attribute__((cleanup(end))) = gpu_relax_begin(); \
        return real.name arguments;                                 \
    }
#define FUNCTION_RMA(result, name, parameters, arguments)           \
    static result relaxed_##name parameters                         \
    {                                                               \
        int mode __attribute__((cleanup(end))) = gpu_relax_begin(); \
        return real_rma.name arguments;                             \
    }
RELAXED(FUNCTION)
RELAXED_RMA(FUNCTION_RMA)
#undef FUNCTION
#undef FUNCTION_RMA

const struct machine *ampi_procs_relax(const struct machine *machine)
{
    static struct machine relaxed;
    static struct machine_rma relaxed_rma;

    if (!machine->takes(MACHINE_CUDA))
        return machine;
    relaxed = real = *machine;
#define TAKE(result, name, parameters, arguments) \
    if (real.name)                                \
        relaxed.name = relaxed_##name;
    RELAXED(TAKE)
#undef TAKE
    if (!machine->rma)
        return &relaxed;
    relaxed_rma = real_rma = *machine->rma;
    relaxed.rma = &relaxed_rma;
#define TAKE(result, name, parameters, arguments) \
    if (real_rma.name)                            \
        relaxed_rma.name = relaxed_##name;
    RELAXED_RMA(TAKE)
#undef TAKE
    return &relaxed;
}
