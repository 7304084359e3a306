/* SPDX-License-Identifier: BSD-3-Clause
 *
 * show_progress.c: --progress: shows what the ranks do, which the job's processes write into shared memory (base/progress.h). In mpirun,
 * which then stays, and in mpirun-procs.
 *
 * On a terminal: in its last lines, twice a second. The lines above them become the part that scrolls (DECSTBM), so the job's
 * output stays readable. Elsewhere, also on a terminal that has too few rows or does not tell their number: a line every 10 s.
 */
#include "launch/launch.h"

#include "base/launched.h"
#include "base/progress.h"
#include "base/settings.h"

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { TEXT = BASE_PROGRESS_TEXT_BYTES, GROUPS_MAX = 40, LINE_PERIOD_S = 10, ROWS_MIN = 8 };

static struct {
    const struct base_progress *shared; /* NULL: no --progress */
    bool is_terminal;                   /* stderr is one */
    double begin_s;                     /* of the job */
    double next_s;                      /* time of the next picture or line */
    int num_rows;                       /* of the terminal, last seen; 0: nothing is drawn */
    int num_drawn;                      /* rows at the bottom that are ours */
} show;

/* Ranks that do the same. */
struct group {
    char text[TEXT];
    int num_ranks;
    int last;         /* the last rank so far */
    int first;        /* of its last run of neighbours */
    char ranges[160]; /* the runs before that one */
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int launch_progress_create(void)
{
    int fd = memfd_create("heddle progress", 0);
    char path[64];
    if (fd < 0 || ftruncate(fd, (off_t)(sizeof *show.shared + (size_t)BASE_RANKS_MAX * TEXT)) != 0)
        launch_fail(1, "--progress: no shared memory");
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
    setenv(BASE_LAUNCHED_PROGRESS_ENV, path, 1);
    return fd;
}

void launch_progress_begin(int fd)
{
    const char *terminal = getenv("TERM");
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    show.shared =
        mmap(NULL, sizeof *show.shared + (size_t)BASE_RANKS_MAX * TEXT, PROT_READ, MAP_SHARED, fd, 0);
    if (show.shared == MAP_FAILED)
        launch_fail(1, "--progress: no shared memory");
    show.is_terminal = isatty(STDERR_FILENO) && terminal != NULL && strcmp(terminal, "dumb") != 0;
    show.begin_s = now_s();
}

/* Ends the run of neighbours: appends it to the ranges. */
static void end_run(struct group *group)
{
    size_t len = strlen(group->ranges), left = sizeof group->ranges - len;
    if (group->first == group->last)
        snprintf(group->ranges + len, left, "%s%d", len ? ", " : "", group->first);
    else
        snprintf(group->ranges + len, left, "%s%d-%d", len ? ", " : "", group->first, group->last);
}

static int find_groups(struct group *groups, int num_ranks)
{
    int num = 0;
    for (int rank = 0; rank < num_ranks; rank++) {
        char text[TEXT] = "";
        memcpy(text, show.shared->texts[rank], TEXT - 1);
        if (text[0] == '\0')
            memcpy(text, "starts", sizeof "starts");
        int i = 0;
        while (i < num && strcmp(groups[i].text, text) != 0)
            i++;
        if (i == GROUPS_MAX)
            continue;
        if (i == num) {
            groups[num++] = (struct group){.last = rank - 1, .first = rank};
            memcpy(groups[i].text, text, TEXT);
        }
        if (groups[i].last != rank - 1) {
            end_run(&groups[i]);
            groups[i].first = rank;
        }
        groups[i].last = rank;
        groups[i].num_ranks++;
    }
    for (int i = 0; i < num; i++)
        end_run(&groups[i]);
    return num;
}

static void print_line(const struct group *groups, int num)
{
    char line[600] = "";
    for (int i = 0; i < num; i++) {
        size_t len = strlen(line);
        snprintf(line + len, sizeof line - len, "%s%d %.*s", i ? ", " : "", groups[i].num_ranks, TEXT - 1,
                 groups[i].text);
    }
    launch_say("after %.0f s, ranks: %s", now_s() - show.begin_s, line);
}

/* Makes the terminal's last rows ours. False: it has too few. */
static bool take_rows(FILE *out, const struct winsize *size, int num_ranks)
{
    if (size->ws_row < ROWS_MIN)
        return false;
    if (size->ws_row == show.num_rows)
        return true;
    int most = size->ws_row / 3;
    show.num_rows = size->ws_row;
    show.num_drawn = num_ranks < most ? num_ranks : most;
    for (int i = 0; i < show.num_drawn; i++)
        fputc('\n', out);
    fprintf(out, "\033[%dA\0337\033[1;%dr\0338", show.num_drawn, show.num_rows - show.num_drawn);
    return true;
}

/* False: there are no rows for it. */
static bool draw(const struct group *groups, int num, int num_ranks)
{
    struct winsize size = {0};
    bool has_rows = false;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
    if (out != NULL && (has_rows = take_rows(out, &size, num_ranks))) {
        fputs("\0337", out);
        for (int row = 0; row < show.num_drawn; row++) {
            char line[300] = "";
            if (num_ranks <= show.num_drawn)
                snprintf(line, sizeof line, "rank %d: %.*s", row, TEXT - 1, show.shared->texts[row]);
            else if (row < num)
                snprintf(line, sizeof line, "%d %.*s: %.*s", groups[row].num_ranks, TEXT - 1,
                         groups[row].text, (int)sizeof groups[row].ranges, groups[row].ranges);
            fprintf(out, "\033[%d;1H\033[2K%.*s", show.num_rows - show.num_drawn + row + 1,
                    size.ws_col ? size.ws_col : 80, line);
        }
        fputs("\0338", out);
    }
    if (out != NULL && fclose(out) == 0 && write(STDERR_FILENO, text, len) < 0)
        show.shared = NULL; /* nobody sees it */
    free(text);
    return has_rows;
}

/* A stopped terminal (^S) or a full pipe would stop mpirun here, and a pipe without a reader end it. */
static bool can_write(void)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && out.revents == POLLOUT;
}

double launch_progress_show(void)
{
    static struct group groups[GROUPS_MAX];
    const double period_s = BASE_PROGRESS_PERIOD_NS * 1e-9;
    if (show.shared == NULL)
        return 3600;
    int num_ranks = (int)atomic_load(&((struct base_progress *)show.shared)->n_ranks);
    if (num_ranks > 0 && num_ranks <= BASE_RANKS_MAX && now_s() >= show.next_s && can_write()) {
        int num = find_groups(groups, num_ranks);
        bool is_drawn = show.is_terminal && draw(groups, num, num_ranks);
        if (!is_drawn)
            print_line(groups, num);
        show.next_s = now_s() + (is_drawn ? period_s : LINE_PERIOD_S);
    }
    return period_s;
}

void launch_progress_end(void)
{
    if (show.num_rows > 0) {
        dprintf(STDERR_FILENO, "\0337\033[r\033[%d;1H\033[J\0338", show.num_rows - show.num_drawn + 1);
        show.num_rows = 0;
    }
    show.shared = NULL;
}
