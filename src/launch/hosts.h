/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lists of nodes. Used by handover.c.
 */
#ifndef LAUNCH_HOSTS_H
#define LAUNCH_HOSTS_H

#include <stdbool.h>

struct launch_host {
    char *name;    /* malloc'ed */
    int num_slots; /* how many processes it is said to take; 0: not said */
};

struct launch_hosts {
    struct launch_host *hosts; /* each name once */
    int num;
};

/* Reads "a,b:4,c". Exits if it is malformed or empty. */
void launch_hosts_read_list(const char *list, struct launch_hosts *hosts_out);
/* Reads a file with a line for each: "a", "a:4" or "a slots=4"; # starts a comment. A node that comes
 * several times has as many slots. Exits, with the line, if it cannot be read. */
void launch_hosts_read_file(const char *path, struct launch_hosts *hosts_out);
/* Is this node the only one in the list? */
bool launch_hosts_are_local(const struct launch_hosts *hosts);

#endif
