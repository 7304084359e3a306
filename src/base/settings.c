/* SPDX-License-Identifier: BSD-3-Clause
 *
 * settings.c: the table of options. docs/options.md is its output. Part of the library and of mpirun.
 */
#include "base/settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct base_settings base_settings = {.stuck_s = -1, .gpu_service_us = -1};

#define PES_MAX 1024
#define STACK_MIN (16l << 10)
#define STACK_MAX (1l << 40)
#define STUCK_MAX_S 86400
#define SERVICE_MAX_US 1000

/* Reads "NAME:NUMBER", a number up to max. */
static bool take_number(const char *word, const char *name, long max, long *number_out)
{
    size_t len = strlen(name);
    char *end;
    long number;

    if (strncmp(word, name, len) != 0 || word[len] != ':' || word[len + 1] < '0' || word[len + 1] > '9')
        return false;
    number = strtol(word + len + 1, &end, 10);
    if (*end || number > max)
        return false;
    *number_out = number;
    return true;
}

static const char *const work_places[] = {"gpu", "cpu", "both"};

static bool take_check(const char *word)
{
    if (strcmp(word, "usage") == 0)
        return base_settings.check_usage = true;
    if (strcmp(word, "buffers") == 0)
        return base_settings.check_usage = base_settings.check_buffers = true;
    if (strcmp(word, "leaks") == 0)
        return base_settings.check_leaks = true;
    return take_number(word, "stuck", STUCK_MAX_S, &base_settings.stuck_s);
}

static bool take_gpu(const char *word)
{
    if (strcmp(word, "no-service") == 0) {
        base_settings.gpu_service_us = 0;
        return true;
    }
    if (strcmp(word, "no-nccl") == 0)
        return (base_settings.nccl = "off") != NULL;
    if (strncmp(word, "nccl:", 5) == 0 && word[5])
        return (base_settings.nccl = strdup(word + 5)) != NULL;
    if (strcmp(word, "no-streams") == 0)
        return base_settings.gpu_no_streams = true;
    if (strcmp(word, "no-waits") == 0)
        return base_settings.gpu_no_waits = true;
    if (strcmp(word, "no-graphs") == 0)
        return base_settings.gpu_no_graphs = true;
    return take_number(word, "service", SERVICE_MAX_US, &base_settings.gpu_service_us);
}

static bool take_work(const char *word)
{
    if (strcmp(word, "trace") == 0)
        return base_settings.work_trace = true;
    if (strcmp(word, "no-combining") == 0)
        return base_settings.work_is_apart = true;
    if (strcmp(word, "no-reuse") == 0)
        return base_settings.work_is_copied = true;
    if (strncmp(word, "memory:", 7) == 0)
        return base_parse_size(word + 7, &base_settings.work_bytes) && base_settings.work_bytes > 0;
    for (size_t i = 0; i < BASE_COUNT(work_places); i++)
        if (strcmp(word, work_places[i]) == 0)
            base_settings.work = work_places[i];
    return base_settings.work && strcmp(word, base_settings.work) == 0;
}

static base_option_word_fn check_words = take_check, gpu_words = take_gpu, work_words = take_work;

const struct base_option base_settings_table[] = {
    {"+vp", BASE_OPTION_INT, &base_settings.n_ranks, 1, BASE_RANKS_MAX, "N",
     "run N ranks (mpirun -n N sets this)"},
    {"+p", BASE_OPTION_INT, &base_settings.n_pes, 1, PES_MAX, "N",
     "run the ranks on N PEs (OS threads); default: the usable cores, at most one per rank"},
    {"+stacksize", BASE_OPTION_SIZE, &base_settings.stack_bytes, STACK_MIN, STACK_MAX, "SIZE",
     "stack size of a rank, such as 512K or 8M; default: `ulimit -s`, at most 128K in jobs of 100,000 ranks"},
    {"+private", BASE_OPTION_STRING, &base_settings.private_libs, 0, 0, "LIBS",
     "exceptions to the list of libraries that ranks share: libfoo,-libbar (each rank has its own libfoo, "
     "all share libbar)"},
    {"+aslr", BASE_OPTION_STRING, &base_settings.aslr, 0, 0, "on|off",
     "place the ranks' copies and stacks at random or at fixed addresses; default: like the kernel does for "
     "programs, and off under setarch -R, gdb, sanitizers and valgrind"},
    {"+getpid", BASE_OPTION_STRING, &base_settings.getpid, 0, 0, "rank|process",
     "what getpid returns to a rank: a number of its own (the default; at most 1,000 in a process), or that "
     "of the process, which "
     "the system and its tools know"},
    {"+progress-thread", BASE_OPTION_FLAG, &base_settings.progress_thread, 0, 0, NULL,
     "a thread for each PE that answers one-sided operations and goes on with messages while the PE's rank "
     "computes "
     "without calling MPI; each MPI call takes a lock then"},
    {"+v", BASE_OPTION_COUNT, &base_settings.verbosity, 0, 0, NULL,
     "print the configuration; twice: in more detail"},
    {"+stats", BASE_OPTION_STRING, &base_settings.stats, 0, 0, "table,FILE,FILE.svg",
     "print, or write as JSON, in MPI_Finalize: messages and bytes of each rank by route, its longest queue "
     "of unexpected "
     "messages, its time blocked in each call, and the load of its PE; FILE.svg: a picture of who sent how "
     "much to "
     "whom"},
    {"+trace", BASE_OPTION_STRING, &base_settings.trace, 0, 0, "FILE[,SIZE]",
     "write a timeline of ranks, PEs and messages as JSON: for share/heddle/timeline.html, Perfetto, and "
     "heddle-whatif; "
     "SIZE (default: 32M) is the memory for the job's events; the oldest ones are dropped when it is full; "
     "the "
     "file takes up to three times as much"},
    {"+check", BASE_OPTION_LIST, &check_words, 0, 0, "usage,buffers,leaks,stuck:S",
     "check the program; usage: end the job with a report of both sides if roots, operations or data differ "
     "between the ranks of a collective, or between a send and its receive, if a buffer is changed or used "
     "twice while an operation is pending, or if one-sided operations conflict; and name the call that freed "
     "a handle that is used (slow with many ranks; a report may lack "
     "the values of the other side); buffers: the same, and protect the pages of pending operations: a "
     "report "
     "names the line that uses one; leaks: print handles that are never freed and messages that are never "
     "received, with the calls "
     "that made "
     "them, and end with code 1; stuck:S: "
     "report a rank that blocks its PE for S seconds in a system call, such as a read from a terminal or a "
     "wait for a lock "
     "(0: never; default: 60, and 10 for locks if ranks share libraries that are on no list), and if all "
     "ranks only test "
     "or probe for S seconds and find nothing"},
    {"+schedule", BASE_OPTION_STRING, &base_settings.schedule, 0, 0, "random[:SEED]|record:FILE|replay:FILE",
     "random: choose at random, among all that MPI allows, which rank runs next and when it gives way to "
     "another "
     "one, which message a receive from any source gets, and which sends wait for their receive; with +p 1 "
     "the same "
     "SEED (a number) repeats the run (mpirun --explore N tries many); record: write into FILE which "
     "messages "
     "receives and probes with wildcards get, and what tests and MPI_Waitany find; replay: repeat that"},
    {"+ucx", BASE_OPTION_STRING, &base_settings.ucx, 0, 0, "DIR",
     "jobs of several processes: use the UCX in this folder, or in lib below it, such as one that supports "
     "CUDA; default: the one this library was built with"},
    {"+gpus", BASE_OPTION_STRING, &base_settings.gpus, 0, 0, "WHICH",
     "assign the node's GPUs to its PEs: block (the default), cyclic, or a number for each PE, such as "
     "0,0,1,1 "
     "(+help devices)"},
    {"+gpu", BASE_OPTION_LIST, &gpu_words, 0, 0, "service:US,nccl:PATH,no-WHAT",
     "service:US: keep a copy kernel resident for US microseconds after a small message between device "
     "buffers "
     "(up to 1000; default: 100): halves the "
     "latency of such messages, also beside kernels that fill the GPU; calls that wait for the GPU evict it; "
     "no-service: without; nccl:PATH: the NCCL for large collectives between processes on device buffers; "
     "default: "
     "the libnccl.so.2 that the loader finds, if there are GPUs; no-nccl: without; for finding faults: "
     "no-streams: the ranks of a process share CUDA's default streams, of which each "
     "rank has its own "
     "otherwise; no-waits: a rank that waits for its GPU blocks the other ranks of its PE; no-graphs: "
     "launches and copies "
     "that a rank repeats go to the GPU's driver call by call, not as one graph"},
    {"+work", BASE_OPTION_LIST, &work_words, 0, 0, "gpu|cpu|both,memory:SIZE,trace,no-...",
     "work requests run on the GPU (the default), on the CPU, or where they are done first; memory: of a GPU "
     "for their data; trace: print their number, and the bytes copied; for comparison, no-combining: each is "
     "a launch; no-reuse: each copies all its data"},
    {"+help", BASE_OPTION_TOPIC, &base_settings.help_topic, 0, 0, "[collectives|devices]",
     "print this list and exit; collectives: their algorithms; devices: GPUs and the PEs that "
     "use them"},
    {"+norelro", BASE_OPTION_GONE, NULL, 0, 0, NULL,
     "leave it out; it happens by itself if the memory mappings are too few"},
    {"+stuck", BASE_OPTION_GONE, NULL, 0, 0, NULL, "it is +check stuck:S now"},
    {"+coll", BASE_OPTION_GONE, NULL, 0, 0, NULL, "it is the environment variable HEDDLE_COLL=LIST now"},
    {"+trace-size", BASE_OPTION_GONE, NULL, 0, 0, NULL, "it is +trace FILE,SIZE now"},
    {"+gpu-service", BASE_OPTION_GONE, NULL, 0, 0, NULL,
     "+gpu-service US is +gpu service:US now, and +gpu-service off is +gpu no-service"},
    {"+nccl", BASE_OPTION_GONE, NULL, 0, 0, NULL,
     "+nccl PATH is +gpu nccl:PATH now, and +nccl off is +gpu no-nccl"},
    {"+gpu-streams", BASE_OPTION_GONE, NULL, 0, 0, NULL, "+gpu-streams shared is +gpu no-streams now"},
    {"+gpu-waits", BASE_OPTION_GONE, NULL, 0, 0, NULL, "+gpu-waits block is +gpu no-waits now"},
    {"+gpu-graphs", BASE_OPTION_GONE, NULL, 0, 0, NULL, "+gpu-graphs off is +gpu no-graphs now"},
};

const int base_settings_count = (int)BASE_COUNT(base_settings_table);

void base_settings_print_help(void)
{
    printf("Options of Heddle %s, for any MPI program built with its mpicc:\n\n", HEDDLE_VERSION);
    base_options_print(base_settings_table, base_settings_count);
    printf("  %-20s %s\n\n", "+-", "everything after this belongs to the program, even if it begins with +");
    printf("Options may be anywhere after the program's name, in front of it in mpirun's command, or in the "
           "environment "
           "variable HEDDLE_OPTIONS.\n");
}
