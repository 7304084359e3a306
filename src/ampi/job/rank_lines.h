/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rank_lines.h: lines of reports about ranks, grouped: a thousand ranks with the same line are one.
 *
 * A line is a text and some numbers, which stand where the text has AMPI_LINE_NUMBER. Lines with the same text are one group if
 * each number is the same in all, or depends on the rank in the same way: rank+1, or (rank+1) modulo the size.
 */
#ifndef AMPI_JOB_RANK_LINES_H
#define AMPI_JOB_RANK_LINES_H

#include "base/text.h"

#define AMPI_LINE_NUMBER "\1"
#define AMPI_LINE_NUMBERS_MAX 8
#define AMPI_LINE_BYTES 1024

struct ampi_line_number {
    int value;
    int rank; /* the rank that it may depend on: in the communicator */
    int size; /* of the communicator */
};

struct ampi_line {
    int rank;  /* as in reports */
    int count; /* things that the rank has with this line */
    int n_numbers;
    struct ampi_line_number numbers[AMPI_LINE_NUMBERS_MAX];
    char text[AMPI_LINE_BYTES];
};

struct ampi_line_group {
    struct ampi_line first;
    int low, high;                            /* counts */
    uint8_t relations[AMPI_LINE_NUMBERS_MAX]; /* bits of enum relation that hold for all */
    int n_ranks;
    int room;   /* in ranks */
    int *ranks; /* in the order in which they were added */
};

struct ampi_lines {
    int n;
    struct ampi_line_group *groups;
    int n_left_out; /* lines, because there are too many groups */
};

/* Adds a number to the line's text and numbers; appends the text before it. Text that does not fit is dropped. */
void ampi_line_add_number(struct ampi_line *line, const char *text, int value, int rank, int size);

/* Appends text. */
void ampi_line_add(struct ampi_line *line, const char *fmt, ...) BASE_PRINTF(2, 3);

/* Adds a line; ranks ascend. Allocates. */
void ampi_lines_add(struct ampi_lines *lines, const struct ampi_line *line);

/* Writes the ranks of a group: "rank 3", "ranks 0-9, 12, 20-998 in steps of 2 (501 ranks)". */
void ampi_lines_write_ranks(const struct ampi_line_group *group, struct base_text *out);

/* Writes its text, with its numbers in place: "from rank 3", "from rank+1". */
void ampi_lines_write_text(const struct ampi_line_group *group, struct base_text *out);

/* Prints a line per group, up to a limit, and frees the groups. */
void ampi_lines_print(struct ampi_lines *lines);

/* Frees the groups. */
void ampi_lines_fini(struct ampi_lines *lines);

#endif
