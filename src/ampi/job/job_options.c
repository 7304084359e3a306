/* SPDX-License-Identifier: BSD-3-Clause
 *
 * job_options.c: reads the options at the start of the process, and applies them.
 */
#include "ampi/job/job.h"
#include "ampi/job/leaks.h"

#include <stdio.h>
#include <string.h>

#include "ampi/coll/engine/selection.h"
#include "ampi/object/gate.h"
#include "ampi/p2p/schedule.h"
#include "ampi/tool/trace.h"
#include "ampi/work/work.h"
#include "base/cores.h"
#include "base/log.h"
#include "base/privilege.h"
#include "base/settings.h"
#include "gpu/gpu.h"
#include "gpu/nccl/nccl.h"

#define TRACE_MIN ((size_t)64 << 10)
#define TRACE_MAX ((size_t)64 << 30)

static void print_help(const char *topic) BASE_NORETURN;
static void print_help(const char *topic)
{
    if (strcmp(topic, "collectives") == 0) {
        ampi_coll_print_selection();
        fflush(stdout);
        _Exit(0);
    }
    if (strcmp(topic, "devices") == 0) {
        int n_pes = base_settings.n_pes ? (int)base_settings.n_pes : base_usable_cores();
        if (base_settings.n_ranks > 0 && base_settings.n_ranks < n_pes)
            n_pes = (int)base_settings.n_ranks;
        gpu_print_devices(n_pes, (int)base_settings.n_ranks);
        fflush(stdout);
        _Exit(0);
    }
    base_settings_print_help();
    fflush(stdout);
    _Exit(0);
}

/* A program with privileges that its caller lacks accepts no options: some name libraries, and several
 * ranks are more code than it should trust. This is an error, because a program that was asked for several
 * ranks must not run as one. */
static void refuse_options(int argc, char **argv, const char *text)
{
    const char *refused = text && text[strspn(text, " \t\n")] ? text : NULL;

    for (int i = 1; i < argc && !refused && strcmp(argv[i], "+-") != 0; i++)
        if (argv[i][0] == '+' && argv[i][1] != '\0')
            refused = argv[i];
    if (refused)
        base_fatal(
            2,
            "%s: refused: this program has rights that its caller lacks (setuid, setgid or capabilities), so "
            "it accepts no options of Heddle, neither as arguments nor from HEDDLE_OPTIONS",
            refused);
}

/* Splits FILE,SIZE. A comma may also be a part of FILE, as in "runs,2/a.json". */
static void read_trace(const char *text)
{
    const char *comma = strrchr(text, ',');

    if (!comma || comma[1] < '0' || comma[1] > '9' || strpbrk(comma, "./"))
        return;
    if (!base_parse_size(comma + 1, &base_settings.trace_bytes) || base_settings.trace_bytes < TRACE_MIN ||
        base_settings.trace_bytes > TRACE_MAX)
        base_fatal(2, "+trace %s: expected a size from 64K to 64G behind the comma, such as 512K or 8M",
                   text);
    base_settings.trace = strndup(text, (size_t)(comma - text));
    if (!base_settings.trace)
        base_fatal(1, "out of memory: +trace %s", text);
}

void ampi_options_read(int *argc, char **argv)
{
    const char *text = getenv("HEDDLE_OPTIONS"); /* not secure_getenv: refuse the variable instead of ignoring
                                                  * it */
    const char *error = NULL;

    if (base_is_privileged())
        refuse_options(argc ? *argc : 0, argv, text);

    if (text) {
        if (!base_options_parse_string(base_settings_table, base_settings_count, text, &error))
            base_fatal(2, "%s; in the environment variable HEDDLE_OPTIONS: %s", error, text);
        unsetenv("HEDDLE_OPTIONS"); /* not for programs that this one starts */
    }
    if (argc && !base_options_parse_argv(base_settings_table, base_settings_count, argc, argv, &error))
        base_fatal(2, "%s", error);
    ampi_coll_selection_init();
    if (!ampi_coll_selection_read())
        base_fatal(2,
                   "HEDDLE_COLL=%s: expected "
                   "OPERATION:SHARE_FROM[:PACK_TO[:LARGE_FROM[:NCCL_FROM[:RING_FROM]]]], such as "
                   "allreduce:16K,bcast:inf:0 (+help collectives lists the operations)",
                   ampi_coll_selection_text());
    if (base_settings.gpus && !gpu_assign(base_settings.gpus))
        base_fatal(2, "+gpus %s: expected block, cyclic, or numbers of GPUs by PE, such as 0,0,1,1",
                   base_settings.gpus);
    if (base_settings.aslr && strcmp(base_settings.aslr, "on") != 0 && strcmp(base_settings.aslr, "off") != 0)
        base_fatal(2, "+aslr %s: expected on or off", base_settings.aslr);
    if (base_settings.getpid && strcmp(base_settings.getpid, "rank") != 0 &&
        strcmp(base_settings.getpid, "process") != 0)
        base_fatal(2, "+getpid %s: expected rank or process", base_settings.getpid);
    if (base_settings.trace) {
        read_trace(base_settings.trace);
        ampi_trace.start_ns =
            ult_now_ns(); /* no rank of the job has an event before all processes have met */
    }
    if (base_settings.work)
        ampi_work_mode = strcmp(base_settings.work, "cpu") == 0    ? AMPI_WORK_CPU
                         : strcmp(base_settings.work, "both") == 0 ? AMPI_WORK_BOTH
                                                                   : AMPI_WORK_GPU;
    gpu_resident_set(base_settings.gpu_service_us);
    gpu_streams_choose(!base_settings.gpu_no_streams, !base_settings.gpu_no_waits,
                       !base_settings.gpu_no_graphs);
    gpu_nccl_library = base_settings.nccl;
    if (base_settings.progress_thread || base_settings.check_leaks || base_settings.check_usage ||
        base_settings.stuck_s > 0)
        ampi_gate_is_on = true; /* the first call of a rank that has a PE enters it */
    ampi_comm_watches_all = base_settings.check_usage;
    if (base_settings.check_buffers)
        ampi_crash_handler_install();
    if (base_settings.schedule)
        ampi_schedule_read(base_settings.schedule);
    if (base_settings.check_leaks)
        ampi_leaks_watch_exit();
    if (base_settings.help_topic)
        print_help(base_settings.help_topic);
    base_log_set_verbosity((int)base_settings.verbosity);
}
