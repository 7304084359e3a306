/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The placement of ranks as other MPIs' options describe it: --map-by, --rank-by, --bind-to and the number of ranks per
 * node. Ranks go to processes and PEs in blocks, so most words change nothing; they are checked all the same, because a
 * misspelt one is an error elsewhere, too. Called by args.c and handover.c.
 */
#include "launch/launch.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Words of all three options, and of each. */
static const char *const parts[] = {"core", "hwthread", "l1cache", "l2cache", "l3cache",
                                    "numa", "socket",   "package", "board",   NULL};
static const char *const map_words[] = {"slot", "node", "seq", NULL};
static const char *const rank_words[] = {"slot", "node", "fill", "span", NULL};
static const char *const bind_words[] = {"none", NULL};
static const char *const modifiers[] = {
    "oversubscribe", "nooversubscribe",   "span", "overload-allowed", "no-overload",
    "if-supported",  "use-hwthread-cpus", NULL};

static bool is_in(const char *const words[], const char *text, size_t len)
{
    for (; *words; words++)
        if (strlen(*words) == len && strncasecmp(*words, text, len) == 0)
            return true;
    return false;
}

/* The N of "pe=N", cores per rank; 0: the text is something else. */
static long read_core_count(const char *text, size_t len)
{
    char *end;
    if (len < 4 || strncasecmp(text, "pe=", 3) != 0 || !isdigit((unsigned char)text[3]))
        return 0;
    long number = strtol(text + 3, &end, 10);
    return end == text + len ? number : 0;
}

/* True if only modifiers follow at `at` in the option's text, each after a colon or a comma. Exits for those that cannot
 * be honoured. */
static bool are_modifiers(const char *option, const char *text, size_t at)
{
    const char *whole = text;
    text += at;
    while (*text) {
        size_t len = strcspn(++text, ":,");
        long num_cores = read_core_count(text, len);
        if (num_cores > 1)
            launch_fail(
                LAUNCH_EXIT_USAGE,
                "%s %s: ranks have no cores of their own, but share PEs, one per core; leave out %.*s, and "
                "choose the number of PEs with +p N, or of processes with --procs N",
                option, whole, (int)len, text);
        if (!is_in(modifiers, text, len) && num_cores != 1)
            return false;
        text += len;
    }
    return true;
}

/* Reads "ppr:N:node", which is N ranks per node; the number is 0 if the text is something else. */
static int read_per_node(const char *option, const char *text)
{
    char *end;
    if (strncasecmp(text, "ppr:", 4) != 0 || !isdigit((unsigned char)text[4]))
        return 0;
    long number = strtol(text + 4, &end, 10);
    bool is_node = strncasecmp(end, ":node", 5) == 0 && (end[5] == '\0' || end[5] == ':' || end[5] == ',');
    return is_node && are_modifiers(option, text, (size_t)(end + 5 - text)) && number <= INT_MAX ? (int)number
                                                                                                 : 0;
}

void launch_placement_read(enum launch_placement kind, const char *option, const char *text,
                           struct launch_command *command)
{
    static const char *const *const words[] = {
        [LAUNCH_MAP] = map_words, [LAUNCH_RANK] = rank_words, [LAUNCH_BIND] = bind_words};
    size_t len = strcspn(text, ":,");
    if (kind == LAUNCH_MAP && read_per_node(option, text) > 0) {
        launch_set_ranks_per_node(command, option, read_per_node(option, text));
        return;
    }
    bool is_left_out = text[0] == ':'; /* only modifiers, as in ":oversubscribe" */
    bool is_word = is_left_out || is_in(parts, text, len) || is_in(words[kind], text, len);
    if (!is_word || !are_modifiers(option, text, len))
        launch_fail(LAUNCH_EXIT_USAGE, "%s %s: expected core, hwthread, numa, socket, %s", option, text,
                    kind == LAUNCH_BIND  ? "... or none"
                    : kind == LAUNCH_MAP ? "node, slot, ... or ppr:N:node"
                                         : "node, slot, ...");
    if (kind == LAUNCH_BIND)
        command->is_unbound = !is_left_out && strncasecmp(text, "none", len) == 0;
}

void launch_set_ranks_per_node(struct launch_command *command, const char *option, int number)
{
    if (command->ranks_per_node != 0)
        launch_fail(LAUNCH_EXIT_USAGE, "%s: the number of ranks per node was already given", option);
    command->ranks_per_node = number;
}

int launch_fit_nodes(struct launch_command *command, int num_nodes)
{
    int per_node = command->ranks_per_node, num_ranks = launch_num_ranks(command);
    if (per_node == 0)
        return num_nodes;
    if (per_node > INT_MAX / num_nodes)
        launch_fail(LAUNCH_EXIT_USAGE, "%d ranks on each of %d nodes are too many", per_node, num_nodes);
    if (num_ranks == 0)
        num_ranks = command->num_ranks = per_node * num_nodes;
    if (num_ranks > per_node * num_nodes)
        launch_fail(LAUNCH_EXIT_USAGE,
                    "%d ranks with %d on each node need %d nodes, but the job has %d: leave out the number "
                    "of ranks per node, "
                    "or list more nodes (--hosts)",
                    num_ranks, per_node, (num_ranks - 1) / per_node + 1, num_nodes);
    return (num_ranks - 1) / per_node + 1;
}
