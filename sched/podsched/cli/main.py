"""The ``sched`` command."""

from __future__ import annotations

import os
import re
import sys
from typing import Annotated, Any

import typer

from podsched import __version__
from podsched.cli import help_texts
from podsched.cli.output import discard_output, open_streams, os_error_text, say

#: By panel: each command, its module, and its summary.
_PANELS = {
    "On this machine": """
demo       local     Schedule a workload on a fresh cluster, kill the leader, and print a report.
up         local     Run etcd, Ray, API servers, scheduler replicas and hollow nodes until Ctrl-C.
bench      bench     Measure throughput on a fresh cluster of real processes on this machine.
chaos      chaos     Inject faults into a whole system, and check its guarantees.
""",
    "Objects": """
apply      objects   Create the objects in manifests, or update those that exist.
create     objects   Create the objects in manifests; fail if one exists.
run        run       Create a pod or, with --gang, pods that start together.
get        get       Show objects as a table, as manifests, or the fields of your choice.
describe   describe  Show objects in detail, with their events.
delete     objects   Delete objects by name, by selector, or the objects in manifests.
label      edit      Set or remove labels of objects.
annotate   edit      Set or remove annotations of objects.
taint      edit      Add or remove taints of nodes.
cordon     edit      Mark nodes as unschedulable; pods that run there keep running.
uncordon   edit      Mark nodes as schedulable again.
drain      drain     Cordon nodes and evict their pods, as far as disruption budgets permit.
node       node      Show which nodes are hollow, or print what a machine needs to join.
wait       wait      Wait until objects have reached a state.
events     events    Show events, the latest at the end.
""",
    "Scheduling": """
status     status    Show the scheduler replicas, the leader, and the cluster's addresses.
explain    explain   Explain why a pod or a pod group is pending, or why a pod is on its node.
decisions  decisions Show the scheduler's decisions and their outcomes.
debug      debug     Collect data for a bug report.
top        top       Show live the usage of nodes, or why pods wait.
queues     queues    Show cohorts, ClusterQueues and LocalQueues with their usage as a tree.
simulate   simulate  Show how pods would be scheduled, without changing anything.
record     record    Record the changes in a cluster, for sched replay.
replay     replay    Run a recording again in virtual time, and show what differs.
plan       plan      Show what applying manifests would do: writes, placements and preemptions.
defragment defragment Find a few moves of pods that empty nodes, or make room for a waiting pod.
capacity   capacity  Show how many more pods like one fit, where, and what limits them.
headroom   capacity  Show the largest pod of each usual shape that still fits, and fragmentation.
leader     leader    Change the leader, or pause and resume scheduling.
config     config    Print, check, convert or apply a configuration of the scheduler.
""",
    "Processes": """
apiserver  apiserver Serve the gRPC API and, with --kube-listen, Kubernetes' REST API.
scheduler  scheduler Run a scheduler replica; it schedules pods while it holds the lease.
agent      agent     Run hollow nodes, which report pods as Running but run nothing.
snapshot   snapshot  Save and restore the contents of etcd.
auth       auth      Show who you are and what you may do, or make a token.
certs      certs     Make certificates to try out TLS, or show certificates.
""",
}
COMMANDS = {
    name: help_texts.LazyCommand(panel, f"podsched.cli.{module}", summary)
    for panel, lines in _PANELS.items()
    for name, module, summary in (line.split(maxsplit=2) for line in lines.strip().splitlines())
}

#: Max characters of an argument in an error.
_SHOWN = 200


class _Commands(help_texts.LazyGroup):
    lazy = COMMANDS


app = typer.Typer(
    name="sched",
    cls=_Commands,
    rich_markup_mode=None,
    help=(
        "podsched: a highly available pod scheduler with the semantics of kube-scheduler.\n\n"
        "sched up starts a cluster on this machine; sched apply -f FILE submits pods to it."
    ),
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        print(f"podsched {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    del version


def main() -> None:
    """Run the console command; show a traceback only if ``SCHED_DEBUG`` is set."""
    open_streams()
    # At INFO, gRPC writes a line of its own for each TLS handshake that fails.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    code = 0
    try:
        code = app(standalone_mode=False) or 0
        sys.stdout.flush()
        sys.exit(code)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except (BrokenPipeError, SystemExit) as exc:
        # The reader has closed the pipe, as in ``sched get pods | head``. Typer exits with 1 then.
        if isinstance(exc, SystemExit) and not isinstance(exc.__context__, BrokenPipeError):
            raise
        discard_output()
        sys.exit(code)
    except Exception as exc:
        sys.exit(_exit_code(exc))


def _exit_code(error: Exception) -> int:
    """Print an error that no command has handled and return the exit code."""
    if (code := _usage_error(error)) is not None:
        return code
    if os.environ.get("SCHED_DEBUG"):
        raise error
    if isinstance(error, ModuleNotFoundError):
        say(
            f"error: this command needs packages that the client does not, such as {error.name}: "
            "install podsched with the extra embedded (in a clone: pip install '.[embedded]'), or "
            "with the extra server, which does not include etcd",
            error=True,
        )
        return 1
    from podsched.cli.errors import FAILED, USAGE  # not above: it imports gRPC

    if isinstance(error, UnicodeEncodeError):  # as every request with such an argument raises it
        say(f'error: "{error.object[:_SHOWN]}" is not UTF-8 text', error=True)
        return USAGE
    if isinstance(error, OSError):
        # A file that cannot be read, or output that cannot be written.
        discard_output()
        subject = f"{error.filename}: " if error.filename else ""
        say(f"error: {subject}{os_error_text(error)}", error=True)
        return FAILED
    what = " ".join(str(error).split())
    say(
        f"error: bug in sched: {type(error).__name__}: {what} (traceback: SCHED_DEBUG=1)",
        error=True,
    )
    return 70


def _usage_error(error: Exception) -> int | None:
    """Print a usage error and return its exit code; return None for other errors.

    Usage errors are recognized by their attributes, because some versions of Typer raise click's
    classes and others raise their own.
    """
    wording, code = getattr(error, "format_message", None), getattr(error, "exit_code", None)
    if wording is None or not isinstance(code, int):
        return None
    command = getattr(getattr(error, "ctx", None), "command_path", "sched")
    text = _plain(wording())
    if getattr(error, "option_name", None) in ("-k", "--kustomize"):
        text = "No such option: -k; use kubectl kustomize DIR | sched apply -f -"
    elif "unexpected extra argument" in text and _takes_manifests(error):
        text = f"{text}: name files with -f"
    if "\n" in text:
        # A group was called without a command; this is its help text.
        say(text, error=True)
    elif text:
        say(f"error: {text.rstrip('.')} (see {command} --help)", error=True)
    return code


def _plain(wording: str) -> str:
    """Return a usage error in the words of other errors; pydantic's are for programmers."""
    text = wording.replace("Value error, ", "").replace("Input should be", "must be").strip()
    return re.sub(", unable to parse string as an? [a-z]+", "", text)


def _takes_manifests(error: Any) -> bool:
    context = getattr(error, "ctx", None)
    return context is not None and any("--filename" in p.opts for p in context.command.params)
