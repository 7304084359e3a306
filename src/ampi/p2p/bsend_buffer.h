/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bsend_buffer.h: buffers that programs attach for buffered sends (MPI 5.0, section 3.6).
 *
 * A buffer belongs to a rank, or to one of its communicators or sessions. It takes messages as long as the
 * total of their packed data does not exceed its size. That is at least as much as the standard's circular
 * policy allows, which needs MPI_BSEND_OVERHEAD bytes more for each and contiguous space; programs that
 * rely on this policy often forget the overhead.
 *
 * A message is a segment: a header and the packed data; a send that waits for its receive. It is freed when
 * the data has been fetched. Segments are allocated in the buffer, first fit, or with malloc if no gap is
 * large enough.
 *
 * Invariants:
 *      1. `inside` has the segments in the buffer in the order of their addresses, `outside` the others.
 *      2. used_bytes is the total of their data; at most user_bytes, except for MPI_BUFFER_AUTOMATIC.
 */
#ifndef AMPI_P2P_BSEND_BUFFER_H
#define AMPI_P2P_BSEND_BUFFER_H

#include "ampi/p2p/p2p.h"

struct ampi_bsend_segment {
    struct ampi_bsend_segment *next; /* next in its list */
    struct ampi_bsend_segment *prev;
    struct ampi_bsend_buffer *buffer;
    bool is_outside;             /* in that list, and from malloc */
    size_t size_bytes;           /* of the data after this header */
    uint64_t number;             /* order of creation */
    struct ampi_request request; /* the send */
    unsigned char data[] __attribute__((aligned(16)));
};

struct ampi_bsend_segments {
    struct ampi_bsend_segment *first;
    struct ampi_bsend_segment *last;
};

struct ampi_bsend_buffer {
    void *user_address; /* as attached; MPI_BUFFER_AUTOMATIC: all segments are outside */
    MPI_Count user_bytes;
    size_t used_bytes; /* invariant 2 */
    char *begin; /* the aligned part of the attached memory; empty if that is GPU memory, where the CPU cannot
                  * write headers */
    char *end;
    struct ampi_bsend_segments inside;
    struct ampi_bsend_segments outside;
    struct ampi_request *flushes; /* pending flushes; u.extra is the number they wait for */
    uint64_t next_number;
    bool is_released; /* ampi_bsend_release was called */
};

/* Attaches a buffer to *slot (a rank's, communicator's or session's); raises MPI_ERR_BUFFER. comm NULL:
 * raises on MPI_COMM_SELF. */
int ampi_bsend_attach(struct ampi_comm *comm, struct ampi_bsend_buffer **slot, void *buffer,
                      MPI_Count size_bytes);

/* Waits until it is empty, and detaches it. May switch. */
int ampi_bsend_detach(struct ampi_comm *comm, struct ampi_bsend_buffer **slot, void *buffer_addr,
                      MPI_Count *size_out);

/* Waits until the messages that it contains now have been received. *slot may be NULL. May switch. */
void ampi_bsend_flush(struct ampi_bsend_buffer *buffer);

/* The same as a request. */
struct ampi_request *ampi_bsend_iflush(struct ampi_rank *self, struct ampi_bsend_buffer *buffer);

/* Releases the buffer when its communicator is freed: its memory is freed after its messages. NULL: no
 * effect. */
void ampi_bsend_release(struct ampi_bsend_buffer *buffer);

/* Sends through the buffer of the communicator, else that of its session, else that of the rank. Raises
 * MPI_ERR_BUFFER if there is no buffer or no room. */
int ampi_bsend(struct ampi_rank *self, const struct ampi_send_args *args);

#endif
