"""What a server's response means: the one table of outcomes, from status, body and finish reason.

Every call, to the model or to the judge, ends in exactly one of these kinds:

=========  ===========================================================  =============================================
kind       what it is                                                   what follows
=========  ===========================================================  =============================================
REPLY      whole: it ended by itself, or nobody says how                its text is used
CUT        the room for the reply was used up, however that is spelled  judge: more room, again; model: kept, flagged
BROKEN     the server broke off, or sent something else                 again with back-off; never used or cached
REFUSED    this request is not taken                                    concerns this doc only
BUSY       429 or 503, as a status or inside a 200                      wait, ask for less at a time
LOST       no connection, no answer in time, 5xx                        again; for too long: the server has gone
HOPELESS   no request will be taken: key, credit, redirect              stop, keep all, say what to set
=========  ===========================================================  =============================================

A fault is told by its status, its code and its shape. Words decide only between outcomes that are equally safe, and
what nobody knows is BROKEN or REFUSED: neither is ever taken for a reply.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

FILTERED = "content filter"
TOO_LONG = "context too long"
NO_STATUS = "an error instead of a reply"


class Kind(Enum):
    """How a call ended; see the module."""

    REPLY = "reply"
    CUT = "cut"
    BROKEN = "broken"
    REFUSED = "refused"
    BUSY = "busy"
    LOST = "lost"
    HOPELESS = "hopeless"


@dataclass(frozen=True)
class Outcome:
    """How a call ended.

    Attributes:
        kind: see the module.
        text: the reply's text; "" where there is none.
        reason: a few words that can be counted, for every kind but REPLY.
        words: what the server said, without keys.
        remedy: what the user can set, or "".
        status: the HTTP status, or the code of an error inside a 200; 0 where nothing came back.
        code: the server's own code of an error, in lower case.
        by_words: whether a kind that concerns all requests was told by the server's words alone, which may be a quote.
        only_thought: whether the text is empty because all of it came as reasoning.
        refusal: whether the reply is the model's own refusal.
        model: the model's name as the server gave it.
        prompt_tokens, completion_tokens: the server's counts; 0 where it has none.
        wait: seconds that the server asks to wait, or None.
    """

    kind: Kind
    text: str = ""
    reason: str = ""
    words: str = ""
    remedy: str = ""
    status: int = 0
    code: str = ""
    by_words: bool = False
    only_thought: bool = False
    refusal: bool = False
    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    wait: float | None = None

    @property
    def answered(self) -> bool:
        """Whether the server did its work, so that it is there and takes such requests."""
        return self.kind in (Kind.REPLY, Kind.CUT)

    @property
    def fingerprint(self) -> tuple[Any, ...]:
        """What two equal refusals have in common; numbers in their words and names of requests make no difference."""
        return self.kind, self.status, self.code, re.sub(r"[\w-]*[0-9][\w-]*", "#", self.words)[:80]

    def explained(self) -> str:
        """Reason, remedy and the server's words in one line."""
        said = f" The server said: {self.words}" if self.words else ""
        return f"{self.reason}{f' ({self.remedy})' if self.remedy else ''}.{said}"


def lost(reason: str) -> Outcome:
    """Nothing came back."""
    return Outcome(Kind.LOST, reason=reason)
