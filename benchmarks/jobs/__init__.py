"""JOBS: everything that `make bench` measures, in the order in which it is done."""

from __future__ import annotations

from benchmarks.job import Job
from benchmarks.jobs.crowds import JOBS as CROWDS
from benchmarks.jobs.long_sessions import JOBS as LONG_SESSIONS
from benchmarks.jobs.pages import JOBS as PAGES
from benchmarks.jobs.starting import JOBS as STARTING
from benchmarks.jobs.streaming import JOBS as STREAMING
from benchmarks.jobs.terminal import JOBS as TERMINAL
from benchmarks.jobs.working import JOBS as WORKING

ALL = (*STARTING, *STREAMING, *WORKING, *LONG_SESSIONS, *CROWDS, *PAGES, *TERMINAL)
JOBS: dict[str, Job] = {job.name: job for job in ALL}
