/* SPDX-License-Identifier: BSD-3-Clause
 *
 * info.h: info objects (MPI 5.0, chapter 10): lists of (key, value) pairs. Each belongs to one rank.
 */
#ifndef AMPI_INFO_H
#define AMPI_INFO_H

#include "ampi/object/handle.h"

struct ampi_rank;

struct ampi_info_pair {
    char *key;
    char *value;
};

struct ampi_info {
    uint32_t magic; /* AMPI_MAGIC_INFO */
    int n_pairs;
    struct ampi_info_pair *pairs; /* in the order of first setting */
};

/* The object of a handle; NULL if the handle is not valid (including MPI_INFO_NULL). MPI_INFO_ENV is the
 * rank's own, created at first use; self may be NULL on a thread that is not a PE, which has no
 * MPI_INFO_ENV. */
struct ampi_info *ampi_info_of(struct ampi_rank *self, MPI_Info handle);

/* Raises MPI_ERR_INFO because the handle is not a valid info object; returns the error code. */
int ampi_info_raise_invalid(MPI_Info handle) BASE_COLD;

struct ampi_info *ampi_info_create(void);
struct ampi_info *ampi_info_dup(const struct ampi_info *info); /* NULL: an empty one */
void ampi_info_destroy(struct ampi_info *info);                /* NULL: no effect */

/* The value of a key; NULL: it is not set, or info is NULL. */
const char *ampi_info_get(const struct ampi_info *info, const char *key);

/* Sets a key to a copy of the value. */
void ampi_info_set(struct ampi_info *info, const char *key, const char *value);

/* False if the key was not set. */
bool ampi_info_delete(struct ampi_info *info, const char *key);

/* True for "true", false for anything else; for hints. */
bool ampi_info_is_true(const struct ampi_info *info, const char *key);

/* Frees the rank's MPI_INFO_ENV; at its end. */
void ampi_info_fini(struct ampi_rank *rank);

#endif
