/* SPDX-License-Identifier: BSD-3-Clause
 *
 * transports.c: chooses UCX's transports and network devices for a job, unless the user does (UCX_TLS,
 * UCX_NET_DEVICES).
 *
 * UCX opens all that it finds: SysV segments of mode 0660, which every member of the same Unix group can
 * attach, and a TCP listener on every interface, which fails an assertion and ends the process when it
 * receives garbage. So
 *
 *      on one node     shared memory in files of mode 0600, the kernel's copies between processes of one
 *                      user, and transports for GPUs: no network sockets, no SysV segments
 *      between nodes   no SysV segments; TCP only on interfaces that lead to other nodes
 *
 * An interface leads to other nodes if the kernel's routes to the names that the launcher has for them go
 * through it. If none is found that way, all interfaces except loopback are used.
 *
 * UCX's wake-up sockets stay: Unix datagram sockets in the abstract name space, one for each worker with shared
 * memory, to which every user of the network namespace can send. UCX 1.13 has no option against them, and Heddle's
 * own wake-up would miss the messages that UCX sends by itself in a rendezvous. They carry no information: the
 * receiver reads up to 32 bytes, ignores them, looks into shared memory, and takes no descriptors. Both ends are
 * nonblocking, and a full queue loses no wake-up, because the receiver is readable then.
 *
 * Without TCP a process in another PID namespace than its neighbours on the node cannot be reached.
 * UCX_TLS=all brings it back. UCX_VFS_ENABLE=n: otherwise a UCX with FUSE has a thread that waits for a
 * daemon in /tmp.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "machine_ucx/ucxm.h"

/* UCX ignores those that it does not have. */
#define WITHIN_NODE "posix,xpmem,cma,self,cuda"
#define BETWEEN_NODES "^sysv"

/* Where streams of a GPU may wait for this process: cuda_ipc closes mappings of freed memory, and the driver waits for the
 * whole GPU meanwhile, in the thread that has to deliver the message (seen on an H200, UCX 1.22). */
#define WITHIN_NODE_BESIDE_WAITS "posix,xpmem,cma,self,cuda_copy"
#define BETWEEN_NODES_BESIDE_WAITS "^sysv,cuda_ipc"

/* The same goes for the rendezvous through the receiver's staging memory: UCX unregisters memory of other processes from
 * CUDA in the middle of it (seen on an H200, UCX 1.22). */
#define STAGING_OF_RECEIVER "RNDV_PIPELINE_SHM_ENABLE"

/* Names of devices, separated by commas. */
struct names {
    char text[1024];
    size_t n_bytes;
};

static void add_name(struct names *names, const char *name, size_t length)
{
    for (const char *at = names->text; *at;) {
        size_t n = strcspn(at, ",");
        if (n == length && strncmp(at, name, length) == 0)
            return;
        at += n + (at[n] == ',');
    }
    if (names->n_bytes + length + 2 <= sizeof names->text)
        names->n_bytes += (size_t)snprintf(names->text + names->n_bytes, sizeof names->text - names->n_bytes,
                                           "%s%.*s", names->n_bytes ? "," : "", (int)length, name);
}

/* ---- Interfaces ---- */

/* The local address from which the kernel would send to a host. Sends nothing. */
static bool find_local_address(const char *host, struct sockaddr_storage *address_out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *found = NULL;
    bool is_found = false;

    if (getaddrinfo(host, "9", &hints, &found) != 0)
        return false;
    for (const struct addrinfo *at = found; at && !is_found; at = at->ai_next) {
        socklen_t length = sizeof *address_out;
        int fd = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        is_found = fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0 &&
                   getsockname(fd, (struct sockaddr *)address_out, &length) == 0;
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(found);
    return is_found;
}

static bool is_same_address(const struct sockaddr *a, const struct sockaddr_storage *b)
{
    if (!a || a->sa_family != b->ss_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, &((const struct sockaddr_in6 *)b)->sin6_addr,
                  sizeof(struct in6_addr)) == 0;
}

static bool is_usable(const struct ifaddrs *interface)
{
    return interface->ifa_addr && (interface->ifa_flags & IFF_UP) && !(interface->ifa_flags & IFF_LOOPBACK) &&
           (interface->ifa_addr->sa_family == AF_INET || interface->ifa_addr->sa_family == AF_INET6);
}

/* "eth0:1" is another address of eth0. */
static void add_interface(const struct ifaddrs *interface, struct names *names)
{
    add_name(names, interface->ifa_name, strcspn(interface->ifa_name, ":"));
}

/* The interface that leads to the host of a process. */
static void add_interface_to(int proc_id, const struct ifaddrs *interfaces, struct names *names)
{
    char host[UCXM_HOST_BYTES];
    struct sockaddr_storage address;

    if (!ucxm_launcher_host_of(proc_id, host, sizeof host) || !find_local_address(host, &address))
        return;
    for (const struct ifaddrs *at = interfaces; at; at = at->ifa_next)
        if (is_usable(at) && is_same_address(at->ifa_addr, &address))
            add_interface(at, names);
}

/* Checking every process would take long in large jobs: only the first and the last one of other nodes. */
static void add_interfaces(struct names *names)
{
    struct ifaddrs *interfaces = NULL;
    int first = 0, last = ucxm.place.n_procs - 1;

    if (getifaddrs(&interfaces) != 0)
        return;
    while (first < last && ucxm.is_near[first])
        first++;
    while (last > first && ucxm.is_near[last])
        last--;
    add_interface_to(first, interfaces, names);
    if (last != first)
        add_interface_to(last, interfaces, names);
    for (const struct ifaddrs *at = interfaces; at && names->n_bytes == 0; at = at->ifa_next)
        if (is_usable(at))
            add_interface(at, names);
    freeifaddrs(interfaces);
}

/* ---- RDMA devices, which the same list contains ---- */

static bool is_active(const char *device, const char *port)
{
    char path[1024], state[64] = "";
    FILE *file;

    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%s/state", device, port);
    file = fopen(path, "re");
    if (!file)
        return false;
    if (!fgets(state, sizeof state, file))
        state[0] = '\0';
    fclose(file);
    return strstr(state, "ACTIVE") != NULL;
}

static void add_ports_of(const char *device, struct names *names)
{
    char path[512], name[512];
    DIR *ports;
    const struct dirent *port;

    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports", device);
    ports = opendir(path);
    while (ports && (port = readdir(ports)))
        if (port->d_name[0] != '.' && is_active(device, port->d_name)) {
            snprintf(name, sizeof name, "%s:%.3s", device, port->d_name);
            add_name(names, name, strlen(name));
        }
    if (ports)
        closedir(ports);
}

static void add_rdma(struct names *names)
{
    DIR *devices = opendir("/sys/class/infiniband");
    const struct dirent *device;

    while (devices && (device = readdir(devices)))
        if (device->d_name[0] != '.')
            add_ports_of(device->d_name, names);
    if (devices)
        closedir(devices);
}

bool ucxm_transports_have_rdma(void)
{
    struct names devices = {0};

    add_rdma(&devices);
    return devices.n_bytes > 0;
}

/* ---- Choosing ---- */

void ucxm_transports_choose(ucp_config_t *config)
{
    bool is_one_node = ucxm.place.node_n_procs == ucxm.place.n_procs;
    bool has_transports = getenv("UCX_TLS") != NULL, has_devices = getenv("UCX_NET_DEVICES") != NULL;
    const char *within = ucxm.place.streams_wait ? WITHIN_NODE_BESIDE_WAITS : WITHIN_NODE;
    const char *between = ucxm.place.streams_wait ? BETWEEN_NODES_BESIDE_WAITS : BETWEEN_NODES;
    struct names devices = {0};

    if (!has_transports)
        ucp_config_modify(config, "TLS", is_one_node ? within : between);
    if (ucxm.place.streams_wait && !getenv("UCX_" STAGING_OF_RECEIVER))
        ucp_config_modify(config, STAGING_OF_RECEIVER, "n");
    if (!has_devices && !is_one_node) {
        add_interfaces(&devices);
        if (devices.n_bytes > 0)
            add_rdma(&devices);
        if (devices.n_bytes > 0)
            ucp_config_modify(config, "NET_DEVICES", devices.text);
    }
    /* Our lists contain names that this UCX may not know. */
    if (is_one_node ? !has_transports : !has_devices)
        ucp_config_modify(config, "WARN_INVALID_CONFIG", "n");
    if (is_one_node && !has_transports)
        base_log_verbose(2, "UCX may use these transports, as all processes are on one node: %s", within);
    else if (devices.n_bytes > 0)
        base_log_verbose(2, "process %d of %d uses these network devices: %s", ucxm.place.proc_id,
                         ucxm.place.n_procs, devices.text);
}
