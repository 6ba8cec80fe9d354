"""The example for Kubernetes fits together: names, labels, volumes, ports, times; and its commands are ours."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.command_lines import parse
from tests.deploy.plain_yaml import read_all

from famulus.broker.settings import ADMIN_PORT, HTTP_PORT, load
from famulus.broker.supervisor import SCRIBE_STOP_S
from famulus.core.clock import NS_PER_S
from famulus.core.hangs import HANG_NS, LINGER_NS
from famulus.errors import SettingsError
from famulus.net.passes import PassBroker, PassFile, read_pass, write_pass

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/kubernetes"
(KUSTOMIZATION,) = read_all((FOLDER / "kustomization.yaml").read_text("utf-8"))
OBJECTS = [each for name in KUSTOMIZATION["resources"] for each in read_all((FOLDER / name).read_text("utf-8"))]
START = FOLDER / "start.sh"


def the(kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in OBJECTS if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found  # type: ignore[no-any-return]


BROKERS = the("StatefulSet", "famulus")["spec"]
WORKERS = the("Deployment", "famulus-worker-hello")["spec"]
SETS = [BROKERS, WORKERS]


def pod(owner: dict[str, Any]) -> dict[str, Any]:
    return owner["template"]["spec"]  # type: ignore[no-any-return]


def container(owner: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod(owner)["containers"]
    return only  # type: ignore[no-any-return]


def every_container(owner: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod(owner).get("initContainers", []), container(owner)]


def env(owner: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container(owner)["env"]}


def test_every_file_is_part_of_it() -> None:
    (generated,) = KUSTOMIZATION["configMapGenerator"]
    named = {*KUSTOMIZATION["resources"], *generated["files"], "kustomization.yaml"}
    assert named == {path.name for path in FOLDER.iterdir()}
    assert KUSTOMIZATION["namespace"] == the("Namespace", "famulus")["metadata"]["name"]


@pytest.mark.parametrize("owner", SETS)
def test_labels_are_those_that_are_selected(owner: dict[str, Any]) -> None:
    labels = owner["template"]["metadata"]["labels"]
    assert owner["selector"]["matchLabels"].items() <= labels.items()


def test_service_budget_and_policies_are_about_these_pods() -> None:
    labels = BROKERS["template"]["metadata"]["labels"]
    service = the("Service", BROKERS["serviceName"])["spec"]
    assert service["selector"] == labels
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    assert the("PodDisruptionBudget", "famulus-broker")["spec"]["selector"]["matchLabels"] == labels
    policy = the("NetworkPolicy", "famulus-broker")["spec"]
    assert policy["podSelector"]["matchLabels"] == labels
    peers, workers, _ = (each["from"][0]["podSelector"]["matchLabels"] for each in policy["ingress"])
    assert peers == labels
    assert workers.items() <= WORKERS["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("owner", SETS)
def test_every_mount_has_its_volume(owner: dict[str, Any]) -> None:
    claims = [each["metadata"]["name"] for each in owner.get("volumeClaimTemplates", [])]
    volumes = [each["name"] for each in pod(owner)["volumes"]]
    mounted = {mount["name"] for each in every_container(owner) for mount in each["volumeMounts"]}
    assert sorted(mounted) == sorted(claims + volumes)
    maps = {each["configMap"]["name"] for each in pod(owner)["volumes"] if "configMap" in each}
    generated = {each["name"] for each in KUSTOMIZATION["configMapGenerator"]}
    assert maps <= generated | {each["metadata"]["name"] for each in OBJECTS if each["kind"] == "ConfigMap"}


@pytest.mark.parametrize("owner", SETS)
def test_no_pod_has_privileges(owner: dict[str, Any]) -> None:
    assert pod(owner)["securityContext"]["runAsNonRoot"] is True
    for each in every_container(owner):
        inside = each["securityContext"]
        assert inside["allowPrivilegeEscalation"] is False
        assert inside["readOnlyRootFilesystem"] is True
        assert inside["capabilities"] == {"drop": ["ALL"]}
    assert pod(owner)["automountServiceAccountToken"] is False


def test_the_user_is_that_of_the_image() -> None:
    image = (ROOT / "deploy/container/Containerfile").read_text("utf-8")
    who = pod(BROKERS)["securityContext"]
    assert f"USER {who['runAsUser']}:{who['runAsGroup']}" in image


# -- keys -------------------------------------------------------------------------------------------------------------


def test_everybody_needs_a_key() -> None:
    """Also those who seem to come from the pod itself, as all do for whom a sidecar or a port forwarder speaks."""
    (words,) = [words for words in commands_of_start() if words[1] == "init"]
    assert parse(words)[1]["keys"] == "all"
    assert load(FOLDER / "broker.toml", {}).plain_on_purpose is False
    assert "plain-on-purpose" not in START.read_text("utf-8")


def test_a_worker_gets_its_pass_as_a_file_of_its_own(tmp_path: Path) -> None:
    """A file of a Secret is root's, and its group may read it: so it would be refused."""
    (copying,) = pod(WORKERS)["initContainers"]
    program, mode, source, copy = copying["command"]
    (secret,) = [each["secret"] for each in pod(WORKERS)["volumes"] if "secret" in each]
    assert pod(WORKERS)["securityContext"]["fsGroup"] == pod(WORKERS)["securityContext"]["runAsGroup"]
    mounts = {each["mountPath"]: each["name"] for each in copying["volumeMounts"]}
    assert mounts == {str(Path(source).parent): "secret", str(Path(copy).parent): "pass"}
    assert "secret" not in {each["name"] for each in container(WORKERS)["volumeMounts"]}
    assert parse(container(WORKERS)["command"])[1]["pass_file"] == Path(copy)

    mounted, own = tmp_path / "mounted.pass", tmp_path / "own.pass"
    broker = PassBroker("tcp://b1:7100", "tcp://b1:7101", "1" * 64)
    write_pass(mounted, PassFile(1, "a network", "hello", [broker], "2" * 64))
    os.chmod(mounted, secret["defaultMode"])
    with pytest.raises(SettingsError, match="others may read"):
        read_pass(mounted)
    subprocess.run([program, mode, str(mounted), str(own)], check=True)
    found = read_pass(own)
    assert found is not None
    assert found.name == "hello"


# -- times and ports --------------------------------------------------------------------------------------------------


def test_the_settings_are_such_and_a_broker_has_time_to_drain() -> None:
    settings = load(FOLDER / "broker.toml", {})
    longest_s = settings.drain_ms / 1000 + (LINGER_NS + HANG_NS) / NS_PER_S + SCRIBE_STOP_S
    assert pod(BROKERS)["terminationGracePeriodSeconds"] > longest_s


def test_a_worker_has_time_to_drain() -> None:
    assert pod(WORKERS)["terminationGracePeriodSeconds"] > 30


def test_the_journal_fits_its_volume() -> None:
    settings = load(FOLDER / "broker.toml", {})
    (claim,) = BROKERS["volumeClaimTemplates"]
    size = claim["spec"]["resources"]["requests"]["storage"]
    assert settings.journal_bytes_max < int(size.removesuffix("Gi")) * 1024**3


def test_nobody_reaches_http_and_admin_ports_from_outside() -> None:
    settings = load(FOLDER / "broker.toml", {})
    assert settings.http_host == "127.0.0.1"
    open_ports = {each["port"] for each in the("Service", "famulus")["spec"]["ports"]}
    allowed = [rule["ports"] for rule in the("NetworkPolicy", "famulus-broker")["spec"]["ingress"]]
    allowed_ports = {each["port"] for ports in allowed for each in ports}
    inside = {each["containerPort"] for each in container(BROKERS)["ports"]}
    assert open_ports == allowed_ports == inside
    assert not open_ports & {ADMIN_PORT, HTTP_PORT}


@pytest.mark.parametrize(
    ("name", "page"), [("startupProbe", "healthz"), ("readinessProbe", "readyz"), ("livenessProbe", "healthz")]
)
def test_probes_ask_from_inside(name: str, page: str) -> None:
    probe = container(BROKERS)[name]
    assert probe["exec"]["command"] == ["python", "/opt/famulus/probe.py", page]
    assert probe["timeoutSeconds"] >= 5, "a second for a Python that starts on a busy node, and four that it waits"


# -- commands ---------------------------------------------------------------------------------------------------------


def test_the_names_that_are_written_down_are_those_of_the_pods() -> None:
    name, count = "famulus", BROKERS["replicas"]
    assert env(BROKERS)["PODS"].split() == [f"{name}-{number}" for number in range(count)]
    assert env(BROKERS)["SERVICE"] == f"{BROKERS['serviceName']}.{KUSTOMIZATION['namespace']}.svc"


def test_workers_have_a_slot_for_every_broker_that_their_pass_names() -> None:
    command, parameters = parse(container(WORKERS)["command"])
    assert command == "famulus worker"
    assert parameters["at_once"]
    assert not parameters["broker"]
    assert parameters["slots"] >= BROKERS["replicas"]
    modules = the("ConfigMap", "famulus-worker")["data"]
    source = modules[f"{parameters['target']}.py"]
    compile(source, "hello.py", "exec")


def commands_of_start() -> list[list[str]]:
    text = START.read_text("utf-8").replace("\\\n", " ")
    lines = [line.strip().removeprefix("exec ") for line in text.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith("famulus ")]


def test_its_commands_are_ours() -> None:
    names = [parse(words)[0] for words in commands_of_start()]
    assert sorted(names) == ["famulus broker"] * 3 + ["famulus init"]


def test_the_script_is_where_the_pod_looks_for_it() -> None:
    assert container(BROKERS)["command"] == ["sh", f"/etc/famulus/{START.name}"]
    mounts = {each["mountPath"] for each in container(BROKERS)["volumeMounts"]}
    folders = re.findall(r"^\w+=(/\S+)$", START.read_text("utf-8"), re.MULTILINE)
    assert len(folders) == 3
    for folder in folders:
        assert any(folder == mount or folder.startswith(f"{mount}/") for mount in mounts), folder


def test_the_script_is_plain_shell() -> None:
    subprocess.run(["sh", "-n", str(START)], check=True)


def test_the_settings_say_nothing_that_the_network_says() -> None:
    said = tomllib.loads((FOLDER / "broker.toml").read_text("utf-8"))
    assert not {"identity", "family", "services", "frontend_port", "backend_port"} & said.keys()
