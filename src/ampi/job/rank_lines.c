/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rank_lines.c: see report.h.
 *
 * A line joins the first group that it fits. A group of one rank fits all relations, so the second rank decides the
 * form of its numbers: rank 0 with 1 and rank 2 with 3 become rank+1. Cost: the number of groups per line, which is
 * limited.
 */
#include "ampi/job/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define GROUPS_MAX 256
#define GROUPS_PRINTED_MAX 32

/* Pieces of a list of ranks that are written. */
#define PIECES_MAX 8

/* How a number may depend on the rank. */
enum relation { SAME = 1, DIFFERENCE = 2, MODULO = 4 };

void ampi_line_add(struct ampi_line *line, const char *fmt, ...)
{
    size_t len = strlen(line->text);
    va_list args;

    va_start(args, fmt);
    vsnprintf(line->text + len, sizeof line->text - len, fmt, args);
    va_end(args);
}

void ampi_line_add_number(struct ampi_line *line, const char *text, int value, int rank, int size)
{
    if (line->n_numbers == AMPI_LINE_NUMBERS_MAX ||
        strlen(line->text) + strlen(text) + 2 > sizeof line->text) {
        ampi_line_add(line, "%s%d", text, value);
        return;
    }
    ampi_line_add(line, "%s" AMPI_LINE_NUMBER, text);
    line->numbers[line->n_numbers++] = (struct ampi_line_number){value, rank, size};
}

/* The difference of a number and the rank, from 0 to size - 1. */
static int distance(const struct ampi_line_number *n)
{
    return n->size > 0 ? (int)((((long)n->value - n->rank) % n->size + n->size) % n->size) : 0;
}

static uint8_t relations_of(const struct ampi_line_number *a, const struct ampi_line_number *b)
{
    int relations = a->value == b->value ? SAME : 0;

    if ((long)a->value - a->rank == (long)b->value - b->rank)
        relations |= DIFFERENCE;
    if (a->size > 0 && a->size == b->size && a->value >= 0 && b->value >= 0 && a->value < a->size &&
        b->value < b->size && distance(a) == distance(b))
        relations |= MODULO;
    return (uint8_t)relations;
}

/* Adds the line if it fits. */
static bool join(struct ampi_line_group *group, const struct ampi_line *line)
{
    uint8_t relations[AMPI_LINE_NUMBERS_MAX];

    if (group->first.n_numbers != line->n_numbers || strcmp(group->first.text, line->text) != 0)
        return false;
    for (int i = 0; i < line->n_numbers; i++)
        if (!(relations[i] = group->relations[i] & relations_of(&group->first.numbers[i], &line->numbers[i])))
            return false;
    memcpy(group->relations, relations, (size_t)line->n_numbers);
    if (group->n_ranks == group->room) {
        group->room *= 2;
        group->ranks = base_realloc(group->ranks, (size_t)group->room * sizeof *group->ranks, "a report");
    }
    group->ranks[group->n_ranks++] = line->rank;
    group->low = line->count < group->low ? line->count : group->low;
    group->high = line->count > group->high ? line->count : group->high;
    return true;
}

void ampi_lines_add(struct ampi_lines *lines, const struct ampi_line *line)
{
    struct ampi_line_group *group;

    for (int i = 0; i < lines->n; i++)
        if (join(&lines->groups[i], line))
            return;
    if (lines->n == GROUPS_MAX) {
        lines->n_left_out++;
        return;
    }
    if (!lines->groups)
        lines->groups = base_calloc(GROUPS_MAX, sizeof *lines->groups, "a report");
    group = &lines->groups[lines->n++];
    *group = (struct ampi_line_group){.first = *line, .low = line->count, .high = line->count, .room = 4};
    memset(group->relations, SAME | DIFFERENCE | MODULO, sizeof group->relations);
    group->ranks = base_malloc((size_t)group->room * sizeof *group->ranks, "a report");
    group->ranks[group->n_ranks++] = line->rank;
}

/* The number of ranks from the first on that have equal distances. */
static int run_length(const int *ranks, int n)
{
    int i = 2;

    if (n < 2)
        return n;
    while (i < n && ranks[i] - ranks[i - 1] == ranks[1] - ranks[0])
        i++;
    return i;
}

void ampi_lines_write_ranks(const struct ampi_line_group *group, struct base_text *out)
{
    const int *ranks = group->ranks;
    int n_pieces = 0, i = 0;

    base_text_add(out, group->n_ranks == 1 ? "rank " : "ranks ");
    while (i < group->n_ranks && n_pieces++ < PIECES_MAX) {
        int n = run_length(ranks + i, group->n_ranks - i);
        int step = n > 1 ? ranks[i + 1] - ranks[i] : 1;

        if (n < 3 && step != 1)
            n = 1;
        base_text_add(out, n_pieces > 1 ? ", " : "");
        base_text_add_number(out, ranks[i]);
        if (n > 1) {
            base_text_add(out, "-");
            base_text_add_number(out, ranks[i + n - 1]);
        }
        if (n > 1 && step != 1) {
            base_text_add(out, " in steps of ");
            base_text_add_number(out, step);
        }
        i += n;
    }
    if (i < group->n_ranks)
        base_text_add(out, ", ...");
    if (i < group->n_ranks || (n_pieces > 1 && group->n_ranks > n_pieces)) {
        base_text_add(out, " (");
        base_text_add_number(out, group->n_ranks);
        base_text_add(out, " ranks)");
    }
}

/* Writes a number that depends on the rank; the text before it, which ends with "rank ", has been written. */
static void write_relation(const struct ampi_line_number *number, bool is_modulo, struct base_text *out)
{
    long difference = is_modulo ? distance(number) : (long)number->value - number->rank;
    bool has_word = out->len >= 5 && memcmp(out->bytes + out->len - 5, "rank ", 5) == 0;

    if (has_word)
        out->bytes[out->len -= 1] = '\0';
    if (is_modulo && difference > number->size / 2)
        difference -= number->size;
    base_text_add(out, has_word ? "" : "rank");
    if (difference > 0)
        base_text_add(out, "+");
    if (difference)
        base_text_add_number(out, difference);
    else if (has_word)
        base_text_add(out, " itself");
    if (is_modulo) {
        base_text_add(out, " modulo ");
        base_text_add_number(out, number->size);
    }
}

void ampi_lines_write_text(const struct ampi_line_group *group, struct base_text *out)
{
    int n = 0;

    for (const char *at = group->first.text; *at; at++) {
        const struct ampi_line_number *number = &group->first.numbers[n];
        char byte[2] = {*at, '\0'};

        if (*at != AMPI_LINE_NUMBER[0] || n >= group->first.n_numbers)
            base_text_add(out, byte);
        else if (group->relations[n] & SAME)
            base_text_add_number(out, number->value);
        else
            write_relation(number, !(group->relations[n] & DIFFERENCE), out);
        n += *at == AMPI_LINE_NUMBER[0];
    }
}

void ampi_lines_print(struct ampi_lines *lines)
{
    char bytes[AMPI_LINE_BYTES + 800];
    int n_more = lines->n > GROUPS_PRINTED_MAX ? lines->n - GROUPS_PRINTED_MAX : 0;

    for (int i = 0; i < lines->n - n_more; i++) {
        struct base_text text = base_text_in(bytes, sizeof bytes);
        ampi_lines_write_ranks(&lines->groups[i], &text);
        base_text_add(&text, " ");
        ampi_lines_write_text(&lines->groups[i], &text);
        base_log_plain("%s", bytes);
    }
    if (n_more + lines->n_left_out > 0)
        base_log("... and %d more groups of ranks", n_more + lines->n_left_out);
    ampi_lines_fini(lines);
}

void ampi_lines_fini(struct ampi_lines *lines)
{
    for (int i = 0; i < lines->n; i++)
        free(lines->groups[i].ranks);
    free(lines->groups);
    *lines = (struct ampi_lines){0};
}
