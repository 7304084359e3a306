/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LIBPRIVATE_H
#define LIBPRIVATE_H

extern int private_counter;

int private_constructed(void);
int private_add(int n);
unsigned *private_tls_address(void);
void private_set_callback(int (*fn)(void));
int private_call(void);

/* Defined by the program. */
int program_function(void);

#endif
