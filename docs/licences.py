"""The page of the licences of all that an installation brings: `make licences`."""

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PAGE = Path(__file__).parent / "licences.md"
EXTRAS = ("", "text", "app", "agents", "pronunciation", "track")
# What everybody may use, change and pass on, in a closed product too (MPL-2.0 asks for its own files alone).
FREE = re.compile(
    r"MIT(-0|-CMU)?|0?BSD|BSD-[23]-Clause|Apache-2\.0( WITH LLVM-exception)?|MPL-2\.0|PSF-2\.0|ISC|Zlib"
    r"|CC0-1\.0|BSL-1\.0|CNRI-Python"
)
NAMES = {  # of licences that a package calls otherwise
    r"Apache (Software|2\.0) License|Apache License.*": "Apache-2.0",
    r"MIT License": "MIT",
    r"(BSD|3-Clause BSD) License": "BSD",
    r"Mozilla Public License 2\.0.*": "MPL-2.0",
    r"Python Software Foundation License": "PSF-2.0",
    r"ISC License.*": "ISC",
    r"GNU General Public License v3.*": "GPL-3.0",
}
HEADER = """# Licences

`make licences` writes this page from what `pip install 'hf-attn[…]'` brings on Linux; hf_attn itself is
Apache-2.0. All of it but what is in bold may be used, changed and passed on in any product. torch's wheel for
NVIDIA cards brings NVIDIA's libraries, under NVIDIA's licence; the wheel for processors, with which this page
was written, does not.

| package | licence | comes with |
|---|---|---|
"""


def read_licence(found: Distribution) -> str:
    """The licence that a package's metadata name, as an SPDX expression where it can be told."""
    metadata = found.metadata
    classifiers = [
        line.split(" :: ")[-1] for line in metadata.get_all("Classifier") or [] if "License ::" in line
    ]
    named = [one for one in classifiers if one not in ("OSI Approved", "DFSG approved")]
    licences = [metadata["License-Expression"]] if metadata["License-Expression"] else named
    licences = licences or [(metadata["License"] or "").partition("\n")[0]]
    for pattern, name in NAMES.items():
        licences = [name if re.fullmatch(pattern, one) and " AND " not in one else one for one in licences]
    return " AND ".join(dict.fromkeys(licences))


def is_free(licence: str) -> bool:
    """Whether every part of a licence lets everybody use, change and pass on."""
    parts = re.split(r" AND ", licence.replace("(", "").replace(")", ""))
    return all(any(FREE.fullmatch(choice) for choice in part.split(" OR ")) for part in parts)


def needs(name: str, extras: frozenset[str], seen: set) -> Iterator[str]:
    """Every package that one needs, itself last, of those that are installed here."""
    if (name, extras) in seen:
        return
    seen.add((name, extras))
    try:
        found = distribution(name)
    except PackageNotFoundError:  # for another system
        return
    for line in found.requires or ():
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": one}) for one in extras or {""}):
            yield from needs(canonicalize_name(wanted.name), frozenset(wanted.extras), seen)
    yield name


def list_licences() -> dict[str, tuple[str, str]]:
    """{package: (licence, the first of our extras that brings it)}."""
    found: dict[str, tuple[str, str]] = {}
    for extra in EXTRAS:
        for name in needs("hf-attn", frozenset([extra]), set()):
            if name != "hf-attn":
                found.setdefault(name, (read_licence(distribution(name)), extra))
    return dict(sorted(found.items()))


def write_page() -> str:
    """Return the page."""
    lines = []
    for name, (licence, extra) in list_licences().items():
        told = licence if is_free(licence) else f"**{licence}**"
        lines.append(f"| {name} | {told} | {f'`hf-attn[{extra}]`' if extra else '`hf-attn`'} |\n")
    return HEADER + "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
