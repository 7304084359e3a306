/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fakenccl.h: the fake NCCL (libnccl.so.2 in this folder), a test double over the fake CUDA driver: processes
 * exchange their data through shared memory. Like the real one it waits for the other participants when a
 * communicator is created and when its first operation is called, and then in the stream. Calls notice a
 * participant that has ended, streams do not. Two participants with one GPU are refused.
 *
 * Environment, read when the library is loaded:
 *      FAKENCCL_VERSION   what ncclGetVersion says; 22800
 *      FAKENCCL_INIT_MS   how long making a communicator takes, besides waiting for the others; 0
 *      FAKENCCL_FAIL      what is to fail: FUNCTION:NTH:RESULT[:RANK][,...], such as ncclAllReduce:2:3. NTH
 *                         counts from 1. FUNCTION init: making a communicator, later; stream: an operation,
 *                         when its turn in the stream has come. RANK: for this participant only.
 *      FAKENCCL_END_MS    how long ending a communicator takes; 0
 *      FAKENCCL_STRICT=1  a process that ends while a call is under way gets SIGSEGV, as with the real one
 *      FAKENCCL_CONNECT_MS  how long the first operation's call takes, besides that; 0
 */
#ifndef FAKENCCL_H
#define FAKENCCL_H

#ifdef __cplusplus
extern "C" {
#endif

/* How often a function of the library in this process was called; weak: NULL with another library. */
int fakenccl_calls(const char *function) __attribute__((weak));

#ifdef __cplusplus
}
#endif

#endif
