/* SPDX-License-Identifier: BSD-3-Clause
 *
 * intervals.c: see intervals.h.
 */
#include "ampi/misuse/intervals.h"

static void update(struct ampi_interval *node)
{
    node->high = node->end;
    if (node->left && node->left->high > node->high)
        node->high = node->left->high;
    if (node->right && node->right->high > node->high)
        node->high = node->right->high;
}

/* The order of nodes; those with the same begin are ordered by address. */
static bool is_before(const struct ampi_interval *a, const struct ampi_interval *b)
{
    return a->begin != b->begin ? a->begin < b->begin : a < b;
}

/* Divides a tree into the nodes before `at` and the others. Recursion is as deep as the tree: some tens of levels. */
static void split(struct ampi_interval *node, const struct ampi_interval *at,
                  struct ampi_interval **before_out, struct ampi_interval **after_out)
{
    if (!node) {
        *before_out = *after_out = NULL;
        return;
    }
    if (is_before(node, at)) {
        split(node->right, at, &node->right, after_out);
        *before_out = node;
    } else {
        split(node->left, at, before_out, &node->left);
        *after_out = node;
    }
    update(node);
}

static struct ampi_interval *merge(struct ampi_interval *a, struct ampi_interval *b)
{
    if (!a || !b)
        return a ? a : b;
    if (a->priority > b->priority) {
        a->right = merge(a->right, b);
        update(a);
        return a;
    }
    b->left = merge(a, b->left);
    update(b);
    return b;
}

void ampi_intervals_add(struct ampi_intervals *set, struct ampi_interval *interval)
{
    struct ampi_interval **link = &set->root;

    set->random = set->random * 1664525u + 1013904223u;
    interval->priority = set->random ^ set->random >> 16;
    while (*link && (*link)->priority > interval->priority) {
        if ((*link)->high < interval->end)
            (*link)->high = interval->end;
        link = is_before(*link, interval) ? &(*link)->right : &(*link)->left;
    }
    split(*link, interval, &interval->left, &interval->right);
    update(interval);
    *link = interval;
}

static struct ampi_interval *without(struct ampi_interval *node, const struct ampi_interval *gone)
{
    if (!node)
        return NULL;
    if (node == gone)
        return merge(node->left, node->right);
    if (is_before(gone, node))
        node->left = without(node->left, gone);
    else
        node->right = without(node->right, gone);
    update(node);
    return node;
}

void ampi_intervals_remove(struct ampi_intervals *set, struct ampi_interval *interval)
{
    set->root = without(set->root, interval);
}

static struct ampi_interval *find(struct ampi_interval *node, uintptr_t begin, uintptr_t end,
                                  ampi_intervals_visit_fn visit, const void *arg, int *n_left)
{
    struct ampi_interval *found = NULL;

    if (!node || node->high <= begin || *n_left <= 0)
        return NULL;
    if ((found = find(node->left, begin, end, visit, arg, n_left)) || node->begin >= end)
        return found;
    if (node->end > begin) {
        --*n_left;
        if (visit(node, arg))
            return node;
    }
    return find(node->right, begin, end, visit, arg, n_left);
}

struct ampi_interval *ampi_intervals_find(const struct ampi_intervals *set, uintptr_t begin, uintptr_t end,
                                          ampi_intervals_visit_fn visit, const void *arg, int n_max)
{
    return find(set->root, begin, end, visit, arg, &n_max);
}
