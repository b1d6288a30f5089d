from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


def make_java(home: Path, version: str) -> Path:
    """A directory with a `java` that says it is of a version."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    major = version.split(".")[0]
    executable.write_text(
        "#!/bin/sh\n"
        f"echo '    java.home = {home}' >&2\n"
        f"echo '    java.specification.version = {version if major == '1' else major}' >&2\n"
        f"echo 'openjdk version \"{version}\"' >&2\n"
    )
    executable.chmod(0o755)
    return home


def run(
    places: Path, path: Path, java_home: Path | None = None, user: int = 1000
) -> subprocess.CompletedProcess[str]:
    """Runs the script as some user, where Javas are looked for in a directory of the test's."""
    environ = {"PATH": str(path)} | ({"JAVA_HOME": str(java_home)} if java_home else {})
    program = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); import ensure_java; "
        "ensure_java.PLACES = (sys.argv[2] + '/*',); os.geteuid = lambda: int(sys.argv[3]); "
        "sys.exit(ensure_java.main())"
    )
    return subprocess.run(
        [sys.executable, "-c", program, str(SCRIPTS), str(places), str(user)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def jvms(tmp_path: Path) -> Path:
    home = tmp_path / "the jvms"
    home.mkdir()
    return home


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    directory = tmp_path / "empty"
    directory.mkdir()
    return directory


def test_java_home_comes_first(jvms: Path, empty: Path, tmp_path: Path) -> None:
    make_java(jvms / "17", "17.0.1")
    named = make_java(tmp_path / "my own", "21")
    done = run(jvms, empty, named)
    assert (done.stdout, done.stderr) == (f"{named}\n", "")


def test_a_java_home_that_is_too_old_is_named_with_what_to_export(
    jvms: Path, empty: Path, tmp_path: Path
) -> None:
    recent = make_java(jvms / "17", "17.0.1")
    done = run(jvms, empty, make_java(tmp_path / "old", "1.8"))
    assert done.stdout == f"{recent}\n"
    assert f"export JAVA_HOME='{recent}'" in done.stderr


def test_the_path_s_java_is_asked_for_its_home(jvms: Path, tmp_path: Path) -> None:
    make_java(jvms / "17", "17.0.1")
    home = make_java(tmp_path / "elsewhere", "21.0.2")
    shims = tmp_path / "shims"
    shims.mkdir()
    shim = shims / "java"
    shim.write_text(f'#!/bin/sh\nexec "{home}/bin/java" "$@"\n')
    shim.chmod(0o755)
    assert run(jvms, shims).stdout == f"{home}\n"


def test_else_the_oldest_that_is_new_enough(jvms: Path, empty: Path) -> None:
    for name, version in (("a", "25"), ("b", "11.0.2"), ("c", "17.0.9"), ("d", "1.8")):
        make_java(jvms / name, version)
    (jvms / "not one").mkdir()
    assert run(jvms, empty).stdout == f"{jvms / 'c'}\n"


def test_without_java_and_apt_get_it_says_what_to_install(jvms: Path, empty: Path) -> None:
    make_java(jvms / "old", "11.0.2")
    done = run(jvms, empty)
    assert done.returncode == 1
    assert done.stdout == ""
    for system in ("sudo apt-get install openjdk-17-jre-headless", "dnf install", "brew install"):
        assert system in done.stderr


@pytest.mark.parametrize("there", ["openjdk-17-jre-headless", "openjdk-21-jre-headless"])
@pytest.mark.parametrize("user", [0, 1000], ids=["root", "sudo"])
def test_without_java_it_installs_the_first_package_that_there_is(
    jvms: Path, empty: Path, tmp_path: Path, there: str, user: int
) -> None:
    fresh = make_java(tmp_path / "fresh", there.split("-")[1])
    # Stands in for apt-get: has one package, and installing it puts a Java in place.
    apt = empty / "apt-get"
    apt.write_text(
        "#!/bin/sh\n"
        "PATH=/usr/bin:/bin\n"
        f'echo "$DEBIAN_FRONTEND $*" | tee -a "{empty}/asked"\n'
        f'case "$*" in *{there}) mv "{fresh}" "{jvms}/java"; '
        f"sed -i 's|{fresh}|{jvms}/java|' \"{jvms}/java/bin/java\";; *install*) exit 100;; esac\n"
    )
    (empty / "sudo").write_text('#!/bin/sh\nshift\nexec env -i PATH="$PATH" "$@"\n')
    for tool in ("apt-get", "sudo"):
        (empty / tool).chmod(0o755)
    (empty / "env").symlink_to("/usr/bin/env")
    (empty / "true").symlink_to("/bin/true")
    done = run(jvms, empty, user=user)
    assert done.stdout == f"{jvms / 'java'}\n", done.stderr
    asked = (empty / "asked").read_text().splitlines()
    assert asked[0] == "noninteractive update -q"
    assert asked[-1].startswith("noninteractive install -y") and asked[-1].endswith(there)


def test_where_sudo_wants_a_password_nothing_is_installed(jvms: Path, empty: Path) -> None:
    for tool, body in (("sudo", "exit 1"), ("apt-get", f'touch "{empty}/asked"')):
        (empty / tool).write_text(f"#!/bin/sh\n{body}\n")
        (empty / tool).chmod(0o755)
    assert run(jvms, empty).returncode == 1
    assert not (empty / "asked").exists()
