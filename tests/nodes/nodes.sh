# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Several nodes on one machine, for tests. Sourced. A node is a network namespace with an address of its own, run with
# a host name and an /etc/hosts of its own; the nodes are connected by veth pairs and a bridge.
#
#   nodes_need               exits with 77 where the kernel or the user's rights forbid namespaces
#   nodes_up NUM [PREFIX]    makes NUM nodes; they and all they run go when the script ends. PREFIX: of their only
#                            addresses, 10.77.0. or fd77:: for example
#   nodes_run I command...   runs a command on node I (from 1 on), whose name is nodeI
#   nodes_names NUM          node1,node2,...
#   nodes_ssh                prints the path of a program that is to ssh what nodes_run is to a shell
#   nodes_slurm_up NUM       a Slurm cluster of NUM nodes that are up; sets SLURM_CONF. False if there is no Slurm
#
# All nodes see the same files, /dev/shm among them, and UCX takes them for one host: UCX_TLS=tcp,self makes it go
# through the network. nodes_up sets that.

nodes_dir=
nodes_num=0
nodes_tag=
nodes_prefix=
nodes_pids=()

nodes_need() {
    if ! command -v ip >/dev/null; then
        echo "skipped: there is no ip (iproute2)"
        exit 77
    fi
    if ! unshare --net --uts --mount true 2>/dev/null; then
        echo "skipped: no rights to make network namespaces"
        exit 77
    fi
}

# Ends what runs on the nodes, by process id, and removes them.
nodes_down() {
    local i pid signal
    for signal in TERM KILL; do
        for pid in "${nodes_pids[@]}"; do
            kill -$signal "$pid" 2>/dev/null
        done
        for i in $(seq "$nodes_num"); do
            for pid in $(ip netns pids "$nodes_tag-$i" 2>/dev/null); do
                kill -$signal "$pid" 2>/dev/null
            done
        done
        [ $signal = TERM ] && sleep 0.5
    done
    for i in $(seq "$nodes_num"); do
        ip netns del "$nodes_tag-$i"
        rm -rf "/etc/netns/$nodes_tag-$i"
    done
    [ -n "$nodes_tag" ] && ip netns del "$nodes_tag-hub"
    [ -n "$nodes_dir" ] && rm -rf "$nodes_dir"
    nodes_num=0 nodes_tag='' nodes_dir='' nodes_pids=()
} 2>/dev/null

nodes_must() {
    "$@" && return
    echo "cannot make the nodes: $*"
    nodes_down
    exit 1
}

nodes_up() {
    local num=$1 i length=(/24)
    nodes_prefix=${2:-10.77.0.}
    [ "${nodes_prefix%:}" = "$nodes_prefix" ] || length=(/64 nodad) # at once, without looking for duplicates
    nodes_tag=hd$$
    nodes_dir=$(mktemp -d)
    trap nodes_down EXIT
    trap 'exit 143' TERM INT
    nodes_must ip netns add $nodes_tag-hub
    nodes_must ip -n $nodes_tag-hub link add hub type bridge
    nodes_must ip -n $nodes_tag-hub link set hub up
    {
        echo 127.0.0.1 localhost
        for i in $(seq "$num"); do echo "$nodes_prefix$i node$i"; done
    } >"$nodes_dir/hosts"
    for i in $(seq "$num"); do
        nodes_must ip netns add "$nodes_tag-$i"
        nodes_num=$i
        mkdir -p "/etc/netns/$nodes_tag-$i"
        cp "$nodes_dir/hosts" "/etc/netns/$nodes_tag-$i/hosts"
        nodes_must ip link add name "v$i" netns "$nodes_tag-hub" type veth peer name eth0 netns "$nodes_tag-$i"
        nodes_must ip -n $nodes_tag-hub link set "v$i" master hub up
        nodes_must ip -n "$nodes_tag-$i" addr add "$nodes_prefix$i${length[0]}" dev eth0 "${length[@]:1}"
        nodes_must ip -n "$nodes_tag-$i" link set eth0 up
        nodes_must ip -n "$nodes_tag-$i" link set lo up
    done
    # ip netns exec mounts a /sys that shows the node's network, but no cgroups, which Slurm wants to see.
    mkdir "$nodes_dir/cgroup"
    cat >"$nodes_dir/run" <<END
#!/bin/bash
# run I command...
number=\$1
shift
exec unshare --mount --uts sh -c '
    hostname node'\$number'
    mount --rbind /sys/fs/cgroup "$nodes_dir/cgroup"
    exec ip netns exec $nodes_tag-'\$number' sh -c "
        mount --rbind $nodes_dir/cgroup /sys/fs/cgroup 2>/dev/null
        exec \"\\\$@\"" - "\$@"' - "\$@"
END
    cat >"$nodes_dir/ssh" <<END
#!/bin/bash
# ssh [-option...] nodeI command...
while [ "\${1#-}" != "\$1" ]; do shift; done
number=\${1#node}
shift
exec "$nodes_dir/run" "\$number" sh -c "\$*"
END
    chmod +x "$nodes_dir/run" "$nodes_dir/ssh"
    export UCX_TLS=tcp,self
}

nodes_ssh() {
    echo "$nodes_dir/ssh"
}

nodes_run() {
    "$nodes_dir/run" "$@"
}

nodes_names() {
    local i names=node1
    for i in $(seq 2 "$1"); do names=$names,node$i; done
    echo "$names"
}

nodes_slurm_up() {
    local num=$1 i tool
    for tool in munged slurmctld slurmd srun sinfo; do
        command -v $tool >/dev/null || [ -x /usr/sbin/$tool ] || return 1
    done
    PATH=$PATH:/usr/sbin
    local dir=$nodes_dir/slurm
    mkdir -p "$dir/state" "$dir/munge"
    chmod 755 "$nodes_dir" "$dir"
    head -c 1024 /dev/urandom >"$dir/munge/key"
    chmod 700 "$dir/munge" && chmod 400 "$dir/munge/key"
    munged --foreground --force --key-file="$dir/munge/key" --socket="$dir/munge.sock" --pid-file="$dir/munge/pid" \
        --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" >"$dir/munged.out" 2>&1 &
    nodes_pids+=($!)
    cat >"$dir/slurm.conf" <<END
ClusterName=heddle
SlurmctldHost=node1(${nodes_prefix}1)
SlurmUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$dir/munge.sock
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.%n.log
TmpFS=$dir/tmp.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=pmix
ReturnToService=2
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
NodeName=node[1-$num] CPUs=8 RealMemory=100 State=UNKNOWN
$(case $nodes_prefix in *:) echo CommunicationParameters=EnableIPv6,DisableIPv4 ;; esac)
PartitionName=all Nodes=node[1-$num] Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
END
    export SLURM_CONF=$dir/slurm.conf
    for i in $(seq 500); do [ -S "$dir/munge.sock" ] && break || sleep 0.1; done
    nodes_run 1 slurmctld -D >"$dir/slurmctld.out" 2>&1 &
    nodes_pids+=($!)
    for i in $(seq "$num"); do
        mkdir -p "$dir/spool.node$i" "$dir/tmp.node$i"
        nodes_run "$i" slurmd -D -N "node$i" >"$dir/slurmd.$i.out" 2>&1 &
        nodes_pids+=($!)
    done
    for i in $(seq 500); do
        [ "$(nodes_run 1 sinfo -h -o %t 2>/dev/null)" = idle ] && return 0
        sleep 0.2
    done
    echo "the Slurm cluster does not come up:"
    tail -n 5 "$dir"/*.out "$dir"/*.log
    return 1
}
