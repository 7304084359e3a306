/* SPDX-License-Identifier: BSD-3-Clause
 *
 * backtrace.h: the frames of code that a signal has interrupted, for crash reports.
 */
#ifndef AMPI_BACKTRACE_H
#define AMPI_BACKTRACE_H

#include "base/text.h"
#include "image/image.h"

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

/* Finds the places of the frames. pc: taken for the only frame if there is none; caller: added if no frame is in the program;
 * NULL: not known. */
void ampi_backtrace_locate(struct ampi_backtrace *frames, const void *pc, const void *caller);

/* Adds "main (ring.c:22)" or, without debug information, "main (ring+0x12b0)". folders: with the folder of the source. */
void ampi_backtrace_add_place(struct base_text *text, const struct image_place *place, bool folders);

/* Writes a line for each frame to stderr, and how to get source lines that are missing. */
void ampi_backtrace_write(struct ampi_backtrace *frames);

#endif
