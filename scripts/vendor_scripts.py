"""Brings the scripts that the page uses from npm, as they were published, beside the page's own.

Needs Python and npm. What is brought is committed, so that nobody needs npm who installs Holdfast;
run it after a change of the versions below.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src/holdfast/cli/ui/static/vendor"


@dataclass(frozen=True)
class Script:
    """A script of a package.

    Attributes:
        package: its name and version.
        file: the script's path in it.
        license: the path of the licence.
        digest: SHA-256 of the script.
    """

    package: str
    file: str
    license: str
    digest: str


SCRIPTS = (
    Script(
        "htmx.org@2.0.11",
        "dist/htmx.min.js",
        "LICENSE",
        "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
    ),
    Script(
        "chart.js@4.6.1",
        "dist/chart.umd.min.js",
        "LICENSE.md",
        "87364cc2b2a76a6684929e7d6b80b18a897794db38400caff1fcf1791c6925d2",
    ),
    Script(
        "chartjs-chart-treemap@3.1.0",
        "dist/chartjs-chart-treemap.min.js",
        "LICENSE",
        "695be632894bf1304418420ba433e5467ae69f35c1a8a37464a1a32a8d3faf08",
    ),
    Script(
        "@mermaid-js/tiny@12.0.0",
        "dist/mermaid.tiny.js",
        "LICENSE",
        "9f2807e402479d2864bfd9a95052076fc69d0ff45a0b25148b84b70fc33425b9",
    ),
)


def main() -> int:
    """Brings them all; returns 1 where one isn't what it is expected to be."""
    TARGET.mkdir(parents=True, exist_ok=True)
    for script in SCRIPTS:
        with tempfile.TemporaryDirectory() as temporary:
            subprocess.run(
                ["npm", "pack", "--silent", script.package],
                cwd=temporary,
                stdout=subprocess.DEVNULL,
                check=True,
            )
            [archive] = Path(temporary).glob("*.tgz")
            with tarfile.open(archive) as packed:
                content, terms = (_read(packed, name) for name in (script.file, script.license))
        found = hashlib.sha256(content).hexdigest()
        if found != script.digest:
            print(f"{script.package}: expected {script.digest}, found {found}", file=sys.stderr)
            return 1
        name = Path(script.file).name
        (TARGET / name).write_bytes(content)
        (TARGET / f"{name}.LICENSE").write_bytes(terms)
        print(f"{script.package}: {name}")
    return 0


def _read(packed: tarfile.TarFile, name: str) -> bytes:
    member = packed.extractfile(f"package/{name}")
    assert member is not None
    return member.read()


if __name__ == "__main__":
    sys.exit(main())
