/* SPDX-License-Identifier: BSD-3-Clause
 *
 * backtrace.c: see report.h.
 *
 * The unwinder is libgcc's, linked statically: in a crash it is too late to load one. It finds the tables of copies by
 * _dl_find_object (image/copy/unwind.c), without locks.
 */
#include "ampi/job/report.h"

#include <string.h>
#include <unwind.h>

#include "ult/arch/ult_arch.h"

/* A damaged stack may be a circle. */
#define FRAMES_MAX 1000000

/* ---- Finding the frames ---- */

/* A walk over the frames, the newest first. */
struct walk {
    struct ampi_backtrace *frames;
    const void *pc; /* the interrupted instruction; frames before its are the signal handler's */
    bool is_return; /* it is a return address: there was no code at the interrupted one */
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *arg)
{
    const struct walk *walk = arg;
    struct ampi_backtrace *frames = walk->frames;
    int is_before = 0;
    const char *pc = (const char *)_Unwind_GetIPInfo(context, &is_before);
    long i = frames->n_walked;

    if (i == 0 && pc != walk->pc)
        return _URC_NO_REASON;
    if (!pc || i >= FRAMES_MAX)
        return _URC_NORMAL_STOP;
    if (!is_before || (i == 0 && walk->is_return))
        pc--; /* into the call */
    if (i >= AMPI_FRAMES_NEWEST)
        i = AMPI_FRAMES_NEWEST + (i - AMPI_FRAMES_NEWEST) % AMPI_FRAMES_OLDEST;
    frames->code[i] = pc;
    frames->n_walked++;
    return _URC_NO_REASON;
}

void ampi_backtrace_walk(struct ampi_backtrace *frames, void *context)
{
    struct walk walk = {.frames = frames, .pc = ult_arch_context_pc(context)};

    frames->n_walked = 0;
    if (!image_is_code(walk.pc)) {
        walk.is_return = true;
        walk.pc = ult_arch_context_return(context);
    }
    _Unwind_Backtrace(add_frame, &walk);
}

static int n_kept(const struct ampi_backtrace *frames)
{
    return (int)(frames->n_walked < (long)BASE_COUNT(frames->code) ? frames->n_walked
                                                                   : (long)BASE_COUNT(frames->code));
}

bool ampi_backtrace_has_program(const struct ampi_backtrace *frames)
{
    bool has_program = false;

    for (int i = 0; i < n_kept(frames); i++)
        has_program = has_program || image_find(frames->code[i]);
    return has_program;
}

/* Puts the first of the oldest frames first. */
static void order_oldest(struct ampi_backtrace *frames)
{
    const void *ring[AMPI_FRAMES_OLDEST];

    memcpy(ring, frames->code + AMPI_FRAMES_NEWEST, sizeof ring);
    for (long i = 0; i < AMPI_FRAMES_OLDEST; i++)
        frames->code[AMPI_FRAMES_NEWEST + i] = ring[(frames->n_left_out + i) % AMPI_FRAMES_OLDEST];
}

void ampi_backtrace_locate(struct ampi_backtrace *frames, const void *pc, const void *caller)
{
    frames->n = n_kept(frames);
    frames->n_left_out = frames->n_walked - frames->n;
    if (frames->n_left_out > 0)
        order_oldest(frames);
    if (frames->n == 0)
        frames->code[frames->n++] = pc;
    if (caller && frames->n < AMPI_FRAMES_NEWEST)
        frames->code[frames->n++] = (const char *)caller - 1;
    image_places_find(frames->code, frames->n, frames->places);
    while (frames->n > 0 && !frames->places[frames->n - 1].path)
        frames->n--;
}

/* ---- Printing ---- */

void ampi_backtrace_add_place(struct base_text *text, const struct image_place *place, bool folders)
{
    const char *slash = strrchr(place->source, '/');

    if (place->function[0]) {
        base_text_add(text, place->function);
        base_text_add(text, " (");
    }
    if (place->line) {
        base_text_add(text, slash && !folders ? slash + 1 : place->source);
        base_text_add(text, ":");
        base_text_add_number(text, place->line);
    } else {
        base_text_add(text, place->file[0] ? place->file : "no code");
        base_text_add(text, "+");
        base_text_add_hex(text, place->vaddr);
    }
    if (place->function[0])
        base_text_add(text, ")");
}

/* Adds the command that prints the lines that are missing in a file of the program. */
static void add_command(struct base_text *text, const struct ampi_backtrace *frames, const char *path)
{
    base_text_add(text, "\n    addr2line -Cfipe ");
    base_text_add(text, path);
    for (int i = 0; i < frames->n; i++)
        if (frames->places[i].path == path && frames->places[i].is_line_elsewhere) {
            base_text_add(text, " ");
            base_text_add_hex(text, frames->places[i].vaddr);
        }
}

/* Adds advice for missing lines. */
static void add_advice(struct base_text *text, const struct ampi_backtrace *frames)
{
    bool has_advice = false;

    for (int i = 0; i < frames->n; i++) {
        bool is_first = frames->places[i].is_line_elsewhere;

        has_advice = has_advice || is_first || frames->places[i].line;
        for (int j = 0; j < i && is_first; j++)
            is_first =
                !frames->places[j].is_line_elsewhere || frames->places[j].path != frames->places[i].path;
        if (is_first)
            add_command(text, frames, frames->places[i].path);
    }
    if (!has_advice)
        base_text_add(text, "\n    (source lines need a program that was compiled with -g)");
}

void ampi_backtrace_write(struct ampi_backtrace *frames)
{
    struct base_text text = base_text_in(frames->bytes, sizeof frames->bytes);

    for (int i = 0; i < frames->n; i++) {
        if (i == AMPI_FRAMES_NEWEST && frames->n_left_out > 0) {
            base_text_add(&text, "\n    ... ");
            base_text_add_number(&text, frames->n_left_out);
            base_text_add(&text, " more frames");
        }
        base_text_add(&text, i > 0 ? "\n    #" : "    #");
        base_text_add_number(&text, i + (i < AMPI_FRAMES_NEWEST ? 0 : frames->n_left_out));
        base_text_add(&text, " ");
        ampi_backtrace_add_place(&text, &frames->places[i], true);
    }
    if (frames->n == 0)
        return;
    add_advice(&text, frames);
    base_text_write_line(&text);
}
