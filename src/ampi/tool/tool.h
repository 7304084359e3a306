/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tool.h: shared declarations of the tool interface (MPI 5.0, chapter 15).
 *
 * The functions of the tool interface call no error handler: they return codes. Each rank initialises the
 * interface for itself. Variables are rows of tables (cvar.c, pvar.c); one column is the category.
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

/* Returns a string as all functions of the interface do: *length is the buffer's size (0, or no buffer:
 * only the length is requested) and becomes the string's length including its terminator. length NULL: no
 * effect. */
void ampi_tool_put_string(const char *string, char *buffer, int *length);

/* *out = value, if out is not NULL. */
static inline void ampi_tool_put_int(int value, int *out)
{
    if (out)
        *out = value;
}

/* A performance variable: a number that the library keeps anyway. All are of type MPI_UNSIGNED_LONG. */
struct ampi_tool_pvar {
    const char *name;
    enum ampi_tool_category category;
    int class; /* MPI_T_PVAR_CLASS_COUNTER, or MPI_T_PVAR_CLASS_LEVEL */
    int bind;  /* MPI_T_BIND_NO_OBJECT, or MPI_T_BIND_MPI_COMM */
    /* The current value; for a counter, since the start of the job. comm: the bound object; NULL: none. */
    uint64_t (*get)(const struct ampi_rank *self, const struct ampi_comm *comm);
    const char *description;
};

/* The table (pvar_table.c); 0 <= index < ampi_tool_pvar_count(). */
const struct ampi_tool_pvar *ampi_tool_pvar_get(int index);
int ampi_tool_pvar_count(void);

/* For categories: the number of control variables, and the category of each. */
int ampi_tool_cvar_count(void);
enum ampi_tool_category ampi_tool_cvar_category(int index);
enum ampi_tool_category ampi_tool_pvar_category(int index);

#endif
