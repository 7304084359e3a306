/* SPDX-License-Identifier: BSD-3-Clause
 *
 * selection.c: the table of selection.h, its output and its changes.
 */
#include "ampi/coll/engine/slot.h"

#include <stdio.h>
#include <string.h>

#include "base/cores.h"
#include "base/log.h"

static const char *const between_names[AMPI_BETWEEN_COUNT] = {
    [AMPI_BETWEEN_ANY] = "the root's choice",
    [AMPI_BETWEEN_BCAST_BINOMIAL] = "binomial tree",
    [AMPI_BETWEEN_BCAST_LINEAR] = "linear",
    [AMPI_BETWEEN_BCAST_SCATTER] = "scatter, gather",
    [AMPI_BETWEEN_BCAST_CHAIN] = "chain",
    [AMPI_BETWEEN_GATHER_BINOMIAL] = "binomial tree",
    [AMPI_BETWEEN_GATHER_LINEAR] = "linear",
    [AMPI_BETWEEN_SCATTER_BINOMIAL] = "binomial tree",
    [AMPI_BETWEEN_SCATTER_LINEAR] = "linear",
    [AMPI_BETWEEN_ALLGATHER_BRUCK] = "Bruck",
    [AMPI_BETWEEN_ALLGATHER_RING] = "ring",
    [AMPI_BETWEEN_ALLTOALL_BRUCK] = "Bruck",
    [AMPI_BETWEEN_ALLTOALL_PAIRWISE] = "pairwise",
    [AMPI_BETWEEN_SPARSE] = "to neighbors",
    [AMPI_BETWEEN_REDUCE_BINOMIAL] = "binomial tree",
    [AMPI_BETWEEN_REDUCE_HALVING] = "halving, gather",
    [AMPI_BETWEEN_ALLREDUCE_DOUBLING] = "doubling",
    [AMPI_BETWEEN_ALLREDUCE_HALVING] = "Rabenseifner",
    [AMPI_BETWEEN_REDUCE_PAIRWISE] = "pairwise",
    [AMPI_BETWEEN_REDUCE_RING] = "ring",
    [AMPI_BETWEEN_REDUCE_CHAIN] = "chain",
    [AMPI_BETWEEN_SCAN_DOUBLING] = "doubling",
    [AMPI_BETWEEN_SCAN_CHAIN] = "chain",
    [AMPI_BETWEEN_NCCL] = "NCCL",
};

const char *ampi_coll_between_name(enum ampi_between algorithm)
{
    return algorithm < AMPI_BETWEEN_COUNT ? between_names[algorithm] : "something else";
}

/* The columns of an entry that concern several processes. */
#define BETWEEN(few_, small_, large_, from_, counted_)                                          \
    .few = AMPI_BETWEEN_##few_, .small = AMPI_BETWEEN_##small_, .large = AMPI_BETWEEN_##large_, \
    .large_from = (from_), .between_counted = (counted_)

/* On two H200s NCCL is faster from 64 KiB on; but connecting takes some tenths of a
 * second, which smaller operations seldom recover. */
#define NCCL_FROM ((size_t)256 << 10)

/* A ring, or a chain, keeps links busy that are slower than the processes; its many messages cost more than they gain below
 * this. */
#define RING_FROM ((size_t)1 << 20)

struct ampi_coll_selection ampi_coll_selections[AMPI_COLL_KIND_COUNT] = {
    [AMPI_COLL_BCAST] = {"bcast", "the message times the ranks", 16384, 64,
                         BETWEEN(BCAST_BINOMIAL, BCAST_BINOMIAL, BCAST_SCATTER, 131072, "the message"),
                         .nccl_from = NCCL_FROM, .few_far = AMPI_BETWEEN_BCAST_CHAIN, .far_from = RING_FROM},
    [AMPI_COLL_GATHER] = {"gather", "the root's receive buffer", 65536, 64,
                          BETWEEN(GATHER_LINEAR, GATHER_BINOMIAL, GATHER_LINEAR, 16384,
                                  "all that the root receives"),
                          .each_from = 2048},
    [AMPI_COLL_SCATTER] = {"scatter", "all that the root sends", 65536, 64,
                           BETWEEN(SCATTER_LINEAR, SCATTER_BINOMIAL, SCATTER_LINEAR, 16384,
                                   "all that the root sends"),
                           .each_from = 2048},
    [AMPI_COLL_ALLGATHER] = {"allgather", "all that all ranks receive", 16384, 64,
                             BETWEEN(ANY, ALLGATHER_BRUCK, ALLGATHER_RING, 65536,
                                     "all that one rank receives"),
                             .nccl_from = NCCL_FROM, .each_from = 8192},
    [AMPI_COLL_ALLTOALL] = {"alltoall", "all that all ranks receive", 8192, AMPI_COLL_PAIR_BYTES,
                            BETWEEN(ALLTOALL_PAIRWISE, ALLTOALL_BRUCK, ALLTOALL_PAIRWISE, 256,
                                    "the data of one rank for another")},
    [AMPI_COLL_REDUCE] = {"reduce", "the vector times the ranks", 32768, 64,
                          BETWEEN(ANY, REDUCE_BINOMIAL, REDUCE_HALVING, 131072, "the vector"),
                          .few_large = AMPI_BETWEEN_REDUCE_PAIRWISE, .nccl_from = NCCL_FROM,
                          .few_far = AMPI_BETWEEN_REDUCE_CHAIN, .far_from = RING_FROM, .each_from = 64},
    [AMPI_COLL_ALLREDUCE] = {"allreduce", "the vector times the ranks", 16384, 64,
                             BETWEEN(ANY, ALLREDUCE_DOUBLING, ALLREDUCE_HALVING, 16384, "the vector"),
                             .few_large = AMPI_BETWEEN_REDUCE_PAIRWISE, .nccl_from = NCCL_FROM,
                             .few_far = AMPI_BETWEEN_REDUCE_RING, .far_from = RING_FROM},
    [AMPI_COLL_REDUCE_SCATTER] = {"reduce_scatter", "the vector times the ranks", 32768, 0,
                                  BETWEEN(REDUCE_PAIRWISE, ALLREDUCE_DOUBLING, REDUCE_PAIRWISE, 1024,
                                          "the vector"),
                                  .nccl_from = NCCL_FROM, .few_far = AMPI_BETWEEN_REDUCE_RING,
                                  .far_from = RING_FROM},
    [AMPI_COLL_SCAN] = {"scan", "the vector times the ranks", 32768, 64,
                        BETWEEN(ANY, SCAN_DOUBLING, SCAN_DOUBLING, 32768, "the vector")},
    [AMPI_COLL_NEIGHBOR] = {"neighbor", "an estimate of all received data", 16384, 0,
                            BETWEEN(ANY, SPARSE, SPARSE, SIZE_MAX, "")},
    [AMPI_COLL_USER_OP] = {"user-op", "the vector, if a user's function combines", 65536, 0,
                           .large_from = SIZE_MAX},
    [AMPI_COLL_PAST_CACHES] = {"past-caches", "all ranks' receive buffers", (size_t)32 << 20, 0,
                               .large_from = SIZE_MAX},
    [AMPI_COLL_ONE_COPY] = {"one-copy", "a block of one rank of a process for one of another", 16384, 0,
                            .large_from = 0},
    [AMPI_COLL_NODE_MEMORY] = {"node-memory", "a message to a process of the node", 8192, 0,
                               .large_from = SIZE_MAX},
};

void ampi_coll_selection_init(void)
{
    ampi_coll_selections[AMPI_COLL_PAST_CACHES].share_from = base_cache_bytes();
}

void ampi_coll_selection_fit(int node_n_procs)
{
    struct ampi_coll_selection *entry = &ampi_coll_selections[AMPI_COLL_ONE_COPY];

    if (!entry->is_given && base_core_share(node_n_procs) == 0)
        entry->large_from = SIZE_MAX;
}

/* Prints the column that only few operations have. */
static void print_far(void)
{
    printf("Fewer than %d processes that are not on one node use", AMPI_COLL_FEW);
    for (int i = 0; i < AMPI_COLL_KIND_COUNT; i++)
        if (ampi_coll_selections[i].few_far != AMPI_BETWEEN_ANY &&
            ampi_coll_selections[i].far_from != SIZE_MAX)
            printf(" a %s for %s from %zu on,", between_names[ampi_coll_selections[i].few_far],
                   ampi_coll_selections[i].name, ampi_coll_selections[i].far_from);
    printf(" counted as for \"large from\".\n");
}

void ampi_coll_print_selection(void)
{
    printf("Collectives inside a process move data once, between the ranks' buffers: the last rank to arrive "
           "does it or, for\nlarge ones, all PEs in parallel (\"shared from\" this many bytes, counted as in "
           "the last column). For small ones each\nrank leaves its bytes at arrival (\"packed to\" this many "
           "per rank), and each PE delivers the result to its ranks.\n\"past-caches\": results of bcast, "
           "allgather and allreduce from this size on (the size of this machine's last-level cache)\nare "
           "written past the caches. \"one-copy\": from this size on, the data of a process's only rank goes "
           "from buffer to\nbuffer (on one node by one copy of the kernel). "
           "\"node-memory\": from this\nsize on, processes of a node read each other's data in place.\n  "
           "%-16s %12s %12s   %s\n",
           "operation", "packed to", "shared from", "what is counted");
    for (int i = 0; i < AMPI_COLL_KIND_COUNT; i++) {
        const struct ampi_coll_selection *entry = &ampi_coll_selections[i];
        char from[24] = "never";
        if (entry->share_from != SIZE_MAX)
            snprintf(from, sizeof from, "%zu", entry->share_from);
        printf("  %-16s %12zu %12s   %s\n", entry->name, entry->pack_to, from, entry->counted);
    }
    printf("Between processes, each of which first collects its ranks' data:\n  %-16s %-16s %-16s %12s   "
           "%-16s %12s   %s\n",
           "operation", "small", "large", "large from", "fewer than 8", "NCCL from", "what is counted");
    for (int i = 0; i < AMPI_COLL_KIND_COUNT; i++) {
        const struct ampi_coll_selection *entry = &ampi_coll_selections[i];
        char from[24] = "", nccl_from[24] = "never";
        if (!entry->between_counted)
            continue;
        if (entry->large_from != SIZE_MAX)
            snprintf(from, sizeof from, "%zu", entry->large_from);
        if (entry->nccl_from && entry->nccl_from != SIZE_MAX)
            snprintf(nccl_from, sizeof nccl_from, "%zu", entry->nccl_from);
        printf("  %-16s %-16s %-16s %12s   %-16s %12s   %s\n", entry->name, between_names[entry->small],
               entry->large_from == SIZE_MAX ? "" : between_names[entry->large], from,
               entry->few == AMPI_BETWEEN_ANY ? "by size" : between_names[entry->few], nccl_from,
               entry->between_counted);
    }
    printf("\"NCCL from\": buffers on GPUs, one GPU per process, if NCCL is available (+gpu nccl:PATH); from "
           "%zu if "
           "the transport between\nprocesses does not support GPU memory.\n",
           AMPI_COLL_NCCL_STAGED_BYTES);
    print_far();
    printf("Change entries with the environment variable HEDDLE_COLL="
           "OPERATION:SHARED_FROM[:PACKED_TO[:LARGE_FROM[:NCCL_FROM[:RING_FROM]]]][,...]: "
           "bytes may\nend in K, M or G, or be \"inf\".\n");
}

/* Parses a number of bytes up to `end`. */
static bool parse_bytes(const char *text, const char *end, size_t *bytes_out)
{
    static const char suffixes[] = "KMG";
    size_t bytes = 0;
    const char *suffix;

    if (end - text == 3 && memcmp(text, "inf", 3) == 0) {
        *bytes_out = SIZE_MAX;
        return true;
    }
    if (text == end || *text < '0' || *text > '9')
        return false;
    for (; text < end && *text >= '0' && *text <= '9'; text++) {
        if (bytes > (SIZE_MAX >> 40))
            return false;
        bytes = bytes * 10 + (size_t)(*text - '0');
    }
    if (text < end && (suffix = memchr(suffixes, *text & ~0x20, 3))) {
        bytes <<= 10 * (suffix - suffixes + 1);
        text++;
    }
    *bytes_out = bytes;
    return text == end;
}

/* Parses the numbers of an entry, up to `end`. */
static bool parse_numbers(struct ampi_coll_selection *entry, const char *text, const char *end)
{
    size_t *const fields[] = {&entry->share_from, &entry->pack_to, &entry->large_from, &entry->nccl_from,
                              &entry->far_from};

    entry->is_given = true;
    for (size_t i = 0; i < BASE_COUNT(fields); i++) {
        const char *colon = memchr(text, ':', (size_t)(end - text));
        if (!parse_bytes(text, colon ? colon : end, fields[i]))
            return false;
        if (fields[i] == &entry->large_from)
            entry->few = entry->few_large = AMPI_BETWEEN_ANY, entry->each_from = 0;
        if (!colon)
            return entry->pack_to <= AMPI_COLL_PACK_BYTES || entry->pack_to == SIZE_MAX;
        text = colon + 1;
    }
    return false;
}

/* Parses one entry, up to `end`. */
static bool parse_entry(struct ampi_coll_selection *table, const char *text, const char *end)
{
    const char *colon = memchr(text, ':', (size_t)(end - text));

    for (int kind = 0; kind < AMPI_COLL_KIND_COUNT && colon; kind++, table++)
        if (strlen(table->name) == (size_t)(colon - text) &&
            memcmp(table->name, text, (size_t)(colon - text)) == 0)
            return parse_numbers(table, colon + 1, end);
    return false;
}

bool ampi_coll_override(const char *text)
{
    struct ampi_coll_selection changed[AMPI_COLL_KIND_COUNT];

    memcpy(changed, ampi_coll_selections, sizeof changed);
    while (*text) {
        const char *end = text + strcspn(text, ",");
        if (!parse_entry(changed, text, end))
            return false;
        text = *end ? end + 1 : end;
    }
    memcpy(ampi_coll_selections, changed, sizeof changed);
    return true;
}

static char *given; /* the text of HEDDLE_COLL; NULL: none */

bool ampi_coll_selection_read(void)
{
    const char *text = secure_getenv("HEDDLE_COLL");
    size_t size_bytes;

    if (!text)
        return true;
    size_bytes = strlen(text) + 1; /* a copy, because the program may change the variable */
    given = base_malloc(size_bytes, "the environment variable HEDDLE_COLL");
    memcpy(given, text, size_bytes);
    return ampi_coll_override(given);
}

const char *ampi_coll_selection_text(void)
{
    return given ? given : "";
}
