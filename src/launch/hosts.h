/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lists of nodes. Used by handover.c.
 */
#ifndef LAUNCH_HOSTS_H
#define LAUNCH_HOSTS_H

#include <stdbool.h>

struct launch_host {
    char *name;    /* malloc'ed */
    int num_slots; /* number of processes that it takes; 0: unspecified */
};

struct launch_hosts {
    struct launch_host *hosts; /* each name once */
    int num;
};

/* Reads "a,b:4,c". Exits if the list is malformed or empty. */
void launch_hosts_read_list(const char *list, struct launch_hosts *hosts_out);
/* Reads a file with one node per line: "a", "a:4" or "a slots=4"; # starts a comment. A node that is listed
 * several times gets as many slots. On an error it prints the line and exits. */
void launch_hosts_read_file(const char *path, struct launch_hosts *hosts_out);
/* True if this node is the only one in the list. */
bool launch_hosts_are_local(const struct launch_hosts *hosts);

#endif
