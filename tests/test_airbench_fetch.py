"""Fetching AIR-Bench-Chat: the hubs' own clients against a server that speaks the hubs' protocols."""

from __future__ import annotations

import socket
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hub_server
import pytest
from airbench_runs import load_docs
from conftest import load_metadata, write_tone
from lm_eval.tasks import TaskManager

from lm_eval_tasks import INCLUDE_PATH
from lm_eval_tasks.airbench_chat import data
from lm_eval_tasks.data import hub
from lm_eval_tasks.data.huggingface import commit_of
from lm_eval_tasks.errors import DataError, NoDocs
from lm_eval_tasks.settings import AirBenchSettings

SPEECH = ("speech_QA",)


class Source:
    """One hub and its client, pointed at a server on the loopback interface."""

    def __init__(self, name: str, server: hub_server.Hub, point_to: Callable[[str], None]) -> None:
        self.name, self.server, self.point_to = name, server, point_to
        point_to(server.url)

    @property
    def repo(self) -> str:
        return hub.REPOSITORY[self.name]

    def settings(self, **options: Any) -> AirBenchSettings:
        return AirBenchSettings(source=self.name, **options)

    def fetch(self, *tasks: str, **options: Any) -> Path:
        self.server.log.clear()
        return hub.fetch(data.CHAT, self.settings(**options), tasks or SPEECH)

    def switch_off(self) -> None:
        """From now on nobody listens where the hub was."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        self.server.gone = True
        self.point_to(f"http://127.0.0.1:{port}")


@pytest.fixture
def server() -> Iterator[hub_server.Hub]:
    with hub_server.running_hub() as running:
        yield running


@pytest.fixture
def huggingface(server: hub_server.Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    from huggingface_hub import constants, file_download

    def point_to(url: str) -> None:
        hub_server.point_huggingface_to(url, monkeypatch, constants, file_download)

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)  # what arrives is kept in pieces of this size
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return Source("huggingface", server, point_to)


@pytest.fixture
def modelscope(server: hub_server.Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    pytest.importorskip("modelscope_hub", reason="needs modelscope>=1.38 (the extra `modelscope`)")
    from modelscope_hub import _legacy_api, set_default_config

    def point_to(url: str) -> None:
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", url)
        set_default_config(None)  # read the environment again

    monkeypatch.setenv("MODELSCOPE_CACHE", str(tmp_path / "ms"))
    monkeypatch.setenv("MODELSCOPE_HOME", str(tmp_path / "ms-home"))
    monkeypatch.setattr(_legacy_api, "REPO_TREE_PAGE_MAX_ATTEMPTS", 1)
    hub._out_of_reach.clear()
    return Source("modelscope", server, point_to)


@pytest.fixture(params=["huggingface", "modelscope"])
def source(request: pytest.FixtureRequest) -> Source:
    return request.getfixturevalue(request.param)


@pytest.fixture
def files(make_data: Callable[..., Path]) -> dict[str, bytes]:
    """What the hub holds: three tasks of two clips, and what nobody wants to download."""
    root = make_data("on the hub", speech_QA=2, sound_QA=2, speech_dialogue_QA=2)
    for seconds, clip in enumerate(sorted(root.rglob("*.wav")), 1):
        write_tone(clip, seconds=seconds / 10)  # no two are the same to a cache that goes by content
    write_tone(root / "Foundation" / "huge.wav")
    (root / "README.md").write_text("about", encoding="utf-8")
    return hub_server.folder_files(root)


def wanted(*tasks: str) -> Counter[str]:
    """The files of these tasks, once each."""
    folders = {"speech_QA": "iemocap", "sound_QA": "clotho", "speech_dialogue_QA": "spokenwoz"}
    clips = [f"Chat/{task}_{folders[task]}/clip {number}.wav" for task in tasks for number in range(2)]
    return Counter([data.CHAT.file, *clips])


def test_only_the_metadata_and_the_folders_asked_for_are_downloaded(source, files):
    source.server.add(source.repo, files)
    root = source.fetch("speech_QA")
    assert source.server.sent() == wanted("speech_QA")
    docs, left_out, *_ = load_docs(source.settings(), "speech_QA")
    assert [Path(doc["audio"]["path"]).read_bytes() for doc in docs] == [
        files[f"Chat/speech_QA_iemocap/clip {number}.wav"] for number in range(2)
    ]
    assert left_out == {}
    assert Path(docs[0]["audio"]["path"]).is_relative_to(root)


def test_a_second_call_downloads_nothing_and_another_task_only_its_own_folder(source, files):
    source.server.add(source.repo, files)
    first = source.fetch("speech_QA")
    assert source.fetch("speech_QA") == first
    assert source.server.sent() == Counter()
    assert source.fetch("speech_QA", "sound_QA") == first
    assert source.server.sent() == wanted("sound_QA") - Counter([data.CHAT.file])


def test_the_revision_is_passed_on_and_kept_apart(source, files):
    source.server.add(source.repo, {**files, data.CHAT.file: b"[]"}, "v1")
    source.server.add(source.repo, files)
    newest = source.fetch()
    assert load_metadata(source.fetch(revision="v1")) == []
    assert len(load_metadata(newest)) == 6
    assert any("v1" in target for _, target, _ in source.server.log)
    with pytest.raises(DataError, match="revision 'v9'"):
        source.fetch(revision="v9")


def test_an_interrupted_download_goes_on_where_it_stopped(source, files):
    clip = "Chat/speech_QA_iemocap/clip 1.wav"
    source.server.add(source.repo, files)
    source.server.cut["clip 1.wav"] = 1200
    try:
        root = source.fetch()
    except DataError as error:  # older clients of Hugging Face end here
        assert "goes on with what has arrived" in str(error)
        root = source.fetch()
    assert (root / clip).read_bytes() == files[clip]
    ranges = [header[key] for _, _, header in source.server.log for key in header if key.lower() == "range"]
    assert any(int(asked.removeprefix("bytes=").split("-")[0]) >= 1000 for asked in ranges)


@pytest.mark.parametrize(
    ("refuse", "told"),
    [
        (lambda path: 401, "on {} could not be fetched: .*local_path"),
        (lambda path: 403, "on {} could not be fetched: .*local_path"),
        (lambda path: 404, "on {} could not be fetched: .*local_path"),
        (lambda path: 403 if path.startswith("/store/") else None, "on {} could not be fetched"),
        (None, "on {} could not be fetched"),
        (lambda path: None, r"holds no Chat/Chat_meta\.json"),
    ],
    ids=["401", "403", "404", "in the middle", "off", "without metadata"],
)
def test_a_refusal_is_one_data_error_with_remedies_and_no_smaller_data_set(source, files, refuse, told):
    source.server.add(source.repo, {"README.md": b"moved"} if "holds no" in told else files)
    if refuse:
        source.server.refuse = refuse
    else:
        source.switch_off()
    with pytest.raises(DataError, match=told.format(source.name)) as caught:
        source.fetch()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 700


def test_without_a_network_an_earlier_download_is_used_where_it_is_whole(source, files):
    source.server.add(source.repo, files)
    root = source.fetch("speech_QA")
    source.switch_off()
    assert source.fetch("speech_QA") == source.fetch("speech_QA") == root
    assert len(load_docs(source.settings(), "speech_QA")[0]) == 2
    with pytest.raises(DataError):
        load_docs(source.settings(), "sound_QA")  # which was not fetched
    (root / "Chat" / "speech_QA_iemocap" / "clip 1.wav").unlink()
    with pytest.raises(DataError, match=r"not fetched yet: 1 clips.*lm-eval-tasks fetch air_bench_chat|could not be"):
        load_docs(source.settings(), "speech_QA")


def test_a_copy_of_some_clips_is_not_taken_for_all_where_the_hub_refuses_to_tell(huggingface, files, monkeypatch):
    huggingface.server.add(huggingface.repo, files)
    root = huggingface.fetch("speech_QA")
    huggingface.server.refuse = lambda path: 403 if "/api/" in path else None
    assert len(load_docs(huggingface.settings(), "speech_QA").docs) == 2  # all of it is here
    monkeypatch.setattr(hub, "snapshot", lambda *_: root)  # what clients before 2.0 return
    with pytest.raises(DataError, match=r"not fetched yet: 2 clips are not here .*sound_QA_clotho") as caught:
        load_docs(huggingface.settings(), "sound_QA")
    assert "fetch air_bench_chat --source huggingface --tasks sound_QA" in str(caught.value)


def test_what_the_hub_lacks_is_left_out_also_without_a_network(source, files, caplog):
    del files["Chat/speech_QA_iemocap/clip 0.wav"]
    source.server.add(source.repo, {path: file for path, file in files.items() if "/sound_QA_" not in path})
    with pytest.raises(NoDocs, match="missing: 2"):
        load_docs(source.settings(), "sound_QA")
    docs, left_out, *_ = load_docs(source.settings(), "speech_QA")
    assert (len(docs), left_out) == (1, {"missing": ["speech_QA_iemocap/clip 0.wav"]})
    assert "missing: 1 (speech_QA_iemocap/clip 0.wav)" in caplog.text
    source.switch_off()
    assert load_docs(source.settings(), "speech_QA").left_out == left_out


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_names_in_either_unicode_form_are_fetched_and_found(source, make_data, form):
    files = hub_server.folder_files(make_data("accents", speech_QA=1))
    other = "NFD" if form == "NFC" else "NFC"
    clip = files.pop("Chat/speech_QA_iemocap/clip 0.wav")
    files[data.CHAT.file] = files[data.CHAT.file].replace(b"clip 0", unicodedata.normalize(form, "thé 0").encode())
    files[f"Chat/speech_QA_iemocap/{unicodedata.normalize(other, 'thé 0')}.wav"] = clip
    source.server.add(source.repo, files)
    docs, *_ = load_docs(source.settings(), "speech_QA")
    assert Path(docs[0]["audio"]["path"]).read_bytes() == clip


def test_the_commit_goes_into_the_results(huggingface, files):
    commit = huggingface.server.add(huggingface.repo, files, "v1")
    settings = {"source": "huggingface", "revision": "v1", "judge_model": "j"}
    manager = TaskManager(include_path=INCLUDE_PATH, include_defaults=False, metadata=settings)
    task = manager.load(["air_bench_chat_speech_QA"])["tasks"]["air_bench_chat_speech_QA"]
    assert task.dump_config()["metadata"]["data_revision"] == commit
    assert task.settings_in_results().items() >= {"revision": "v1", "data_revision": commit}.items()
    assert commit_of(Path("/data/snapshots/master")) is commit_of(data.CHAT.sample) is None


def test_a_cache_of_links_can_be_read_and_left_by_no_name(huggingface, files):
    huggingface.server.add(huggingface.repo, files)
    root = huggingface.fetch()
    assert (root / "Chat" / "speech_QA_iemocap" / "clip 0.wav").is_symlink()
    assert len(load_docs(huggingface.settings(), "speech_QA")[0]) == 2
    files[data.CHAT.file] = files[data.CHAT.file].replace(b'"clip 0.wav"', b'"../../../blobs/x.wav"')
    huggingface.server.add(huggingface.repo, files)
    found = load_docs(huggingface.settings(), "speech_QA")
    assert (len(found.docs), list(found.left_out)) == (1, ["bad record: path leaves the data folder"])


def test_auto_takes_modelscope_where_it_is_installed(server, huggingface, files, request):
    expected = "modelscope" if find_spec("modelscope") else "huggingface"
    if expected == "modelscope":
        request.getfixturevalue("modelscope")
    for name in hub.REPOSITORY.values():
        server.add(name, files)
    hub.fetch(data.CHAT, AirBenchSettings(), SPEECH)
    assert all(hub.REPOSITORY[expected] in target for _, target, _ in server.log if "AIR-Bench" in target)
    assert server.sent() == wanted("speech_QA")


def test_modelscope_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "modelscope", None)
    with pytest.raises(DataError, match=r"pip install 'lm-eval-tasks\[modelscope\]'"):
        hub.fetch(data.CHAT, AirBenchSettings(source="modelscope"), SPEECH)
