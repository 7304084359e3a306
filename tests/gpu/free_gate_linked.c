/* SPDX-License-Identifier: BSD-3-Clause
 *
 * free_gate.c in a program that is linked with CUDA's driver, whose streams a progress thread serves.
 */
#define IS_LINKED
#include "free_gate.c"
