"""Makes sure of Java 17 or later, and prints its home.

Needs nothing but Python. Looks at JAVA_HOME, at the PATH and where systems put their Javas; where
there is none, installs Debian's headless runtime if it may, or else says what to install.
Only the home goes to stdout: everything that is for a person goes to stderr.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from debian import install_first

LEAST = 17
PACKAGES = (
    "openjdk-17-jre-headless",
    "openjdk-21-jre-headless",
    "openjdk-25-jre-headless",
    "default-jre-headless",
)
# Where Linux distributions, macOS, Homebrew (both kinds of processor) and SDKMAN put Javas.
PLACES = (
    "/usr/lib/jvm/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*",
    "/usr/local/opt/openjdk*",
    "~/.sdkman/candidates/java/*",
)
INSTRUCTIONS = f"""\
Holdfast needs Java {LEAST} or later, and none was found. Install one, for example
  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless (or openjdk-21-jre-headless)
  Fedora, RHEL:    sudo dnf install java-21-openjdk-headless
  macOS:           brew install openjdk@17
or set JAVA_HOME to the directory of one that is there."""


@dataclass(frozen=True)
class Java:
    """A Java that runs.

    Attributes:
        home: what JAVA_HOME is for it.
        version: the major version, 8 for the one that calls itself 1.8.
    """

    home: Path
    version: int


def main() -> int:
    """Prints the home of a Java that will do; returns the exit code."""
    reason = f"No Java {LEAST} or later was found: installing Debian's headless one"
    java = find(os.environ, PLACES)
    if java is None and install_first(PACKAGES, reason):
        java = find(os.environ, PLACES)
    if java is None:
        print(INSTRUCTIONS, file=sys.stderr)
        return 1
    named = os.environ.get("JAVA_HOME")
    if named and java.home.resolve() != Path(named).resolve():
        print(
            f"JAVA_HOME is {named}, which is no Java {LEAST} or later: taking Java {java.version} "
            f"instead. For your own shell:\n  export JAVA_HOME='{java.home}'",
            file=sys.stderr,
        )
    print(java.home)
    return 0


def find(environ: Mapping[str, str], places: Iterable[str]) -> Java | None:
    """The Java to use: JAVA_HOME's, else the PATH's, else the oldest that is new enough.

    Args:
        environ: the environment's variables.
        places: patterns of directories that may be a Java's home.

    Returns:
        None where no Java is new enough.
    """
    home = environ.get("JAVA_HOME")
    if home and (java := ask(Path(home, "bin", "java"))) and java.version >= LEAST:
        # As its owner wrote it, links and all.
        return Java(Path(home), java.version)
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path and (java := ask(Path(on_path))) and java.version >= LEAST:
        return java
    # The oldest is the one that Spark has been tried with the longest.
    there = (ask(home / "bin" / "java") for place in places for home in _directories(place))
    return min(
        (java for java in there if java is not None and java.version >= LEAST),
        key=lambda java: (java.version, java.home),
        default=None,
    )


def ask(executable: Path) -> Java | None:
    """What a `java` executable says of itself; None where it can't be run.

    Asked, not derived from the path: the executable may be a link or a version manager's script.
    """
    try:
        told = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = told.stderr + told.stdout
    home = re.search(r"^\s*java\.home = (.+?)\s*$", text, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", text, re.MULTILINE)
    return Java(Path(home[1]), int(version[1])) if home and version else None


def _directories(pattern: str) -> list[Path]:
    expanded = Path(os.path.expanduser(pattern))
    return sorted(Path(expanded.anchor).glob(str(expanded.relative_to(expanded.anchor))))


if __name__ == "__main__":
    sys.exit(main())
