/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes that the job's processes spawn (MPI_Comm_spawn): requests, which come through a socket in the job's folder, and
 * the table of processes, which all map (base/launched.h). Either all processes of a spawn are
 * started, or none is.
 * Used by mpirun_procs.c.
 */
#include "launch/procs/mpirun_procs.h"

#include "base/launched.h"
#include "launch/libraries.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_CALLERS = 16 }; /* at once; more wait until these have been served */

static struct base_launched_table *table;
static _Atomic uint8_t *states; /* in it, by process of this job */
static int listener = -1;       /* for requests */
static int
    callers[MAX_CALLERS]; /* connections whose request has not arrived; the first num_callers are in use */
static int num_callers;

/* ---- Table and socket ---- */

static bool open_table(struct procs_job *job)
{
    char path[PROCS_DIR_MAX + 32];
    size_t size = sizeof *table + (size_t)job->max_procs;
    snprintf(path, sizeof path, "%s" BASE_LAUNCHED_TABLE, job->dir);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int error = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)size);
    void *memory = error ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (memory == MAP_FAILED) {
        launch_say("cannot create %s: %s", path, strerror(error ? error : errno));
        return false;
    }
    table = memory;
    table->max = (uint32_t)job->max_procs;
    return true;
}

/* Processes get their numbers. */
static void set_started(int first, int num)
{
    for (int i = first; i < first + num; i++)
        atomic_store(&states[i], BASE_LAUNCHED_STARTED);
    atomic_fetch_add(&table->n_started, (uint32_t)num);
}

/* The folder is open to this user only, and the kernel tells whose the other end is. */
static bool is_own(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.uid == getuid();
}

/* What the processes of a spawn (0: of the start) have to know, whose programs are the last ones from this number on;
 * malloc'ed. */
static char *text_of(const struct procs_job *job, const char *num_ranks, const char *port, int first_program,
                     int first_proc)
{
    char *text = NULL;
    if (asprintf(&text, "%s,%d,%d", num_ranks, job->first_number + first_proc, job->num_spawns) < 0)
        launch_fail(1, "out of memory");
    for (int i = first_program; i <= job->options.num_programs; i++) {
        const struct procs_program *program = &job->options.programs[i];
        char *longer = NULL;
        if ((i < job->options.num_programs
                 ? asprintf(&longer, "%s,%dx%d", text, program->num_ranks, program->num_procs)
                 : asprintf(&longer, "%s;%s", text, port)) < 0)
            launch_fail(1, "out of memory");
        free(text);
        text = longer;
    }
    return text;
}

bool procs_grow_prepare(struct procs_job *job)
{
    struct sockaddr_un address;
    int folder = open(job->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    base_launched_control_address(folder, &address);
    if (folder < 0 || listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, MAX_CALLERS) != 0) {
        launch_say("cannot create a socket in %s: %s", job->dir, strerror(errno));
        return false;
    }
    close(folder);
    if (job->options.is_in_universe && (table = procs_universe_enter(job)) == NULL) {
        if (!job->options.is_universe_implied)
            return false;
        job->options.is_in_universe = false;
    }
    if (!job->options.is_in_universe && !open_table(job))
        return false;
    states = table->states + job->first_number;
    set_started(0, job->num_procs);
    if (job->options.is_in_universe)
        job->spawn_text = text_of(job, "1", "", 0, 0);
    return true;
}

void procs_grow_ended(int proc_id, bool has_failed)
{
    atomic_store(&states[proc_id], has_failed ? BASE_LAUNCHED_FAILED : BASE_LAUNCHED_ENDED);
}

int procs_grow_watch(struct pollfd *watched)
{
    int num = 0;
    watched[num++] = (struct pollfd){.fd = num_callers < MAX_CALLERS ? listener : -1, .events = POLLIN};
    for (int i = 0; i < num_callers; i++)
        watched[num++] = (struct pollfd){.fd = callers[i], .events = POLLIN};
    return num;
}

/* ---- Requests ---- */

/* The words of a packet that are not read yet. */
struct words {
    char *at;
    const char *end;
    bool is_wrong; /* there were not enough */
};

static char *next_word(struct words *words)
{
    char *word = words->at;
    if (words->at >= words->end) {
        words->is_wrong = true;
        return (char *)"";
    }
    words->at += strlen(word) + 1;
    return word;
}

static int next_int(struct words *words)
{
    const char *word = next_word(words);
    char *end;
    long value = strtol(word, &end, 10);
    if (end == word || *end != '\0' || value < 0 || value > INT_MAX / 2)
        words->is_wrong = true;
    return words->is_wrong ? 0 : (int)value;
}

/* The number of processes: one if the program can be copied, else one per rank. */
static int count_procs(const struct procs_program *program)
{
    struct launch_libraries libraries = {0};
    struct launch_elf elf;
    if (program->num_ranks <= 1 || !launch_elf_read(program->path, &elf) || elf.kind != LAUNCH_ELF_PIE ||
        strstr(elf.interpreter, "/ld-linux") == NULL)
        return program->num_ranks;
    launch_libraries_list(program->path, &libraries);
    return libraries.has_ours && !libraries.is_only_preloaded ? 1 : program->num_ranks;
}

/* Reads a program; its words stay in the copy of the packet, which is never freed. */
static void read_program(struct words *words, struct procs_program *program)
{
    program->num_ranks = next_int(words);
    program->path = next_word(words);
    program->dir = next_word(words);
    int argc = next_int(words);
    if (argc > words->end - words->at)
        words->is_wrong = true;
    if (words->is_wrong)
        return;
    program->argv = calloc((size_t)argc + 1, sizeof program->argv[0]);
    if (program->argv == NULL)
        launch_fail(1, "out of memory");
    for (int i = 0; i < argc; i++)
        program->argv[i] = next_word(words);
    program->num_procs = words->is_wrong ? 0 : count_procs(program);
}

/* Adds the programs of a request to those of the job; returns the number of processes. -1: the request is wrong. */
static int read_programs(struct procs_job *job, struct words *words, int num)
{
    struct procs_options *options = &job->options;
    int first_proc = job->num_procs, first_rank = 0;
    if (words->is_wrong || num < 1 || num > words->end - words->at)
        return -1;
    options->programs =
        realloc(options->programs, (size_t)(options->num_programs + num) * sizeof options->programs[0]);
    if (options->programs == NULL)
        launch_fail(1, "out of memory");
    for (int i = 0; i < num; i++) {
        struct procs_program *program = &options->programs[options->num_programs + i];
        *program = (struct procs_program){
            .first_rank = first_rank, .first_proc = first_proc, .spawn = job->num_spawns};
        read_program(words, program);
        if (words->is_wrong)
            return -1;
        first_rank += program->num_ranks;
        first_proc += program->num_procs;
        if (first_proc > INT_MAX / 4)
            return -1;
    }
    return first_proc - job->num_procs;
}

void procs_grow_drop(struct procs_job *job, int spawn)
{
    for (int i = job->options.num_procs; i < job->num_procs; i++) {
        struct procs_proc *proc = &job->procs[i];
        if (procs_program_of(&job->options, i)->spawn != spawn)
            continue;
        proc->is_dropped = true;
        if (proc->pid != 0)
            kill(-proc->pid, SIGKILL);
        else
            proc->has_ended = true;
    }
    for (int i = job->options.num_procs; i < job->num_procs; i++) /* now others may notice it */
        if (procs_program_of(&job->options, i)->spawn == spawn)
            procs_grow_ended(i, false);
}

/* Starts the processes of the job's last programs; writes the answer. */
static void start(struct procs_job *job, int num_procs, procs_start_fn start_one, char *answer, size_t size)
{
    int first = job->num_procs;
    set_started(first, num_procs);
    for (int i = first; i < first + num_procs; i++) {
        job->num_procs = i + 1;
        int error = procs_server_add(job, i) ? start_one(job, i) : ENOMEM;
        if (error == 0)
            continue;
        snprintf(answer, size, "%s: %s", procs_program_of(&job->options, i)->path, strerror(error));
        job->num_procs = first + num_procs; /* their numbers are used up */
        procs_grow_drop(job, job->num_spawns);
        return;
    }
    snprintf(answer, size, "=%d,%d", job->first_number + first, num_procs);
}

/* Handles the packet; keeps a copy, which the programs refer to. */
static void handle(struct procs_job *job, const char *packet, size_t len, procs_start_fn start_one,
                   char *answer, size_t size)
{
    char *copy = malloc(len);
    if (copy == NULL)
        launch_fail(1, "out of memory");
    memcpy(copy, packet, len);
    struct words words = {.at = copy, .end = copy + len, .is_wrong = copy[len - 1] != '\0'};
    const char *num_ranks = next_word(&words), *port = next_word(&words);
    int num_programs = next_int(&words);
    job->num_spawns++;
    int num_procs = words.is_wrong ? -1 : read_programs(job, &words, num_programs);
    if (num_procs < 1) {
        snprintf(answer, size, "mpirun does not understand the request");
    } else if (job->has_failed || job->is_told_to_end) {
        snprintf(answer, size, "the job ends");
    } else if (num_procs > job->max_procs - job->num_procs) {
        snprintf(answer, size,
                 "a job can spawn %d processes in its life, and has spawned too many for %d more",
                 job->max_procs - job->options.num_procs, num_procs);
    } else {
        free(job->spawn_text);
        job->options.num_programs += num_programs;
        job->spawn_text =
            text_of(job, num_ranks, port, job->options.num_programs - num_programs, job->num_procs);
        start(job, num_procs, start_one, answer, size);
    }
}

/* Reads the request of a caller, and answers. False: it has not arrived. */
static bool serve(struct procs_job *job, int caller, procs_start_fn start_one)
{
    static char packet[BASE_LAUNCHED_REQUEST_MAX];
    char answer[512];
    ssize_t len = recv(caller, packet, sizeof packet, MSG_DONTWAIT);
    if (len > 0) {
        handle(job, packet, (size_t)len, start_one, answer, sizeof answer);
        send(caller, answer, strlen(answer) + 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        return true;
    }
    return len == 0 || (errno != EAGAIN && errno != EINTR);
}

void procs_grow_work(struct procs_job *job, procs_start_fn start_one)
{
    int fd;
    /* Not accept4: that of peer.c is for libpmix's connections. */
    while (num_callers < MAX_CALLERS &&
           (fd = (int)syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        if (is_own(fd))
            callers[num_callers++] = fd;
        else
            close(fd);
    for (int i = 0; i < num_callers; i++)
        if (serve(job, callers[i], start_one)) {
            close(callers[i]);
            callers[i--] = callers[--num_callers];
        }
}
