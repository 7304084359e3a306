/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An MPI program for the tests of mpirun --procs: executes the words of its command line, one after the
 * other. @P,word holds for process P alone (PMIX_RANK).
 *
 *   init             MPI_Init
 *   barrier          MPI_Barrier on MPI_COMM_WORLD
 *   recv             MPI_Recv of a message that nobody sends
 *   tolerant         lets MPI_COMM_WORLD return errors, and calls MPI_Barrier
 *   traffic          exchanges 1 MiB with its neighbours in a ring, for ever
 *   abort=CODE       MPI_Abort
 *   finalize         MPI_Finalize
 *   exit=CODE        exits at once
 *   kill=SIGNAL      raises it
 *   overflow         recurses until the stack is full
 *   spin             computes for ever
 *   sleep=MS         sleeps
 *   await=FILE       waits until the file exists
 *   deaf             ignores SIGTERM, SIGINT and SIGHUP
 *   child=SECONDS    starts a sleep that ignores these signals too
 *   bare=SECONDS     the same without our environment
 *   daemon=SECONDS   the same in a session of its own
 *   orphan=SECONDS   the same without our environment and in a session of its own
 *   say=TEXT         prints a line
 *   part=TEXT        prints without a newline
 *   complain=TEXT    prints a line on stderr
 *   close=FD         closes a descriptor
 *   long=BYTES       prints a line of so many digits, all that of the process
 *   longpart=BYTES   the same without a newline
 *   binary=LINES     prints lines that hold all values of a byte but newline's
 *   lines=NUM        prints "PROCESS NUMBER end" so often
 *   cat              copies stdin to stdout
 */
#include <mpi.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long process; /* number of this one */

static void sleep_ms(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0)
        ;
}

static void exchange_for_ever(void)
{
    enum { LEN = 1 << 20 };
    char *out = calloc(1, LEN), *in = calloc(1, LEN);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (;;)
        MPI_Sendrecv(out, LEN, MPI_BYTE, (rank + 1) % size, 0, in, LEN, MPI_BYTE, (rank + size - 1) % size, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void ignore_signals(void)
{
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
}

static void start_sleep(const char *seconds, int has_session, int has_environment)
{
    char *const nothing[] = {NULL};
    char *const words[] = {(char *)"sleep", (char *)seconds, NULL};
    if (fork() != 0)
        return;
    ignore_signals();
    if (has_session)
        setsid();
    if (has_session && fork() != 0)
        _exit(0);
    if (has_environment)
        execvp("sleep", words);
    else
        execve("/bin/sleep", words, nothing);
    _exit(1);
}

static int recurse(int depth)
{
    volatile char frame[4096];
    frame[0] = (char)depth;
    return depth < 0 ? frame[0] : recurse(depth + 1) + frame[0];
}

static void print_long(size_t len, const char *end)
{
    char *line = malloc(len);
    memset(line, (int)('0' + process), len);
    fwrite(line, 1, len, stdout);
    fputs(end, stdout);
    free(line);
}

static void print_binary(long num_lines)
{
    for (long i = 0; i < num_lines; i++) {
        putchar((int)('0' + process));
        for (int byte = 0; byte < 256; byte++)
            if (byte != '\n')
                putchar(byte);
        putchar('\n');
    }
}

static void copy_input(void)
{
    static char buffer[1 << 16];
    size_t len;
    while ((len = fread(buffer, 1, sizeof buffer, stdin)) > 0)
        fwrite(buffer, 1, len, stdout);
}

static void act(const char *word)
{
    const char *value = strchr(word, '=') ? strchr(word, '=') + 1 : "";
    size_t len = strcspn(word, "=");
    long number = atol(value);
#define IS(text) (len == strlen(text) && memcmp(word, text, len) == 0)
    if (IS("init"))
        MPI_Init(NULL, NULL);
    else if (IS("barrier"))
        MPI_Barrier(MPI_COMM_WORLD);
    else if (IS("recv"))
        MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (IS("tolerant"))
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), MPI_Barrier(MPI_COMM_WORLD);
    else if (IS("traffic"))
        exchange_for_ever();
    else if (IS("abort"))
        MPI_Abort(MPI_COMM_WORLD, (int)number);
    else if (IS("finalize"))
        MPI_Finalize();
    else if (IS("exit"))
        exit((int)number);
    else if (IS("kill"))
        raise((int)number);
    else if (IS("overflow"))
        exit(recurse(1));
    else if (IS("spin"))
        for (volatile long i = 0;; i++)
            ;
    else if (IS("sleep"))
        sleep_ms(number);
    else if (IS("await"))
        while (access(value, F_OK) != 0)
            sleep_ms(1);
    else if (IS("deaf"))
        ignore_signals();
    else if (IS("child"))
        start_sleep(value, 0, 1);
    else if (IS("bare"))
        start_sleep(value, 0, 0);
    else if (IS("daemon"))
        start_sleep(value, 1, 1);
    else if (IS("orphan"))
        start_sleep(value, 1, 0);
    else if (IS("say"))
        printf("%s\n", value);
    else if (IS("part"))
        printf("%s", value);
    else if (IS("complain"))
        fprintf(stderr, "%s\n", value);
    else if (IS("close"))
        close((int)number);
    else if (IS("long"))
        print_long((size_t)number, "\n");
    else if (IS("longpart"))
        print_long((size_t)number, "");
    else if (IS("binary"))
        print_binary(number);
    else if (IS("lines"))
        for (long i = 0; i < number; i++)
            printf("%ld %ld end\n", process, i);
    else if (IS("cat"))
        copy_input();
    else
        exit(97);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    process = getenv("PMIX_RANK") ? atol(getenv("PMIX_RANK")) : 0;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *comma = strchr(word, ',');
        if (word[0] == '@' && comma != NULL) {
            if (strtol(word + 1, NULL, 10) != process)
                continue;
            word = comma + 1;
        }
        act(word);
    }
    return 0;
}
