"""The command line: `python -m openwork` and the `openwork` script."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from openwork.errors import OpenworkError
from openwork.frozen import frozen
from openwork.runtime import cache
from openwork.runtime.host import calibration
from openwork.tune.defaults.calibrate import calibrate as calibrate_gpu
from openwork.ui import demo, doctor


@frozen
class Command:
    """A subcommand: what it is called, what it does, and the arguments it takes."""

    name: str
    help: str
    run: Callable[[argparse.Namespace], int]
    arguments: Callable[[argparse.ArgumentParser], object] = lambda parser: None


def run_demo(options: argparse.Namespace) -> int:
    """Show five kernels; 1 when nothing can be compiled."""
    return demo.run(options.quick)


def _demo_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="small tensors, done in a second")


def run_doctor(options: argparse.Namespace) -> int:
    """Print the doctor's report; 1 when nothing can be compiled."""
    findings = doctor.examine()
    print(doctor.render(findings))
    return int(any(finding.fatal for finding in findings))


def run_calibrate(options: argparse.Namespace) -> int:
    """Measure this machine, and show what was found."""
    if options.target == "cuda":
        print(calibrate_gpu("cuda", options.seconds))
    else:
        print(calibration.calibrate())
    return 0


def _calibrate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seconds", type=float, default=100.0, help="for a GPU; the CPU takes 0.1")


def run_cache(options: argparse.Namespace) -> int:
    """Show what the kernel cache holds, or empty it."""
    if options.action == "clear":
        print(f"{cache.clear()} kernels removed from {cache.directory()}")
    else:
        print(f"{cache.directory()}: {doctor.cache_contents()}")
    return 0


def _cache_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("show", "clear"), default="show")


COMMANDS: tuple[Command, ...] = (
    Command("demo", "compile five kernels and compare them with SciPy", run_demo, _demo_arguments),
    Command("doctor", "what was found on this machine, and how to fix problems", run_doctor),
    Command(
        "calibrate",
        "measure this machine, for default schedules",
        run_calibrate,
        _calibrate_arguments,
    ),
    Command("cache", "show or clear the compiled kernels", run_cache, _cache_arguments),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status: 0 success, 1 failure, 2 a wrong command line."""
    parser = argparse.ArgumentParser(prog="openwork", description="A sparse tensor compiler.")
    subparsers = parser.add_subparsers(metavar="command", required=True)
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.name, help=command.help, description=command.help)
        command.arguments(subparser)
        subparser.set_defaults(run=command.run)
    options = parser.parse_args(argv)
    try:
        return int(options.run(options))
    except OpenworkError as error:
        print(error, file=sys.stderr)
        return 1
