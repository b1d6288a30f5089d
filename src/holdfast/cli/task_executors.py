"""Task executors that a command is given, and how they are asked."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from holdfast.cli.datasets.errors import BadInputError
from holdfast.cli.datasets.printable import printable
from holdfast.cli.path_argument import path_argument
from holdfast.config_values import parse_addresses
from holdfast.errors import HoldfastError, StorageError
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor, Timeouts
from holdfast.taskexecutor.token import TOKEN_VARIABLE, given_token

_AT_ONCE = 16
PATIENT = Timeouts(answer_seconds=60.0)
"""A report on many files may take its time."""

R = TypeVar("R")


def add_executor_arguments(command: Any, where: Any) -> None:
    """Adds `--executors` and `--token-file`.

    Args:
        command: the command's parser.
        where: its group of arguments of which only one may be given.
    """
    where.add_argument(
        "--executors",
        metavar="ADDRESSES",
        help="task executors to query instead: a comma-separated list of HOST:PORT",
    )
    command.add_argument(
        "--token-file",
        type=path_argument,
        metavar="FILE",
        help=f"the task executors' secret (default: ${TOKEN_VARIABLE})",
    )


def given_executors(arguments: argparse.Namespace) -> tuple[Sequence[str], str]:
    """The addresses and the token that were given.

    Args:
        arguments: what argparse made of the command line, with `--executors`.

    Raises:
        BadInputError: when they can't be used.
    """
    try:
        addresses = parse_addresses(arguments.executors)
    except ValueError:
        addresses = ()
    if not addresses:
        raise BadInputError(
            f"--executors {arguments.executors!r}: expected a comma-separated list of distinct "
            "task executor addresses, each HOST:PORT"
        )
    try:
        token = given_token(arguments.token_file, os.environ)
    except StorageError as error:
        raise BadInputError(str(error)) from error
    if token is None:
        raise BadInputError(
            f"task executors require a token: set it by --token-file or ${TOKEN_VARIABLE}"
        )
    return addresses, token


def refuse_without_executors(arguments: argparse.Namespace) -> None:
    """Refuses what only task executors need.

    Args:
        arguments: what argparse made of a command line without `--executors`.

    Raises:
        BadInputError: when there is such an argument.
    """
    for name in ("token_file", "catalog_url"):
        if getattr(arguments, name, None) is not None:
            raise BadInputError(f"--{name.replace('_', '-')} requires --executors")


def remote_executors(
    addresses: Sequence[str], token: str, timeouts: Timeouts = PATIENT
) -> dict[str, RemoteTaskExecutor]:
    """Task executors by their addresses.

    Args:
        addresses: each `host:port`.
        token: what they share with those who may use them.
        timeouts: how long each is waited for.

    Raises:
        BadInputError: when an address is none.
    """
    try:
        return {address: RemoteTaskExecutor(address, token, timeouts) for address in addresses}
    except StorageError as error:
        raise BadInputError(str(error)) from error


def ask_at_once(
    executors: Mapping[str, RemoteTaskExecutor],
    questions: Mapping[str, Callable[[RemoteTaskExecutor], R]],
) -> tuple[dict[str, R], dict[str, str]]:
    """Asks task executors by address.

    Args:
        executors: all of them.
        questions: what each is asked.

    Returns:
        what each answers, or why it doesn't.
    """
    answers: dict[str, R] = {}
    failures: dict[str, str] = {}
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        asked = {
            address: threads.submit(question, executors[address])
            for address, question in questions.items()
        }
    for address, answer in asked.items():
        try:
            answers[address] = answer.result()
        except HoldfastError as error:
            who = f"task executor {address}"
            why = str(error).removeprefix(who).lstrip()
            failures[address] = printable(f"{who}: {why}")
    return answers, failures
