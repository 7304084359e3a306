/* SPDX-License-Identifier: BSD-3-Clause
 *
 * trace_clock.c: the difference of the clocks of nodes, for +trace.
 *
 * The first rank of each process of another node asks rank 0 for its time, several times. The question that comes back soonest is the most
 * exact: the answer's time is that of the middle, give or take half of the round trip. Processes of the node of process 0 have its clock.
 */
#include "ampi/procs/procs.h"
#include "ampi/tool/collect.h"
#include "ampi/tool/trace.h"
#include "base/log.h"

#define N_QUESTIONS 10

/* From rank 0. */
struct answer {
    uint64_t now_ns, base_ns;
};

static void answer_all(struct ampi_rank *self, struct ampi_comm *comm)
{
    for (int proc_id = ampi_job.node_n_procs; proc_id < ampi_job.n_procs; proc_id++)
        for (int i = 0; i < N_QUESTIONS; i++) {
            struct answer answer = {.base_ns = ampi_trace.base_ns};
            char question;
            if (!ampi_collect_receive(self, comm, ampi_procs_first_rank(proc_id), &question, sizeof question))
                break;
            answer.now_ns = ult_now_ns();
            if (!ampi_collect_send(self, comm, ampi_procs_first_rank(proc_id), &answer, sizeof answer))
                break;
        }
}

static void ask(struct ampi_rank *self, struct ampi_comm *comm)
{
    uint64_t best_ns = UINT64_MAX;

    for (int i = 0; i < N_QUESTIONS; i++) {
        uint64_t since_ns = ult_now_ns(), took_ns;
        struct answer answer;
        char question = 0;
        if (!ampi_collect_send(self, comm, 0, &question, sizeof question) ||
            !ampi_collect_receive(self, comm, 0, &answer, sizeof answer))
            return;
        took_ns = ult_now_ns() - since_ns;
        if (took_ns >= best_ns)
            continue;
        best_ns = took_ns;
        ampi_trace.clock_offset_ns = (int64_t)(answer.now_ns - since_ns - took_ns / 2);
        ampi_trace.base_ns = answer.base_ns;
    }
    base_log_verbose(1, "+trace: the clock of process 0 is %lld ns ahead, give or take %llu",
                     (long long)ampi_trace.clock_offset_ns, (unsigned long long)best_ns / 2);
}

void ampi_trace_measure_clock(struct ampi_rank *self)
{
    struct ampi_comm *comm;

    if (ampi_job.n_procs == 1 || self->spawned || (ampi_job.proc_id > 0 && ampi_job.node_first == 0) ||
        !(comm = ampi_comm_hidden(self->world)))
        return;
    if (ampi_job.proc_id == 0)
        answer_all(self, comm);
    else
        ask(self, comm);
}
