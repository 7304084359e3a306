/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pool.h: pinned memory and memory of devices, pooled by each PE. A block belongs to the PE that gets it, and must be released on
 * that PE.
 */
#ifndef GPU_POOL_H
#define GPU_POOL_H

#include "base/base.h"

/* A pinned block, for copies of any device, of at least min(n_bytes, 1 MiB) bytes; *size_out is its size.
 * NULL: out of memory; *error_out. */
#define GPU_PINNED_SMALL ((size_t)64 << 10)
#define GPU_PINNED_LARGE ((size_t)1 << 20)
void *gpu_pinned_get(size_t n_bytes, size_t *size_out, int *error_out);
void gpu_pinned_put(void *block);

/* Pinned memory of any size, which is pooled. NULL: not available, or this PE has STAGING_MAX bytes
 * already; use other memory. */
void *gpu_staging_get(size_t n_bytes);
void gpu_staging_put(void *block, size_t n_bytes);

/* Memory of a device, with the driver's alignment. NULL: out of memory; *error_out. Released when no queued
 * work uses it any more. */
void *gpu_scratch_get(int device, size_t n_bytes, int *error_out);
void gpu_scratch_put(int device, void *block, size_t n_bytes);

#endif
