"""A loopback server that speaks the protocols of both hubs, for the hubs' own client libraries.

Hugging Face: ``/api/datasets/ID/revision/REV`` and ``/tree/REV``, ``/datasets/ID/resolve/REV/FILE``. ModelScope:
``/api/v1/datasets/ID``, ``/repo/tree`` and ``/repo``. Audio is redirected to a store of large files, as both do.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from hub_listings import LARGE, git_sha, hf_entry, hf_folders, modelscope_entries, sha256


@dataclass
class Repo:
    """A data set repository: commits (path -> content) and the names of revisions."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def commit(self, files: dict[str, bytes], *names: str) -> str:
        """Add a commit and let these revisions (default: ``main`` and ``master``) point to it."""
        sha = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.commits[sha] = files
        self.names |= dict.fromkeys(names or ("main", "master"), sha)
        return sha

    def resolve(self, revision: str) -> str | None:
        """The commit behind a name or a commit's own hash."""
        return self.names.get(revision, revision if revision in self.commits else None)


class Hub:
    """A running hub.

    Attributes:
        repos: id -> repository.
        log: every request as (method, path and query, headers).
        refuse: called with the request's path; an HTTP status makes it fail.
        cut: file name -> how many bytes of it are sent before the connection is closed, once.
    """

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.log: list[tuple[str, str, dict[str, str]]] = []
        self.refuse: Callable[[str], int | None] = lambda path: None
        self.cut: dict[str, int] = {}
        self.store: dict[str, tuple[str, bytes]] = {}
        self.port = 0
        self.gone = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(self, repo_id: str, files: dict[str, bytes], *names: str) -> str:
        """Commit files to a repository; returns the commit."""
        return self.repos.setdefault(repo_id, Repo()).commit(files, *names)

    def sent(self) -> Counter[str]:
        """How often each file's content was asked for."""
        found: Counter[str] = Counter()
        for method, target, _ in self.log:
            parts = urlsplit(target)
            if method != "GET":
                continue
            if parts.path.startswith("/store/"):
                found[self.store[parts.path.removeprefix("/store/")][0]] += 1
            elif match := re.search(r"/resolve/[^/]+/(.+)", parts.path):
                found[unquote(match[1])] += not match[1].lower().endswith(LARGE)
            elif parts.path.endswith("/repo"):
                name = parse_qs(parts.query)["FilePath"][0]
                found[name] += not name.lower().endswith(LARGE)
        return +found


def point_huggingface_to(url: str, monkeypatch: Any, *modules: Any) -> None:
    """Let the client of Hugging Face, which is imported already, ask another address.

    Args:
        modules: the client's ``constants`` and ``file_download``; older clients keep a copy in the second.
    """
    for module in modules:
        monkeypatch.setattr(module, "ENDPOINT", url, raising=False)
        template = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)


def folder_files(root: Path) -> dict[str, bytes]:
    """All files below a folder, by their path."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        if self.hub.gone:
            self.close_connection = True
            return
        self.hub.log.append((self.command, self.path, dict(self.headers)))
        status = self.hub.refuse(self.path)
        if status:
            self._json({"error": "refused", "Message": "refused", "Code": status, "RequestId": "x"}, status)
            return
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        path = unquote(parts.path)
        if path.startswith("/store/"):
            name, content = self.hub.store[path.removeprefix("/store/")]
            self._content(name, content, {"ETag": f'"{sha256(content)}"'})
        elif match := re.fullmatch(r"/api/v1/datasets/([^/]+/[^/]+|\d+)(|/repo|/repo/tree)", path):
            self._modelscope(match[1], match[2], query)
        elif match := re.fullmatch(
            r"/api/datasets/([^/]+/[^/]+)(?:/(revision|tree|paths-info)/([^/]+))?(?:/(.*))?", path
        ):
            self._hf_api(match[1], match[2] or "revision", match[3] or "main", match[4] or "", query, body)
        elif match := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._hf_resolve(*match.groups())
        else:
            self._json({"error": "no such page"}, 404)

    # Hugging Face

    def _hf_commit(self, repo_id: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        repo = self.hub.repos.get(repo_id)
        commit = repo.resolve(revision) if repo else None
        if repo is None:  # the hub does not tell a stranger whether a repository is missing or private
            self._json({"error": "Invalid username or password."}, 401)
        elif commit is None:
            self._json({"error": "Invalid rev id"}, 404, {"X-Error-Code": "RevisionNotFound"})
        return (commit, repo.commits[commit]) if repo and commit else None

    def _hf_api(self, repo_id: str, what: str, revision: str, below: str, query: dict[str, str], body: bytes) -> None:
        found = self._hf_commit(repo_id, revision)
        if not found:
            return
        commit, files = found
        if what == "revision":
            siblings = [{"rfilename": path} for path in files]
            self._json({"id": repo_id, "sha": commit, "siblings": siblings, "private": False, "tags": []})
            return
        if what == "paths-info":
            asked = parse_qs(body.decode())["paths"] if b"{" not in body else json.loads(body)["paths"]
            listed = [path for path in files if path in asked]
            self._json([hf_entry(path, files[path]) for path in listed] + hf_folders(files, lambda f: f in asked))
            return
        prefix = f"{below}/" if below else ""
        deep = query.get("recursive", "").lower() in ("true", "1")
        inside = [path for path in files if path.startswith(prefix) and (deep or "/" not in path[len(prefix) :])]
        folders = hf_folders(
            files, lambda folder: folder.startswith(prefix) and (deep or "/" not in folder[len(prefix) :])
        )
        if below and not inside and not folders:
            self._json({"error": "no such entry"}, 404, {"X-Error-Code": "EntryNotFound"})
            return
        self._json([hf_entry(path, files[path]) for path in inside] + folders)

    def _hf_resolve(self, repo_id: str, revision: str, path: str) -> None:
        found = self._hf_commit(repo_id, revision)
        if not found:
            return
        commit, files = found
        about = {"X-Repo-Commit": commit}
        if path not in files:
            self._json({"error": "no such entry"}, 404, about | {"X-Error-Code": "EntryNotFound"})
            return
        content = files[path]
        if not path.lower().endswith(LARGE):
            self._content(path, content, about | {"ETag": f'"{git_sha(content)}"'})
            return
        about |= {"X-Linked-Etag": f'"{sha256(content)}"', "X-Linked-Size": str(len(content))}
        self._redirect(path, content, about)

    # ModelScope

    def _modelscope(self, repo_id: str, what: str, query: dict[str, str]) -> None:
        ids = list(self.hub.repos)
        repo_id = ids[int(repo_id)] if repo_id.isdigit() else repo_id
        repo = self.hub.repos.get(repo_id)
        commit = repo.resolve(query.get("Revision", "master")) if repo else None
        if repo is None or commit is None:
            self._json({"Code": 10010205001, "Message": "not found", "RequestId": "x", "Success": False}, 404)
            return
        files = repo.commits[commit]
        if not what:
            owner, name = repo_id.split("/")
            self._modelscope_data({"Id": ids.index(repo_id), "Type": 1, "Name": name, "Namespace": owner})
        elif what == "/repo/tree":
            entries = modelscope_entries(files, query.get("Root", "").strip("/"))
            size = int(query.get("PageSize", 100))
            start = (int(query.get("PageNumber", 1)) - 1) * size
            self._modelscope_data({"Files": entries[start : start + size], "TotalCount": len(entries)})
        elif query["FilePath"] not in files:
            self._json({"Code": 404, "Message": "no such file", "RequestId": "x", "Success": False}, 404)
        elif query["FilePath"].lower().endswith(LARGE):
            self._redirect(query["FilePath"], files[query["FilePath"]], {})
        else:
            self._content(query["FilePath"], files[query["FilePath"]], {}, ranges=False)

    def _modelscope_data(self, data: Any) -> None:
        self._json({"Code": 200, "Success": True, "Message": "success", "RequestId": "x", "Data": data})

    # Answers

    def _redirect(self, path: str, content: bytes, headers: dict[str, str]) -> None:
        key = sha256(path.encode() + content)
        self.hub.store[key] = (path, content)
        # another host, as the hubs have it: clients follow a redirect to the same host at once
        self._json({}, 302, headers | {"Location": f"http://localhost:{self.hub.port}/store/{key}"})

    def _content(self, name: str, content: bytes, headers: dict[str, str], ranges: bool = True) -> None:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "") if ranges else None
        start, end = (int(match[1]), int(match[2] or len(content) - 1) + 1) if match else (0, len(content))
        self.send_response(206 if match else 200)
        if match:
            headers = headers | {"Content-Range": f"bytes {start}-{end - 1}/{len(content)}"}
        for key, value in {**headers, "Content-Length": str(end - start), "Accept-Ranges": "bytes"}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = self.hub.cut.pop(PurePosixPath(name).name, None)
        self.wfile.write(content[start:end][:cut])
        if cut is not None:
            self.close_connection = True

    def _json(self, data: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(data, ensure_ascii=False).encode()
        self.send_response(status)
        about = {"Content-Type": "application/json; charset=utf-8", "Content-Length": str(len(body))}
        for key, value in (about | (headers or {})).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A client that hangs up is no news."""


@contextlib.contextmanager
def running_hub() -> Iterator[Hub]:
    """A hub on a free port for the time of the block."""
    hub = Hub()
    server = _HttpServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="test-hub", daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.gone = True  # also for connections that are kept open
        server.shutdown()
        server.server_close()
        thread.join(10)
