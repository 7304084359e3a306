/* SPDX-License-Identifier: BSD-3-Clause
 *
 * deferred_work.c: see deferred_work.h.
 */
#include "ampi/p2p/deferred_work.h"

#include "base/log.h"
#include "ult/ult.h"

/* Deferred work begins at the second poll at the earliest, and at this one at the latest: busy PEs are
 * polled only once in many switches. */
#define POLLS_MAX 4

struct list {
    struct ult_source source;
    struct ampi_deferred *first;
    struct ampi_deferred **end; /* the last link */
};

static int begin_some(struct ult_source *source)
{
    struct list *list = BASE_CONTAINER(source, struct list, source);
    bool is_idle;
    int n_begun = 0;

    if (BASE_LIKELY(!list->first))
        return 0;
    is_idle = !ult_pe_has_ready(ult_self()->pe);
    for (struct ampi_deferred *later = list->first; later; later = later->next)
        later->n_polls++;
    while (list->first && list->first->n_polls >= (is_idle ? 2 : POLLS_MAX)) {
        struct ampi_deferred *later = list->first;
        list->first = later->next;
        if (!list->first)
            list->end = &list->first;
        list->source.pending--;
        later->n_polls = -1;
        later->begin(later);
        n_begun++;
    }
    return n_begun;
}

static struct list *list_self(void)
{
    struct list *list = *ult_pe_slot(ULT_PE_SLOT_LATER);

    if (BASE_LIKELY(list != NULL))
        return list;
    list = base_calloc(1, sizeof *list, "messages without a receive");
    list->source = (struct ult_source){.poll = begin_some, .fd = -1};
    list->end = &list->first;
    ult_pe_add_source(ult_self()->pe, &list->source);
    *ult_pe_slot(ULT_PE_SLOT_LATER) = list;
    return list;
}

void ampi_deferred_add(struct ampi_deferred *later, void (*begin)(struct ampi_deferred *later))
{
    struct list *list = list_self();

    later->begin = begin;
    later->n_polls = 0;
    later->next = NULL;
    *list->end = later;
    list->end = &later->next;
    list->source.pending++;
}

void ampi_deferred_cancel(struct ampi_deferred *later)
{
    struct list *list = list_self();
    struct ampi_deferred **link = &list->first;

    while (*link != later)
        link = &(*link)->next;
    *link = later->next;
    if (!later->next)
        list->end = link;
    list->source.pending--;
}
