/* SPDX-License-Identifier: BSD-3-Clause
 *
 * libcopied.h: the functions and variables that libcopied.c exports.
 */
struct copied {
    int *hidden;
    int (*get)(void);
    const char *text;
    struct {
        void *self;
        long a, b;
    } numbers[2];
};
extern struct copied copied_table;
extern int copied_zero;
const struct copied *copied_address(void);
int *copied_hidden_address(void);
int copied_add(int n);
