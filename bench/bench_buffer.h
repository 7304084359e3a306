/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bench_buffer.h: message buffers in the memory that the option -B names: "host" (default), or a list of GPUs
 * such as "0,1", of which rank i takes the i-th, cyclically. CUDA's driver is opened at run time, so the
 * programs compile without CUDA. The contents of device buffers are written and read by copies.
 */
#ifndef BENCH_BUFFER_H
#define BENCH_BUFFER_H

#include <dlfcn.h>
#include <stdint.h>

#include "bench.h"

/* The driver's functions in use, with their names in its library. */
struct bench_driver {
    int (*init)(unsigned flags);
    int (*device_get)(int *device, int ordinal);
    int (*primary_retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*mem_alloc)(unsigned long long *address, size_t len_bytes);
    int (*mem_free)(unsigned long long address);
    int (*mem_set)(unsigned long long address, unsigned char value, size_t len_bytes);
    int (*to_device)(unsigned long long to, const void *from, size_t len_bytes);
    int (*to_host)(void *to, unsigned long long from, size_t len_bytes);
    int (*synchronize)(void);
};

struct bench_buffers {
    int device; /* this rank's; -1: host memory */
    struct bench_driver driver;
};

static inline void bench_driver_check(int error, const char *what)
{
    char text[128];
    if (error) {
        snprintf(text, sizeof text, "%s: CUDA error %d", what, error);
        bench_fail(text);
    }
}

static inline void bench_driver_open(struct bench_driver *driver)
{
    static const char *const names[] = {
        "cuInit",       "cuDeviceGet",   "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemAlloc_v2",
        "cuMemFree_v2", "cuMemsetD8_v2", "cuMemcpyHtoD_v2",          "cuMemcpyDtoH_v2", "cuCtxSynchronize"};
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        bench_fail("device buffers (-B) need libcuda.so.1");
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *symbol = dlsym(library, names[i]);
        if (!symbol) {
            bench_fail(names[i]);
        }
        memcpy((char *)driver + i * sizeof(void *), &symbol, sizeof symbol);
    }
}

/* Reads -B, and makes this rank's GPU the current one. After MPI_Init. */
static inline struct bench_buffers bench_buffers_init(int argc, char **argv)
{
    struct bench_buffers buffers = {.device = -1};
    const char *list = bench_option(argc, argv, "-B", "host");
    int devices[64], n = 0, device;
    void *context;

    if (strcmp(list, "host") == 0) {
        return buffers;
    }
    for (const char *word = list; word && n < 64; word = strchr(word, ',')) {
        word += *word == ',';
        if (*word < '0' || *word > '9') {
            bench_fail("-B is host, or numbers of GPUs with commas between them");
        }
        devices[n++] = atoi(word);
    }
    buffers.device = devices[bench_comm_rank() % n];
    bench_driver_open(&buffers.driver);
    bench_driver_check(buffers.driver.init(0), "cuInit");
    bench_driver_check(buffers.driver.device_get(&device, buffers.device), "cuDeviceGet");
    bench_driver_check(buffers.driver.primary_retain(&context, device), "cuDevicePrimaryCtxRetain");
    bench_driver_check(buffers.driver.set_current(context), "cuCtxSetCurrent");
    return buffers;
}

/* A buffer, filled with one value. */
static inline unsigned char *bench_buffer_alloc(const struct bench_buffers *buffers, size_t len_bytes,
                                                int fill)
{
    unsigned long long address;
    if (buffers->device < 0) {
        return bench_alloc(len_bytes, fill);
    }
    bench_driver_check(buffers->driver.mem_alloc(&address, len_bytes ? len_bytes : 1), "cuMemAlloc");
    bench_driver_check(buffers->driver.mem_set(address, (unsigned char)fill, len_bytes ? len_bytes : 1),
                       "cuMemsetD8");
    bench_driver_check(buffers->driver.synchronize(), "cuCtxSynchronize");
    return (unsigned char *)(uintptr_t)address;
}

static inline void bench_buffer_free(const struct bench_buffers *buffers, void *buffer)
{
    if (buffers->device < 0) {
        free(buffer);
    } else {
        bench_driver_check(buffers->driver.mem_free((uintptr_t)buffer), "cuMemFree");
    }
}

/* Copies into a buffer, or out of it into the program's own memory. */
static inline void bench_buffer_write(const struct bench_buffers *buffers, void *buffer, const void *from,
                                      size_t len_bytes)
{
    if (buffers->device < 0) {
        memcpy(buffer, from, len_bytes);
    } else {
        bench_driver_check(buffers->driver.to_device((uintptr_t)buffer, from, len_bytes), "cuMemcpyHtoD");
    }
}

static inline void bench_buffer_read(const struct bench_buffers *buffers, void *to, const void *buffer,
                                     size_t len_bytes)
{
    if (buffers->device < 0) {
        memcpy(to, buffer, len_bytes);
    } else {
        bench_driver_check(buffers->driver.to_host(to, (uintptr_t)buffer, len_bytes), "cuMemcpyDtoH");
    }
}

/* One byte of a buffer. */
static inline int bench_buffer_byte(const struct bench_buffers *buffers, const unsigned char *buffer,
                                    size_t at)
{
    unsigned char value;
    bench_buffer_read(buffers, &value, buffer + at, 1);
    return value;
}

#endif
