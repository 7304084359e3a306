/* SPDX-License-Identifier: BSD-3-Clause
 *
 * image_test.h: for the programs of this folder. They are plain programs without MPI that print one line "ok"
 * per rank (some more) and exit with 0. Between writing and checking they call sched_yield(), which lets the
 * other ranks write. The address of a variable tells the ranks apart.
 */
#ifndef IMAGE_TEST_H
#define IMAGE_TEST_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond)                                                           \
    do {                                                                      \
        if (!(cond)) {                                                        \
            fprintf(stderr, "%s:%d: wrong: %s\n", __FILE__, __LINE__, #cond); \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

/* Different in every rank, and the same for a rank's whole life. */
static char image_test_self;
static inline unsigned test_id(void)
{
    return (unsigned)((unsigned long)&image_test_self >> 12);
}

static inline void let_others_run(void)
{
    for (int i = 0; i < 3; i++)
        sched_yield();
}

/* The page at the address has not been copied into memory without a file. */
static inline void check_mapped(const void *address)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[1024], *found = NULL;
    unsigned long lo, hi;

    while (!found && maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &lo, &hi) == 2 && (unsigned long)address - lo < hi - lo)
            found = line;
    CHECK(found && strchr(found, '/'));
    fclose(maps);
}

#endif
