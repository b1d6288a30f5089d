"""Which Java `make` uses, and what it installs where there is none."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType

import pytest


def make_java(home: Path, version: str) -> Path:
    """A directory with a `java` that says it is of a version."""
    major = version.split(".")[0]
    said = (
        f"    java.home = {home}",
        f"    java.specification.version = {version if major == '1' else major}",
        f'openjdk version "{version}"',
    )
    make_tool(home / "bin" / "java", "\n".join(f"echo '{line}' >&2" for line in said))
    return home


def make_tool(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def jvms(tmp_path: Path) -> Path:
    """Where Javas are looked for."""
    (tmp_path / "the jvms" / "not one").mkdir(parents=True)
    return tmp_path / "the jvms"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one directory of the PATH."""
    (tmp_path / "tools").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path / "tools"


@pytest.fixture
def script(jvms: Path, tools: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "scripts"))
    module = importlib.import_module("ensure_java")
    monkeypatch.setattr(module, "PLACES", (f"{jvms}/*",))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return module


def test_java_home_comes_first_then_the_path_s_then_the_oldest_that_is_new_enough(
    jvms: Path,
    tools: Path,
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name, version in (("a", "25"), ("b", "11.0.2"), ("c", "17.0.9"), ("d", "1.8")):
        make_java(jvms / name, version)
    assert not script.main()
    assert capfd.readouterr() == (f"{jvms / 'c'}\n", "")
    home = make_java(tmp_path / "elsewhere", "21.0.2")
    # One that stands in for another is asked for its home.
    make_tool(tools / "java", f'exec "{home}/bin/java" "$@"')
    assert not script.main()
    assert capfd.readouterr() == (f"{home}\n", "")
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "my own", "21")))
    assert not script.main()
    assert capfd.readouterr() == (f"{tmp_path / 'my own'}\n", "")
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "old", "1.8")))
    assert not script.main()
    out, err = capfd.readouterr()
    assert out == f"{home}\n" and f"export JAVA_HOME='{home}'" in err


def test_without_any_it_says_what_to_install(
    jvms: Path, tools: Path, script: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    make_java(jvms / "old", "11.0.2")
    # Where sudo wants a password nothing is installed, either.
    make_tool(tools / "sudo", "exit 1")
    make_tool(tools / "apt-get", f'touch "{tools}/asked"')
    assert script.main() == 1
    assert not (tools / "asked").exists()
    out, err = capfd.readouterr()
    assert out == ""
    for system in ("sudo apt-get install openjdk-17-jre-headless", "dnf install", "brew install"):
        assert system in err


@pytest.mark.parametrize(
    ("there", "user"),
    [("openjdk-17-jre-headless", 0), ("openjdk-21-jre-headless", 1000)],
    ids=["root", "sudo"],
)
def test_without_any_it_installs_the_first_package_that_there_is(
    jvms: Path,
    tools: Path,
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    there: str,
    user: int,
) -> None:
    fresh = make_java(tmp_path / "fresh", there.split("-")[1])
    # Has one package, and installing it puts a Java in place.
    make_tool(
        tools / "apt-get",
        "PATH=/usr/bin:/bin\n"
        f'echo "$DEBIAN_FRONTEND $*" | tee -a "{tools}/asked"\n'
        f'case "$*" in *{there}) mv "{fresh}" "{jvms}/java"; '
        f"sed -i 's|{fresh}|{jvms}/java|' \"{jvms}/java/bin/java\";; *install*) exit 100;; esac",
    )
    make_tool(tools / "sudo", 'shift\nexec /usr/bin/env -i PATH="$PATH" "$@"')
    (tools / "env").symlink_to("/usr/bin/env")
    (tools / "true").symlink_to("/bin/true")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert not script.main()
    assert capfd.readouterr().out == f"{jvms / 'java'}\n"
    asked = (tools / "asked").read_text().splitlines()
    assert asked[0] == "noninteractive update -q"
    assert asked[-1].startswith("noninteractive install -y") and asked[-1].endswith(there)
