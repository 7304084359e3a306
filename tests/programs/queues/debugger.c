/* SPDX-License-Identifier: BSD-3-Clause
 *
 * debugger.c: for queues_test.sh: plays a debugger that shows message queues. It runs a job, stops its processes when all ranks
 * have printed "here PID", loads the library that the program names, and prints what that finds.
 *
 * usage: debugger [-damaged | -many] RANKS command...
 *
 * -damaged: reads memory that is wrong in many ways instead, and prints nothing of it.
 * -many: looks at three million receives instead, by going through the lists again and again, and prints their number.
 */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mqd/interface.h"

struct mqs_process_ {
    int pid;
    int number;             /* in the job */
    mqs_process_info *info; /* the library's */
};

static struct mqs_process_ processes[16];
static int num_processes;
static mqs_image_info *image_info;
static char library_path[4096]; /* of libmpi_abi.so.1 */
static uint64_t library_base;
static long num_blocks; /* of memory that the library has */
static long num_reads;  /* of the program's memory, in one look at all communicators */

/* ---- Damage: a seed makes some addresses hold other values, the same at each read ---- */

static uint64_t damage; /* 0: none */
static uint64_t seen[64];

static uint64_t mixed(uint64_t number)
{
    number = (number ^ number >> 31) * 0x9e3779b97f4a7c15u;
    return number ^ number >> 29;
}

static void spoil(mqs_taddr_t addr, int n_bytes, unsigned char *bytes)
{
    uint64_t dice = mixed(addr * 31 + damage), value = 0;

    memcpy(&value, bytes, n_bytes < 8 ? (size_t)n_bytes : 8);
    if (n_bytes == 8)
        seen[mixed(addr) % 64] = value;
    if (!damage || dice % (1 << damage % 8) != 0)
        return;
    switch (dice >> 40 & 3) {
    case 0:
        value = dice;
        break;
    case 1:
        value = seen[dice >> 20 & 63];
        break;
    case 2:
        value ^= 1u << (dice >> 20 & 31);
        break;
    default:
        value = ~(uint64_t)0 >> (dice >> 20 & 63);
    }
    memcpy(bytes, &value, n_bytes < 8 ? (size_t)n_bytes : 8);
}

/* ---- The functions that the library calls ---- */

static void *give(size_t n_bytes)
{
    num_blocks++;
    return malloc(n_bytes);
}

static void take(void *memory)
{
    num_blocks -= memory != NULL;
    free(memory);
}

static void print(const char *message)
{
    fputs(message, stderr);
}

static char *error_text(int code)
{
    static char text[] = "an error";

    (void)code;
    return text;
}

static void put_image_info(mqs_image *image, mqs_image_info *info)
{
    (void)image;
    image_info = info;
}

static mqs_image_info *get_image_info(mqs_image *image)
{
    (void)image;
    return image_info;
}

static void put_process_info(mqs_process *process, mqs_process_info *info)
{
    process->info = info;
}

static mqs_process_info *get_process_info(mqs_process *process)
{
    return process->info;
}

static void get_sizes(mqs_process *process, mqs_target_type_sizes *sizes)
{
    (void)process;
    sizes->short_size = 2;
    sizes->int_size = 4;
    sizes->long_size = sizes->long_long_size = sizes->pointer_size = 8;
}

static int find_function(mqs_image *image, char *name, mqs_lang_code language, mqs_taddr_t *addr)
{
    (void)image, (void)name, (void)language, (void)addr;
    return mqs_no_information;
}

static mqs_type *find_type(mqs_image *image, char *name, mqs_lang_code language)
{
    (void)image, (void)name, (void)language;
    return NULL;
}

static int field_offset(mqs_type *type, char *field)
{
    (void)type, (void)field;
    return -1;
}

static int size_of(mqs_type *type)
{
    (void)type;
    return -1;
}

/* In the dynamic symbols of the library's file, which a stripped one has, too. */
static int find_symbol(mqs_image *image, char *name, mqs_taddr_t *addr)
{
    int fd = open(library_path, O_RDONLY);
    struct stat facts;
    const char *file;
    int result = mqs_no_information;

    (void)image;
    if (fd < 0 || fstat(fd, &facts) != 0)
        exit(3);
    file = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)file;
    const Elf64_Shdr *section = (const Elf64_Shdr *)(file + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++) {
        const Elf64_Sym *symbol = (const Elf64_Sym *)(file + section[i].sh_offset);
        const char *names = file + section[section[i].sh_link].sh_offset;
        if (section[i].sh_type != SHT_DYNSYM)
            continue;
        for (size_t n = 0; n < section[i].sh_size / sizeof *symbol; n++)
            if (symbol[n].st_shndx != SHN_UNDEF && strcmp(names + symbol[n].st_name, name) == 0) {
                *addr = library_base + symbol[n].st_value;
                result = mqs_ok;
            }
    }
    munmap((void *)(uintptr_t)file, (size_t)facts.st_size);
    return result;
}

static int get_global_rank(mqs_process *process)
{
    return process->number;
}

static mqs_image *get_image(mqs_process *process)
{
    (void)process;
    return (mqs_image *)&image_info;
}

static bool copy(int pid, mqs_taddr_t addr, size_t n_bytes, void *bytes)
{
    struct iovec own = {.iov_base = bytes, .iov_len = n_bytes};
    struct iovec theirs = {.iov_base = (void *)addr, .iov_len = n_bytes};

    return process_vm_readv(pid, &own, 1, &theirs, 1, 0) == (ssize_t)n_bytes;
}

/* Pages of the processes, which are stopped: system calls would take most of the time. */
enum { PAGE = 4096, PAGES = 1024 };
static struct {
    int pid; /* 0: empty */
    mqs_taddr_t addr;
    unsigned char bytes[PAGE];
} pages[PAGES];

static bool copy_cached(int pid, mqs_taddr_t addr, size_t n_bytes, void *bytes)
{
    mqs_taddr_t start = addr / PAGE * PAGE;
    size_t i = start / PAGE % PAGES;

    if (addr - start + n_bytes > PAGE)
        return copy(pid, addr, n_bytes, bytes);
    if (pages[i].pid != pid || pages[i].addr != start) {
        pages[i].pid = 0;
        if (!copy(pid, start, PAGE, pages[i].bytes))
            return false;
        pages[i].pid = pid;
        pages[i].addr = start;
    }
    memcpy(bytes, pages[i].bytes + (addr - start), n_bytes);
    return true;
}

static int fetch(mqs_process *process, mqs_taddr_t addr, int n_bytes, void *bytes)
{
    num_reads++;
    if (!copy_cached(process->pid, addr, (size_t)n_bytes, bytes))
        return mqs_no_information;
    spoil(addr, n_bytes, bytes);
    return mqs_ok;
}

static void to_host(mqs_process *process, const void *bytes, void *bytes_out, int n_bytes)
{
    (void)process;
    memcpy(bytes_out, bytes, (size_t)n_bytes);
}

static const mqs_basic_callbacks basic = {
    give, take, print, error_text, put_image_info, get_image_info, put_process_info, get_process_info};
static const mqs_image_callbacks of_image = {get_sizes, find_function, find_symbol,
                                             find_type, field_offset,  size_of};
static const mqs_process_callbacks of_process = {get_global_rank, get_image, fetch, to_host};

/* ---- The library ---- */

static __typeof__(mqs_setup_basic_callbacks) *setup_basic;
static __typeof__(mqs_version_compatibility) *compatibility;
static __typeof__(mqs_dll_taddr_width) *width;
static __typeof__(mqs_dll_error_string) *error_string;
static __typeof__(mqs_setup_image) *setup_image;
static __typeof__(mqs_image_has_queues) *image_has_queues;
static __typeof__(mqs_destroy_image_info) *destroy_image;
static __typeof__(mqs_setup_process) *setup_process;
static __typeof__(mqs_process_has_queues) *process_has_queues;
static __typeof__(mqs_destroy_process_info) *destroy_process;
static __typeof__(mqs_update_communicator_list) *update_comms;
static __typeof__(mqs_setup_communicator_iterator) *first_comm;
static __typeof__(mqs_get_communicator) *get_comm;
static __typeof__(mqs_get_comm_group) *get_group;
static __typeof__(mqs_next_communicator) *next_comm;
static __typeof__(mqs_setup_operation_iterator) *first_operation;
static __typeof__(mqs_next_operation) *next_operation;

static void *function(void *library, const char *name)
{
    void *found = dlsym(library, name);

    if (!found) {
        printf("no %s\n", name);
        exit(3);
    }
    return found;
}

static void load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        printf("%s\n", dlerror());
        exit(3);
    }
    setup_basic = function(library, "mqs_setup_basic_callbacks");
    compatibility = function(library, "mqs_version_compatibility");
    width = function(library, "mqs_dll_taddr_width");
    error_string = function(library, "mqs_dll_error_string");
    setup_image = function(library, "mqs_setup_image");
    image_has_queues = function(library, "mqs_image_has_queues");
    destroy_image = function(library, "mqs_destroy_image_info");
    setup_process = function(library, "mqs_setup_process");
    process_has_queues = function(library, "mqs_process_has_queues");
    destroy_process = function(library, "mqs_destroy_process_info");
    update_comms = function(library, "mqs_update_communicator_list");
    first_comm = function(library, "mqs_setup_communicator_iterator");
    get_comm = function(library, "mqs_get_communicator");
    get_group = function(library, "mqs_get_comm_group");
    next_comm = function(library, "mqs_next_communicator");
    first_operation = function(library, "mqs_setup_operation_iterator");
    next_operation = function(library, "mqs_next_operation");
    function(library, "mqs_version_string");
}

/* ---- The job ---- */

static char state_of(int pid)
{
    char path[64], text[512] = "", *end;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    file = fopen(path, "r");
    if (!file || !fgets(text, sizeof text, file) || !(end = strrchr(text, ')')))
        exit(3);
    fclose(file);
    return end[2];
}

/* The process that has the thread. */
static int process_of(int tid)
{
    char path[64], line[256];
    int pid = -1;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/status", tid);
    file = fopen(path, "r");
    while (pid < 0 && file && fgets(line, sizeof line, file))
        sscanf(line, "Tgid: %d", &pid);
    if (pid < 0)
        exit(3);
    fclose(file);
    return pid;
}

static void find_library(int pid)
{
    char path[64], line[8192];
    FILE *maps;

    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    maps = fopen(path, "r");
    while (maps && fgets(line, sizeof line, maps)) {
        char *name = strchr(line, '/');
        if (!name || !strstr(name, "libmpi_abi.so.1"))
            continue;
        name[strcspn(name, "\n")] = '\0';
        snprintf(library_path, sizeof library_path, "%s", name);
        library_base = strtoull(line, NULL, 16);
        fclose(maps);
        return;
    }
    printf("no library in process %d\n", pid);
    exit(3);
}

/* Runs the job and stops it. Returns its process id. */
static int start(int num_ranks, char **command)
{
    int pipes[2], job;
    char line[256];
    static FILE *output; /* open to the end */

    if (pipe(pipes) != 0 || (job = fork()) < 0)
        exit(3);
    if (job == 0) {
        setpgid(0, 0);
        dup2(pipes[1], 1);
        close(pipes[0]);
        close(pipes[1]);
        execv(command[0], command);
        _exit(127);
    }
    close(pipes[1]);
    output = fdopen(pipes[0], "r");
    for (int i = 0; i < num_ranks;) {
        int pid, known = 0;
        if (!output || !fgets(line, sizeof line, output)) {
            printf("the job has ended\n");
            exit(3);
        }
        if (sscanf(line, "here %d", &pid) != 1)
            continue;
        i++;
        pid = process_of(pid); /* each rank of a process has an id of its own */
        while (known < num_processes && processes[known].pid != pid)
            known++;
        if (known == num_processes && known < 16)
            processes[num_processes++].pid = pid;
    }
    return job;
}

static int compare(const void *a, const void *b)
{
    return ((const struct mqs_process_ *)a)->pid - ((const struct mqs_process_ *)b)->pid;
}

/* ---- What it shows ---- */

static void show_operations(mqs_process *process, int class, bool is_shown)
{
    static const char *const names[] = {"send to", "receive from", "message from"};
    mqs_pending_operation operation;
    int result = first_operation(process, class), value = 0;

    for (int n = 0; n < 2000 && result == mqs_ok; n++) {
        result = next_operation(process, &operation);
        if (result != mqs_ok || !is_shown)
            continue;
        if (class != mqs_pending_receives && operation.buffer)
            fetch(process, operation.buffer, sizeof value, &value);
        printf("%s %ld/%ld", names[class], operation.desired_local_rank, operation.desired_global_rank);
        if (operation.tag_wild)
            printf(" any tag");
        else
            printf(" tag %ld", operation.desired_tag);
        printf(" bytes %ld", operation.desired_length);
        if (class != mqs_pending_receives)
            printf(" %s %d", operation.system_buffer ? "copied" : "at", operation.buffer ? value : -1);
        printf(" status %d (%s)\n", operation.status, operation.extra_text[0]);
    }
    if (is_shown && result != mqs_end_of_list)
        printf("%s: %s\n", names[class], error_string(result));
}

/* Of the present communicator; returns their number. */
static long count_receives(mqs_process *process)
{
    mqs_pending_operation operation;
    int result = first_operation(process, mqs_pending_receives);
    long n = 0;

    for (; result == mqs_ok && (result = next_operation(process, &operation)) == mqs_ok; n++)
        if (operation.status != mqs_st_pending || operation.desired_length != sizeof(int))
            printf("a wrong receive ");
    if (result != mqs_end_of_list)
        printf("%s ", error_string(result));
    return result == mqs_end_of_list ? n : 0;
}

/* In one look at all communicators. */
static void show_many(mqs_process *process)
{
    char *message = NULL;
    long n = 0, found;
    int result = setup_process(process, &of_process);

    if (result == mqs_ok)
        result = process_has_queues(process, &message);
    if (result == mqs_ok)
        result = update_comms(process);
    if (result == mqs_ok)
        result = first_comm(process);
    for (; result == mqs_ok; result = next_comm(process))
        do
            n += found = count_receives(process);
        while (found > 0 && n < 3000000);
    printf("%ld receives\n", n);
    destroy_process(process->info);
    process->info = NULL;
}

static void show_communicator(mqs_process *process, bool is_shown)
{
    mqs_communicator comm = {0};
    int result = get_comm(process, &comm);
    int *group;

    if (result == mqs_ok &&
        (comm.size < 0 || comm.size > 1 << 20 || !memchr(comm.name, '\0', sizeof comm.name)))
        abort();
    group = calloc((size_t)comm.size + 1, sizeof *group);
    if (result == mqs_ok && comm.size <= 1 << 16)
        get_group(process, group);
    if (is_shown) {
        printf("%s: rank %ld of %ld, processes", comm.name, comm.local_rank, comm.size);
        for (long i = 0; i < comm.size; i++)
            printf(" %d", group[i]);
        printf(" %s\n", comm.unique_id ? "with an id" : "without an id");
    }
    free(group);
    for (int class = mqs_pending_sends; class <= mqs_unexpected_messages; class ++)
        show_operations(process, class, is_shown);
}

static void show(mqs_process *process, bool is_shown)
{
    char *message = NULL;
    int result;

    if (setup_process(process, &of_process) != mqs_ok)
        exit(3);
    result = process_has_queues(process, &message);
    if (result == mqs_ok)
        result = update_comms(process);
    if (is_shown && result != mqs_ok)
        printf("%s\n", error_string(result));
    result = first_comm(process);
    for (int n = 0; n < 200 && result == mqs_ok; n++) {
        show_communicator(process, is_shown);
        result = next_comm(process);
    }
    destroy_process(process->info);
    process->info = NULL;
    if (num_reads > 1 << 25) /* some minutes for a debugger */
        printf("%ld reads with damage %d\n", num_reads, (int)damage);
    num_reads = 0;
}

int main(int argc, char **argv)
{
    bool is_damaged = argc > 1 && strcmp(argv[1], "-damaged") == 0;
    bool is_many = argc > 1 && strcmp(argv[1], "-many") == 0;
    char path[1024] = "", *message = NULL;
    mqs_taddr_t addr;
    int job;

    argv += is_damaged || is_many;
    job = start(atoi(argv[1]), argv + 2);
    qsort(processes, (size_t)num_processes, sizeof processes[0], compare); /* as mpirun has started them */
    for (int i = 0; i < num_processes; i++) {
        kill(processes[i].pid, SIGSTOP);
        while (state_of(processes[i].pid) != 'T')
            sched_yield();
        processes[i].number = i;
    }
    for (int i = 0; i < num_processes; i++) {
        find_library(processes[i].pid);
        if (find_symbol(NULL, (char *)"MPIR_dll_name", &addr) != mqs_ok ||
            fetch(&processes[i], addr, sizeof path, path) != mqs_ok) {
            printf("MPIR_dll_name cannot be read\n");
            break;
        }
        load(path);
        setup_basic(&basic);
        setup_image(NULL, &of_image);
        if (compatibility() != 2 || width() != sizeof(mqs_taddr_t) ||
            image_has_queues(get_image(NULL), &message) != mqs_ok)
            printf("the library does not fit: %s\n", message ? message : "");
        if (is_many)
            show_many(&processes[i]);
        else if (!is_damaged)
            show(&processes[i], true);
        for (damage = 1; is_damaged && damage <= 400; damage++)
            show(&processes[i], false);
        damage = 0;
        destroy_image(image_info);
    }
    printf("%ld blocks left\n", num_blocks);
    kill(job, SIGKILL); /* first: it would report the processes */
    for (int i = 0; i < num_processes; i++)
        kill(processes[i].pid, SIGKILL);
    kill(-job, SIGKILL);
    waitpid(job, NULL, 0);
    return 0;
}
