/* SPDX-License-Identifier: BSD-3-Clause
 *
 * report.h: the contents of reports about ranks: lines, places in the program, and the objects that ranks wait for.
 *
 * Lines (rank_lines.c) are grouped: a thousand ranks with the same line are one. A line is a text and some numbers, which stand where the text has AMPI_LINE_NUMBER. Lines with the same text are one group if
 * each number is the same in all, or depends on the rank in the same way: rank+1, or (rank+1) modulo the size.
 */
#ifndef AMPI_JOB_REPORT_H
#define AMPI_JOB_REPORT_H

#include "base/text.h"
#include "ampi/object/rank.h"
#include "image/image.h"

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
    int count; /* the rank's objects with this line */
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

/* ---- The places in the program where it calls MPI (call_site.c) ---- */

/* The return address in the program: `from` or, if that is in this library or its Fortran interface, one that is found on the
 * rank's stack from lo to hi (NULL: its end). Any thread. */
const void *ampi_call_site_of(const struct ampi_rank *rank, const void *from, const char *lo, const char *hi);

/* Writes the place of the call before a return address: function and source line, or without debug information the address in the
 * file. The places are remembered: a thousand copies of a program are searched once. False: not known. Any thread. */
bool ampi_call_site_describe(const void *from, char text[AMPI_CALL_SITE_BYTES]);

/* ---- What a blocked rank waits for (blocked.c). Other ranks' tables are read, which is safe while no rank runs
 *      (a deadlock), or for ranks of the calling PE ---- */

/* Describes where a thread of a rank is blocked: its requests, the place of its call of MPI, the members that a collective waits
 * for, and messages or receives that nearly match. pe_id: the calling PE; ranks may run, and those of other PEs are not looked at;
 * -1: no rank runs. */
void ampi_blocked_describe(const struct ult *u, int pe_id, struct ampi_line *line);

/* The world rank of a rank that the blocked rank waits for, and that cannot be replaced by another one; -1: none is known. */
int ampi_blocked_waits_for(const struct ampi_rank *rank);

/* Appends "pthread_join: blocked", and the place of the call. */
void ampi_blocked_add_join(struct ampi_line *line, const void *from);

/* Appends "in the function NAME of a reduction operation, ...". */
void ampi_blocked_add_user_fn(struct ampi_line *line, const void *user_fn);

/* ---- The collective that a blocked rank waits for (entered.c); as in blocked.c ---- */

struct ampi_entered {
    const struct ampi_comm *comm; /* the rank's handle; NULL: none */
    uint32_t series; /* number of a persistent collective, and seq is that of its start; 0: another one */
    uint32_t seq;    /* number of the collective on the communicator */
    bool is_access;  /* a read or write of the file that owns the communicator; seq is its number */
};

/* A report begins: ranks may have run since the last one of the calling OS thread. */
void ampi_entered_begin(void);

/* The oldest collective that the thread waits for, if members are known that have not entered it. is_quiet: no rank runs. */
struct ampi_entered ampi_entered_of(const struct ult *u, bool is_quiet);

/* Appends " on a communicator of size 2": of a blocking collective, unless it is MPI_COMM_WORLD or the library's; or the reason for which
 * MPI_File_close waits. */
void ampi_entered_add_comm(struct ampi_line *line, const struct ampi_entered *entered, const struct ult *u);

/* Appends the members that have not entered it. */
void ampi_entered_add_missing(struct ampi_line *line, const struct ampi_entered *entered);

/* The world rank of the first one. */
int ampi_entered_first_missing(const struct ampi_entered *entered);

/* ---- Ranks that wait for each other (cycle.c) ---- */

/* A blocked rank and the one that it waits for: the same in all processes. */
struct ampi_wait {
    int rank;     /* world rank */
    int number;   /* of that rank in reports */
    int for_rank; /* world rank */
    int spawn;    /* of the rank: number of the spawn that has made it; 0: none */
};

/* Prints the shortest cycle of these waits, which it sorts; at most one wait for each rank. n_bytes: their size. */
void ampi_report_cycle(void *waits, size_t n_bytes);

/* ---- +check stuck:S: ranks that test and probe for ever, and find nothing (livelock.c). The gates
 *      (tools/gen_gates.py) count calls that test or probe, and all others; the thread of stuck.c looks at the counts ---- */

/* True: calls are counted. */
extern bool ampi_livelock_is_watched;

/* A rank calls a function that tests or probes; from: the return address. On the rank's PE. */
void ampi_livelock_poll(const char *call, const void *from);

/* Any other call; a test or probe that finds something. Any thread. */
void ampi_livelock_progress(void);

/* Starts to count, before ranks run. */
void ampi_livelock_watch(void);

/* One of n_polls equal looks within the limit: prints a report, once, if in that time each rank was blocked in MPI or has polled, none
 * has made another call, and nothing was found. In a job of several processes all must agree. */
void ampi_livelock_check(int n_polls);

/* Prints the report of this process's ranks, once. is_first: with a heading. Any PE. */
void ampi_livelock_report(bool is_first);

/* ---- The frames of code that a signal has interrupted (backtrace.c) ---- */

/* The newest frames, and the oldest ones: what recursion is in between is left out. */
#define AMPI_FRAMES_NEWEST 12
#define AMPI_FRAMES_OLDEST 6

/* Frames up to the oldest one of the program; the library's own frames that have called the program are left out. */
struct ampi_backtrace {
    const void
        *code[AMPI_FRAMES_NEWEST +
              AMPI_FRAMES_OLDEST]; /* in each frame's instruction that crashed or called, the newest first;
                                                                * the oldest frames are in a ring until ampi_backtrace_locate */
    struct image_place places[AMPI_FRAMES_NEWEST + AMPI_FRAMES_OLDEST]; /* of `code` */
    long n_walked;                                                      /* frames that were seen */
    int n;                                                              /* frames in both arrays */
    long n_left_out;   /* frames between code[AMPI_FRAMES_NEWEST - 1] and the next one */
    char bytes[16000]; /* the text of ampi_backtrace_write */
};

/* Finds the frames. context: the third argument of the signal handler that calls this; of a jump to an address without code it is changed
 * to the state after a return. Faults if the stack is damaged: then *frames is valid and has the frames up to there. Takes no lock and
 * allocates nothing, like the next functions. Never switches. */
void ampi_backtrace_walk(struct ampi_backtrace *frames, void *context);

/* True if a frame is in a copy of the program. */
bool ampi_backtrace_has_program(const struct ampi_backtrace *frames);

/* True if this library is among the frames before the first one of the program. After the walk. (call_site.c) */
bool ampi_call_site_is_in_call(const struct ampi_backtrace *frames);

/* Finds the places of the frames. pc: taken for the only frame if there is none; caller: added if no frame is in the program;
 * NULL: not known. */
void ampi_backtrace_locate(struct ampi_backtrace *frames, const void *pc, const void *caller);

/* Adds "main (ring.c:22)" or, without debug information, "main (ring+0x12b0)". folders: with the folder of the source. */
void ampi_backtrace_add_place(struct base_text *text, const struct image_place *place, bool folders);

/* Writes a line for each frame to stderr, and how to get source lines that are missing. */
void ampi_backtrace_write(struct ampi_backtrace *frames);

#endif
