/* SPDX-License-Identifier: BSD-3-Clause
 *
 * type.h: datatypes (MPI 5.0, chapter 5): the interface for the rest of the library.
 *
 * An object is immutable once committed and reference-counted; a pending message holds a reference, so a
 * type may be freed while in use. Ranks of a process may read each other's types.
 */
#ifndef AMPI_TYPE_H
#define AMPI_TYPE_H

#include <string.h>

#include "ampi/object/handle.h"

struct base_layout;      /* the flattened program: datatype/typemap.h */
struct ampi_type_recipe; /* constructor and arguments: datatype/recipe.h */
struct ampi_attrs;       /* attr.h */
struct ampi_signature;   /* datatype/signature.h */

/* The basic types of the machine: the units of reductions and byte swaps. */
enum ampi_basic {
    AMPI_BASIC_NONE, /* not one basic type only */
    AMPI_BASIC_BYTE, /* MPI_BYTE and MPI_PACKED */
    AMPI_BASIC_CHAR, /* characters: no arithmetic */
    AMPI_BASIC_WCHAR,
    AMPI_BASIC_INT8,
    AMPI_BASIC_INT16,
    AMPI_BASIC_INT32,
    AMPI_BASIC_INT64,
    AMPI_BASIC_INT128,
    AMPI_BASIC_UINT8,
    AMPI_BASIC_UINT16,
    AMPI_BASIC_UINT32,
    AMPI_BASIC_UINT64,
    AMPI_BASIC_FLOAT16,
    AMPI_BASIC_FLOAT,
    AMPI_BASIC_DOUBLE,
    AMPI_BASIC_LONG_DOUBLE,
    AMPI_BASIC_FLOAT128,
    AMPI_BASIC_COMPLEX_FLOAT16,
    AMPI_BASIC_COMPLEX_FLOAT,
    AMPI_BASIC_COMPLEX_DOUBLE,
    AMPI_BASIC_COMPLEX_LONG_DOUBLE,
    AMPI_BASIC_COMPLEX_FLOAT128,
    AMPI_BASIC_BOOL, /* C and C++ bool */
    AMPI_BASIC_LOGICAL8,
    AMPI_BASIC_LOGICAL16,
    AMPI_BASIC_LOGICAL32,
    AMPI_BASIC_LOGICAL64,
    AMPI_BASIC_LOGICAL128,
    /* pairs, for MINLOC and MAXLOC */
    AMPI_BASIC_FLOAT_INT,
    AMPI_BASIC_DOUBLE_INT,
    AMPI_BASIC_LONG_INT,
    AMPI_BASIC_2INT,
    AMPI_BASIC_SHORT_INT,
    AMPI_BASIC_LONG_DOUBLE_INT,
    AMPI_BASIC_2FLOAT,
    AMPI_BASIC_2DOUBLE,
    AMPI_BASIC_COUNT,
};

struct ampi_type {
    uint32_t magic;          /* AMPI_MAGIC_TYPE */
    _Atomic uint32_t refs;   /* handles, derived types and messages that use it; predefined: not counted */
    MPI_Count size_bytes;    /* of the data of one element */
    MPI_Count lb_bytes;      /* lower bound */
    MPI_Count extent_bytes;  /* distance of consecutive elements */
    MPI_Count true_lb_bytes; /* first byte of data */
    MPI_Count true_extent_bytes; /* from the first to the last byte of data */
    MPI_Count n_basics;          /* basic elements in one element */
    enum ampi_basic basic;       /* the kind of all of them if there is only one; else AMPI_BASIC_NONE */
    bool is_dense;               /* the data of one element is one block, in order: size == true extent */
    bool is_committed;           /* committed, and a handle is left: allowed in operations */
    bool is_predefined;          /* must not be freed */
    bool has_lb;              /* a constructor (a marker) set the lower bound, which is not derived from the
                           * data */
    bool has_ub;              /* the same for the upper bound, lb_bytes + extent_bytes */
    uint32_t depth;           /* of nesting: 0 for predefined types */
    uint32_t align_bytes;     /* the largest alignment of its basic elements */
    _Atomic uint32_t handles; /* handles the program holds; attributes are deleted with the last one */
    MPI_Datatype predefined;  /* the constant, for predefined types; else MPI_DATATYPE_NULL */
    struct base_layout *map;  /* the flattened program; NULL for dense types and before commit */
    struct ampi_type_recipe *recipe;            /* constructor and arguments; NULL for predefined types */
    struct ampi_attrs *attrs;                   /* cached attributes; NULL: none */
    char *name;                                 /* MPI_Type_set_name; NULL: the default */
    _Atomic(struct ampi_signature *) signature; /* +check usage; NULL: not made yet */
};

/* The predefined types, by handle value - 0x200; NULL where the ABI has no type. Set up at start-up. */
#define AMPI_TYPE_FIRST 0x200u
#define AMPI_TYPE_COUNT 0x100u
extern struct ampi_type *ampi_type_predefined[AMPI_TYPE_COUNT];

/* Fills ampi_type_predefined; once per process, before any rank runs. */
void ampi_type_init(void);

/* The object of a handle; NULL if it is not valid (including MPI_DATATYPE_NULL). */
static inline struct ampi_type *ampi_type_of(MPI_Datatype handle)
{
    if (BASE_LIKELY(ampi_handle_is_predefined(handle))) {
        uintptr_t index = (uintptr_t)handle - AMPI_TYPE_FIRST;
        return BASE_LIKELY(index < AMPI_TYPE_COUNT) ? ampi_type_predefined[index] : NULL;
    }
    return ampi_handle_has_magic(handle, AMPI_MAGIC_TYPE) ? (struct ampi_type *)handle : NULL;
}

/* The handle of an object. */
static inline MPI_Datatype ampi_type_handle(struct ampi_type *type)
{
    return type->is_predefined ? type->predefined : (MPI_Datatype)type;
}

/* Frees the object with the last reference. Any thread. */
void ampi_type_destroy(struct ampi_type *type);

/* Attributes (attr.c): copies those of old to dup, with the copy callbacks; deletes those of a type whose
 * last handle is freed, with the delete callbacks. Both raise and return the callbacks' errors, and may
 * switch. */
int ampi_type_copy_attrs(struct ampi_type *old, struct ampi_type *dup);
int ampi_type_delete_attrs(struct ampi_type *type);

/* The attributes of a datatype; a rank has its own for the predefined types, which all ranks share.
 * (type_attr.c) */
struct ampi_rank;
struct ampi_attrs **ampi_attr_of_type(struct ampi_rank *self, struct ampi_type *type);

static inline void ampi_type_ref(struct ampi_type *type)
{
    if (!type->is_predefined)
        atomic_fetch_add_explicit(&type->refs, 1, memory_order_relaxed);
}

/* Drops a reference; returns true if it was the last one, and the caller must destroy the type. */
static inline bool ampi_type_drop_ref(struct ampi_type *type)
{
    return !type->is_predefined && atomic_fetch_sub_explicit(&type->refs, 1, memory_order_acq_rel) == 1;
}

static inline void ampi_type_unref(struct ampi_type *type)
{
    if (ampi_type_drop_ref(type))
        ampi_type_destroy(type);
}

/* True if count elements are one block of memory, which starts true_lb_bytes after the buffer's address. */
static inline bool ampi_type_is_block(const struct ampi_type *type, MPI_Count count)
{
    return type->is_dense && (type->extent_bytes == type->size_bytes || count <= 1);
}

/* True if the size of count elements exceeds 64 bits. Every call with data raises MPI_ERR_COUNT then, so
 * that sizes can be multiplied later without checks. */
static inline bool ampi_type_is_too_much(const struct ampi_type *type, MPI_Count count)
{
    MPI_Count n_bytes;

    return BASE_UNLIKELY(__builtin_mul_overflow(count, type->size_bytes, &n_bytes));
}

/* True if data of the type can be at this address. Only derived types have absolute addresses (MPI_BOTTOM);
 * MPI_IN_PLACE is not an address. */
static inline bool ampi_type_is_address(const struct ampi_type *type, const void *buf)
{
    return BASE_LIKELY((uintptr_t)buf > (uintptr_t)MPI_IN_PLACE) || (!buf && !type->is_predefined);
}

/* The error text for such a count; arguments: the count and the type's size as long long. */
#define AMPI_TYPE_TOO_MUCH "the count %lld of elements of %lld bytes each is more than there can be"

/* ---- Moving data (datatype/copy.c). Never switch. ---- */

/* Copies the data of src to dst, element signature by element signature, directly from layout to layout: as
 * many bytes as the smaller of the two. Returns the bytes copied. The buffers must not overlap. */
size_t ampi_type_copy_general(void *dst, MPI_Count dst_count, const struct ampi_type *dst_type,
                              const void *src, MPI_Count src_count, const struct ampi_type *src_type);

/* The address disp_bytes after buf, which may be MPI_BOTTOM. */
static inline void *ampi_type_address(const void *buf, MPI_Count disp_bytes)
{
    return (void *)((uintptr_t)buf + (uintptr_t)disp_bytes);
}

static inline size_t ampi_type_copy(void *dst, MPI_Count dst_count, const struct ampi_type *dst_type,
                                    const void *src, MPI_Count src_count, const struct ampi_type *src_type)
{
    if (BASE_LIKELY(ampi_type_is_block(dst_type, dst_count) && ampi_type_is_block(src_type, src_count))) {
        size_t dst_bytes = (size_t)(dst_count * dst_type->size_bytes);
        size_t src_bytes = (size_t)(src_count * src_type->size_bytes);
        size_t n_bytes = src_bytes < dst_bytes ? src_bytes : dst_bytes;
        if (n_bytes)
            memcpy(ampi_type_address(dst, dst_type->true_lb_bytes),
                   ampi_type_address(src, src_type->true_lb_bytes), n_bytes);
        return n_bytes;
    }
    return ampi_type_copy_general(dst, dst_count, dst_type, src, src_count, src_type);
}

/* A position in the data of count elements at buf, which can be packed or unpacked in pieces of any size.
 * Addresses are integers because buf may be MPI_BOTTOM. It has the innermost frames of the walk through the
 * typemap program; when the walk returns to outer ones, a seek restores them. */
#define AMPI_CURSOR_FRAMES 8
struct base_node;
struct ampi_cursor_frame {
    const struct base_node *node; /* the repeated node; NULL: the count elements of the cursor */
    int64_t index;                /* the current repetition or table entry */
    uintptr_t base;               /* address of the node's first repetition */
};
struct ampi_cursor_run {
    uintptr_t ptr;   /* address of the current block */
    int64_t stride;  /* bytes from block to block */
    size_t block;    /* bytes of a block */
    size_t n_blocks; /* remaining, including the current one; 0: the run is exhausted */
    size_t used;     /* bytes of the current block before the position */
};
struct ampi_cursor {
    uintptr_t buf;
    const struct ampi_type *type;
    MPI_Count count;
    MPI_Count packed_bytes;     /* bytes of data before the position */
    struct ampi_cursor_run run; /* equal blocks at equal distances, the next bytes of data */
    unsigned depth;             /* frames around the run */
    unsigned low;               /* frames below this number are not in the ring */
    struct ampi_cursor_frame frames[AMPI_CURSOR_FRAMES]; /* frame number d is at d % AMPI_CURSOR_FRAMES */
};
void ampi_cursor_init(struct ampi_cursor *cursor, const void *buf, MPI_Count count,
                      const struct ampi_type *type);

/* Moves to data byte `packed_bytes`, 0 <= packed_bytes <= count * size. */
void ampi_cursor_seek(struct ampi_cursor *cursor, MPI_Count packed_bytes);

/* Copies up to n_bytes of data from the position to out (or from in to the position); returns the bytes
 * copied, fewer only at the end of the data. Pieces may end within a basic element. */
size_t ampi_cursor_pack(struct ampi_cursor *cursor, void *out, size_t n_bytes);
size_t ampi_cursor_unpack(struct ampi_cursor *cursor, const void *in, size_t n_bytes);

#endif
