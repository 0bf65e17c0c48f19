"""Repos as the test Hub keeps them on disk: bytes and commits by their hash, and names that point to them.

repos/models/ada/copy/repo.json         what it is and who may see it
repos/models/ada/copy/refs.json         branch, tag or pull request → commit; replaced at once
repos/models/ada/copy/commits/OID.json  parent, title, and the hash of every file
blobs/HASH                              the bytes
"""

import hashlib
import json
import os
import threading
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

KINDS = ("model", "dataset", "space")
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"


class Refused(Exception):
    """The Hub says no: a status, a sentence, its own code for it, headers, and more for its JSON."""

    def __init__(
        self, status: int, message: str, code: str | None = None, headers: dict | None = None, **more
    ):
        super().__init__(message)
        self.status, self.more = status, more
        self.headers = {**({"X-Error-Code": code} if code else {}), **(headers or {})}


@dataclass(frozen=True)
class Entry:
    """A file of a commit: git's hash of it, its size, and its sha256 where it is kept as a large file."""

    oid: str
    size: int
    sha256: str | None = None


def git_hash(content: bytes) -> str:
    """What git calls these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in place at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{threading.get_ident()}")
    partial.write_bytes(content)
    os.replace(partial, path)


class Repo:
    """One repo: `kind` is model, dataset or space, `name` is "owner/name"."""

    def __init__(self, root: Path, kind: str, name: str):
        self.kind, self.name, self.root = kind, name, root
        self.folder = root / "repos" / f"{kind}s" / name

    @property
    def settings(self) -> dict:
        """What it is: private, gated, sdk."""
        return json.loads((self.folder / "repo.json").read_text())

    @property
    def refs(self) -> dict[str, str]:
        """Names like refs/heads/main → commit."""
        return json.loads((self.folder / "refs.json").read_text())

    def configure(self, **settings) -> None:
        """Change what it is: `configure(gated="manual")`."""
        write_whole(self.folder / "repo.json", json.dumps({**self.settings, **settings}).encode())

    def point(self, ref: str, oid: str) -> None:
        """Let a name point to a commit."""
        write_whole(self.folder / "refs.json", json.dumps({**self.refs, ref: oid}).encode())

    def resolve(self, revision: str) -> str:
        """The commit that a branch, a tag, a pull request or a hash names."""
        refs = self.refs
        for name in (revision, f"refs/heads/{revision}", f"refs/tags/{revision}"):
            if name in refs:
                return refs[name]
        if (self.folder / "commits" / f"{revision}.json").exists():
            return revision
        raise Refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def commit(self, oid: str) -> dict:
        """Parent, title, description, author and date of a commit, and its files by path."""
        content = json.loads((self.folder / "commits" / f"{oid}.json").read_text())
        return {**content, "files": {path: Entry(**entry) for path, entry in content["files"].items()}}

    def history(self, revision: str = "main") -> list[dict]:
        """Commits from the newest to the first, each with its `oid`."""
        found, oid = [], self.resolve(revision)
        while oid:
            found.append({"oid": oid, **self.commit(oid)})
            oid = found[-1]["parent"]
        return found

    def entries(self, revision: str = "main") -> dict[str, Entry]:
        """Files at a revision."""
        return self.commit(self.resolve(revision))["files"]

    def blob(self, entry: Entry) -> Path:
        """Where the bytes of a file are: change them to let the Hub serve what it should not."""
        return self.root / "blobs" / (entry.sha256 or entry.oid)

    def files(self, revision: str = "main") -> dict[str, bytes]:
        """Bytes of every file at a revision, without the .gitattributes that the Hub adds."""
        entries = self.entries(revision)
        return {p: self.blob(e).read_bytes() for p, e in entries.items() if p != ".gitattributes"}

    def add_commit(self, ref: str, parent: str | None, title: str, author: str, changes: dict) -> str:
        """Commit `changes` (path → Entry, or None to delete it) onto `parent`, and let `ref` point to it."""
        files = dict(self.commit(parent)["files"]) if parent else {}
        for path, entry in changes.items():
            if entry is None:
                for old in [name for name in files if name == path or name.startswith(f"{path}/")]:
                    del files[old]
            else:
                files[path] = entry
        content = {
            "parent": parent,
            "title": title,
            "author": author,
            "date": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "files": {path: asdict(entry) for path, entry in sorted(files.items())},
        }
        text = json.dumps(content).encode()
        oid = hashlib.sha1(text, usedforsecurity=False).hexdigest()
        write_whole(self.folder / "commits" / f"{oid}.json", text)
        self.point(ref, oid)
        return oid


class Store:
    """All repos of the test Hub."""

    def __init__(self, root: Path):
        self.root = root

    def keep(self, content: bytes, is_large: bool = False) -> Entry:
        """Keep bytes under their hash."""
        size = len(content)
        if not is_large:
            entry = Entry(git_hash(content), size)
            write_whole(self.root / "blobs" / entry.oid, content)
            return entry
        sha256 = hashlib.sha256(content).hexdigest()
        write_whole(self.root / "blobs" / sha256, content)
        return self.large(sha256)

    def large(self, sha256: str) -> Entry:
        """A large file that has been uploaded before."""
        path = self.root / "blobs" / sha256
        if not path.exists():
            raise Refused(400, f"LFS pointer pointed to a file that does not exist: {sha256}")
        size = path.stat().st_size
        return Entry(git_hash(POINTER.format(sha256=sha256, size=size).encode()), size, sha256)

    def create(self, kind: str, name: str, author: str, private: bool, sdk: str | None = None) -> Repo:
        """A new repo, in place of none, with the first commit that the Hub makes."""
        repo = Repo(self.root, kind, name)
        settings = {"private": private, "gated": False, "sdk": sdk}
        write_whole(repo.folder / "refs.json", b"{}")
        write_whole(repo.folder / "repo.json", json.dumps(settings).encode())
        first = {".gitattributes": self.keep(b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n")}
        repo.add_commit("refs/heads/main", None, "initial commit", author, first)
        return repo

    def put(self, name: str, content: dict[str, bytes], author: str = "ada") -> Repo:
        """A private model repo with a commit of these files, made where there is none; nobody is asked."""
        repo = self.open("model", name) or self.create("model", name, author, private=True)
        changes = {path: self.keep(data) for path, data in content.items()}
        repo.add_commit("refs/heads/main", repo.resolve("main"), "by anybody", author, changes)
        return repo

    def open(self, kind: str, name: str) -> Repo | None:
        """The repo of this name, if there is one."""
        repo = Repo(self.root, kind, name)
        return repo if (repo.folder / "repo.json").exists() else None

    def names(self) -> list[tuple[str, str]]:
        """(kind, "owner/name") of every repo."""
        found = sorted((self.root / "repos").glob("*/*/*/repo.json"))
        return [(path.parts[-4][:-1], "/".join(path.parts[-3:-1])) for path in found]
