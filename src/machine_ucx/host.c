/* SPDX-License-Identifier: BSD-3-Clause
 *
 * host.c: the name and addresses of this host, for error messages that other processes print about this
 * one.
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "machine_ucx/ucxm.h"

/* "node2 (10.1.0.2, 10.2.0.2)": as many addresses as fit; without loopback. */
void ucxm_host_describe(char *text_out, size_t size)
{
    struct ifaddrs *interfaces = NULL;
    char host[256] = "?", addresses[512] = "";
    size_t used = 0;

    gethostname(host, sizeof host - 1);
    if (getifaddrs(&interfaces) != 0)
        interfaces = NULL;
    for (const struct ifaddrs *i = interfaces; i; i = i->ifa_next) {
        char one[INET_ADDRSTRLEN];
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || (i->ifa_flags & IFF_LOOPBACK) ||
            !inet_ntop(AF_INET, &((const struct sockaddr_in *)i->ifa_addr)->sin_addr, one, sizeof one) ||
            used + strlen(one) + 3 > sizeof addresses)
            continue;
        used += (size_t)snprintf(addresses + used, sizeof addresses - used, "%s%s", used ? ", " : "", one);
    }
    if (interfaces)
        freeifaddrs(interfaces);
    snprintf(text_out, size, used ? "%s (%s)" : "%s", host, addresses);
}
