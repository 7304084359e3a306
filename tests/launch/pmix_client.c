/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A PMIx client for the tests of mpirun --procs: executes the words of its command line, one after the other.
 * @R,word holds for process R alone.
 *
 *   init             PMIx_Init
 *   facts            prints what the server says of the job, one line
 *   exchange         puts a key, commits, fences with data, and reads that of every other process
 *   lazy             the same without the fence collecting data: read from the server when asked for
 *   fence            PMIx_Fence
 *   publish          PMIx_Publish, and says what came of it
 *   listen           registers for the loss of a process
 *   heard            waits until one was heard of, and prints which
 *   big=BYTES        puts and reads keys of this size
 *   abort=CODE       PMIx_Abort
 *   finalize         PMIx_Finalize
 *   exit=CODE        exits at once
 *   kill=SIGNAL      raises it
 *   say=TEXT         prints a line
 *   part=TEXT        prints without a newline
 *   complain=TEXT    prints a line on stderr
 *   flood=LINES      prints many lines of different lengths, in odd pieces
 *   cat              copies stdin to stdout
 *   cores            prints the number of the cores it may use
 *   trap=SIGNAL      prints a line whenever the signal comes
 *   caught           waits until it has come
 *   sleep=MS         sleeps; signals do not end it
 *   await=FILE       waits until it is there
 *   deaf             ignores SIGTERM and SIGINT
 *   spawn            starts a process of its own group and session that sleeps for long
 */
#include <pmix.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pmix_proc_t self = {.rank = 0};
static atomic_int lost_proc = -1;

static void check(const char *what, pmix_status_t status)
{
    if (status == PMIX_SUCCESS)
        return;
    fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
    _exit(99);
}

static uint32_t get_number(const char *key)
{
    pmix_proc_t job;
    pmix_value_t *value;
    PMIX_LOAD_PROCID(&job, self.nspace, PMIX_RANK_WILDCARD);
    check(key, PMIx_Get(&job, key, NULL, 0, &value));
    uint32_t number = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return number;
}

static void print_facts(void)
{
    pmix_proc_t job;
    pmix_value_t *peers, *host, *local;
    PMIX_LOAD_PROCID(&job, self.nspace, PMIX_RANK_WILDCARD);
    check("local peers", PMIx_Get(&job, PMIX_LOCAL_PEERS, NULL, 0, &peers));
    check("host", PMIx_Get(&self, PMIX_HOSTNAME, NULL, 0, &host));
    check("local rank", PMIx_Get(&self, PMIX_LOCAL_RANK, NULL, 0, &local));
    printf("process %u of %u, universe %u, local %u of %u (%s), nodes %u, app %u, node %u, on %s\n",
           self.rank, get_number(PMIX_JOB_SIZE), get_number(PMIX_UNIV_SIZE), local->data.uint16,
           get_number(PMIX_LOCAL_SIZE), peers->data.string, get_number(PMIX_NUM_NODES),
           get_number(PMIX_JOB_NUM_APPS), get_number(PMIX_NODE_SIZE), host->data.string);
}

static void fence(bool collects)
{
    pmix_info_t info;
    pmix_proc_t job;
    PMIX_LOAD_PROCID(&job, self.nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collects, PMIX_BOOL);
    check("fence", PMIx_Fence(&job, 1, &info, 1));
}

/* Every process puts bytes that follow from its number, and looks at those of all others. */
static void exchange(size_t len, bool collects)
{
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    char *bytes = malloc(len);
    memset(bytes, 'a' + (int)(self.rank % 26), len);
    value.data.bo.bytes = bytes;
    value.data.bo.size = len;
    check("put", PMIx_Put(PMIX_GLOBAL, "heddle.test", &value));
    check("commit", PMIx_Commit());
    if (collects)
        fence(true);
    uint32_t num = get_number(PMIX_JOB_SIZE), num_right = 0;
    for (uint32_t i = 0; i < num; i++) {
        pmix_proc_t peer;
        pmix_value_t *got;
        PMIX_LOAD_PROCID(&peer, self.nspace, i);
        check("get", PMIx_Get(&peer, "heddle.test", NULL, 0, &got));
        memset(bytes, 'a' + (int)(i % 26), len);
        num_right += got->data.bo.size == len && memcmp(got->data.bo.bytes, bytes, len) == 0;
        PMIX_VALUE_RELEASE(got);
    }
    printf("%u of %u right\n", num_right, num);
    free(bytes);
    fence(false);
}

static void hear_loss(size_t handler, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info,
                      size_t num_info, pmix_info_t *results, size_t num_results,
                      pmix_event_notification_cbfunc_fn_t done, void *done_arg)
{
    (void)handler;
    (void)status;
    (void)results;
    (void)num_results;
    int lost = (int)source->rank;
    for (size_t i = 0; i < num_info; i++)
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC))
            lost = (int)info[i].value.data.proc->rank;
    lost_proc = lost;
    if (done)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_arg);
}

static void sleep_ms(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0)
        ;
}

static void wait_for_loss(void)
{
    for (int i = 0; i < 10000 && lost_proc < 0; i++)
        sleep_ms(10);
    printf("process %u heard of the loss of %d\n", self.rank, lost_proc);
}

/* Lines "PROC LINE xxxx... END"; the lengths and the pieces that are written follow from the numbers. */
static void flood(long num_lines)
{
    static char buffer[1 << 16];
    size_t len = 0;
    const char *rank = getenv("PMIX_RANK");
    for (long i = 0; i < num_lines; i++) {
        size_t fill = (size_t)(i * 7919 % 400);
        len += (size_t)snprintf(buffer + len, 64, "%s %ld ", rank, i);
        memset(buffer + len, 'x', fill);
        len += fill;
        len += (size_t)snprintf(buffer + len, 8, " END\n");
        if (len < (size_t)(i * 104729 % 60000) && i + 1 < num_lines)
            continue;
        size_t keep = i + 1 < num_lines ? len % 7 : 0; /* break off in mid-line */
        for (size_t at = 0; at < len - keep;) {
            ssize_t put = write(1, buffer + at, len - keep - at);
            if (put < 0)
                exit(98);
            at += (size_t)put;
        }
        memmove(buffer, buffer + len - keep, keep);
        len = keep;
    }
}

static void copy_input(void)
{
    char buffer[4096];
    ssize_t len;
    while ((len = read(0, buffer, sizeof buffer)) > 0)
        if (write(1, buffer, (size_t)len) != len)
            exit(98);
}

static void print_cores(void)
{
    cpu_set_t cores;
    sched_getaffinity(0, sizeof cores, &cores);
    printf("%d cores:", CPU_COUNT(&cores));
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &cores))
            printf(" %d", i);
    printf("\n");
}

static volatile sig_atomic_t has_come;

static void on_signal(int number)
{
    char text[32];
    int len = snprintf(text, sizeof text, "signal %d\n", number);
    if (write(1, text, (size_t)len) != len)
        _exit(98);
    has_come = 1;
}

static void wait_for_signal(void)
{
    for (int i = 0; i < 10000 && !has_come; i++)
        sleep_ms(10);
}

static void spawn(void)
{
    if (fork() != 0)
        return;
    setsid();
    if (fork() != 0)
        _exit(0);
    execlp("sleep", "sleep", "1000", (char *)NULL);
    _exit(1);
}

static void act(const char *word)
{
    const char *value = strchr(word, '=') ? strchr(word, '=') + 1 : "";
    size_t len = strcspn(word, "=");
    long number = atol(value);
#define IS(text) (len == strlen(text) && memcmp(word, text, len) == 0)
    if (IS("init"))
        check("init", PMIx_Init(&self, NULL, 0));
    else if (IS("facts"))
        print_facts();
    else if (IS("exchange"))
        exchange(64, true);
    else if (IS("lazy"))
        exchange(64, false);
    else if (IS("big"))
        exchange((size_t)number, true);
    else if (IS("fence"))
        fence(false);
    else if (IS("publish"))
        printf("publish: %s\n", PMIx_Error_string(PMIx_Publish(&(pmix_info_t){.key = "heddle.none"}, 1)));
    else if (IS("listen"))
        check("listen", PMIx_Register_event_handler((pmix_status_t[]){PMIX_ERR_PROC_ABORTED}, 1, NULL, 0,
                                                    hear_loss, NULL, NULL) < 0);
    else if (IS("heard"))
        wait_for_loss();
    else if (IS("abort"))
        PMIx_Abort((int)number, "as told", NULL, 0);
    else if (IS("finalize"))
        check("finalize", PMIx_Finalize(NULL, 0));
    else if (IS("exit"))
        _exit((int)number);
    else if (IS("kill"))
        raise((int)number);
    else if (IS("say"))
        printf("%s\n", value);
    else if (IS("part"))
        printf("%s", value);
    else if (IS("complain"))
        fprintf(stderr, "%s\n", value);
    else if (IS("flood"))
        flood(number);
    else if (IS("cat"))
        copy_input();
    else if (IS("cores"))
        print_cores();
    else if (IS("trap"))
        signal((int)number, on_signal);
    else if (IS("caught"))
        wait_for_signal();
    else if (IS("sleep"))
        sleep_ms(number);
    else if (IS("await"))
        while (access(value, F_OK) != 0)
            sleep_ms(100);
    else if (IS("deaf"))
        signal(SIGTERM, SIG_IGN), signal(SIGINT, SIG_IGN);
    else if (IS("spawn"))
        spawn();
    else
        exit(97);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *rank = getenv("PMIX_RANK");
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *comma = strchr(word, ',');
        if (word[0] == '@' && comma != NULL) {
            if (rank == NULL || strtol(word + 1, NULL, 10) != atol(rank))
                continue;
            word = comma + 1;
        }
        act(word);
    }
    return 0;
}
