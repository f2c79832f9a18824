"""Exit codes for files and directories that the command line names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podsched.cli.main import COMMANDS
from support.commands import Commands
from support.recordings import Script, a_node

#: A line for each option and argument that names a file to read: FILE is that file, POD and CERT
#: are files that exist, NEW is one that does not.
READING = """
up --config FILE
bench FILE.yaml
bench compare --control-plane FILE
bench compare --kubeconfig FILE --control-plane BINARIES
chaos check FILE
apply -f FILE
apply --plan FILE
create -f FILE
delete -f FILE
explain pod web -f FILE
explain pod web -f POD --config FILE
explain pod web --kubeconfig FILE
decisions --file FILE
debug bundle NEW --logs FILE.log
queues --kubeconfig FILE
queues -f FILE
queues -f POD --config FILE
simulate --policy-config-file FILE -f POD --pod POD
simulate -f FILE --pod POD
simulate --pod FILE -f POD
simulate --add-node FILE -f POD --pod POD
simulate --scenarios FILE
simulate --allocations FILE
simulate --cel FILE
simulate --queue-cases FILE
simulate --bundle FILE
simulate --config FILE -f POD --pod POD
simulate --kubeconfig FILE --pod POD
record NEW --config FILE --kubeconfig POD
record NEW --kubeconfig FILE
replay FILE
replay FILE --trace azure
replay FILE --trace swf
replay RECORDING --config FILE
plan -f FILE
plan -f POD --config FILE
defragment --plan --kubeconfig FILE
defragment --plan --cluster FILE
defragment --plan --cluster POD --config FILE
capacity --pod POD --kubeconfig FILE
capacity --pod POD --cluster FILE
capacity --pod POD --cluster POD --config FILE
capacity -f FILE
capacity --pod FILE --cluster POD
headroom --kubeconfig FILE
headroom --cluster FILE
headroom --cluster POD --config FILE
config check FILE
config check --policy-config-file FILE
config apply -f FILE
config convert FILE
config convert --policy-config-file FILE
apiserver --tls-cert FILE --tls-key POD
apiserver --tls-cert POD --tls-key FILE
apiserver --tls-cert POD --tls-key POD --tls-client-ca FILE
apiserver --token-file FILE
apiserver --etcd-ca FILE
apiserver --etcd-cert FILE --etcd-key POD
apiserver --etcd-cert POD --etcd-key FILE
apiserver --jwt-issuer https://a --jwt-audience b --jwt-jwks FILE
apiserver --service-account-signing-key-file FILE
apiserver --service-account-signing-key-file POD --service-account-key-file FILE
apiserver --cluster-signing-cert-file FILE --cluster-signing-key-file POD
apiserver --cluster-signing-cert-file POD --cluster-signing-key-file FILE
apiserver --cluster-signing-kubelet-serving-cert-file FILE \
    --cluster-signing-kubelet-serving-key-file POD
apiserver --cluster-signing-kubelet-serving-cert-file POD \
    --cluster-signing-kubelet-serving-key-file FILE
apiserver --kubelet-client-certificate FILE --kubelet-client-key POD
apiserver --kubelet-client-certificate POD --kubelet-client-key FILE
apiserver --kubelet-certificate-authority FILE
apiserver --audit-log NEW --audit-policy FILE
scheduler --config FILE
scheduler --shadow-config FILE
scheduler --policy-config-file FILE
scheduler --tls-cert-file FILE --tls-private-key-file POD
scheduler --tls-cert-file POD --tls-private-key-file FILE
scheduler --client-ca-file FILE
scheduler --kubeconfig FILE
scheduler --tls-ca FILE
scheduler --tls-cert FILE --tls-key POD
scheduler --tls-cert POD --tls-key FILE
scheduler --token-file FILE
scheduler --etcd-ca FILE
scheduler --etcd-cert FILE --etcd-key POD
scheduler --etcd-cert POD --etcd-key FILE
agent --manifests FILE
agent --tls-ca FILE
agent --tls-cert FILE --tls-key POD
agent --tls-cert POD --tls-key FILE
agent --token-file FILE
snapshot save NEW --etcd-ca FILE
snapshot save NEW --etcd-cert FILE --etcd-key POD
snapshot save NEW --etcd-cert POD --etcd-key FILE
snapshot status FILE
snapshot restore FILE NEW
certs renew FILE
certs show FILE
""".strip().splitlines()
#: Files and directories that are written.
WRITING = """
up --data-dir, up --tls-dir, bench --plot, chaos --data-dir, chaos --save, chaos --report,
chaos check --report, node bootstrap --directory, node bootstrap --write, explain --bundle,
decisions --export, debug bundle file, record file, replay --plot, plan --out,
apiserver --audit-log, scheduler --decision-log, scheduler --write-config-to, scheduler --cert-dir,
snapshot save file, snapshot restore data_dir, auth token --file, certs init directory,
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """What the words of the lines stand for."""
    pod = tmp_path / "pod.yaml"
    pod.write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: web}, "
        "spec: {containers: [{name: c, image: i}]}}"
    )
    (tmp_path / "kube-scheduler").touch(mode=0o755)
    recording = Script(tmp_path / "recording", a_node("node-1"))
    recording.ended(1.0)
    return {
        "POD": str(pod),
        "NEW": str(tmp_path / "new"),
        "BINARIES": str(tmp_path),
        "RECORDING": str(recording.path),
    }


@pytest.mark.parametrize("line", READING)
def test_a_missing_file_is_a_usage_error(
    sched: Commands, files: dict[str, str], tmp_path: Path, line: str
) -> None:
    missing = tmp_path / "missing"
    done = sched(*_words(line, missing, files))
    assert done.code == 2
    [error] = filter(None, done.errors)
    assert str(missing) in error


@pytest.mark.parametrize("line", [line for line in READING if "--logs" not in line])
def test_a_directory_in_place_of_a_file_is_a_usage_error(
    sched: Commands, files: dict[str, str], tmp_path: Path, line: str
) -> None:
    # Where a directory may be named as well, this one has nothing to read.
    directory = tmp_path / "directory"
    for suffix in ("", ".yaml"):
        directory.with_suffix(suffix).mkdir()
    done = sched(*_words(line, directory, files))
    assert done.code == 2
    [error] = filter(None, done.errors)
    assert str(directory) in error


def test_the_lines_have_every_option_that_names_a_file_or_directory() -> None:
    commands = dict(_commands())
    listed = {name.strip() for name in WRITING.replace("\n", " ").split(",")}
    for line in READING:
        name = max((each for each in commands if line.startswith(f"{each} ")), key=len)
        listed |= {f"{name} {param}" for param in _named(commands[name], line.split())}
    every = {f"{name} {_name(param)}" for name, command in commands.items() for param in command}
    assert every - listed == set()


def _commands() -> Iterator[tuple[str, list[Any]]]:
    """The parameters of each command that name files or directories."""
    found = [(name, lazy.load(name)) for name, lazy in COMMANDS.items()]
    for name, command in found:
        found += [(f"{name} {n}", sub) for n, sub in getattr(command, "commands", {}).items()]
        wanted = re.compile("FILE|DIR|HISTORY")
        yield name, [p for p in command.params if wanted.search(getattr(p, "metavar", "") or "")]


def _named(params: list[Any], words: list[str]) -> Iterator[str]:
    """The parameters whose value the words have as FILE."""
    place = next(at for at, word in enumerate(words) if word.startswith("FILE"))
    for param in params:
        is_argument = param.param_type_name == "argument"
        if words[place - 1] in param.opts or (is_argument and words[place - 1][0] != "-"):
            yield _name(param)


def _name(param: Any) -> str:
    return str(max(param.opts, key=len))


def _words(line: str, file: Path, files: dict[str, str]) -> list[str]:
    return [files.get(word, word.replace("FILE", str(file))) for word in line.split()]
