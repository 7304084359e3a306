/* SPDX-License-Identifier: BSD-3-Clause
 *
 * traffic.c: see traffic.h.
 */
#include <string.h>

#include "ampi/procs/traffic.h"

#include "ampi/procs/procs.h"
#include "base/log.h"

struct ampi_traffic ampi_traffic;

void ampi_traffic_init(void)
{
    size_t n = (size_t)ampi_job.max_procs;
    const char *what = "deadlock detection";

    ampi_traffic.words = base_calloc(n, sizeof *ampi_traffic.words, what);
    ampi_traffic.is_out = base_calloc(n, sizeof *ampi_traffic.is_out, what);
    ampi_traffic.was_out = base_calloc(n, sizeof *ampi_traffic.was_out, what);
    ampi_traffic.is_beside = base_calloc(n, sizeof *ampi_traffic.is_beside, what);
    ampi_traffic.is_connected = base_calloc(n, sizeof *ampi_traffic.is_connected, what);
    for (size_t i = 0; i < n; i++)
        ampi_traffic.is_connected[i] = ampi_procs_is_own((int)i);
    ampi_traffic.pes = base_calloc((size_t)ampi_job.n_pes, sizeof *ampi_traffic.pes, what);
}

void ampi_traffic_look_for_losses(void)
{
    struct ampi_traffic *own = &ampi_traffic;

    for (int i = 0; i < ampi_job.max_procs; i++)
        own->is_out[i] = i != ampi_job.proc_id && (ampi_failed_is_handled(i) || !own->is_connected[i] ||
                                                   (!ampi_procs_may_begin(i) && !ampi_procs_is_failing(i)));
    own->collector = 0;
    while (own->is_out[own->collector])
        own->collector++;
}

uint64_t ampi_traffic_count_resumed(void)
{
    uint64_t n = 0;

    for (int i = 0; i < ampi_job.n_pes; i++)
        n += ult_pe_resumed(ult_pe_get(i));
    return n;
}

void ampi_traffic_begin(void)
{
    ampi_traffic_look_for_losses();
    memcpy(ampi_traffic.was_out, ampi_traffic.is_out, (size_t)ampi_job.max_procs);
    for (int i = 0; i < ampi_job.max_procs; i++)
        ampi_traffic.is_beside[i] = i != ampi_job.proc_id && ampi_traffic.is_connected[i] &&
                                    ampi_procs_is_parting(i) && ampi_procs_are_direct(i);
}

void ampi_traffic_count(int pe_id)
{
    struct machine_traffic traffic, all, others;

    ampi_machine->traffic(pe_id, ampi_traffic.was_out, &traffic);
    ampi_machine->traffic(pe_id, NULL, &all);
    ampi_machine->traffic(pe_id, ampi_traffic.is_beside, &others);
    ampi_traffic.pes[pe_id] =
        (struct ampi_pe_traffic){.n_sent = traffic.n_sent,
                                 .n_taken = traffic.n_handled,
                                 .n_beside = all.n_sent + all.n_handled - others.n_sent - others.n_handled,
                                 .n_armed = traffic.n_armed,
                                 .is_busy = traffic.n_fetching || ampi_failed_must_handle(pe_id)};
}

bool ampi_traffic_sum(struct ampi_counters *counters_out)
{
    struct ampi_counters sum = {.out = ampi_failed_fingerprint(ampi_traffic.was_out)};

    for (int i = 0; i < ampi_job.n_pes; i++) {
        const struct ampi_pe_traffic *pe = &ampi_traffic.pes[i];
        if (pe->is_busy)
            return false;
        sum.n_sent += pe->n_sent;
        sum.n_taken += pe->n_taken;
        sum.n_beside += pe->n_beside;
    }
    for (int i = 0; i < ampi_job.max_procs; i++) {
        const struct ampi_words *words = &ampi_traffic.words[i];
        if (ampi_traffic.is_beside[i])
            sum.n_beside -= words->n_sent + words->n_taken;
        if (!ampi_traffic.was_out[i]) {
            sum.n_sent -= words->n_sent;
            sum.n_taken -= words->n_taken;
        }
    }
    *counters_out = sum;
    return true;
}
