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

/* The text of an interface's address; false: it has none that other hosts use. */
static bool write_address(const struct ifaddrs *interface, char *text_out, socklen_t size)
{
    const struct sockaddr *address = interface->ifa_addr;
    const struct in6_addr *long_address;

    if (!address || (interface->ifa_flags & IFF_LOOPBACK))
        return false;
    if (address->sa_family == AF_INET)
        return inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, text_out, size) != NULL;
    if (address->sa_family != AF_INET6)
        return false;
    long_address = &((const struct sockaddr_in6 *)address)->sin6_addr;
    return !IN6_IS_ADDR_LINKLOCAL(long_address) && inet_ntop(AF_INET6, long_address, text_out, size) != NULL;
}

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
        char one[INET6_ADDRSTRLEN];
        if (!write_address(i, one, sizeof one) || used + strlen(one) + 3 > sizeof addresses)
            continue;
        used += (size_t)snprintf(addresses + used, sizeof addresses - used, "%s%s", used ? ", " : "", one);
    }
    if (interfaces)
        freeifaddrs(interfaces);
    snprintf(text_out, size, used ? "%s (%s)" : "%s", host, addresses);
}
