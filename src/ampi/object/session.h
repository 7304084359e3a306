/* SPDX-License-Identifier: BSD-3-Clause
 *
 * session.h: sessions (MPI 5.0, section 11.3).
 */
#ifndef AMPI_SESSION_H
#define AMPI_SESSION_H

#include "ampi/object/rank.h"

struct ampi_session {
    uint32_t magic;                     /* AMPI_MAGIC_SESSION */
    struct ampi_errhandler *errhandler; /* never NULL */
    struct ampi_info *info;             /* hints in use */
    int thread_level;                   /* provided */
    struct ampi_bsend_buffer *bsend;    /* MPI_Session_attach_buffer; NULL: none */
};

/* The object of a handle; NULL if it is not valid (including MPI_SESSION_NULL). */
static inline struct ampi_session *ampi_session_of(MPI_Session handle)
{
    return ampi_handle_has_magic(handle, AMPI_MAGIC_SESSION) ? (struct ampi_session *)handle : NULL;
}

int ampi_session_raise_invalid(MPI_Session handle) BASE_COLD;

#endif
