/* SPDX-License-Identifier: BSD-3-Clause
 *
 * job_options.c: the table of options. docs/options.md is the output of +help.
 */
#include "ampi/object/settings.h"

#include <stdio.h>
#include <string.h>

#include "ampi/coll/engine/selection.h"
#include "ampi/object/gate.h"
#include "base/cores.h"
#include "base/log.h"
#include "base/options.h"
#include "base/privilege.h"
#include "gpu/gpu.h"
#include "gpu/nccl/nccl.h"

/* Upper limit of ranks on a command line; job_memory.c finds out later how many fit. */
#define RANKS_MAX 1000000
#define PES_MAX 1024
#define STACK_MIN (16l << 10)
#define STACK_MAX (1l << 40)

static const struct base_option option_table[] = {
    {"+vp", BASE_OPTION_INT, &ampi_options.n_ranks, 1, RANKS_MAX, "N", "run N ranks (mpirun -n N sets this)"},
    {"+p", BASE_OPTION_INT, &ampi_options.n_pes, 1, PES_MAX, "N",
     "run the ranks on N PEs (OS threads); default: the usable cores, at most one per rank"},
    {"+stacksize", BASE_OPTION_SIZE, &ampi_options.stack_bytes, STACK_MIN, STACK_MAX, "SIZE",
     "stack size of a rank, such as 512K or 8M; default: `ulimit -s`"},
    {"+private", BASE_OPTION_STRING, &ampi_options.private_libs, 0, 0, "LIBS",
     "exceptions to the list of libraries that ranks share: libfoo,-libbar (each rank has its own libfoo, "
     "all share libbar)"},
    {"+norelro", BASE_OPTION_FLAG, &ampi_options.no_relro, 0, 0, NULL,
     "do not write-protect the ranks' relocated constants: saves one memory mapping per rank"},
    {"+aslr", BASE_OPTION_STRING, &ampi_options.aslr, 0, 0, "on|off",
     "place the ranks' copies and stacks at random or at fixed addresses; default: like the kernel does for "
     "programs, and off under setarch -R, gdb, sanitizers and valgrind"},
    {"+progress-thread", BASE_OPTION_FLAG, &ampi_options.progress_thread, 0, 0, NULL,
     "a thread for each PE that answers one-sided operations and goes on with messages while the PE's rank "
     "computes "
     "without calling MPI; each MPI call takes a lock then"},
    {"+stuck", BASE_OPTION_INT, &ampi_options.stuck_s, 0, 86400, "S",
     "report a rank that blocks its PE for S seconds in a system call, such as a read from a terminal or a "
     "wait for a lock; 0: never; default: 60, and 10 for locks if ranks share libraries that are on no list"},
    {"+v", BASE_OPTION_COUNT, &ampi_options.verbosity, 0, 0, NULL,
     "print the configuration; twice: in more detail"},
    {"+coll", BASE_OPTION_STRING, &ampi_options.coll, 0, 0, "LIST",
     "message sizes from which collectives use each algorithm: "
     "OPERATION:SHARE_FROM[:PACK_TO[:LARGE_FROM[:NCCL_FROM[:RING_FROM]]]], separated by commas (+help "
     "collectives)"},
    {"+check", BASE_OPTION_STRING, &ampi_options.check, 0, 0, "usage",
     "check the program; usage: roots, operations and data sizes that differ between the ranks of a "
     "collective "
     "end the job with a report (slow with many ranks; between processes, a report may lack the values of "
     "the "
     "other side)"},
    {"+ucx", BASE_OPTION_STRING, &ampi_options.ucx, 0, 0, "DIR",
     "jobs of several processes: use the UCX in this folder, or in lib below it, such as one that supports "
     "CUDA; default: the one this library was built with"},
    {"+gpus", BASE_OPTION_STRING, &ampi_options.gpus, 0, 0, "WHICH",
     "assign the node's GPUs to its PEs: block (the default), cyclic, or a number for each PE, such as "
     "0,0,1,1 "
     "(+help devices)"},
    {"+gpu-service", BASE_OPTION_STRING, &ampi_options.gpu_resident, 0, 0, "off|US",
     "keep a copy kernel resident for US microseconds after a small message between device buffers: halves "
     "the "
     "latency of such messages, also beside kernels that fill the GPU; calls that wait for the GPU evict it; "
     "default: 100"},
    {"+gpu-streams", BASE_OPTION_STRING, &ampi_options.gpu_streams, 0, 0, "private|shared",
     "CUDA's default streams: each rank has its own (the default), or the ranks of a process share them"},
    {"+gpu-waits", BASE_OPTION_STRING, &ampi_options.gpu_waits, 0, 0, "suspend|block",
     "a rank that waits for its GPU lets the other ranks of its PE run (the default), or blocks them"},
    {"+gpu-graphs", BASE_OPTION_STRING, &ampi_options.gpu_graphs, 0, 0, "on|off",
     "launches and copies that a rank repeats in the same order go to the GPU's driver as one graph (the "
     "default), or call by call"},
    {"+nccl", BASE_OPTION_STRING, &gpu_nccl_library, 0, 0, "off|PATH",
     "large collectives between processes on device buffers: do not use NCCL, or use the library at PATH; "
     "default: the libnccl.so.2 that the loader finds, if there are GPUs"},
    {"+help", BASE_OPTION_TOPIC, &ampi_options.help_topic, 0, 0, "[TOPIC]",
     "print this list and exit; topic collectives: their algorithms; topic devices: GPUs and the PEs that "
     "use them"},
};

static void print_help(const char *topic) BASE_NORETURN;
static void print_help(const char *topic)
{
    if (strcmp(topic, "collectives") == 0) {
        ampi_coll_print_selection();
        fflush(stdout);
        _Exit(0);
    }
    if (strcmp(topic, "devices") == 0) {
        int n_pes = ampi_options.n_pes ? (int)ampi_options.n_pes : base_usable_cores();
        if (ampi_options.n_ranks > 0 && ampi_options.n_ranks < n_pes)
            n_pes = (int)ampi_options.n_ranks;
        gpu_print_devices(n_pes, (int)ampi_options.n_ranks);
        fflush(stdout);
        _Exit(0);
    }
    printf("Options of Heddle %s, for any MPI program built with its mpicc:\n\n", HEDDLE_VERSION);
    base_options_print(option_table, (int)BASE_COUNT(option_table));
    printf("  %-20s %s\n\n", "+-", "everything after this belongs to the program, even if it begins with +");
    printf(
        "Options may be anywhere after the program's name, or in the environment variable HEDDLE_OPTIONS.\n");
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

void ampi_options_read(int *argc, char **argv)
{
    const char *text = getenv("HEDDLE_OPTIONS"); /* not secure_getenv: refuse the variable instead of ignoring
                                                  * it */
    const char *error = NULL;
    bool is_right = true;

    if (base_is_privileged())
        refuse_options(argc ? *argc : 0, argv, text);

    if (text) {
        is_right = base_options_parse_string(option_table, (int)BASE_COUNT(option_table), text, &error);
        unsetenv("HEDDLE_OPTIONS"); /* not for programs that this one starts */
    }
    if (is_right && argc)
        is_right = base_options_parse_argv(option_table, (int)BASE_COUNT(option_table), argc, argv, &error);
    if (!is_right)
        base_fatal(2, "%s", error);
    ampi_coll_selection_init();
    if (ampi_options.coll && !ampi_coll_override(ampi_options.coll))
        base_fatal(
            2,
            "+coll %s: expected OPERATION:SHARE_FROM[:PACK_TO[:LARGE_FROM[:NCCL_FROM[:RING_FROM]]]], such as "
            "allreduce:16K,bcast:inf:0 (+help "
            "collectives lists the operations)",
            ampi_options.coll);
    ampi_options.check_usage = ampi_options.check && strcmp(ampi_options.check, "usage") == 0;
    if (ampi_options.check && !ampi_options.check_usage)
        base_fatal(2, "+check %s: expected usage", ampi_options.check);
    if (ampi_options.gpus && !gpu_assign(ampi_options.gpus))
        base_fatal(2, "+gpus %s: expected block, cyclic, or numbers of GPUs by PE, such as 0,0,1,1",
                   ampi_options.gpus);
    if (ampi_options.aslr && strcmp(ampi_options.aslr, "on") != 0 && strcmp(ampi_options.aslr, "off") != 0)
        base_fatal(2, "+aslr %s: expected on or off", ampi_options.aslr);
    if (!gpu_resident_set(ampi_options.gpu_resident))
        base_fatal(2, "+gpu-service %s: expected off, or microseconds from 0 to 1000",
                   ampi_options.gpu_resident);
    if (!gpu_streams_set(ampi_options.gpu_streams))
        base_fatal(2, "+gpu-streams %s: expected private or shared", ampi_options.gpu_streams);
    if (!gpu_waits_set(ampi_options.gpu_waits))
        base_fatal(2, "+gpu-waits %s: expected suspend or block", ampi_options.gpu_waits);
    if (!gpu_graphs_set(ampi_options.gpu_graphs))
        base_fatal(2, "+gpu-graphs %s: expected on or off", ampi_options.gpu_graphs);
    if (ampi_options.progress_thread)
        ampi_gate_is_on = true; /* the first call of a rank that has a PE enters it */
    if (ampi_options.help_topic)
        print_help(ampi_options.help_topic);
    base_log_set_verbosity((int)ampi_options.verbosity);
}
