/* SPDX-License-Identifier: BSD-3-Clause
 *
 * os_thread.c: OS threads of this library: their creation, names, numbers and cores.
 */
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>

#include "ult/pe.h"

int ult_pe_create_thread(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                         void *arg)
{
    /* A sanitizer's pthread_create comes first in the order of look-up, and must see these threads. A plain
     * call would be bound to the function of this library. */
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = pthread_create;
    void *first = dlsym(RTLD_DEFAULT, "pthread_create");

    if (first)
        *(void **)&create = first;
    return create(thread, attributes, function, arg);
}

/* PE 0 runs on the process's first thread, which keeps its name: ps and pkill find the process by it. */
void ult_pe_name_thread(const struct ult_pe *pe, const char *role)
{
    char name[16];

    snprintf(name, sizeof name, "%s %d", role, pe->pe_id);
    pthread_setname_np(pthread_self(), name);
}

pid_t ult_pe_tid(const struct ult_pe *pe)
{
    return __atomic_load_n(&pe->tid, __ATOMIC_RELAXED);
}

pid_t ult_tid(const struct ult *u)
{
    const struct ult_carrier *home = __atomic_load_n(&u->home, __ATOMIC_RELAXED);

    return home ? home->tid : ult_pe_tid(u->pe);
}

bool ult_holds_others(void)
{
    const struct ult *self = ult_self();

    return self && self->pe->n_live > 1 && !self->pe->is_shared;
}

/* Pins the calling thread to one of the process's cores if every core has a PE. With fewer PEs the kernel
 * places them: other Heddle jobs on this machine would choose the same cores. */
void ult_pe_pin(const struct ult_pe *pe)
{
    cpu_set_t usable, one;
    int n_on_node, wanted = ult_pe_node_index(pe, &n_on_node);

    if (sched_getaffinity(0, sizeof usable, &usable) != 0 || CPU_COUNT(&usable) != n_on_node ||
        n_on_node == 1)
        return;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &usable) && wanted-- == 0) {
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}
