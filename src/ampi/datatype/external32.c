/* SPDX-License-Identifier: BSD-3-Clause
 *
 * external32.c: packing in the portable representation (MPI 5.0, sections 5.3 and 14.5.2): big-endian,
 * IEEE, and a few sizes of its own: MPI_LONG and MPI_UNSIGNED_LONG have 4 bytes there, MPI_WCHAR 2, long
 * double is IEEE binary128.
 *
 * Converts one basic element after the other, recursively through the type's recipe: this is for files and
 * for exchange with other machines, not for speed.
 */
#include "ampi/datatype/type_pack.h"
#include "ampi/datatype/buffer.h"
#include "ampi/object/error.h"
#include "ampi/object/rank.h"

#include <float.h>
#include <limits.h>
#include <wchar.h>

/* The conversion of one basic type. */
enum conversion {
    SWAP,     /* n_units units in reversed byte order */
    NARROW,   /* a signed integer of 8 bytes as 4 */
    NARROW_U, /* an unsigned one */
    NARROW_W, /* a wide character as 2 bytes */
    QUAD,     /* n_units long doubles as binary128 */
};

struct format {
    enum conversion conversion;
    size_t unit_bytes;     /* in memory */
    size_t external_bytes; /* of a unit */
    size_t n_units;        /* 2 for complex numbers */
};

static struct format format_of(const struct ampi_type *type)
{
    size_t size = (size_t)type->size_bytes;

    if ((type->predefined == MPI_LONG || type->predefined == MPI_UNSIGNED_LONG) && size == 8)
        return (struct format){type->predefined == MPI_LONG ? NARROW : NARROW_U, 8, 4, 1};
    switch (type->basic) {
    case AMPI_BASIC_WCHAR:
        return (struct format){size == 4 ? NARROW_W : SWAP, size, 2, 1};
    case AMPI_BASIC_LONG_DOUBLE:
        return (struct format){QUAD, size, 16, 1};
    case AMPI_BASIC_COMPLEX_LONG_DOUBLE:
        return (struct format){QUAD, size / 2, 16, 2};
    case AMPI_BASIC_COMPLEX_FLOAT16:
    case AMPI_BASIC_COMPLEX_FLOAT:
    case AMPI_BASIC_COMPLEX_DOUBLE:
    case AMPI_BASIC_COMPLEX_FLOAT128:
        return (struct format){SWAP, size / 2, size / 2, 2};
    default:
        return (struct format){SWAP, size, size, 1};
    }
}

static void copy_swapped(void *dst, const void *src, size_t n_bytes)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (size_t i = 0; i < n_bytes; i++)
        ((char *)dst)[i] = ((const char *)src)[n_bytes - 1 - i];
#else
    memcpy(dst, src, n_bytes);
#endif
}

#if LDBL_MANT_DIG == 64
typedef __float128 quad;
#else
typedef long double quad;
#endif

/* Writes one unit; false if the value does not fit. */
static bool write_unit(const struct format *f, char *out, const void *in)
{
    int64_t wide;
    uint64_t wide_u;
    int32_t narrow;
    uint32_t narrow_u;
    uint16_t narrow_w;
    wchar_t character;
    long double native;
    quad external;

    switch (f->conversion) {
    case SWAP:
        copy_swapped(out, in, f->external_bytes);
        return true;
    case NARROW:
        memcpy(&wide, in, sizeof wide);
        narrow = (int32_t)wide;
        copy_swapped(out, &narrow, sizeof narrow);
        return narrow == wide;
    case NARROW_U:
        memcpy(&wide_u, in, sizeof wide_u);
        narrow_u = (uint32_t)wide_u;
        copy_swapped(out, &narrow_u, sizeof narrow_u);
        return narrow_u == wide_u;
    case NARROW_W:
        memcpy(&character, in, sizeof character);
        narrow_w = (uint16_t)character;
        copy_swapped(out, &narrow_w, sizeof narrow_w);
        return (wchar_t)narrow_w == character;
    case QUAD:
        memcpy(&native, in, sizeof native);
        external = native;
        copy_swapped(out, &external, sizeof external);
        return true;
    }
    return false;
}

static void read_unit(const struct format *f, void *out, const char *in)
{
    int64_t wide;
    uint64_t wide_u;
    int32_t narrow;
    uint32_t narrow_u;
    uint16_t narrow_w;
    wchar_t character;
    long double native;
    quad external;

    switch (f->conversion) {
    case SWAP:
        copy_swapped(out, in, f->external_bytes);
        break;
    case NARROW:
        copy_swapped(&narrow, in, sizeof narrow);
        wide = narrow;
        memcpy(out, &wide, sizeof wide);
        break;
    case NARROW_U:
        copy_swapped(&narrow_u, in, sizeof narrow_u);
        wide_u = narrow_u;
        memcpy(out, &wide_u, sizeof wide_u);
        break;
    case NARROW_W:
        copy_swapped(&narrow_w, in, sizeof narrow_w);
        character = (wchar_t)narrow_w;
        memcpy(out, &character, sizeof character);
        break;
    case QUAD:
        copy_swapped(&external, in, sizeof external);
        native = (long double)external;
        memcpy(out, &native, sizeof native);
        break;
    }
}

/* Bytes of one element in external32. */
MPI_Count ampi_external32_size(const struct ampi_type *type)
{
    struct ampi_recipe_piece parts[2];
    struct format f;
    MPI_Count size = 0;

    if (ampi_type_pair_parts(type, parts))
        return ampi_external32_size(parts[0].child) + ampi_external32_size(parts[1].child);
    if (!type->recipe) {
        f = format_of(type);
        return (MPI_Count)(f.external_bytes * f.n_units);
    }
    if (ampi_recipe_pieces(type) == 0)
        return 0;
    if (type->recipe->combiner != MPI_COMBINER_STRUCT) /* all pieces have the same child */
        return type->size_bytes ? type->size_bytes / ampi_recipe_piece_of(type, 0).child->size_bytes *
                                      ampi_external32_size(ampi_recipe_piece_of(type, 0).child)
                                : 0;
    for (MPI_Count i = 0; i < ampi_recipe_pieces(type); i++) {
        struct ampi_recipe_piece part = ampi_recipe_piece_of(type, i);
        if (part.len > 0)
            size += part.len * ampi_external32_size(part.child);
    }
    return size;
}

/* The direction and the position in the packed buffer. */
struct stream {
    char *packed;
    size_t room; /* bytes from there to its end; packing stops before a basic element that does not fit */
    MPI_Count n_moved; /* bytes of data in memory that were moved */
    bool is_pack;
    bool has_overflow; /* a value did not fit */
};

/* Moves count elements of a basic type, extent bytes apart. */
static void move_basics(struct stream *stream, const struct ampi_type *type, uintptr_t base, MPI_Count count)
{
    struct format f = format_of(type);

    for (MPI_Count i = 0; i < count; i++) {
        if (stream->room < f.n_units * f.external_bytes) {
            stream->room = 0;
            return;
        }
        stream->room -= f.n_units * f.external_bytes;
        stream->n_moved += (MPI_Count)(f.n_units * f.unit_bytes);
        for (size_t k = 0; k < f.n_units; k++) {
            void *unit = (void *)(base + (uintptr_t)(i * type->extent_bytes) + k * f.unit_bytes);
            if (!stream->is_pack)
                read_unit(&f, unit, stream->packed);
            else if (!write_unit(&f, stream->packed, unit))
                stream->has_overflow = true;
            stream->packed += f.external_bytes;
        }
    }
}

static void move_elements(struct stream *stream, const struct ampi_type *type, uintptr_t base,
                          MPI_Count count)
{
    struct ampi_recipe_piece pair[2];
    bool is_pair = ampi_type_pair_parts(type, pair);
    MPI_Count n_parts;

    if (type->size_bytes == 0)
        return;
    if (!is_pair && !type->recipe) {
        move_basics(stream, type, base, count);
        return;
    }
    n_parts = is_pair ? 2 : ampi_recipe_pieces(type);
    for (MPI_Count k = 0; k < count && stream->room > 0; k++) {
        for (MPI_Count i = 0; i < n_parts; i++) {
            struct ampi_recipe_piece part = is_pair ? pair[i] : ampi_recipe_piece_of(type, i);
            move_elements(stream, part.child, base + (uintptr_t)(k * type->extent_bytes + part.disp_bytes),
                          part.len);
        }
    }
}

int ampi_external32_convert(void *data, MPI_Count count, const struct ampi_type *type, void *packed,
                            size_t n_bytes, bool is_pack, MPI_Count *moved_out)
{
    struct stream stream = {.packed = packed, .room = n_bytes, .is_pack = is_pack};

    move_elements(&stream, type, (uintptr_t)data, count);
    *moved_out = stream.n_moved;
    return stream.has_overflow ? MPI_ERR_CONVERSION : MPI_SUCCESS;
}

/* Moves all elements between the buffers, or between host copies of GPU buffers. */
static int move_copies(const struct ampi_pack_args *args, struct stream *stream, char *packed,
                       MPI_Count n_bytes)
{
    struct ampi_host_copy data, flat;
    int error = ampi_host_copy_begin(&data, args->data, args->count, args->type, stream->is_pack), end_error;

    if (error)
        return ampi_pack_raise_gpu(args, error);
    error = ampi_host_copy_begin(&flat, packed, n_bytes, ampi_type_of(MPI_BYTE), !stream->is_pack);
    if (!error) {
        stream->packed = flat.buf;
        stream->room = (size_t)n_bytes;
        move_elements(stream, args->type, (uintptr_t)data.buf, args->count);
        error = ampi_host_copy_end(&flat, stream->is_pack);
    }
    end_error = ampi_host_copy_end(&data, !error && !stream->is_pack);
    error = error ? error : end_error;
    return error ? ampi_pack_raise_gpu(args, error) : MPI_SUCCESS;
}

static int check_datarep(const char *datarep)
{
    if (!datarep || strcmp(datarep, "external32") != 0)
        return ampi_raise_self(MPI_ERR_ARG, "datarep is %s, but only \"external32\" can be packed",
                               datarep ? datarep : "NULL");
    return MPI_SUCCESS;
}

/* Bytes of stack per nesting level. */
#define LEVEL_BYTES 512

/* Assumed remaining stack of a process with one rank. */
#define PROCESS_STACK_BYTES ((size_t)4 << 20)

/* This file recurses through a type. Checks that the stack suffices. */
static int check_depth(const struct ampi_type *type)
{
    const struct ult *self = ult_self();
    const char *here = __builtin_frame_address(0);
    size_t room_bytes = PROCESS_STACK_BYTES;

    if (self->stack_lo && here > self->stack_lo && here <= self->stack_hi)
        room_bytes = (size_t)(here - self->stack_lo);
    if (type->depth < room_bytes / LEVEL_BYTES)
        return MPI_SUCCESS;
    return ampi_raise_self(MPI_ERR_TYPE,
                           "the datatype is nested %u levels deep, too deep for the stack (+stacksize)",
                           type->depth);
}

static int move(const char *datarep, struct ampi_pack_args *args, MPI_Count *position, bool is_pack)
{
    struct stream stream = {.is_pack = is_pack};
    MPI_Count each_bytes;
    int rc = check_datarep(datarep);

    if (rc != MPI_SUCCESS)
        return rc;
    if (!position)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the position is NULL");
    rc = ampi_pack_check(args, *position);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = check_depth(args->type);
    if (rc != MPI_SUCCESS)
        return rc;
    each_bytes = ampi_external32_size(args->type);
    rc = ampi_pack_check_room(args, each_bytes, *position);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = move_copies(args, &stream, args->packed + *position, args->count * each_bytes);
    if (rc != MPI_SUCCESS)
        return rc;
    if (stream.has_overflow)
        return ampi_raise_self(MPI_ERR_CONVERSION, "a value does not fit into its external32 representation");
    *position += args->count * each_bytes;
    return MPI_SUCCESS;
}

/* For the forms whose position is an MPI_Aint. */
static int move_aint(const char *datarep, struct ampi_pack_args *args, MPI_Aint *position, bool is_pack)
{
    MPI_Count wide = position ? *position : 0;
    int rc = move(datarep, args, position ? &wide : NULL, is_pack);

    if (rc == MPI_SUCCESS)
        *position = (MPI_Aint)wide;
    return rc;
}

AMPI_EXPORT(Pack_external);
int PMPI_Pack_external(const char *datarep, const void *inbuf, int incount, MPI_Datatype datatype,
                       void *outbuf, MPI_Aint outsize, MPI_Aint *position)
{
    struct ampi_pack_args args = {.data = (void *)(uintptr_t)inbuf,
                                  .count = incount,
                                  .datatype = datatype,
                                  .packed = outbuf,
                                  .packed_bytes = outsize};

    ampi_enter("MPI_Pack_external");
    return move_aint(datarep, &args, position, true);
}

AMPI_EXPORT(Pack_external_c);
int PMPI_Pack_external_c(const char *datarep, const void *inbuf, MPI_Count incount, MPI_Datatype datatype,
                         void *outbuf, MPI_Count outsize, MPI_Count *position)
{
    struct ampi_pack_args args = {.data = (void *)(uintptr_t)inbuf,
                                  .count = incount,
                                  .datatype = datatype,
                                  .packed = outbuf,
                                  .packed_bytes = outsize};

    ampi_enter("MPI_Pack_external_c");
    return move(datarep, &args, position, true);
}

AMPI_EXPORT(Unpack_external);
int PMPI_Unpack_external(const char datarep[], const void *inbuf, MPI_Aint insize, MPI_Aint *position,
                         void *outbuf, int outcount, MPI_Datatype datatype)
{
    struct ampi_pack_args args = {.data = outbuf,
                                  .count = outcount,
                                  .datatype = datatype,
                                  .packed = (char *)(uintptr_t)inbuf,
                                  .packed_bytes = insize};

    ampi_enter("MPI_Unpack_external");
    return move_aint(datarep, &args, position, false);
}

AMPI_EXPORT(Unpack_external_c);
int PMPI_Unpack_external_c(const char datarep[], const void *inbuf, MPI_Count insize, MPI_Count *position,
                           void *outbuf, MPI_Count outcount, MPI_Datatype datatype)
{
    struct ampi_pack_args args = {.data = outbuf,
                                  .count = outcount,
                                  .datatype = datatype,
                                  .packed = (char *)(uintptr_t)inbuf,
                                  .packed_bytes = insize};

    ampi_enter("MPI_Unpack_external_c");
    return move(datarep, &args, position, false);
}

static int pack_external_size(const char *datarep, MPI_Count incount, MPI_Datatype datatype, MPI_Count *size)
{
    struct ampi_pack_args args = {.count = incount, .datatype = datatype};
    MPI_Count n_bytes;
    int rc = check_datarep(datarep);

    if (rc != MPI_SUCCESS)
        return rc;
    if (!size)
        return ampi_raise_self(MPI_ERR_ARG, "the address for the size is NULL");
    rc = ampi_pack_check(&args, 0);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = check_depth(args.type);
    if (rc != MPI_SUCCESS)
        return rc;
    if (__builtin_mul_overflow(incount, ampi_external32_size(args.type), &n_bytes))
        return ampi_raise_self(MPI_ERR_VALUE_TOO_LARGE, "%lld elements have too many bytes",
                               (long long)incount);
    *size = n_bytes;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Pack_external_size);
int PMPI_Pack_external_size(const char *datarep, int incount, MPI_Datatype datatype, MPI_Aint *size)
{
    MPI_Count wide;
    int rc;

    ampi_enter("MPI_Pack_external_size");
    rc = pack_external_size(datarep, incount, datatype, size ? &wide : NULL);
    if (rc == MPI_SUCCESS)
        *size = (MPI_Aint)wide;
    return rc;
}

AMPI_EXPORT(Pack_external_size_c);
int PMPI_Pack_external_size_c(const char *datarep, MPI_Count incount, MPI_Datatype datatype, MPI_Count *size)
{
    ampi_enter("MPI_Pack_external_size_c");
    return pack_external_size(datarep, incount, datatype, size);
}
