"""What an error of a server means: from its status, its code, and last its words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from lm_eval_tasks.server.keys import without_keys
from lm_eval_tasks.server.outcome import FILTERED, NO_STATUS, TOO_LONG, Kind, Outcome

QUOTED = 600
"""Characters of a server's words that are kept."""

FILTER_WORDS = re.compile(
    r"filter|safety|moderat|inspection|prohibited|blocklist|blocked|sensitive|recitation|spii|guardrail|refusal|"
    r"content.policy|content.management|flagged|responsibleai"
)

_NO_CREDIT = re.compile(
    r"insufficient_?(?:user_?)?(quota|balance|funds?|credits?)|budget_?exceeded|exceeded_?budget|arrear|payment_?required|"
    r"billing|overdue|out_?of_?credits?|quota_?exhausted|credit_?limit|exceeded_current_quota|free_?tier_?only|account_?deactivated|no_?credits?"
)
"""In an error's code or type."""
_NO_CREDIT_WORDS = re.compile(
    r"(balance|credits?|funds?|budget|quota|account|billing|payment)\b.{0,40}?\b(insufficient|not enough|too low|"
    r"exceeded|exhausted|overdue|arrears|used up|run out|required|hard limit|depleted)"
    r"|\b(insufficient|not enough|no|out of|exceeded?|overdue|exhausted)\b.{0,30}?\b(balance|credits?|funds|budget|"
    r"quota|payment)|in arrears",
    re.I,
)
"""In what a 400 or 403 says."""
_NO_CREDIT_PLAINLY = re.compile(r"余额不足|欠费|充值|额度(?:不足|已?用[尽完])|餘額不足|欠費")
"""The same in words that no rate limit uses."""
_NO_KEY = re.compile(
    r"(api.?key|access.?token|credentials?)\b.{0,20}?\b(not valid|invalid|incorrect|expired|missing|revoked|not found)"
    r"|\b(invalid|incorrect|expired|missing|no|wrong)\b.{0,10}?\bapi.?key|authentication.?error|unauthenticated",
    re.I,
)
_THROTTLED = re.compile("rate.?limit|too.?many.?requests|resource_exhausted|throttl")
_TOO_LARGE_EVER = re.compile(
    r"request (is )?too large|tokens must be reduced|reduce (the|your) (length|size|prompt|input)", re.I
)
"""In a rate limit that one request alone exceeds, so that waiting is in vain."""
_FILTERED_SAID = re.compile(
    r"content.?(filter|polic|management|moderat|restrict)|moderation|safety (system|filter|polic|reason|check)|"
    r"inspection|prohibited|inappropriate|flagged (as|by|for)|responsible.?ai|guardrail|blocklist|敏感|违规|不合规|"
    r"blocked by (our |the )?(content|safety|filter|guard)|violat\w+ .{0,60}polic|sensitive (content|information)",
    re.I,
)
_CONTEXT = re.compile(
    r"context.?(length|size|window)|maximum (context|model length)|too many (input )?tokens|"
    r"(prompt|input|request) is too (long|large)|token count.{0,30}exceeds|(input|prompt) (length|tokens).{0,40}exceed",
    re.I,
)
_ROOM_FIELD = re.compile(r"max_(completion_|output_|new_)?tokens|output limit|token limit|max.?tokens", re.I)
_ROOM_USED = re.compile(
    r"(reached|used up|exhausted|ran out|not enough|too (small|low|few)|insufficient).{0,60}?|"
    r"\b(higher|increase|larger|raise|more)\b|(could|did|can) ?not (finish|complete)|unfinished|incomplete",
    re.I,
)
_UNKNOWN_FIELD = re.compile(
    r"unsupported|unrecogni[sz]ed|unknown|unexpected|deprecated|"
    r"(?:not|n't)\b.{0,12}?\b(?:support|permit|allow|recogni[sz]|accept)",
    re.I,
)
"""In a refusal of the limit of tokens itself, which may go on with where there is more to read."""

_REMEDY = {
    401: "set a valid {key}",
    402: "the account has no credit left; add credit and run the same command again",
    403: "set a valid {key}, or ask for access to this model",
    404: "set {address} and {model} to a model of that server",
    405: "set {address}",
    410: "set {model} to a model that is still served",
    3: "the server redirects elsewhere; set {address} to the address that answers itself",
}
_PASSING = (408, 409, 421, 423, 424, 425, 449, 499)


def failure(status: int, error: dict[str, Any], headers: Mapping[str, str]) -> Outcome:
    """What an error status means."""
    words, code = _words(error), _code(error)
    about: dict[str, Any] = {"words": words, "status": status, "code": code}
    reason = f"HTTP {status}"
    if status < 300 or status == 304:  # no status of an answer
        return Outcome(Kind.LOST, reason=reason, **about)
    if status < 400:
        about["words"] = words or as_text((headers.get("location") or "").encode("utf-8", "replace"))
        return Outcome(Kind.HOPELESS, reason=reason, remedy=_REMEDY[3], **about)
    if status in (401, 402):
        return Outcome(Kind.HOPELESS, reason=reason, remedy=_REMEDY[status], **about)
    known = status in (400, 403, 422, 429)
    if known and (_NO_CREDIT.search(code) or _NO_CREDIT_PLAINLY.search(words)):
        about["by_words"] = not _NO_CREDIT.search(code)
        return Outcome(Kind.HOPELESS, reason=f"no credit (HTTP {status})", remedy=_REMEDY[402], **about)
    if status == 429 and _TOO_LARGE_EVER.search(words):
        return Outcome(Kind.REFUSED, reason=TOO_LONG, **about)
    wait = wait_of(headers)
    if status in (429, 503, 529) or (status in (400, 403) and (_THROTTLED.search(code) or wait)):
        reason = f"rate limit (HTTP {status})" if status < 500 else reason
        return Outcome(Kind.BUSY, reason=reason, wait=wait, **about)
    if status >= 500 or status in _PASSING:
        return Outcome(Kind.LOST, reason=reason, wait=wait, **about)
    if FILTER_WORDS.search(code) or (known and _FILTERED_SAID.search(words)):
        return Outcome(Kind.REFUSED, reason=FILTERED, **about)
    if status in (400, 403) and _NO_CREDIT_WORDS.search(words):
        return Outcome(Kind.HOPELESS, reason=f"no credit (HTTP {status})", remedy=_REMEDY[402], by_words=True, **about)
    if status in (400, 403) and _NO_KEY.search(f"{code} {words}"):
        about["by_words"] = not _NO_KEY.search(code)
        return Outcome(Kind.HOPELESS, reason=reason, remedy=_REMEDY[401], **about)
    no_room = _ROOM_FIELD.search(words) and _ROOM_USED.search(words) and not _UNKNOWN_FIELD.search(words)
    if status in (400, 422) and no_room:
        return Outcome(Kind.CUT, reason="cut short", **about)
    if status in (400, 413, 422) and _CONTEXT.search(f"{code} {words}"):
        return Outcome(Kind.REFUSED, reason=TOO_LONG, **about)
    return Outcome(Kind.REFUSED, reason=f"request refused (HTTP {status})", remedy=_REMEDY.get(status, ""), **about)


def inner_error(error: dict[str, Any], headers: Mapping[str, str]) -> Outcome:
    """An error object inside a 200: by its code where that is a status or tells one, else broken."""
    for value in map(error.get, _CODES):
        if found := re.fullmatch(r"([45][0-9]{2})(\.0)?", str(value)):
            return failure(int(found[1]), error, headers)
    named = f"{error.get('code')} {error.get('type')} {error.get('status')}".lower()
    for pattern, status in _STATUS_OF.items():
        if re.search(pattern, named):
            return failure(status, error, headers)
    if _THROTTLED.search(_words(error).lower()):
        return failure(429, error, headers)
    return Outcome(Kind.BROKEN, reason=NO_STATUS, words=_words(error), status=200, code=_code(error))


_STATUS_OF = {
    _NO_CREDIT.pattern: 402,
    _THROTTLED.pattern: 429,
    "overloaded|unavailable|capacity": 503,
    "authentication|unauthorized|invalid_api_key|unauthenticated": 401,
    "permission|forbidden": 403,
    "not_found": 404,
    "invalid_request|bad_?request|invalid_argument|content_filter|content_policy": 400,
    "timeout|deadline": 504,
    "server_error|internal": 500,
}
"""What an error without a status says of itself -> the status that it would have had."""


def wait_of(headers: Mapping[str, str]) -> float | None:
    """Seconds that a response asks to wait: ``retry-after-ms``, or ``Retry-After`` as a number or an HTTP date."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = (headers.get(name) or "").strip()
        if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{0,9})?", value):
            return float(value) / scale
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=timezone.utc)
    return max(0.0, (when - datetime.now(timezone.utc)).total_seconds())


_CODES = ("code", "status", "http_status", "status_code", "statusCode", "error_code", "errorCode", "type", "__type")
_SAYS = ("message", "detail", "msg", "error_msg", "status_msg", "title")


def error_in(data: Any) -> dict[str, Any] | None:
    """The error that an object carries, in any of the usual places."""
    data = data[0] if isinstance(data, list) and data else data
    if not isinstance(data, dict):
        return None
    beside = {name: data[name] for name in _CODES if data.get(name)}
    error = data.get("error") or data.get("errors")
    error = next(filter(None, error), error) if isinstance(error, list) else error
    if isinstance(error, dict):
        if isinstance(error.get("error"), dict):
            return error_in(error)
        none = set(error) <= {*_CODES, *_SAYS, "param"} and not any(error.values())
        return None if none else {**error, "message": _said(error), "param": error.get("param")}
    if error:  # a text, or whatever else somebody puts there
        return {**beside, "message": _said(data) if error is True else error}
    named = data.get("object") == "error"
    if data.get("choices") and not named:
        return None
    for inner in (data.get("detail"), data.get("base_resp")):
        if isinstance(inner, dict) and (found := error_in(inner)):
            return found
    if named or any(name in data for name in _SAYS):
        return {**beside, "message": _said(data)}
    return None


def _said(data: dict[str, Any]) -> Any:
    return next((data[name] for name in _SAYS if data.get(name)), None)


def _code(error: dict[str, Any]) -> str:
    said = [error.get(name) for name in ("code", "type", "status", "__type")]
    for one in (*_listed(error.get("errors")), *_listed(error.get("details"))):
        said.append(one.get("reason") if isinstance(one, dict) else None)
    return " ".join(str(one) for one in said if one)[:200].lower()


def _listed(value: Any) -> list[Any]:
    return value[:8] if isinstance(value, list) else []


def _words(error: dict[str, Any]) -> str:
    """The server's own words and the parameter it names."""
    message = error.get("message")
    said = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False, default=str)[:4000]
    parts = [str(part) for part in (error.get("code"), error.get("param"), said if message else None) if part]
    return as_text(" ".join(parts).encode("utf-8", "replace"))


def as_text(body: bytes) -> str:
    text = body[: 8 * QUOTED].decode("utf-8", "replace")
    return " ".join(without_keys(text).split())[:QUOTED]
