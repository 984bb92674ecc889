"""Attempts in lines between the coordinator and workers: the task and the number as one text."""

from __future__ import annotations


def attempt_id(task: str, number: int) -> str:
    return f"{task}#{number}"


def attempt_parts(attempt: str) -> tuple[str, int]:
    task, _, number = attempt.rpartition("#")
    return task, int(number)
