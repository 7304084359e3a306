#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the processes of a job on one node open no listeners, no SysV segments and no files that others can read,
# under Heddle's mpirun, Open MPI's and without the job's own folder; and that a second user can neither read nor
# disturb them. Usage: closed_test.sh MPICC MPIRUN What is in single quotes is for the shell that runs it.
# shellcheck disable=SC2016
set -u
mpicc=$1
mpirun=$2
here=$(dirname "$0")
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS PMIX_RANK PMIX_NAMESPACE SLURM_JOB_ID UCX_TLS UCX_NET_DEVICES UCX_POSIX_DIR
closed=$expect_dir/closed
"$mpicc" -O1 -o "$closed" "$here/closed.c" || exit 1

expect "two processes" 0 '' '' "$mpirun" --procs 2 -n 2 "$closed"
expect "four processes of two PEs" 0 '' '' "$mpirun" --procs 4 -n 8 +p 2 "$closed"
expect "in UCX's usual folder" 0 '' '' env UCX_POSIX_DIR=/dev/shm "$mpirun" --procs 2 -n 2 "$closed"
expect "the user has chosen a network device" 0 '' '' env UCX_NET_DEVICES=lo "$mpirun" --procs 2 -n 2 "$closed"
expect "the program finds listeners and segments where there are some" 1 '' \
    'listens at 127.0.0.1 of interface lo .*has made the SysV segment' env UCX_TLS=all "$mpirun" --procs 2 -n 2 "$closed"
if command -v mpirun.openmpi >/dev/null; then
    expect "Open MPI's mpirun" 0 '' '' mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -np 2 "$closed"
fi

# A second user looks into all that the processes have open, and sends garbage to every socket of theirs that has a
# name (UCX wakes processes of its node by such datagrams), before and while they exchange messages, so that the
# sockets' queues are full. Nothing of it is of use, and the job goes on.
cat >"$expect_dir/intrude.py" <<'END'
import os, re, socket, sys, time

def sockets_of(pid):
    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    inodes = set(re.findall(r"socket:\[(\d+)\]", " ".join(links)))
    with open("/proc/net/unix") as table:
        lines = [line.split() for line in table]
    return [line[7] for line in lines if len(line) > 7 and line[6] in inodes and line[7].startswith("@")]

names = [name for pid in sys.argv[1:] for name in sockets_of(pid)] # as root; from here on as another user
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for pid in sys.argv[1:]:
    for what in ("fd", "map_files"):
        try:
            os.listdir(f"/proc/{pid}/{what}")
            sys.exit(f"/proc/{pid}/{what} can be read")
        except PermissionError:
            pass
    for fd in range(64):
        try:
            os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR)
            sys.exit(f"descriptor {fd} of {pid} can be opened")
        except PermissionError:
            pass
for entry in os.scandir("/dev/shm"):
    if entry.name.startswith("heddle-0-") and os.access(entry.path, os.R_OK):
        sys.exit(f"{entry.path} can be read")
if not names:
    sys.exit("the processes have no sockets with names: nothing is left to show here")

def flood(name, files):
    garbage = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    garbage.setblocking(False)
    for length in (0, 1, 7, 8, 200) * 200:
        try:
            socket.send_fds(garbage, [b"x" * length], files, 0, "\0" + name[1:])
        except BlockingIOError: # its queue is full
            return True
        except OSError: # it is gone
            return False
    return True

for name in names:
    flood(name, [0])
# Behind the messages to come, too, until the job has ended.
sys.stdout.flush()
if os.fork() == 0:
    end = time.monotonic() + 30
    while time.monotonic() < end and all([flood(name, []) for name in names]):
        pass
    os._exit(0)
END
if [ "$(id -u)" = 0 ]; then
    expect "a second user" 0 '' '' "$mpirun" --procs 3 -n 6 +p 2 "$closed" "python3 $expect_dir/intrude.py"
elif [ "$expect_failed" = 0 ]; then
    echo "skipped: only root can be a second user; the rest is as expected"
    exit 77
fi
finish
