"""One table: what a response is, from status, body and headers alone."""

from __future__ import annotations

import json
import time
from email.utils import formatdate

import pytest
from servers import completion

from lm_eval_tasks.server import failures, replies
from lm_eval_tasks.server.outcome import Kind


@pytest.mark.parametrize(
    ("kind", "spellings"),
    [
        (Kind.REPLY, ["stop", "STOP", "end_turn", "eos", "stop_sequence", "FinishReason.STOP", "endTurn", None, ""]),
        (Kind.REPLY, ["FINISH_REASON_STOP", "EOS_TOKEN", "eos-token", "stop_token"]),
        (Kind.CUT, ["length", "MAX_TOKENS", "max_tokens", "model_length", "maxTokens", "max_output_tokens"]),
        (Kind.CUT, ["FinishReason.MAX_TOKENS", "max_completion_tokens", "model_context_window_exceeded"]),
        (Kind.REFUSED, ["content_filter", "SAFETY", "data_inspection_failed", "RECITATION", "PROHIBITED_CONTENT"]),
        (
            Kind.BROKEN,
            ["error", "abort", "aborted", "cancelled", "OTHER", "timeout", "whatever", 7, True, ["stop"], {}],
        ),
    ],
)
def test_a_finish_reason_is_told_however_it_is_spelled(kind, spellings):
    for spelled in spellings:
        found = replies.read(200, {}, json.dumps(completion("9 1", spelled).body).encode())
        assert found.kind is kind, spelled


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, {"error": {"message": "slow down", "code": 429}}, Kind.BUSY),
        (200, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, Kind.BUSY),
        (200, {"error": {"message": "no", "code": 401}}, Kind.HOPELESS),
        (200, {"error": {"message": "no", "type": "insufficient_quota"}}, Kind.HOPELESS),
        (200, {"error": {"message": "bad image", "code": 400}}, Kind.REFUSED),
        (200, {"error": "overloaded"}, Kind.BROKEN),
        (200, {"object": "error", "message": "too many", "code": 429}, Kind.BUSY),
        (200, {"object": "error", "choices": [{"message": {"content": "9 1"}, "finish_reason": "stop"}]}, Kind.BROKEN),
        (200, {"choices": [{"error": {"code": 502, "message": "x"}, "message": {"content": "8"}}]}, Kind.LOST),
        (200, {"choices": None}, Kind.BROKEN),
        (200, {"choices": [{"message": None}]}, Kind.BROKEN),
        (200, {"error": 7, "choices": [{"finish_reason": "stop", "message": {"content": "8 6"}}]}, Kind.BROKEN),
        (200, {"error": None, "choices": [{"finish_reason": "stop", "message": {"content": "8 6"}}]}, Kind.REPLY),
        (200, {"choices": [{"finish_reason": "stop", "message": {"content": {"value": "8 6"}}}]}, Kind.BROKEN),
        (200, {"choices": [{"finish_reason": "stop", "message": {"role": "assistant"}}]}, Kind.BROKEN),
        (200, {"choices": [{"message": {"content": None}}]}, Kind.BROKEN),
        (200, {"choices": [{"finish_reason": "stop", "message": {"content": None}}]}, Kind.REPLY),
        (200, {"choices": [{"finish_reason": "stop", "message": {"content": ""}}]}, Kind.REPLY),
        (200, "8 6", Kind.BROKEN),
        (301, "<html>", Kind.HOPELESS),
        (101, "", Kind.LOST),
        (304, "", Kind.LOST),
        (200, {"error": {"message": "x", "code": 336}}, Kind.BROKEN),
        (401, {"error": {"message": "no"}}, Kind.HOPELESS),
        (402, "", Kind.HOPELESS),
        (403, {"error": {"message": "no"}}, Kind.REFUSED),
        (404, "<html>", Kind.REFUSED),
        (400, {"error": {"message": "x", "code": "budget_exceeded"}}, Kind.HOPELESS),
        (400, {"error": {"message": "x", "type": "Arrearage"}}, Kind.HOPELESS),
        (403, {"error": {"message": "Your account balance is insufficient"}}, Kind.HOPELESS),
        (400, {"error": {"message": "Your credit balance is too low to access the API"}}, Kind.HOPELESS),
        (429, {"error": {"message": "x", "code": "insufficient_quota"}}, Kind.HOPELESS),
        (429, {"error": {"message": "Quota exceeded for requests per minute"}}, Kind.BUSY),
        (429, "", Kind.BUSY),
        (503, "", Kind.BUSY),
        (408, "", Kind.LOST),
        (500, "", Kind.LOST),
        (400, {"error": {"message": "Could not finish the message because max_tokens was reached"}}, Kind.CUT),
        (413, "", Kind.REFUSED),
        (422, {"detail": [{"msg": "field required"}]}, Kind.REFUSED),
        (421, "", Kind.LOST),
        (424, "", Kind.LOST),
        (400, {"__type": "ThrottlingException", "message": "slow down"}, Kind.BUSY),
        (403, {"error": {"code": 403, "errors": [{"reason": "rateLimitExceeded"}]}}, Kind.BUSY),
        (403, {"error": {"code": 403, "details": [{"reason": "RATE_LIMIT_EXCEEDED"}]}}, Kind.BUSY),
        (429, {"error": {"type": "exceeded_current_quota_error", "message": "suspended"}}, Kind.HOPELESS),
        (429, {"error": {"code": "1113", "message": "\u60a8\u7684\u8d26\u6237\u5df2\u6b20\u8d39"}}, Kind.HOPELESS),
        (429, {"error": {"code": "rate_limit_exceeded", "message": "Request too large for m (TPM)"}}, Kind.REFUSED),
        (403, {"error": {"code": "insufficient_user_quota"}}, Kind.HOPELESS),
        (400, [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}], Kind.HOPELESS),
        (400, {"error": {"message": "AuthenticationError: Incorrect API key provided: sk-x"}}, Kind.HOPELESS),
        (400, {"error": {"message": "no such model; names are case-sensitive"}}, Kind.REFUSED),
        (200, {"error": {"code": 0, "message": ""}, "choices": [{"message": {"content": "8 6"}}]}, Kind.REPLY),
        (200, {"choices": [{"finish_reason": "content_filter"}]}, Kind.REFUSED),
        (200, {"choices": [{"finish_reason": "MAX_TOKENS"}]}, Kind.CUT),
        (200, {"choices": [{"finish_reason": "stop"}]}, Kind.BROKEN),
        (200, {"choices": [{"message": {"content": "", "function_call": {"name": "x"}}}]}, Kind.BROKEN),
        (200, {"choices": [{"finish_reason": "stop", "message": {"content": None, "audio": {"id": 1}}}]}, Kind.BROKEN),
        (200, {"type": "about:blank", "title": "Too Many Requests", "status": 429, "detail": "slow"}, Kind.BUSY),
        (200, {"errors": [{"message": "slow", "code": 429}]}, Kind.BUSY),
        (200, [{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}], Kind.BUSY),
        (200, {"success": False, "code": 429, "msg": "limit", "data": None}, Kind.BUSY),
        (200, {"error": True, "code": 429.0, "message": "limit"}, Kind.BUSY),
        (200, {"error": {"error": {"code": 429, "message": "slow"}}}, Kind.BUSY),
        (200, {"detail": {"error": {"statusCode": 429}}}, Kind.BUSY),
        (200, {"choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, Kind.BUSY),
        (200, {"error": {"message": "Rate limit exceeded, please slow down"}}, Kind.BUSY),
        (200, {"choices": [{"finish_reason": "stop", "message": {"content": "8 6", "error": "died"}}]}, Kind.BROKEN),
        (200, {"object": "chat.completion.chunk", "choices": [{"message": {"content": "9 1"}}]}, Kind.BROKEN),
        (200, {"choices": [{"finishReason": "MAX_TOKENS", "message": {"content": "9 1"}}]}, Kind.CUT),
        (200, {"choices": [{"message": {"content": "9 1", "finish_reason": "length"}}]}, Kind.CUT),
        (200, {"finish_reason": "length", "choices": [{"message": {"content": "9 1"}}]}, Kind.CUT),
        (200, {"status": "incomplete", "choices": [{"message": {"content": "9 1"}}]}, Kind.CUT),
    ],
)
def test_a_response_is_one_of_the_kinds(status, body, kind):
    raw = body if isinstance(body, str) else json.dumps(body)
    assert replies.read(status, {}, raw.encode()).kind is kind


@pytest.mark.parametrize(
    "raw",
    [
        b"\xff\xfe{",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"choices": [{"index": ' + b"9" * 5000 + b"}]}",
        b"x" * (20 << 20),
    ],
)
def test_bytes_that_are_no_reply_are_broken_at_once(raw):
    begun = time.monotonic()
    assert replies.read(200, {}, raw).kind is Kind.BROKEN
    assert replies.read(400, {}, raw).kind is Kind.REFUSED
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize(
    ("finish", "written", "kind"),
    [(None, 3, Kind.CUT), (None, 9, Kind.CUT), ("stop", 3, Kind.CUT), ("stop", 2, Kind.REPLY), ("stop", 9, Kind.REPLY)],
)
def test_a_limit_that_was_used_up_is_a_cut_whatever_the_finish_reason(finish, written, kind):
    body = {**completion("9 1", finish).body, "usage": {"completion_tokens": written}}
    assert replies.read(200, {}, json.dumps(body).encode(), max_tokens=3).kind is kind


@pytest.mark.parametrize(
    ("beside", "kind"),
    [
        ({"native_finish_reason": "MAX_TOKENS"}, Kind.CUT),
        ({"native_finish_reason": "SAFETY"}, Kind.REFUSED),
        ({"native_finish_reason": "error"}, Kind.BROKEN),
        ({"native_finish_reason": "MALFORMED_RESPONSE"}, Kind.BROKEN),
        ({"native_finish_reason": "eos_found"}, Kind.REPLY),
        ({"done_reason": "length"}, Kind.CUT),
        ({"stop_reason": "max_tokens"}, Kind.CUT),
        ({"stop_reason": "\n\n"}, Kind.REPLY),
        ({"stop_reason": 151645}, Kind.REPLY),
        ({"finish_details": {"type": "max_tokens"}}, Kind.CUT),
        ({"status": "in_progress"}, Kind.BROKEN),
        ({"truncated": True}, Kind.CUT),
        ({"stopped_limit": True}, Kind.CUT),
        ({"stop_type": "limit"}, Kind.CUT),
        ({"provider_specific_fields": {"native_finish_reason": "MAX_TOKENS"}}, Kind.CUT),
    ],
)
def test_what_is_said_beside_a_finish_reason_counts_where_it_is_worse(beside, kind):
    assert replies.read(200, {}, json.dumps(completion("9 1", **beside).body).encode()).kind is kind


def test_of_several_choices_the_first_by_its_index_is_read():
    others = [{"index": n, "finish_reason": "stop", "message": {"content": f"{n} {n}"}} for n in (2, 1, 0)]
    assert replies.read(200, {}, json.dumps({"choices": others}).encode()).text == "0 0"


def test_parts_that_are_no_text_of_the_reply_are_left_out():
    kinds = [
        {"type": "text", "thought": True},
        {"type": "summary_text"},
        {"type": "tool_result"},
        {"type": "reasoning"},
    ]
    parts = [*({**kind, "text": "1 1"} for kind in kinds), {"type": "output_text", "text": "8 6"}]
    assert replies.read(200, {}, json.dumps(completion(parts).body).encode()).text == "8 6"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "150"}, 150),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "2500"}, 2.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({}, None),
    ],
    ids=["seconds", "fraction", "milliseconds", "words", "negative", "none"],
)
def test_retry_after_is_read_in_all_its_forms(headers, seconds):
    assert failures.wait_of(headers) == seconds


def test_retry_after_may_be_a_date():
    date = formatdate(time.time() + 300, usegmt=True)
    assert 290 < failures.wait_of({"retry-after": date}) <= 300
