/* SPDX-License-Identifier: BSD-3-Clause
 *
 * libtls_between.h: exports of the libraries that are built from libtls_between.c, and the program's variable.
 */
struct tls_pair {
    int first, second;
};

struct tls_pair *owner_address(void);
int *user_second_address(void);
int *user_own_address(void);
int *user_program_address(void);
int *user_missing_address(void);

extern _Thread_local int program_variable;
