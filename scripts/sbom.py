"""The software bill of materials of a release: what the wheel contains and what pip installs with it (CycloneDX JSON).

    python scripts/sbom.py WHEEL > tau.cdx.json

Versions and hashes are those of the lock files; packages that only an extra needs are optional. The same wheel and lock
files give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
import zipfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.parser import Parser
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
REQUIRED, NOT_INSTALLED = "requirements.txt", ("requirements-build.txt", "requirements-dev.txt")
PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)(?: *; *(?P<marker>[^\\]+))?")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Pin(NamedTuple):
    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name.lower()}@{self.version}"


def pins(file: Path) -> Iterator[Pin]:
    """The packages of a lock file. Raises ValueError if one has no hash."""
    for entry in re.split(r"(?m)^(?=[A-Za-z0-9])", file.read_text(encoding="utf-8")):
        if (found := PIN.match(entry)) is None:
            continue
        hashes = tuple(sorted(HASH.findall(entry)))
        if not hashes:
            raise ValueError(f"{file.name}: {found['name']} has no hash")
        yield Pin(found["name"], found["version"], (found["marker"] or "").strip(), hashes)


def document(wheel: Path, epoch: int, root: Path = ROOT) -> dict[str, Any]:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        about = Parser().parsestr(archive.read(name).decode())
    subject = f"pkg:pypi/{about['Name']}@{about['Version']}"
    required = list(pins(root / REQUIRED))
    locks = [file for file in sorted(root.glob("requirements-*.txt")) if file.name not in NOT_INSTALLED]
    of_extras = {pin.purl: pin for file in locks for pin in pins(file)}
    optional = [pin for purl, pin in sorted(of_extras.items()) if purl not in {pin.purl for pin in required}]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{subject}#{digest}')}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).isoformat().replace("+00:00", "Z"),
            "component": {
                "type": "application",
                "bom-ref": subject,
                "name": about["Name"],
                "version": about["Version"],
                "description": about["Summary"],
                "licenses": [{"license": {"id": about["License-Expression"]}}],
                "purl": subject,
                "hashes": [{"alg": "SHA-256", "content": digest}],
            },
        },
        "components": [
            *(_component(pin, "required") for pin in required),
            *(_component(pin, "optional") for pin in optional),
        ],
        "dependencies": [
            {"ref": subject, "dependsOn": [pin.purl for pin in required]},
            *({"ref": pin.purl} for pin in (*required, *optional)),
        ],
    }


def _component(pin: Pin, scope: str) -> dict[str, Any]:
    files = [{"alg": "SHA-256", "content": one} for one in pin.hashes]
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": pin.purl,
        "name": pin.name,
        "version": pin.version,
        "scope": scope,
        "purl": pin.purl,
        "externalReferences": [{"type": "distribution", "url": pin.purl, "hashes": files}],
    }
    return found if not pin.marker else {**found, "properties": [{"name": "python:marker", "value": pin.marker}]}


def text(wheel: Path, epoch: int, root: Path = ROOT) -> str:
    return json.dumps(document(wheel, epoch, root), indent=2, ensure_ascii=False) + "\n"


def main(words: Sequence[str]) -> int:
    print(text(Path(words[0]), int(words[1]) if len(words) > 1 else 0), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
