/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lists of nodes: --hosts, --hostfile, and the files in which resource managers describe an allocation.
 */
#include "launch/hosts.h"
#include "launch/launch.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Adds a node; num_slots 0: unspecified. */
static void add(struct launch_hosts *hosts, const char *name, size_t name_len, int num_slots)
{
    for (int i = 0; i < hosts->num; i++) {
        struct launch_host *host = &hosts->hosts[i];
        if (strlen(host->name) != name_len || memcmp(host->name, name, name_len) != 0)
            continue;
        /* A node that is listed twice without a number has two slots. */
        host->num_slots = (host->num_slots ? host->num_slots : 1) + (num_slots ? num_slots : 1);
        return;
    }
    struct launch_host *longer = realloc(hosts->hosts, (size_t)(hosts->num + 1) * sizeof *longer);
    if (longer == NULL)
        launch_fail(1, "out of memory");
    hosts->hosts = longer;
    longer[hosts->num].name = strndup(name, name_len);
    longer[hosts->num].num_slots = num_slots;
    if (longer[hosts->num++].name == NULL)
        launch_fail(1, "out of memory");
}

/* True if this can be the name or address of a node. An option or a list of shell words cannot. */
static bool is_host_name(const char *name, size_t name_len)
{
    for (size_t i = 0; i < name_len; i++)
        if (!isalnum((unsigned char)name[i]) && strchr("-_.", name[i]) == NULL)
            return false;
    return name_len > 0 && name_len < 256 && name[0] != '-';
}

/* Reads "a" or "a:4". rest_out: the text after the number. where: for messages. */
static void read_host(struct launch_hosts *hosts, const char *text, size_t len, const char *where)
{
    size_t name_len = strcspn(text, ":,= \t\r\n");
    long num_slots = 0;
    if (name_len > len)
        name_len = len;
    bool is_right = is_host_name(text, name_len);
    if (is_right && name_len < len) {
        const char *number = text + name_len;
        char *end;
        if (*number == ':') {
            number++;
        } else {
            number += strspn(number, " \t");
            is_right = strncmp(number, "slots", 5) == 0;
            number += is_right ? 5 : 0;
            number += strspn(number, " \t");
            is_right = is_right && *number == '=';
            number += is_right;
        }
        num_slots = strtol(number, &end, 10);
        is_right = is_right && isdigit((unsigned char)*number) && end == text + len && num_slots > 0 &&
                   num_slots <= INT_MAX;
    }
    if (!is_right)
        launch_fail(LAUNCH_EXIT_USAGE, "%s: '%.*s': not a node (NAME or NAME:PROCESSES)", where, (int)len,
                    text);
    add(hosts, text, name_len, (int)num_slots);
}

void launch_hosts_read_list(const char *list, struct launch_hosts *hosts_out)
{
    char where[] = "--hosts";
    *hosts_out = (struct launch_hosts){0};
    for (;;) {
        size_t len = strcspn(list, ",");
        read_host(hosts_out, list, len, where);
        if (list[len] == '\0')
            return;
        list += len + 1;
    }
}

void launch_hosts_read_file(const char *path, struct launch_hosts *hosts_out)
{
    char *line = NULL;
    size_t capacity = 0;
    int number = 0;
    FILE *file = fopen(path, "re");
    *hosts_out = (struct launch_hosts){0};
    if (file == NULL)
        launch_fail(LAUNCH_EXIT_USAGE, "--hostfile %s: %s", path, strerror(errno));
    errno = 0;
    for (ssize_t got; (got = getline(&line, &capacity, file)) > 0;) {
        char where[PATH_MAX + 32];
        snprintf(where, sizeof where, "%s:%d", path, ++number);
        if (strlen(line) != (size_t)got)
            launch_fail(LAUNCH_EXIT_USAGE, "%s: the line contains a byte of value 0: not a list of nodes",
                        where);
        line[strcspn(line, "#\r\n")] = '\0';
        const char *start = line + strspn(line, " \t");
        size_t len = strlen(start);
        while (len > 0 && (start[len - 1] == ' ' || start[len - 1] == '\t'))
            len--;
        if (len > 0)
            read_host(hosts_out, start, len, where);
    }
    if (ferror(file))
        launch_fail(LAUNCH_EXIT_USAGE, "--hostfile %s: %s", path, strerror(errno));
    free(line);
    fclose(file);
    if (hosts_out->num == 0)
        launch_fail(LAUNCH_EXIT_USAGE, "--hostfile %s: the file lists no nodes", path);
}

bool launch_hosts_are_local(const struct launch_hosts *hosts)
{
    char self[256] = "";
    gethostname(self, sizeof self - 1);
    size_t short_len = strcspn(self, ".");
    for (int i = 0; i < hosts->num; i++) {
        const char *name = hosts->hosts[i].name;
        if (strcmp(name, "localhost") != 0 && strcmp(name, "127.0.0.1") != 0 && strcmp(name, self) != 0 &&
            !(strlen(name) == short_len && strncmp(name, self, short_len) == 0))
            return false;
    }
    return true;
}
