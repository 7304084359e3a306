/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tool.h: what the files of the tool interface share (MPI 5.0, chapter 15).
 *
 * The functions of the tool interface call no error handler: they return codes. Each rank initialises the
 * interface for itself. Variables are rows of tables: cvar.c, pvar.c; which category one is in is a column.
 */
#ifndef AMPI_MPIT_TOOL_H
#define AMPI_MPIT_TOOL_H

#include "ampi/comm/comm.h"

enum ampi_tool_category {
    AMPI_TOOL_JOB,
    AMPI_TOOL_SCHEDULER,
    AMPI_TOOL_MESSAGES,
    AMPI_TOOL_DEVICES,
    AMPI_TOOL_CATEGORY_COUNT
};

/* MPI_SUCCESS, or MPI_T_ERR_NOT_INITIALIZED if the running rank has not called MPI_T_init_thread. */
int ampi_tool_check(void);

/* Hands out a string as all functions of the interface do: *length is the buffer's size (0, or no buffer:
 * only the length is wanted) and becomes the string's with its terminator. length NULL: nothing. */
void ampi_tool_put_string(const char *string, char *buffer, int *length);

/* *out = value, if the program wants it. */
static inline void ampi_tool_put_int(int value, int *out)
{
    if (out)
        *out = value;
}

/* A performance variable: a number that the library keeps anyway. All values are MPI_UNSIGNED_LONG. */
struct ampi_tool_pvar {
    const char *name;
    enum ampi_tool_category category;
    int class; /* MPI_T_PVAR_CLASS_COUNTER, or MPI_T_PVAR_CLASS_LEVEL */
    int bind;  /* MPI_T_BIND_NO_OBJECT, or MPI_T_BIND_MPI_COMM */
    /* The value now, for a counter since the start of the job. comm: the object; NULL: not bound to one. */
    uint64_t (*get)(const struct ampi_rank *self, const struct ampi_comm *comm);
    const char *description;
};

/* The table of them (pvar_table.c); 0 <= index < ampi_tool_pvar_count(). */
const struct ampi_tool_pvar *ampi_tool_pvar_get(int index);
int ampi_tool_pvar_count(void);

/* For the categories: how many control variables there are, and which category each is in. */
int ampi_tool_cvar_count(void);
enum ampi_tool_category ampi_tool_cvar_category(int index);
enum ampi_tool_category ampi_tool_pvar_category(int index);

#endif
