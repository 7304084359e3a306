/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_stream.c: MPIX_Stream_create, MPIX_Stream_free and MPIX_Comm_get_stream (heddle_mpi_stream.h).
 */
#include "ampi/comm/comm_stream.h"

#include <string.h>

#include "ampi/object/gate.h"
#include "ampi/object/info.h"
#include "base/log.h"

/* ---- Objects ---- */

void ampi_stream_ref(struct ampi_stream *stream)
{
    stream->n_refs++;
}

void ampi_stream_unref(struct ampi_stream *stream)
{
    if (--stream->n_refs > 0)
        return;
    if (stream->sync)
        gpu_sync_destroy(stream->sync);
    free(stream);
}

int ampi_stream_find(const void *handle, struct ampi_stream **stream_out)
{
    *stream_out = NULL;
    if (handle == MPIX_STREAM_NULL)
        return MPI_SUCCESS;
    if (!ampi_handle_has_magic(handle, AMPI_MAGIC_STREAM))
        return ampi_raise_self(MPI_ERR_OTHER, "%p is not a valid MPIX_Stream, or has been freed", handle);
    *stream_out = (struct ampi_stream *)handle;
    if ((*stream_out)->owner != ampi_self())
        return ampi_raise_self(MPI_ERR_OTHER, "the MPIX_Stream %p belongs to rank %d", handle,
                               ampi_rank_number((*stream_out)->owner));
    return MPI_SUCCESS;
}

static void add_comm(const struct ampi_comm_streams *streams, int n)
{
    for (int i = 0; i < streams->n; i++) {
        struct ampi_stream *stream = streams->streams[i];
        if (!stream)
            continue;
        stream->n_comms += n;
        if (n > 0)
            ampi_stream_ref(stream);
        else
            ampi_stream_unref(stream);
    }
}

void ampi_comm_streams_set(struct ampi_comm *comm, struct ampi_stream *const *streams, int n,
                           bool is_multiplex)
{
    struct ampi_comm_streams *made =
        base_malloc(sizeof *made + (size_t)n * sizeof made->streams[0], "the streams of a communicator");

    made->n_refs = 1;
    made->is_multiplex = is_multiplex;
    made->n = n;
    for (int i = 0; i < n; i++)
        made->streams[i] = streams[i];
    add_comm(made, 1);
    ampi_comm_set_streams(comm, made);
}

struct ampi_comm_streams *ampi_comm_streams_ref(struct ampi_comm_streams *streams)
{
    if (streams) {
        streams->n_refs++;
        add_comm(streams, 1);
    }
    return streams;
}

void ampi_comm_streams_unref(struct ampi_comm_streams *streams)
{
    if (!streams)
        return;
    add_comm(streams, -1);
    if (--streams->n_refs == 0)
        free(streams);
}

/* ---- The functions ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The value that MPIX_Info_set_hex has stored. */
static bool decode(const char *text, void *value, size_t n_bytes)
{
    unsigned char *bytes = value;

    if (strlen(text) != 2 * n_bytes)
        return false;
    for (size_t i = 0; i < n_bytes; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* The CUDA stream that the hints name. */
static int attach_cuda(const struct ampi_info *info, struct gpu_sync **sync_out)
{
    const char *value = ampi_info_get(info, "value");
    void *stream;
    int error;

    if (!value)
        return ampi_raise_self(MPI_ERR_OTHER,
                               "the info object has the type cudaStream_t, but no key \"value\" "
                               "(MPIX_Info_set_hex)");
    if (!decode(value, &stream, sizeof stream))
        return ampi_raise_self(MPI_ERR_OTHER, "the value \"%s\" is not a cudaStream_t of MPIX_Info_set_hex",
                               value);
    if (!gpu_is_used())
        return ampi_raise_self(MPI_ERR_OTHER, "CUDA is not in use in this process");
    error = gpu_sync_create(stream, sync_out);
    if (error == GPU_SYNC_OTHER_CONTEXT)
        return ampi_raise_self(
            MPI_ERR_OTHER,
            "the CUDA stream %p does not belong to the current context: make its GPU current "
            "first (cudaSetDevice)",
            stream);
    return error ? ampi_raise_self(MPI_ERR_OTHER, "%s", gpu_error_text(error)) : MPI_SUCCESS;
}

static int create_stream(struct ampi_rank *self, MPI_Info info, MPIX_Stream *stream)
{
    const struct ampi_info *hints = ampi_info_of(self, info);
    const char *type = ampi_info_get(hints, "type");
    struct gpu_sync *sync = NULL;
    struct ampi_stream *made;
    int error;

    if (!hints && info != MPI_INFO_NULL)
        return ampi_info_raise_invalid(info);
    if (!stream)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the stream is NULL");
    if (type && strcmp(type, "cudaStream_t") != 0)
        return ampi_raise_self(MPI_ERR_OTHER, "the type of stream \"%s\" is not known; cudaStream_t is",
                               type);
    if (type && (error = attach_cuda(hints, &sync)))
        return error;
    made = base_calloc(1, sizeof *made, "a stream");
    made->magic = AMPI_MAGIC_STREAM;
    made->n_refs = 1;
    made->owner = self;
    made->sync = sync;
    *stream = (MPIX_Stream)made;
    return MPI_SUCCESS;
}

int MPIX_Stream_create(MPI_Info info, MPIX_Stream *stream)
{
    struct ult *gate = ampi_gate_pass("MPIX_Stream_create", __builtin_return_address(0));
    int error = create_stream(ampi_enter("MPIX_Stream_create"), info, stream);

    ampi_gate_leave_waiting(gate);
    return error;
}

static int free_stream(MPIX_Stream *stream)
{
    struct ampi_stream *object;
    int error;

    if (!stream)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the stream is NULL");
    if ((error = ampi_stream_find(*stream, &object)))
        return error;
    if (!object)
        return ampi_raise_self(MPI_ERR_OTHER, "the stream is MPIX_STREAM_NULL");
    if (object->n_comms > 0)
        return ampi_raise_self(MPI_ERR_OTHER, "%d communicators use the stream: free them first",
                               object->n_comms);
    error = object->error;
    object->magic = AMPI_MAGIC_DEAD;
    ampi_stream_unref(object);
    *stream = MPIX_STREAM_NULL;
    return error;
}

int MPIX_Stream_free(MPIX_Stream *stream)
{
    struct ult *gate = ampi_gate_pass("MPIX_Stream_free", __builtin_return_address(0));
    int error;

    ampi_enter("MPIX_Stream_free");
    error = free_stream(stream);
    ampi_gate_leave(gate);
    return error;
}

static int get_stream(struct ampi_rank *self, MPI_Comm comm, int idx, MPIX_Stream *stream)
{
    struct ampi_comm *object = ampi_comm_of(self, comm);
    const struct ampi_comm_streams *streams;

    if (!object)
        return ampi_comm_raise_invalid(comm);
    if (!stream)
        return ampi_raise(object, MPI_ERR_ARG, "the address of the stream is NULL");
    streams = object->streams;
    *stream = streams && idx >= 0 && idx < streams->n ? (MPIX_Stream)streams->streams[idx] : MPIX_STREAM_NULL;
    return MPI_SUCCESS;
}

int MPIX_Comm_get_stream(MPI_Comm comm, int idx, MPIX_Stream *stream)
{
    struct ult *gate = ampi_gate_pass("MPIX_Comm_get_stream", __builtin_return_address(0));
    int error = get_stream(ampi_enter("MPIX_Comm_get_stream"), comm, idx, stream);

    ampi_gate_leave(gate);
    return error;
}
