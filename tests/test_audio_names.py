"""Clips found by the names that the metadata has, and never outside the data folder."""

from __future__ import annotations

import unicodedata

import pytest
from conftest import write_tone

from lm_eval_tasks.audio.clips import BadAudio, inspect_audio
from lm_eval_tasks.audio.find import find_audio

# Finding


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return path


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        ("a.wav", "a.wav"),
        ("a clip (1).wav", "a clip (1).wav"),
        ("a.WAV", "a.wav"),
        ("A.wav", "a.WAV"),
        (unicodedata.normalize("NFD", "caf\u00e9.wav"), unicodedata.normalize("NFC", "caf\u00e9.wav")),
        (unicodedata.normalize("NFC", "caf\u00e9.wav"), unicodedata.normalize("NFD", "caf\u00e9.wav")),
        (unicodedata.normalize("NFD", "CAF\u00c9.WAV"), "caf\u00e9.wav"),
        ("sub/a.wav", "sub/a.wav"),
        ("a.wav", "./a.wav"),
    ],
)
def test_a_name_is_found_in_another_case_or_unicode_form(tmp_path, there, asked):
    path = touch(tmp_path / "folder" / there)
    assert find_audio(tmp_path, "folder", asked) == str(path)


def test_the_exact_name_comes_before_one_that_is_alike(tmp_path):
    for name in ("a.wav", "A.wav"):
        touch(tmp_path / "folder" / name)
    assert find_audio(tmp_path, "folder", "A.wav") == str(tmp_path / "folder" / "A.wav")
    with pytest.raises(BadAudio, match=r"ambiguous: A\.wav, a\.wav"):
        find_audio(tmp_path, "folder", "a.WAV")
    with pytest.raises(BadAudio, match="ambiguous"):
        find_audio(tmp_path, "folder", "a.WAV", "b.wav")


def test_the_next_name_is_tried_where_one_is_missing_or_ambiguous(tmp_path):
    for name in ("a.flac", "A.flac", "a.wav"):
        touch(tmp_path / "folder" / name)
    for first in ("a.FLAC", "none.flac"):
        assert find_audio(tmp_path, "folder", first, "a.wav") == str(tmp_path / "folder" / "a.wav")


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        *(("folder", name) for name in ("none.wav", "a.wav.bak", "x" * 5000, "x" * 5000 + "/a.wav", "a/b.wav")),
        *(("folder", "\ud800.wav"), ("none", "a.wav")),
    ],
)
def test_what_is_not_there_is_missing(tmp_path, folder, name):
    touch(tmp_path / "folder" / "a.wav")
    with pytest.raises(BadAudio, match="missing"):
        find_audio(tmp_path, folder, name)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "../../x.wav", "a/../../../x.wav", "a\0.wav", "../.."]
)
def test_a_name_that_leaves_the_folder_is_refused(tmp_path, name):
    root = tmp_path / "data" / "Chat"
    touch(root / "folder" / "a.wav")
    touch(tmp_path / "data" / "x.wav")
    with pytest.raises(ValueError, match="leaves the data folder") as caught:
        find_audio(root, "folder", name)
    assert not isinstance(caught.value, BadAudio)


def test_a_folder_may_be_given_with_dots_and_from_where_one_is(tmp_path, monkeypatch):
    path = touch(tmp_path / "folder" / "a.wav")
    monkeypatch.chdir(tmp_path)
    for root in (".", tmp_path / "other" / ".."):
        assert find_audio(root, "folder", "a.wav") == str(path)
    with pytest.raises(ValueError, match="leaves the data folder"):
        find_audio("/", "", ".")


def test_a_link_to_a_file_elsewhere_is_followed_as_a_hubs_cache_needs_it(tmp_path):
    (tmp_path / "data" / "folder").mkdir(parents=True)
    (tmp_path / "data" / "folder" / "a.wav").symlink_to(write_tone(tmp_path / "blobs" / "0123", format="WAV"))
    assert inspect_audio(find_audio(tmp_path / "data", "folder", "a.wav"))["format"] == "wav"
