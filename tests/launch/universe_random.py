#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Random histories of several jobs in a universe (accept, connect, talk, disconnect, spawn, kill, deadlock) end as a model says.

Usage: universe_random.py MPIRUN PROGRAM SEED...     PROGRAM: universe.c
A history is a sequence of events. Each job runs the events that concern it, as words on its command line; the model
says what it prints. So a job that hangs, or gets another result, is found.
"""
import random
import subprocess
import sys


class Job:
    def __init__(self, number):
        self.n_ranks = random.randint(1, 4)
        self.n_procs = random.randint(1, min(2, self.n_ranks))
        self.words = []
        self.expected = []
        self.links = []  # jobs, the newest last
        self.is_killed = False
        self.number = number

    def talk(self, place, n_others):
        self.words += ['talk', str(place), str(n_others)]
        self.expected.append('talked to: %d' % n_others)

    def place_of(self, other):
        return len(self.links) - 1 - self.links.index(other)


def connect(a, b, count):
    name = 'port%d' % count
    a.words += ['open', name, 'accept', name, 'close', name]
    b.words += ['connect', name]
    a.links.append(b)
    b.links.append(a)
    a.talk(0, b.n_ranks)
    b.talk(0, a.n_ranks)


def end_link(a, b):
    for one, other in ((a, b), (b, a)):
        one.words += ['leave', str(one.place_of(other))]
        one.links.remove(other)


def spawn(job):
    n = random.randint(1, 3)
    job.words += ['spawn', str(n)]
    job.talk(0, n)
    job.words += ['leave', '0']


def kill(job):
    job.words += ['kill']
    job.is_killed = True
    for other in set(job.links):
        while job in other.links:
            place = str(other.place_of(job))
            other.words += ['lost', place, 'drop', place]
            other.expected.append('lost: MPI_ERR_PROC_ABORTED')
            other.links.remove(job)


def make_history(seed):
    random.seed(seed)
    jobs = [Job(i) for i in range(random.randint(3, 4))]
    is_deadlock = seed % 2 == 0
    for count in range(10):
        alive = [job for job in jobs if not job.is_killed]
        a, b = random.sample(alive, 2)
        event = random.choice(['connect'] * 4 + ['talk', 'talk', 'leave', 'spawn', 'pause'] + ['kill'] * (len(alive) > 2))
        if event == 'connect' and b not in a.links:
            connect(a, b, count)
        elif event == 'talk' and b in a.links:
            a.talk(a.place_of(b), b.n_ranks)
            b.talk(b.place_of(a), a.n_ranks)
        elif event == 'leave' and b in a.links:
            end_link(a, b)
        elif event == 'spawn':
            spawn(a)
        elif event == 'pause':  # about as long as others are blocked before they vote
            a.words += ['pause', str(random.randint(900, 1300))]
        elif event == 'kill':
            kill(a)
    for job in jobs:
        job.exit_code = 137 if job.is_killed else 1 if is_deadlock else 0
        if not job.is_killed and is_deadlock:
            job.words += ['block']
        elif not job.is_killed:
            job.expected.append('end: well')
    return jobs


def run_history(mpirun, program, seed):
    jobs = make_history(seed)
    running = [subprocess.Popen([mpirun, '--universe', '--timeout', '180', '--procs', str(job.n_procs), '-n',
                                 str(job.n_ranks), program, *job.words], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for job in jobs]
    is_right = True
    for job, process in zip(jobs, running):
        out, err = process.communicate()
        lines = out.splitlines()
        if lines != job.expected or process.returncode != job.exit_code or ('deadlock' in err) != (job.exit_code == 1):
            is_right = False
            print('seed %s, job %d, %d ranks in %d processes: %s' % (seed, job.number, job.n_ranks, job.n_procs,
                                                                     ' '.join(job.words)))
            print('exit code %d\n  printed:  %s\n  expected: %s\n%s' % (process.returncode, lines, job.expected, err))
    return is_right


results = [run_history(sys.argv[1], sys.argv[2], seed) for seed in map(int, sys.argv[3:])]
sys.exit(0 if all(results) else 1)
