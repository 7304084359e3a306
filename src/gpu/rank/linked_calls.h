/* SPDX-License-Identifier: BSD-3-Clause
 *
 * linked_calls.h: frees of memory and launches of graphs by code that is linked with CUDA's driver, in a process with one
 * rank. For the files of src/gpu alone.
 *
 * Such calls are not intercepted there. A free waits for the GPU inside the driver and keeps launches of other threads out
 * meanwhile (seen on an H200, driver 580). So neither ends if a stream waits for an operation that the progress thread computes
 * by a kernel. Once streams can wait for operations, frees go through functions that first wait until none does; then the
 * program's thread calls the driver as before. Launches of graphs are noted (graph_launches.h): only the driver knows when they
 * reach operations. Pointers that the program has kept, and libraries that are opened later, call the driver at once.
 */
#ifndef GPU_LINKED_CALLS_H
#define GPU_LINKED_CALLS_H

/* Redirects the imports of the libraries that are loaded, once. Any thread; never switches. */
void gpu_linked_calls_take_over(void);

#endif
