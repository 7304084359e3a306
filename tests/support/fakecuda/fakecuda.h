/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fakecuda.h: the test interface of the fake CUDA driver (the libcuda.so.1 in this folder), a test double:
 * GPUs without a GPU. Its device memory is host memory at other addresses than the returned ones, which fault
 * when the CPU touches them; its streams are threads. It refuses calls that CUDA refuses, as far as the tests
 * need.
 *
 * The functions are weak: with the real driver they are NULL, and fakecuda_is_here() is false.
 *
 * Environment, read by cuInit:
 *      FAKECUDA_DEVICES     how many devices there are; 2
 *      FAKECUDA_MEMORY_MIB  memory of each; 256
 *      FAKECUDA_DELAY_US    how long each operation of a stream waits before it begins; 0
 *      FAKECUDA_PAGEABLE_US how long a copy from pageable memory waits after the call has taken the memory's contents; 0
 *      FAKECUDA_PEER        0: no device can reach another's memory
 *      FAKECUDA_WRITE_VALUE 0: cuStreamWriteValue32 is not supported
 *      FAKECUDA_LATE_WRITES 1: words that streams reset in host memory change late, after later writes to other words
 *      FAKECUDA_RDMA_FLUSH  a network card's writes must be flushed: 1 by cuFlushGPUDirectRDMAWrites, 2 by a wait of a stream
 *      FAKECUDA_LOCKS       1: a call that frees or loads, and the creation of the 33rd stream of a context, waits for a device with
 *                           a lock that all calls need which queue work (as on H200s); 2: so does each creation of a stream,
 *                           and of an executable graph (at times on H200s); 0
 *      FAKECUDA_CALL_US     how long such a call takes before it looks for work of the device; 0
 *      CUDA_VISIBLE_DEVICES numbers of devices, separated by commas
 *      FAKECUDA_CONNECTIONS 1: streams that have work share CUDA_DEVICE_MAX_CONNECTIONS connections to a device, and an operation
 *                           begins only after the earlier ones of its connection have begun. A stream without work gets the
 *                           connection with the fewest streams when it gets some (as on H200s); 0
 *      CUDA_MODULE_LOADING  EAGER: kernels are loaded with their modules, not at their first launch, which waits for the GPU
 *      FAKECUDA_FAIL        what is to fail: FUNCTION:NTH:ERROR[,...], such as cuMemAlloc:3:2
 */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FAKECUDA_WEAK __attribute__((weak, visibility("default")))

/* The nth call of a function after this one (1: the next) returns this error. The name is cuda.h's, without
 * version. */
void fakecuda_fail(const char *function, int nth, int error) FAKECUDA_WEAK;

/* How often a function was called, its twins *_ptsz and *_ptds included. */
int fakecuda_calls(const char *function) FAKECUDA_WEAK;

/* The kinds of streams: the stream NULL, the one of a thread (CU_STREAM_PER_THREAD, or NULL of a function
 * *_ptsz), and those that cuStreamCreate makes. */
enum fakecuda_stream {
    FAKECUDA_LEGACY,
    FAKECUDA_PER_THREAD,
    FAKECUDA_BLOCKING,
    FAKECUDA_NON_BLOCKING,
    FAKECUDA_STREAMS
};

/* How often a function was called for a stream of a kind. A copy or fill without a stream counts for the one
 * that it uses. */
int fakecuda_calls_for(const char *function, enum fakecuda_stream kind) FAKECUDA_WEAK;

/* How often work was queued in a stream of a kind, by any function. */
int fakecuda_works(enum fakecuda_stream kind) FAKECUDA_WEAK;

/* In how many calls of the driver the calling thread had to wait for work that was not done. */
int fakecuda_blocked_waits(void) FAKECUDA_WEAK;

/* A function that is called whenever a call of the calling thread begins such a wait; it may not call CUDA.
 * NULL: none. */
void fakecuda_on_wait(void (*notice)(void *arg), void *arg) FAKECUDA_WEAK;

/* A function that is called before cuMemFree returns, when the memory is free; it may wait for other threads. NULL: none. */
void fakecuda_on_freed(void (*notice)(void *arg), void *arg) FAKECUDA_WEAK;

/* How often a network card's writes were flushed, in either way. */
int fakecuda_flushes(void) FAKECUDA_WEAK;

/* The next call of this function begins when all work of the streams is done, as calls may that need memory of a device. The
 * name is cuda.h's, without version. */
void fakecuda_block(const char *function) FAKECUDA_WEAK;

/* While held, no stream begins an operation. */
void fakecuda_hold(bool is_held) FAKECUDA_WEAK;

/* While held, no kernel begins, as on a GPU that is full of others; copies do. */
void fakecuda_hold_kernels(bool are_held) FAKECUDA_WEAK;

/* The next memory of 1 MiB or more that is allocated lies at this address (of a multiple of 2 MiB), where
 * nothing may be mapped. */
void fakecuda_place_next(uintptr_t address) FAKECUDA_WEAK;

/* An operation of the current context's device has failed: its later calls return this error. */
void fakecuda_break_context(int error) FAKECUDA_WEAK;

/* ---- For kernels that run on the CPU ---- */

/* A kernel does the work of all its threads in one call. args is the struct of the launch. */
typedef void (*fakecuda_kernel_fn)(const void *args);

/* Makes cuModuleGetFunction find a kernel by this name. Others are looked up in libfakekernels.so, which lies
 * beside the fake driver or is found by the loader. */
void fakecuda_add_kernel(const char *name, fakecuda_kernel_fn kernel) FAKECUDA_WEAK;

/* The same of a kernel with one parameter of this size, so that launches may give it in kernelParams. */
void fakecuda_add_kernel_of(const char *name, fakecuda_kernel_fn kernel, size_t args_bytes) FAKECUDA_WEAK;

/* Each module and library that is loaded from now on has a variable of this name in the device's memory: a module when it is
 * loaded, a library in each context at the first look, or when it is loaded if kernels are loaded with their modules. */
void fakecuda_add_variable(const char *name, size_t n_bytes) FAKECUDA_WEAK;

/* Calls a function on the CPU when a stream (a CUstream) comes to it, as a kernel: several run at once, where
 * there is one function of cuLaunchHostFunc at a time. Returns a CUresult. */
int fakecuda_launch(void *stream, void (*run)(void *data), void *data) FAKECUDA_WEAK;

/* Where the n_bytes at a device's address (or a host's) are for the CPU. Within a kernel, an address that its
 * device cannot reach breaks its context and gives NULL. */
void *fakecuda_alias(uintptr_t address, size_t n_bytes) FAKECUDA_WEAK;

static inline bool fakecuda_is_here(void)
{
    return fakecuda_alias != NULL;
}

#ifdef __cplusplus
}
#endif

#endif
