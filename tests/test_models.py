"""``audio-chat-completions`` against a real server: lazy requests, answers kept at once, answers that can't be had."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import pickle

import pytest
from lm_eval.api.instance import Instance
from lm_eval.api.model import CachingLM
from lm_eval.models.api_models import JsonChatStr
from servers import DROP, Answer, refused, said

from lm_eval_tasks.audio.clips import AudioRef, inspect_audio
from lm_eval_tasks.errors import ModelUnavailable
from lm_eval_tasks.harness.chat import with_audio
from lm_eval_tasks.models.api import AudioChatCompletions
from lm_eval_tasks.runs.answers import Unanswered

OPTIONS = {"until": ["<|end|>", "END."], "do_sample": False, "max_gen_toks": 64}


@pytest.fixture
def make_model(server):
    def make(**options):
        options = {"patience": 1, **options}
        return AudioChatCompletions(base_url=f"{server.url('model')}/chat/completions", model="m", **options)

    return make


def text_request(number: int, **marks) -> Instance:
    chat = JsonChatStr(json.dumps([{"role": "user", "content": f"question {number}"}]))
    request = Instance("generate_until", {"id": number}, (chat, dict(OPTIONS)), 0, ("some_task", number, 1))
    vars(request).update(marks)
    return request


def text_requests(count: int, **marks) -> list[Instance]:
    return [text_request(number, **marks) for number in range(count)]


@pytest.fixture
def audio_request(tmp_path):
    def make(number: int, part: str = "input_audio", **marks) -> Instance:
        from conftest import write_tone

        clip = AudioRef(inspect_audio(write_tone(tmp_path / f"clip {number}.wav", 200 + number)))
        request = text_request(number, may_stay_unanswered=True, **marks)
        request.arguments = (with_audio(request.arguments[0], [clip], part, None), dict(OPTIONS))
        return request

    return make


def echo(asked):
    return f"answer to {asked.text}"


def numbered(count: int) -> list[str]:
    return [f"answer to question {number}" for number in range(count)]


# What is sent


def test_a_text_request_is_what_local_chat_completions_sends(server, make_model):
    server.script("model", echo)
    assert make_model(num_concurrent=1).generate_until(text_requests(3)) == numbered(3)
    body = server.asked["model"][0].body
    assert body["messages"] == [{"role": "user", "content": "question 0"}]
    assert {key: body[key] for key in ("model", "max_tokens", "temperature", "stop", "seed")} == {
        "model": "m",
        "max_tokens": 64,
        "temperature": 0,
        "stop": ["END."],  # a chat server ends a turn at its own marks
        "seed": 1234,
    }
    assert "do_sample" not in body


@pytest.mark.parametrize("part", ["input_audio", "input_audio_data_uri", "audio_url", "file_url"])
def test_a_clip_is_sent_byte_for_byte_or_by_its_name(server, make_model, audio_request, tmp_path, part):
    server.script("model", echo)
    request, file = audio_request(1, part), tmp_path / "clip 1.wav"
    make_model().generate_until([request])
    sent, text = server.asked["model"][0].body["messages"][0]["content"]
    assert text == {"type": "text", "text": "question 1"}
    if part == "file_url":
        assert sent == {"type": "audio_url", "audio_url": {"url": file.as_uri()}}
        return
    assert server.asked["model"][0].body["messages"] == json.loads(request.args[0].prompt)  # as the stock model
    data = sent["audio_url"]["url"] if part == "audio_url" else sent["input_audio"]["data"]
    assert data.startswith("data:audio/wav;base64,") == (part != "input_audio")
    assert base64.b64decode(data.rpartition(",")[2]) == file.read_bytes()


def test_the_key_and_a_header_of_ones_own_are_sent(server, make_model, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    server.script("model", echo)
    make_model().generate_until(text_requests(1))
    assert server.asked["model"][0].headers["Authorization"] == "Bearer sk-1"
    make_model(header={"X-Own": "yes"}).generate_until(text_requests(1))
    assert {k.lower(): v for k, v in server.asked["model"][1].headers.items()}["x-own"] == "yes"


# When


def test_at_most_num_concurrent_requests_exist_and_they_are_all_in_flight(server, make_model, audio_request):
    alive, most = set(), []

    class Counting(AudioChatCompletions):
        def request_of(self, chat, gen_kwargs):
            alive.add(chat.small)
            most.append(len(alive))
            return super().request_of(chat, gen_kwargs)

    server.script("model", lambda asked: said(echo(asked), delay=0.02))
    requests = [audio_request(number) for number in range(30)]
    small = {id(request): request.args[0].small for request in requests}
    for request in requests:
        request.on_answer = lambda request, _: alive.discard(small[id(request)])
    model = Counting(base_url=f"{server.url('model')}/chat/completions", model="m", num_concurrent=4)
    assert model.generate_until(requests) == numbered(30)
    assert max(most) == 4 == server.peak["model"]


def test_it_works_beside_a_running_event_loop(server, make_model):
    server.script("model", echo)

    async def notebook():
        return make_model().generate_until(text_requests(2))

    assert asyncio.run(notebook()) == numbered(2)


def test_each_answer_is_handed_on_the_moment_it_is_there_and_given_in_order(server, make_model):
    server.script("model", lambda asked: said(echo(asked), delay=0.1 if asked.text.endswith("0") else 0.0))
    heard = []
    requests = text_requests(8)
    for request in requests:
        request.on_answer = lambda _, answer: heard.append(answer)
    assert make_model(num_concurrent=8).generate_until(requests) == numbered(8)
    assert sorted(heard) == numbered(8) and heard[-1] == "answer to question 0"


# What is read


def test_reasoning_is_cut_off_and_null_is_empty(server, make_model):
    server.script("model", "hm</think> yes", said(None))
    assert make_model(think_end_token="</think>").generate_until(text_requests(2)) == ["yes", ""]


# Answers that can't be had


def refusing(number: int, status: int = 400, words: str = "bad clip"):
    return lambda asked: refused(status, words) if asked.text.endswith(f" {number}") else echo(asked)


@pytest.mark.parametrize(
    ("status", "reason", "calls"),
    [
        *((status, f"request refused (HTTP {status})", 1) for status in (400, 413, 415, 422)),
        (403, "content filter", 1),
        (500, "HTTP 500", 3),
        (None, "audio gone or damaged", 0),
    ],
)
def test_a_request_without_an_answer_says_why_and_the_others_are_answered(
    server, make_model, audio_request, tmp_path, status, reason, calls
):
    words = "content policy" if status == 403 else "bad clip"
    server.script("model", refusing(1, status, words) if status else echo)
    requests = [audio_request(number) for number in range(4)]
    if not status:
        (tmp_path / "clip 1.wav").unlink()
    answers = make_model(num_concurrent=1, max_retries=2).generate_until(requests)  # which has taken one before
    assert isinstance(answers[1], Unanswered) and answers[1].reason == reason
    assert [answers[number] for number in (0, 2, 3)] == [numbered(4)[number] for number in (0, 2, 3)]
    assert server.texts("model").count("question 1") == calls
    assert requests[1].args[1]["unanswered"] == reason
    if status:
        assert answers[1].detail == requests[1].args[1]["why"] == words


def test_a_task_that_needs_every_answer_gets_an_error_after_the_others(server, make_model):
    server.script("model", refusing(0))
    told: list[None] = []  # those who take answers at once, that no more will come
    with pytest.raises(ModelUnavailable, match=r"1 of 3 requests have no answer: .*: 1 \(some_task doc 0\)"):
        make_model().generate_until(text_requests(3, on_break_off=lambda: told.append(None)))
    assert len(told) == 1


def test_an_answer_that_could_not_be_had_is_asked_for_again_next_time(server, make_model, tmp_path):
    cache = str(tmp_path / "cache.db")
    server.script("model", refusing(1))
    first = CachingLM(make_model(), cache).generate_until(text_requests(3, may_stay_unanswered=True))
    assert [isinstance(answer, Unanswered) for answer in first] == [False, True, False]
    server.script("model", echo)
    server.forget()
    assert CachingLM(make_model(), cache).generate_until(text_requests(3)) == numbered(3)
    assert server.texts("model") == ["question 1"]


def test_unanswered_is_empty_text_that_survives_copying_with_its_reason():
    for other in (copy.deepcopy(Unanswered("x")), pickle.loads(pickle.dumps(Unanswered("x")))):
        assert other == "" and other.reason == "x" and isinstance(other, Unanswered)


# Faults that concern all


@pytest.mark.parametrize("count", [1, 30])
def test_refused_requests_of_a_run_that_is_resumed_are_no_error(server, make_model, tmp_path, count):
    server.script("model", lambda asked: refused(400, "bad clip") if asked.text[-2:] > " 2" else echo(asked))
    for _ in range(2):
        model = CachingLM(make_model(), str(tmp_path / "cache.db"))
        requests = text_requests(3, may_stay_unanswered=True)
        answers = model.generate_until(requests + text_requests(30 + count, may_stay_unanswered=True)[30:])
        assert [isinstance(answer, Unanswered) for answer in answers] == [False] * 3 + [True] * count


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (refused(401, "no such thing, sk-secret"), r"HTTP 401 .*no such thing"),
        (refused(402, "no such thing"), r"HTTP 402 .*no such thing"),
        (Answer(307, headers={"Location": "http://127.0.0.1:9/chat/completions"}), "redirects elsewhere"),
    ],
    ids=["key", "credit", "redirect"],
)
def test_a_permanent_fault_ends_the_run_with_one_call(server, make_model, monkeypatch, caplog, step, told):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    server.script("model", step)
    with pytest.raises(ModelUnavailable, match=told) as raised:
        make_model(num_concurrent=1).generate_until(text_requests(9, may_stay_unanswered=True))
    assert server.calls("model") == 1 and "sk-secret" not in str(raised.value) + caplog.text


def test_a_server_that_dies_half_way_keeps_what_it_answered(server, make_model, tmp_path, caplog):
    cache = str(tmp_path / "cache.db")
    server.script("model", *[echo] * 5, then=DROP)
    answers = CachingLM(make_model(), cache).generate_until(text_requests(50, may_stay_unanswered=True))
    assert answers[:5] == numbered(5) and all(isinstance(answer, Unanswered) for answer in answers[5:])
    assert "stopped answering" in caplog.text
    assert "45 of 50 REQUESTS HAVE NO ANSWER" in caplog.text
    server.script("model", echo)
    server.forget()
    assert CachingLM(make_model(), cache).generate_until(text_requests(50)) == numbered(50)
    assert server.calls("model") == 45


def test_a_server_that_hangs_is_given_up_in_bounded_time(server, make_model):
    server.script("model", said("late", delay=30))
    model = make_model(num_concurrent=8, timeout=1, max_retries=1, patience=1)
    with pytest.raises(ModelUnavailable, match="no answer within timeout=1 s"):
        model.generate_until(text_requests(40, may_stay_unanswered=True))
    assert server.calls("model") <= 16  # the eight, and what the quicker of them began before the last was given up


def test_without_a_chat_template_there_is_one_clear_error(make_model):
    request = Instance("generate_until", {}, ("plain text", dict(OPTIONS)), 0, ("some_task", 0, 1))
    with pytest.raises(ValueError, match="--apply_chat_template"):
        make_model().generate_until([request])


def test_an_unexpected_error_calls_off_the_rest(server, make_model):
    server.script("model", lambda asked: said(echo(asked), delay=0.05))
    requests = text_requests(40)
    requests[0].on_answer = lambda *_: 1 / 0
    with pytest.raises(ZeroDivisionError):
        make_model(num_concurrent=2).generate_until(requests)
    assert server.calls("model") < 10
