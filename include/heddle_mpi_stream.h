/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heddle_mpi_stream.h: operations of MPI in the order of a CUDA stream, by the names of MPICH's mpi.h. Both
 * mpi-ext.h and mpi.h (unless HEDDLE_NO_MPI_COMPAT is defined) include it. docs/gpu-extensions.md describes them.
 */
#ifndef HEDDLE_MPI_STREAM_H
#define HEDDLE_MPI_STREAM_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Streams and their communicators ---- */

typedef struct HEDDLE_Stream *MPIX_Stream;
#define MPIX_STREAM_NULL ((MPIX_Stream)0)

/* Sets the key to the bytes of a value, in hexadecimal: MPIX_Info_set_hex(info, "value", &stream, sizeof stream). */
int MPIX_Info_set_hex(MPI_Info info, const char *key, const void *value, int value_size);

/* info has "type", "cudaStream_t", and "value", the stream (MPIX_Info_set_hex); MPI_INFO_NULL: a stream of no GPU,
 * which stands for a thread: calls with its communicators are made by one thread at a time. The CUDA stream must belong to the current context, and must exist as long as this one. */
int MPIX_Stream_create(MPI_Info info, MPIX_Stream *stream);

/* An error if a communicator uses the stream. */
int MPIX_Stream_free(MPIX_Stream *stream);

/* Collective. Each rank gives its own stream, or MPIX_STREAM_NULL. */
int MPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm *newcomm);
int MPIX_Stream_comm_create_multiplex(MPI_Comm comm, int count, MPIX_Stream array_of_streams[],
                                      MPI_Comm *newcomm);

/* Stream idx of the communicator; MPIX_STREAM_NULL if it has none of that number. */
int MPIX_Comm_get_stream(MPI_Comm comm, int idx, MPIX_Stream *stream);

/* ---- Messages between streams, on communicators with several streams per rank. A message matches only receives for its
 *      stream indices, tag and ranks, and none of ordinary calls on the communicator. Not in MPICH's header:
 *      MPIX_ANY_INDEX, which a receive may have as its source_stream_index ---- */

#define MPIX_ANY_INDEX (-1)

int MPIX_Stream_send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                     int source_stream_index, int dest_stream_index);
int MPIX_Stream_send_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                       MPI_Comm comm, int source_stream_index, int dest_stream_index);
int MPIX_Stream_isend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                      int source_stream_index, int dest_stream_index, MPI_Request *request);
int MPIX_Stream_isend_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                        MPI_Comm comm, int source_stream_index, int dest_stream_index, MPI_Request *request);
int MPIX_Stream_recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                     int source_stream_index, int dest_stream_index, MPI_Status *status);
int MPIX_Stream_recv_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                       int source_stream_index, int dest_stream_index, MPI_Status *status);
int MPIX_Stream_irecv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                      int source_stream_index, int dest_stream_index, MPI_Request *request);
int MPIX_Stream_irecv_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                        int source_stream_index, int dest_stream_index, MPI_Request *request);

/* ---- Progress. The stream may be MPIX_STREAM_NULL; all streams of a PE make progress together ---- */

/* Handles what has arrived, and lets the other ranks of the PE run. */
int MPIX_Stream_progress(MPIX_Stream stream);

/* Starts a thread that makes progress while the ranks of the PE compute, or counts one more user of it. It ends when it has
 * been stopped as often. MPI_ERR_OTHER: it has not been started as often, or could not be started. */
int MPIX_Start_progress_thread(MPIX_Stream stream);
int MPIX_Stop_progress_thread(MPIX_Stream stream);

/* ---- Operations in the stream of the communicator: the host does not wait for them. Buffers and statuses must
 *      exist until the stream has passed the operation, or the wait for its request. While the stream is captured, sends,
 *      receives and their waits become parts of the graph ---- */

int MPIX_Send_enqueue(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm);
int MPIX_Send_enqueue_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                        MPI_Comm comm);
int MPIX_Recv_enqueue(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                      MPI_Status *status);
int MPIX_Recv_enqueue_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                        MPI_Status *status);
int MPIX_Isend_enqueue(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                       MPI_Request *request);
int MPIX_Isend_enqueue_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                         MPI_Comm comm, MPI_Request *request);
int MPIX_Irecv_enqueue(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                       MPI_Request *request);
int MPIX_Irecv_enqueue_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                         MPI_Comm comm, MPI_Request *request);

/* The stream starts persistent sends (standard, synchronous or ready), receives and collectives of its communicator. The
 * request is active at once, and inactive after MPIX_Wait_enqueue. In a capture it stays inactive: every launch of the graph
 * starts what the request describes. */
int MPIX_Start_enqueue(MPI_Request *request);
int MPIX_Startall_enqueue(int count, MPI_Request array_of_requests[]);

/* The stream waits; the requests are those of the functions above, all of one stream. */
int MPIX_Wait_enqueue(MPI_Request *request, MPI_Status *status);
int MPIX_Waitall_enqueue(int count, MPI_Request array_of_requests[], MPI_Status *array_of_statuses);

/* Collectives: all members call them in the same order, each in its own stream, or the ordinary function if it has
 * no CUDA stream. */
int MPIX_Barrier_enqueue(MPI_Comm comm);
int MPIX_Bcast_enqueue(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm);
int MPIX_Bcast_enqueue_c(void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm);
int MPIX_Reduce_enqueue(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                        int root, MPI_Comm comm);
int MPIX_Reduce_enqueue_c(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype,
                          MPI_Op op, int root, MPI_Comm comm);
int MPIX_Allreduce_enqueue(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                           MPI_Comm comm);
int MPIX_Allreduce_enqueue_c(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype,
                             MPI_Op op, MPI_Comm comm);
int MPIX_Allgather_enqueue(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                           int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int MPIX_Allgather_enqueue_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                             MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int MPIX_Alltoall_enqueue(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                          int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int MPIX_Alltoall_enqueue_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                            MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);

#ifdef __cplusplus
}
#endif

#endif /* HEDDLE_MPI_STREAM_H */
