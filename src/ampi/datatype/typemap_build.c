/* SPDX-License-Identifier: BSD-3-Clause
 *
 * typemap_build.c: flattens a datatype into its typemap program.
 *
 * Bottom-up: each type becomes a node and the displacement of its first byte; loops and tables of adjacent
 * or evenly spaced blocks are merged on the way. A type that is used several times is flattened once. Nodes
 * that merging made unreachable are dropped at the end, when the reachable nodes are copied out.
 */
#include "ampi/datatype/recipe.h"
#include "ampi/datatype/typemap.h"
#include "base/log.h"

/* A leaf of at most this many blocks is copied into the table of its parent. */
#define INLINE_BLOCKS 4

#define NO_NODE (-1)

/* Data at a displacement: nothing (bytes == 0), a block of bytes (node == NO_NODE), or a node. */
struct piece {
    int64_t disp;  /* of its first byte */
    int64_t bytes; /* of data */
    int64_t node;
};

struct memo {
    const struct ampi_type *type; /* NULL: free */
    struct piece piece;
};

struct builder {
    int64_t *words;
    size_t n_words, cap_words;
    struct memo *memos; /* hash table of flattened types; its size is a power of two */
    size_t n_memos, cap_memos;
};

/* A growing table of pieces. */
struct pieces {
    struct piece *items;
    size_t n, cap;
};

static struct base_node *node_at(struct builder *b, int64_t index)
{
    return (struct base_node *)(b->words + index);
}

static int64_t new_node(struct builder *b, enum base_node_kind kind, int64_t size, int64_t n, int64_t stride,
                        int64_t unit, size_t table_words)
{
    int64_t index = (int64_t)b->n_words;
    size_t need = b->n_words + (size_t)BASE_NODE_WORDS + table_words;

    if (need > b->cap_words) {
        b->cap_words = need * 2;
        b->words = base_realloc(b->words, b->cap_words * sizeof *b->words, "a datatype");
    }
    b->n_words = need;
    *node_at(b, index) = (struct base_node){kind, size, n, stride, unit};
    return index;
}

/* ---- Memo ---- */

static struct memo *find_memo(struct memo *memos, size_t cap, const struct ampi_type *type)
{
    size_t slot = ((uintptr_t)type >> 4) * 0x9e3779b97f4a7c15u & (cap - 1);

    while (memos[slot].type && memos[slot].type != type)
        slot = (slot + 1) & (cap - 1);
    return &memos[slot];
}

static void remember(struct builder *b, const struct ampi_type *type, struct piece piece)
{
    if (2 * (b->n_memos + 1) > b->cap_memos) {
        size_t cap = b->cap_memos ? 2 * b->cap_memos : 16;
        struct memo *memos = base_calloc(cap, sizeof *memos, "a datatype");
        for (size_t i = 0; i < b->cap_memos; i++) {
            if (b->memos[i].type)
                *find_memo(memos, cap, b->memos[i].type) = b->memos[i];
        }
        free(b->memos);
        b->memos = memos;
        b->cap_memos = cap;
    }
    *find_memo(b->memos, b->cap_memos, type) = (struct memo){type, piece};
    b->n_memos++;
}

/* ---- Loops ---- */

/* The node of a piece; created for a block. */
static int64_t piece_node(struct builder *b, struct piece piece)
{
    if (piece.node != NO_NODE)
        return piece.node;
    return new_node(b, BASE_NODE_STRIDED, piece.bytes, 1, piece.bytes, piece.bytes, 0);
}

/* n copies of a piece, stride bytes apart. */
static struct piece loop(struct builder *b, int64_t n, int64_t stride, struct piece piece)
{
    int64_t size = n * piece.bytes;
    struct base_node *node;

    if (size == 0)
        return (struct piece){0, 0, NO_NODE};
    if (n == 1)
        return piece;
    if (piece.node == NO_NODE) {
        if (stride == piece.bytes)
            return (struct piece){piece.disp, size, NO_NODE};
        return (struct piece){piece.disp, size,
                              new_node(b, BASE_NODE_STRIDED, size, n, stride, piece.bytes, 0)};
    }
    node = node_at(b, piece.node);
    if ((node->kind == BASE_NODE_STRIDED || node->kind == BASE_NODE_LOOP) &&
        stride == node->n * node->stride) {
        struct base_node copy = {node->kind, 0, node->n, node->stride, node->unit};
        return (struct piece){piece.disp, size,
                              new_node(b, copy.kind, size, n * copy.n, copy.stride, copy.unit, 0)};
    }
    return (struct piece){piece.disp, size, new_node(b, BASE_NODE_LOOP, size, n, stride, piece.node, 0)};
}

/* ---- Tables ---- */

static void push(struct pieces *table, struct piece piece)
{
    if (table->n == table->cap) {
        table->cap = table->cap ? 2 * table->cap : 8;
        table->items = base_realloc(table->items, table->cap * sizeof *table->items, "a datatype");
    }
    table->items[table->n++] = piece;
}

static void push_block(struct pieces *table, int64_t disp, int64_t bytes)
{
    struct piece *last = table->n ? &table->items[table->n - 1] : NULL;

    if (last && last->node == NO_NODE && last->disp + last->bytes == disp)
        last->bytes += bytes;
    else
        push(table, (struct piece){disp, bytes, NO_NODE});
}

/* Adds a piece; adjacent blocks are merged, small leaves are split up. */
static void push_piece(struct builder *b, struct pieces *table, struct piece piece)
{
    const struct base_node *node;

    if (piece.bytes == 0)
        return;
    if (piece.node == NO_NODE) {
        push_block(table, piece.disp, piece.bytes);
        return;
    }
    node = node_at(b, piece.node);
    if (node->kind > BASE_NODE_BLOCKS || node->n > INLINE_BLOCKS) {
        push(table, piece);
        return;
    }
    for (int64_t i = 0; i < node->n; i++) {
        if (node->kind == BASE_NODE_STRIDED)
            push_block(table, piece.disp + i * node->stride, node->unit);
        else if (node->kind == BASE_NODE_OFFSETS)
            push_block(table, piece.disp + node->table[i], node->unit);
        else
            push_block(table, piece.disp + base_node_entries(node)[i].disp, base_node_entries(node)[i].unit);
    }
}

static bool is_same_piece(const struct piece *p, const struct piece *q)
{
    return p->node == q->node && p->bytes == q->bytes;
}

/* A table of blocks of various sizes with more than TABLE_SMALL entries is split into blocks of one size if
 * that yields at most CUT_MAX times as many: a loop without branches is worth more than few iterations. */
#define TABLE_SMALL 16
#define CUT_MAX 3

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The block size to split a table of n blocks into; 0: do not split. */
static int64_t cut_bytes(const struct piece *p, int64_t n, int64_t size)
{
    int64_t unit = p[0].bytes;

    for (int64_t i = 1; i < n && unit > 1; i++)
        unit = common_divisor(unit, p[i].bytes);
    return n > TABLE_SMALL && size / unit <= CUT_MAX * n ? unit : 0;
}

static int64_t cut_table(struct builder *b, const struct piece *p, int64_t n, int64_t size, int64_t unit)
{
    int64_t index = new_node(b, BASE_NODE_OFFSETS, size, size / unit, 0, unit, (size_t)(size / unit));
    int64_t *disps = node_at(b, index)->table;

    for (int64_t i = 0; i < n; i++) {
        for (int64_t done = 0; done < p[i].bytes; done += unit)
            *disps++ = p[i].disp - p[0].disp + done;
    }
    return index;
}

/* Makes one piece of the table. The three flags summarise a scan of the table. */
static struct piece close_table(struct builder *b, const struct pieces *table)
{
    const struct piece *p = table->items;
    int64_t n = (int64_t)table->n, size = 0, first, index, unit;
    bool is_even = true, is_same = true, is_blocks = true;

    if (n == 0)
        return (struct piece){0, 0, NO_NODE};
    first = p[0].disp;
    for (int64_t i = 0; i < n; i++) {
        size += p[i].bytes;
        is_blocks &= p[i].node == NO_NODE;
        is_same &= is_same_piece(&p[i], &p[0]);
        is_even &= i == 0 || p[i].disp - p[i - 1].disp == p[1].disp - first;
    }
    if (is_same && is_even)
        return loop(b, n, n > 1 ? p[1].disp - first : 0, p[0]);
    if (is_same) {
        unit = is_blocks ? p[0].bytes : p[0].node;
        index = new_node(b, is_blocks ? BASE_NODE_OFFSETS : BASE_NODE_LIST, size, n, 0, unit, (size_t)n);
        for (int64_t i = 0; i < n; i++)
            node_at(b, index)->table[i] = p[i].disp - first;
        return (struct piece){first, size, index};
    }
    if (is_blocks && (unit = cut_bytes(p, n, size)) > 0)
        return (struct piece){first, size, cut_table(b, p, n, size, unit)};
    if (!is_blocks) {
        for (int64_t i = 0; i < n; i++)
            table->items[i].node = i && is_same_piece(&p[i], &p[i - 1]) ? p[i - 1].node : piece_node(b, p[i]);
    }
    index = new_node(b, is_blocks ? BASE_NODE_BLOCKS : BASE_NODE_STRUCT, size, n, 0, 0,
                     (size_t)(n * BASE_NODE_ENTRY_WORDS));
    size = 0;
    for (int64_t i = 0; i < n; i++) {
        struct base_node_entry *entry = (struct base_node_entry *)node_at(b, index)->table + i;
        *entry = (struct base_node_entry){p[i].disp - first, is_blocks ? p[i].bytes : p[i].node, size};
        size += p[i].bytes;
    }
    return (struct piece){first, size, index};
}

/* ---- Types ---- */

static struct piece flatten(struct builder *b, const struct ampi_type *type);

/* len copies of the piece's child. */
static struct piece flatten_part(struct builder *b, struct ampi_recipe_piece part)
{
    struct piece piece = {0, 0, NO_NODE};

    if (part.len > 0 && part.child->size_bytes > 0)
        piece = loop(b, part.len, part.child->extent_bytes, flatten(b, part.child));
    piece.disp += part.disp_bytes;
    return piece;
}

static struct piece flatten_table(struct builder *b, const struct ampi_type *type)
{
    MPI_Count n = ampi_recipe_pieces(type);
    struct pieces table = {NULL, 0, 0};
    struct ampi_recipe_piece last = {0, 0, NULL};
    struct piece piece = {0, 0, NO_NODE}, result;

    for (MPI_Count i = 0; i < n; i++) {
        struct ampi_recipe_piece part = ampi_recipe_piece_of(type, i);
        if (part.child != last.child || part.len != last.len) {
            piece = flatten_part(b, part);
            piece.disp -= part.disp_bytes;
            last = part;
        }
        push_piece(b, &table, (struct piece){part.disp_bytes + piece.disp, piece.bytes, piece.node});
    }
    result = close_table(b, &table);
    free(table.items);
    return result;
}

static struct piece flatten_pair(struct builder *b, const struct ampi_recipe_piece parts[2])
{
    struct pieces table = {NULL, 0, 0};
    struct piece result;

    for (int i = 0; i < 2; i++)
        push_block(&table, parts[i].disp_bytes, parts[i].child->size_bytes);
    result = close_table(b, &table);
    free(table.items);
    return result;
}

static struct piece flatten(struct builder *b, const struct ampi_type *type)
{
    struct ampi_recipe_piece pair[2];
    struct piece piece;

    if (type->size_bytes == 0)
        return (struct piece){0, 0, NO_NODE};
    if (type->is_dense)
        return (struct piece){type->true_lb_bytes, type->size_bytes, NO_NODE};
    if (b->cap_memos) {
        struct memo *memo = find_memo(b->memos, b->cap_memos, type);
        if (memo->type)
            return memo->piece;
    }
    if (!type->recipe) {
        ampi_type_pair_parts(type, pair);
        piece = flatten_pair(b, pair);
    } else if (ampi_recipe_is_strided(type) && ampi_recipe_pieces(type) > 1) {
        piece = flatten_part(b, ampi_recipe_piece_of(type, 0));
        piece = loop(b, ampi_recipe_pieces(type), ampi_recipe_piece_of(type, 1).disp_bytes, piece);
    } else if (ampi_recipe_pieces(type) == 1) {
        piece = flatten_part(b, ampi_recipe_piece_of(type, 0));
    } else {
        piece = flatten_table(b, type);
    }
    remember(b, type, piece);
    return piece;
}

/* ---- The finished program ---- */

/* Marks reachable nodes. Children come before their parents, so one pass from the end suffices. */
static void mark(struct builder *b, int64_t *new_index, int64_t root)
{
    int64_t *starts = base_malloc((b->n_words + 1) * sizeof *starts, "a datatype");
    size_t n = 0;

    for (size_t i = 0; i <= (size_t)root; i += (size_t)base_node_words(node_at(b, (int64_t)i)))
        starts[n++] = (int64_t)i;
    new_index[root] = 1;
    while (n > 0) {
        int64_t index = starts[--n];
        const struct base_node *node = node_at(b, index);
        if (!new_index[index])
            continue;
        if (node->kind == BASE_NODE_LOOP || node->kind == BASE_NODE_LIST)
            new_index[node->unit] = 1;
        for (int64_t i = 0; node->kind == BASE_NODE_STRUCT && i < node->n; i++)
            new_index[base_node_entries(node)[i].unit] = 1;
    }
    free(starts);
}

static void relocate(struct base_node *node, const int64_t *new_index)
{
    if (node->kind == BASE_NODE_LOOP || node->kind == BASE_NODE_LIST)
        node->unit = new_index[node->unit];
    for (int64_t i = 0; node->kind == BASE_NODE_STRUCT && i < node->n; i++) {
        struct base_node_entry *entry = (struct base_node_entry *)node->table + i;
        entry->unit = new_index[entry->unit];
    }
}

static struct base_layout *copy_out(struct builder *b, struct piece root)
{
    int64_t *new_index = base_calloc(b->n_words, sizeof *new_index, "a datatype");
    struct base_layout *map;
    size_t n_words = 0, words;

    mark(b, new_index, root.node);
    for (size_t i = 0; i < b->n_words; i += (size_t)base_node_words(node_at(b, (int64_t)i)))
        n_words += new_index[i] ? (size_t)base_node_words(node_at(b, (int64_t)i)) : 0;
    map = base_malloc(sizeof *map + n_words * sizeof(int64_t), "a datatype");
    n_words = 0;
    for (size_t i = 0; i < b->n_words; i += words) {
        words = (size_t)base_node_words(node_at(b, (int64_t)i));
        if (!new_index[i])
            continue;
        new_index[i] = (int64_t)n_words;
        memcpy(map->words + n_words, b->words + i, words * sizeof(int64_t));
        relocate((struct base_node *)(map->words + n_words), new_index);
        n_words += words;
    }
    map->gpu = NULL;
    map->n_words = (int64_t)n_words;
    map->root = new_index[root.node];
    map->disp_bytes = root.disp;
    free(new_index);
    return map;
}

/* ---- Nesting ---- */

/* Stack of types whose children must be flattened first. */
struct nesting {
    const struct ampi_type **items;
    size_t n, cap;
};

static bool is_flattened(struct builder *b, const struct ampi_type *type)
{
    return !type->recipe || type->size_bytes == 0 || type->is_dense ||
           (b->cap_memos && find_memo(b->memos, b->cap_memos, type)->type);
}

/* Pushes the type if it is not flattened yet. */
static void want(struct builder *b, struct nesting *nesting, const struct ampi_type *type)
{
    if (!type || is_flattened(b, type))
        return;
    if (nesting->n == nesting->cap) {
        nesting->cap = nesting->cap ? 2 * nesting->cap : 16;
        nesting->items = base_realloc(nesting->items, nesting->cap * sizeof *nesting->items, "a datatype");
    }
    nesting->items[nesting->n++] = type;
}

/* Flattens the type's constituents, the innermost first: flatten() then finds its children in the memo and
 * recurses only one level, however deep the nesting and small the rank's stack. */
static void flatten_children(struct builder *b, const struct ampi_type *type)
{
    struct nesting nesting = {0};

    want(b, &nesting, type);
    while (nesting.n > 0) {
        const struct ampi_type *top = nesting.items[nesting.n - 1];
        size_t n_before = nesting.n;

        for (MPI_Count i = 0; i < top->recipe->n_types; i++)
            want(b, &nesting, top->recipe->types[i]);
        want(b, &nesting, top->recipe->impl);
        if (nesting.n > n_before)
            continue;
        nesting.n--;
        if (top != type && !is_flattened(b, top))
            flatten(b, top);
    }
    free(nesting.items);
}

void ampi_typemap_build(struct ampi_type *type)
{
    struct builder b = {0};
    struct piece root;

    type->is_dense = false; /* otherwise a predefined pair would be treated as a block */
    if (type->depth > 1)
        flatten_children(&b, type);
    root = flatten(&b, type);
    type->is_dense = root.node == NO_NODE;
    type->map = type->is_dense ? NULL : copy_out(&b, root);
    free(b.words);
    free(b.memos);
}
