/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pack: the cost of packing and unpacking through a datatype, compared with a hand-written loop for the same
 * layout. The two alternate; the result is the median of the ratios of neighbours, in percent of the
 * hand-written loop's speed (100: as fast). For each layout there are three sizes of the packed data: 8 KiB
 * (16 KiB fill, with every second line of the strided side, all ways of a first-level cache of 48 KiB, and
 * then one line more makes all the difference), 512 KiB and 16 MiB. Times are processor time, so that a busy
 * machine disturbs little.
 *
 * usage: pack [-t seconds_per_point]
 * prints: pack.LAYOUT.BYTES value %, unpack.LAYOUT.BYTES value %, pack_rate.LAYOUT.BYTES value GB/s
 * layouts: vecB, blocks of B bytes at twice their distance; struct, {char, double, int} with its gaps; plane,
 * a plane of a three-dimensional array of doubles; index, single doubles at irregular places
 */
#include <mpi.h>

#include <stddef.h>

#include "bench_stats.h"

#define SPREAD 4 /* bytes of the strided buffer per packed byte, at most */

typedef void (*loop_fn)(char *strided, char *packed, size_t n, int is_pack);

struct layout {
    const char *name;
    size_t element_bytes;           /* packed bytes of one of the n units that the loop moves */
    MPI_Datatype (*make)(size_t n); /* n units as a datatype */
    loop_fn by_hand;
};

/* ---- The loops that a programmer would write ---- */

#define HAND(name, type)                                                  \
    static void name(char *strided, char *packed, size_t n, int is_pack)  \
    {                                                                     \
        type *restrict s = (type *)strided, *restrict p = (type *)packed; \
        if (is_pack) {                                                    \
            for (size_t i = 0; i < n; i++)                                \
                p[i] = s[2 * i];                                          \
        } else {                                                          \
            for (size_t i = 0; i < n; i++)                                \
                s[2 * i] = p[i];                                          \
        }                                                                 \
    }

/* For larger blocks: memcpy of a constant size is faster than an inner loop. */
#define HAND_COPY(name, bytes)                                                  \
    static void name(char *strided, char *packed, size_t n, int is_pack)        \
    {                                                                           \
        if (is_pack) {                                                          \
            for (size_t i = 0; i < n; i++)                                      \
                memcpy(packed + i * (bytes), strided + i * 2 * (bytes), bytes); \
        } else {                                                                \
            for (size_t i = 0; i < n; i++)                                      \
                memcpy(strided + i * 2 * (bytes), packed + i * (bytes), bytes); \
        }                                                                       \
    }

HAND(hand_1, char)
HAND(hand_4, int)
HAND(hand_8, double)
HAND_COPY(hand_16, 16)
HAND_COPY(hand_24, 24)
HAND_COPY(hand_64, 64)
HAND_COPY(hand_256, 256)

struct record {
    char c;
    double d;
    int i;
};
#define RECORD_BYTES (sizeof(char) + sizeof(double) + sizeof(int))

static void hand_struct(char *strided, char *packed, size_t n, int is_pack)
{
    struct record *r = (struct record *)strided;

    for (size_t i = 0; i < n; i++, packed += RECORD_BYTES) {
        if (is_pack) {
            memcpy(packed, &r[i].c, sizeof(char));
            memcpy(packed + 1, &r[i].d, sizeof(double));
            memcpy(packed + 9, &r[i].i, sizeof(int));
        } else {
            memcpy(&r[i].c, packed, sizeof(char));
            memcpy(&r[i].d, packed + 1, sizeof(double));
            memcpy(&r[i].i, packed + 9, sizeof(int));
        }
    }
}

/* Rows of 32 doubles, of which the middle 16 are taken, in planes of 16 rows, of which the middle 8 are. */
static void hand_plane(char *strided, char *packed, size_t n, int is_pack)
{
    double *s = (double *)strided, *p = (double *)packed;

    for (size_t plane = 0; plane < n; plane++) {
        for (size_t row = 4; row < 12; row++) {
            double *from = s + (plane * 16 + row) * 32 + 8;
            for (size_t i = 0; i < 16; i++, p++) {
                if (is_pack)
                    *p = from[i];
                else
                    from[i] = *p;
            }
        }
    }
}

static int *places; /* of the n doubles */
static size_t n_places;

static void set_places(size_t n)
{
    unsigned state = 1;

    if (n == n_places)
        return;
    places = realloc(places, n * sizeof *places);
    n_places = n;
    for (size_t i = 0; i < n; i++) {
        state = state * 1103515245u + 12345u;
        places[i] = (int)(2 * i + (state >> 16) % 2 + (i ? 0 : 1));
    }
}

static void hand_index(char *strided, char *packed, size_t n, int is_pack)
{
    double *s = (double *)strided, *p = (double *)packed;

    for (size_t i = 0; i < n; i++) {
        if (is_pack)
            p[i] = s[places[i]];
        else
            s[places[i]] = p[i];
    }
}

/* ---- The same as datatypes ---- */

#define MAKE(name, bytes)                                             \
    static MPI_Datatype name(size_t n)                                \
    {                                                                 \
        MPI_Datatype type;                                            \
        MPI_Type_vector((int)n, bytes, 2 * (bytes), MPI_BYTE, &type); \
        return type;                                                  \
    }

MAKE(make_1, 1)
MAKE(make_4, 4)
MAKE(make_8, 8)
MAKE(make_16, 16)
MAKE(make_24, 24)
MAKE(make_64, 64)
MAKE(make_256, 256)

static MPI_Datatype make_struct(size_t n)
{
    int lens[3] = {1, 1, 1};
    MPI_Aint disps[3] = {offsetof(struct record, c), offsetof(struct record, d), offsetof(struct record, i)};
    MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, one, type;

    MPI_Type_create_struct(3, lens, disps, types, &one);
    MPI_Type_contiguous((int)n, one, &type);
    MPI_Type_free(&one);
    return type;
}

static MPI_Datatype make_plane(size_t n)
{
    int sizes[3] = {(int)n, 16, 32}, subsizes[3] = {(int)n, 8, 16}, starts[3] = {0, 4, 8};
    MPI_Datatype type;

    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    return type;
}

static MPI_Datatype make_index(size_t n)
{
    MPI_Datatype type;

    set_places(n);
    MPI_Type_create_indexed_block((int)n, 1, places, MPI_DOUBLE, &type);
    return type;
}

/* ---- Measuring ---- */

struct point {
    const struct layout *layout;
    size_t n, packed_bytes;
    MPI_Datatype type;
    char *strided, *packed;
    int is_pack;
};

/* The processor time of this thread, without that of other programs. */
static double cpu_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double hand_seconds(const struct point *pt, long iterations)
{
    double start = cpu_now();
    for (long i = 0; i < iterations; i++) {
        pt->layout->by_hand(pt->strided, pt->packed, pt->n, pt->is_pack);
        __asm__ volatile("" ::: "memory");
    }
    return cpu_now() - start;
}

static double type_seconds(const struct point *pt, long iterations)
{
    double start = cpu_now();
    for (long i = 0; i < iterations; i++) {
        int position = 0;
        if (pt->is_pack)
            MPI_Pack(pt->strided, 1, pt->type, pt->packed, (int)pt->packed_bytes, &position, MPI_COMM_SELF);
        else
            MPI_Unpack(pt->packed, (int)pt->packed_bytes, &position, pt->strided, 1, pt->type, MPI_COMM_SELF);
    }
    return cpu_now() - start;
}

static void measure(const struct point *pt, double seconds)
{
    double ratios[BENCH_SAMPLES], rates[BENCH_SAMPLES], total = 0;
    long iterations = 1;
    int n = 0;
    char key[64];
    struct bench_stats stats;

    while (hand_seconds(pt, iterations) < seconds / 100)
        iterations *= 2;
    type_seconds(pt, iterations);
    while (n < BENCH_SAMPLES && (n < 5 || total < seconds)) {
        double by_hand = hand_seconds(pt, iterations), by_type = type_seconds(pt, iterations);
        ratios[n] = 100 * by_hand / by_type;
        rates[n++] = by_type / (double)iterations;
        total += by_hand + by_type;
    }
    stats = bench_summarize(ratios, n);
    snprintf(key, sizeof key, "%s.%s.%zu", pt->is_pack ? "pack" : "unpack", pt->layout->name,
             pt->packed_bytes);
    bench_print_time(key, stats, 1, "%");
    if (pt->is_pack) {
        snprintf(key, sizeof key, "pack_rate.%s.%zu", pt->layout->name, pt->packed_bytes);
        bench_print_rate(key, bench_summarize(rates, n), 1e-9 * (double)pt->packed_bytes, "GB/s");
    }
}

int main(int argc, char **argv)
{
    static const struct layout layouts[] = {
        {"vec1", 1, make_1, hand_1},
        {"vec4", 4, make_4, hand_4},
        {"vec8", 8, make_8, hand_8},
        {"vec16", 16, make_16, hand_16},
        {"vec24", 24, make_24, hand_24},
        {"vec64", 64, make_64, hand_64},
        {"vec256", 256, make_256, hand_256},
        {"struct", RECORD_BYTES, make_struct, hand_struct},
        {"plane", 1024, make_plane, hand_plane},
        {"index", 8, make_index, hand_index},
    };
    static const size_t sizes[] = {8 << 10, 512 << 10, 16 << 20};
    double seconds;

    MPI_Init(&argc, &argv);
    seconds = bench_option_double(argc, argv, "-t", 0.1);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *strided = (char *)bench_alloc(SPREAD * sizes[i] + 4096, 1);
        char *packed = (char *)bench_alloc(sizes[i], 2);
        for (size_t k = 0; k < sizeof layouts / sizeof layouts[0]; k++) {
            struct point pt = {.layout = &layouts[k],
                               .n = sizes[i] / layouts[k].element_bytes,
                               .strided = strided,
                               .packed = packed};
            pt.packed_bytes = pt.n * layouts[k].element_bytes;
            pt.type = layouts[k].make(pt.n);
            MPI_Type_commit(&pt.type);
            for (pt.is_pack = 1; pt.is_pack >= 0; pt.is_pack--)
                measure(&pt, seconds);
            bench_sink(packed, pt.packed_bytes);
            MPI_Type_free(&pt.type);
        }
        free(strided);
        free(packed);
    }
    free(places);
    MPI_Finalize();
    return 0;
}
