/* SPDX-License-Identifier: BSD-3-Clause
 *
 * later.c: see later.h.
 */
#include "ampi/p2p/later.h"

#include "base/log.h"
#include "ult/ult.h"

/* It begins at the second poll at the earliest, and at the latest at this one: busy PEs are polled once in
 * many switches. */
#define POLLS_MAX 4

struct list {
    struct ult_source source;
    struct ampi_later *first;
    struct ampi_later **end; /* the last link */
};

static int begin_some(struct ult_source *source)
{
    struct list *list = BASE_CONTAINER(source, struct list, source);
    bool is_idle;
    int n_begun = 0;

    if (BASE_LIKELY(!list->first))
        return 0;
    is_idle = !ult_pe_has_ready(ult_self()->pe);
    for (struct ampi_later *later = list->first; later; later = later->next)
        later->n_polls++;
    while (list->first && list->first->n_polls >= (is_idle ? 2 : POLLS_MAX)) {
        struct ampi_later *later = list->first;
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

static __thread struct list *list_of_thread __attribute__((tls_model("initial-exec")));

static struct list *list_self(void)
{
    struct list *list = list_of_thread;

    if (BASE_LIKELY(list != NULL))
        return list;
    list = base_calloc(1, sizeof *list, "messages that nobody receives yet");
    list->source = (struct ult_source){.poll = begin_some, .fd = -1};
    list->end = &list->first;
    ult_pe_add_source(ult_self()->pe, &list->source);
    list_of_thread = list;
    return list;
}

void ampi_later_add(struct ampi_later *later, void (*begin)(struct ampi_later *later))
{
    struct list *list = list_self();

    later->begin = begin;
    later->n_polls = 0;
    later->next = NULL;
    *list->end = later;
    list->end = &later->next;
    list->source.pending++;
}

void ampi_later_cancel(struct ampi_later *later)
{
    struct list *list = list_self();
    struct ampi_later **link = &list->first;

    while (*link != later)
        link = &(*link)->next;
    *link = later->next;
    if (!later->next)
        list->end = link;
    list->source.pending--;
}
