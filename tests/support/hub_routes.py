"""What each address of the test Hub answers; `hub_server.py` brings the requests here."""

import base64
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from tests.support.hub_store import Refused, Repo, git_hash

if TYPE_CHECKING:
    from tests.support.hub_server import Hub

REPO = r"(?P<kind>models|datasets|spaces)/(?P<repo>[^/]+/[^/]+)"
FILE = r"(?:(?P<kind>datasets|spaces)/)?(?P<repo>[^/]+/[^/]+)"
ROUTES = [  # name, method, path: the first that fits
    ("whoami", "GET", "/api/whoami-v2"),
    ("create", "POST", "/api/repos/create"),
    ("delete", "DELETE", "/api/repos/delete"),
    ("validate", "POST", "/api/validate-yaml"),
    ("info", "GET", rf"/api/{REPO}(?:/revision/(?P<revision>[^/]+))?"),
    ("tree", "GET", rf"/api/{REPO}/tree/(?P<revision>[^/]+)(?:/(?P<path>.+))?"),
    ("paths", "POST", rf"/api/{REPO}/paths-info/(?P<revision>[^/]+)"),
    ("preupload", "POST", rf"/api/{REPO}/preupload/(?P<revision>[^/]+)"),
    ("commit", "POST", rf"/api/{REPO}/commit/(?P<revision>[^/]+)"),
    ("branch", "POST", rf"/api/{REPO}/branch/(?P<revision>[^/]+)"),
    ("batch", "POST", rf"/{FILE}\.git/info/lfs/objects/batch"),
    ("upload", "PUT", r"/lfs/(?P<path>[0-9a-f]{64})"),
    ("resolve", "GET", rf"/{FILE}/resolve/(?P<revision>[^/]+)/(?P<path>.+)"),
]
WRITES = ("preupload", "commit", "branch", "batch")


@dataclass(frozen=True)
class User:
    """Who a token speaks for, and whether it may write."""

    name: str
    role: str


class Routes:
    """One request; a route gives (status, content, headers), and finds `body`, `query` and `headers` set.

    A content of bytes goes as it is, anything else as JSON.
    """

    hub: "Hub"
    route: str
    body: bytes
    query: dict[str, str]
    is_head: bool
    headers: dict

    # Who asks, and for what

    def _user(self) -> User | None:
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ").strip()
        if token and token not in self.hub.users:
            raise Refused(401, "Invalid credentials in Authorization header")
        return self.hub.users.get(token)

    def _writer(self) -> User:
        user = self._user()
        if user is None:
            raise Refused(401, "Invalid username or password.")
        if user.role != "write":
            raise Refused(403, "Forbidden: this token may only read")
        return user

    def _repo(self, kind: str, name: str) -> Repo:
        """The repo asked for, where the token may do what it asks."""
        user = self._user()
        found = self.hub.store.open(kind, name)
        owns = user is not None and user.name == name.split("/")[0]
        if found is None or (found.settings["private"] and not owns):
            if user is None:
                raise Refused(401, "Invalid username or password.", "RepoNotFound")
            raise Refused(404, "Repository not found", "RepoNotFound")
        if found.settings["gated"] and not owns and self.route in ("resolve", "tree"):
            status = 401 if user is None else 403
            raise Refused(status, f"Access to {kind} {name} is restricted.", "GatedRepo")
        if self.route in WRITES:
            writer, asks = self._writer(), self.query.get("create_pr")
            if not (writer and owns) and not asks:
                raise Refused(403, f"Forbidden: you may not write to {name}")
        return found

    def _page(self, kind: str, repo: str) -> str:
        return f"{self.hub.endpoint}/{'' if kind == 'model' else f'{kind}s/'}{repo}"

    # Routes: each gives (status, content, headers)

    def _whoami(self) -> tuple:
        user = self._user()
        if user is None:
            raise Refused(401, "Invalid username or password.")
        auth = {"type": "access_token", "accessToken": {"displayName": "test", "role": user.role}}
        return 200, {"type": "user", "name": user.name, "fullname": user.name, "orgs": [], "auth": auth}, {}

    def _create(self) -> tuple:
        asked, user = json.loads(self.body), self._writer()
        owner, kind = asked.get("organization") or user.name, asked.get("type") or "model"
        if owner != user.name:
            raise Refused(403, f"Forbidden: you may not create a repo in the namespace {owner}")
        name = f"{owner}/{asked['name']}"
        url = self._page(kind, name)
        if self.hub.store.open(kind, name):
            raise Refused(409, f"You already created this {kind} repo: {name}", url=url)
        self.hub.store.create(kind, name, user.name, asked.get("visibility") == "private", asked.get("sdk"))
        return 200, {"url": url, "name": name}, {}

    def _delete(self) -> tuple:
        asked, user = json.loads(self.body), self._writer()
        name = f"{asked.get('organization') or user.name}/{asked['name']}"
        folder = self._repo(asked.get("type") or "model", name).folder
        folder.rename(folder.with_name(f".{folder.name}.deleted"))
        return 200, {}, {}

    def _validate(self) -> tuple:
        return 200, {"errors": [], "warnings": []}, {}

    def _info(self, kind: str, repo: str, revision: str = "main") -> tuple:
        found = self._repo(kind[:-1], repo)
        head = found.resolve(revision)
        siblings = []
        for path, entry in found.entries(head).items():
            large = {"size": entry.size, "sha256": entry.sha256, "pointerSize": 134} if entry.sha256 else None
            blob = {"size": entry.size, "blobId": entry.oid, **({"lfs": large} if large else {})}
            siblings.append({"rfilename": path, **(blob if "blobs" in self.query else {})})
        date = found.commit(head)["date"]
        about = {"lastModified": date, "createdAt": date, "tags": [], "downloads": 0, "likes": 0}
        named = {"_id": "0", "id": repo, "author": repo.split("/")[0], "sha": head, "disabled": False}
        return 200, {**named, **found.settings, **about, "siblings": siblings}, {"X-Repo-Commit": head}

    def _tree(self, kind: str, repo: str, revision: str, path: str = "") -> tuple:
        found = self._repo(kind[:-1], repo)
        entries, within = found.entries(revision), f"{path}/" if path else ""
        if path and not any(name.startswith(within) for name in entries):
            raise Refused(404, f"{path} does not exist", "EntryNotFound")
        rows = {}
        for name, entry in entries.items():
            if not name.startswith(within):
                continue
            parts = name.removeprefix(within).split("/")
            for depth in range(1, len(parts)):
                folder = within + "/".join(parts[:depth])
                rows[folder] = {
                    "type": "directory",
                    "oid": git_hash(folder.encode()),
                    "size": 0,
                    "path": folder,
                }
            rows[name] = _describe(name, entry)
        deep = self.query.get("recursive", "false").lower() == "true"
        shown = [row for name, row in rows.items() if deep or "/" not in name.removeprefix(within)]
        return 200, shown, {}

    def _paths(self, kind: str, repo: str, revision: str) -> tuple:
        entries = self._repo(kind[:-1], repo).entries(revision)
        if "json" in self.headers.get("Content-Type", ""):
            asked = json.loads(self.body)["paths"]
        else:
            asked = parse_qs(self.body.decode()).get("paths", [])
        return 200, [_describe(path, entries[path]) for path in asked if path in entries], {}

    def _preupload(self, kind: str, repo: str, revision: str) -> tuple:
        entries = self._repo(kind[:-1], repo).entries(revision)
        files = []
        for file in json.loads(self.body)["files"]:
            large = self.hub.large_from is not None and file["size"] >= self.hub.large_from
            there = entries.get(file["path"])
            oid = there and (there.sha256 or there.oid)
            mode = "lfs" if large else "regular"
            files.append({"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        return 200, {"files": files}, {}

    def _batch(self, repo: str, kind: str = "models") -> tuple:
        self._repo(kind[:-1], repo)
        objects = []
        for asked in json.loads(self.body)["objects"]:
            known = (self.hub.store.root / "blobs" / asked["oid"]).exists()
            upload = {"upload": {"href": f"{self.hub.endpoint}/lfs/{asked['oid']}"}}
            objects.append({**asked, **({} if known else {"actions": upload})})
        return 200, {"transfer": "basic", "objects": objects}, {}

    def _upload(self, path: str) -> tuple:
        entry = self.hub.store.keep(self.body, is_large=True)  # a signed address: no token
        if entry.sha256 != path:
            raise Refused(400, "the bytes have another sha256")
        return 200, {}, {}

    def _commit(self, kind: str, repo: str, revision: str) -> tuple:
        found, store = self._repo(kind[:-1], repo), self.hub.store
        lines = [json.loads(line) for line in self.body.splitlines() if line.strip()]
        header = next(line["value"] for line in lines if line["key"] == "header")
        parent = found.resolve(revision)
        if header.get("parentCommit") not in (None, parent):
            raise Refused(412, "A commit has happened since. Please refresh and try again.")
        changes: dict = {}
        for key, value in ((line["key"], line["value"]) for line in lines):
            if key == "file":
                changes[value["path"]] = store.keep(base64.b64decode(value["content"]))
            elif key == "lfsFile":
                changes[value["path"]] = store.large(value["oid"])
            elif key in ("deletedFile", "deletedFolder"):
                changes[value["path"].rstrip("/")] = None
        ref, request = f"refs/heads/{revision}", None
        if self.query.get("create_pr"):
            number = 1 + sum(name.startswith("refs/pr/") for name in found.refs)
            ref, request = f"refs/pr/{number}", f"{self._page(kind[:-1], repo)}/discussions/{number}"
        elif revision in found.refs:
            ref = revision
        oid = found.add_commit(ref, parent, header["summary"], self._writer().name, changes)
        url = f"{self._page(kind[:-1], repo)}/commit/{oid}"
        return 200, {"success": True, "commitOid": oid, "commitUrl": url, "pullRequestUrl": request}, {}

    def _branch(self, kind: str, repo: str, revision: str) -> tuple:
        found = self._repo(kind[:-1], repo)
        if f"refs/heads/{revision}" in found.refs:
            raise Refused(409, f"Reference already exists: {revision}")
        start = json.loads(self.body or b"{}").get("startingPoint") or "main"
        found.point(f"refs/heads/{revision}", found.resolve(start))
        return 200, {}, {}

    def _resolve(self, repo: str, revision: str, path: str, kind: str = "models") -> tuple:
        found = self._repo(kind[:-1], repo)
        head = found.resolve(revision)
        entry = found.entries(head).get(path)
        if entry is None:
            raise Refused(404, f"{path} does not exist", "EntryNotFound", {"X-Repo-Commit": head})
        content = found.blob(entry).read_bytes()
        headers = {"ETag": f'"{entry.sha256 or entry.oid}"', "X-Repo-Commit": head, "Accept-Ranges": "bytes"}
        if self.is_head:  # the size that the commit knows, whatever the disk holds
            headers |= {"X-Linked-Size": entry.size, "X-Linked-Etag": headers["ETag"]}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if not asked:
            return 200, content, headers
        start, end = int(asked[1]), int(asked[2] or len(content) - 1)
        headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
        return 206, content[start : end + 1], headers


def _describe(path: str, entry) -> dict:
    """A file as the tree lists it."""
    row = {"type": "file", "path": path, "oid": entry.oid, "size": entry.size}
    if entry.sha256:
        row["lfs"] = {"oid": entry.sha256, "size": entry.size, "pointerSize": 134}
    return row
