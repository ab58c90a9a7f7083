"""Requests to a model on this machine, in batches: the next one is read and encoded while the model works on this one.

Each answer is stored and handed on as soon as its batch is done. What fails in a batch is tried in halves until the
clip that fails is alone; what does not fit into memory halves all further batches.
"""

from __future__ import annotations

import gc
import json
import logging
from collections import defaultdict, deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch
from accelerate.utils.memory import should_reduce_batch_size
from lm_eval.api.instance import Instance
from tqdm import tqdm

from lm_eval_tasks.errors import BadAudio
from lm_eval_tasks.harness import compat
from lm_eval_tasks.models.answering import conclude, keep, name_of
from lm_eval_tasks.models.local_prompt import Chat, references, stored_text
from lm_eval_tasks.runs.answers import Answer, Unanswered

log = logging.getLogger(f"lm_eval.{__name__}")

GIVE_UPS = 8
"""So many requests in a row that failed, each on its own, mean that the next one will fail as well."""

_NOT_ASKED = "model failed before it was asked"
_OUT_OF_MEMORY = "out of memory"
_QUOTED = 300


@dataclass
class Batch:
    """Requests that are answered together.

    Attributes:
        members: places in the list of requests.
        chats: what was read for each of them.
        inputs: the tensors, if they could be made.
        fault: why there are no tensors.
    """

    members: list[int] = field(default_factory=list)
    chats: list[Chat] = field(default_factory=list)
    inputs: dict[str, Any] | None = None
    fault: Exception | None = None


class Batches:
    """All requests of one call, answered in batches.

    Args:
        model: an ``HFAudio``.
        requests: the requests.
        size: how many are answered together at first.
        bar: shows progress.

    Attributes:
        answers: in the order of the requests; ``Unanswered`` where there is none.
        size: how many are answered together now.
    """

    def __init__(self, model: Any, requests: list[Instance], size: int, bar: tqdm) -> None:
        self.model, self.requests, self.size, self.bar = model, requests, size, bar
        self.answers: list[Any] = [Unanswered(_NOT_ASKED)] * len(requests)
        self._groups = deque(map(deque, groups(requests)))
        self._in_a_row = 0

    def run(self) -> None:
        """Answer everything, or stop after ``GIVE_UPS`` failures in a row."""
        with ThreadPoolExecutor(1, thread_name_prefix="next-batch") as ahead:
            coming = self._ask_for(ahead)
            while coming:
                batch, size = coming.result(), self.size
                coming = self._ask_for(ahead)
                self._answer(batch)
                if self._in_a_row >= GIVE_UPS:
                    return
                if coming and self.size < size:  # the next batch was made for more memory than there is
                    self._groups.appendleft(deque(coming.result().members))
                    coming = self._ask_for(ahead)

    def conclude(self) -> None:
        """Say what is missing; raise where a task cannot do without it."""
        said = next((one.detail for one in self.answers if isinstance(one, Unanswered) and one.detail), "")
        may_be_all = compat.resumes(self.model) or self.model.world_size > 1
        conclude("The model", self.requests, self.answers, f" The first of them: {said}" if said else "", may_be_all)

    def _ask_for(self, ahead: ThreadPoolExecutor) -> Future[Batch] | None:
        """Have the next batch read and encoded; None when there is none."""
        while self._groups and not self._groups[0]:
            self._groups.popleft()
        if not self._groups:
            return None
        group = self._groups[0]
        return ahead.submit(self._prepare, [group.popleft() for _ in range(min(self.size, len(group)))])

    def _prepare(self, members: list[int]) -> Batch:
        batch = Batch()
        for place in members:
            try:
                batch.chats.append(self.model.prompts.read(self.requests[place].args[0]))
                batch.members.append(place)
            except BadAudio as error:
                self._without(place, Unanswered("audio gone or damaged", str(error)[:_QUOTED]))
        return self._encode(batch)

    def _encode(self, batch: Batch) -> Batch:
        try:
            if batch.members:
                batch.inputs = self.model.prompts.encode(batch.chats)
        except Exception as error:  # of a processor: whatever it is, it concerns this batch
            batch.fault = error.with_traceback(None)
        return batch

    def _answer(self, batch: Batch) -> None:
        if not batch.members or self._in_a_row >= GIVE_UPS:
            return
        options = self.requests[batch.members[0]].args[1]
        fault, answers = batch.fault, []
        if fault is None:
            try:
                answers = self.model.generator(batch.inputs, options)
            except Exception as error:
                fault = error.with_traceback(None)  # its frames hold the tensors that did not fit
        batch.inputs = None
        if fault is None:
            for place, answer in zip(batch.members, answers, strict=True):
                self._have(place, answer)
            return
        full = lacks_memory(fault)
        if full:
            free_memory()
        if len(batch.members) == 1:
            self._in_a_row += 1
            reason = _OUT_OF_MEMORY if full else f"model failed ({type(fault).__name__})"
            self._without(batch.members[0], Unanswered(reason, " ".join(str(fault).split())[:_QUOTED]))
            return
        half = (len(batch.members) + 1) // 2
        if full and half < self.size:
            self.size = half
            log.warning("Out of memory with %d clips at once; going on with %d.", len(batch.members), half)
        for part in (slice(0, half), slice(half, None)):
            self._answer(self._encode(Batch(batch.members[part], batch.chats[part])))

    def _have(self, place: int, answer: Answer) -> None:
        self._in_a_row = 0
        request = self.requests[place]
        self.answers[place] = answer
        keep(self.model, request, answer)
        self.bar.update()

    def _without(self, place: int, failure: Unanswered) -> None:
        self.answers[place] = failure
        self.bar.update()
        log.warning("%s has no answer: %s. %s", name_of(self.requests[place]), failure.reason, failure.detail)


def groups(requests: list[Instance]) -> list[list[int]]:
    """Requests that may be answered together, the longest first, so that what does not fit shows at once."""
    found: dict[Any, list[int]] = defaultdict(list)
    for place, request in enumerate(requests):
        clips = references(request.args[0])
        found[json.dumps(request.args[1], sort_keys=True, default=str), len(clips)].append(place)
    sizes = [
        (sum(ref["seconds"] for ref in references(one.args[0])), len(stored_text(one.args[0]))) for one in requests
    ]
    return [sorted(members, key=sizes.__getitem__, reverse=True) for members in found.values()]


def lacks_memory(error: Exception) -> bool:
    """Whether there was no room, on whatever device."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or should_reduce_batch_size(error)


def free_memory() -> None:
    """Give back what a failed batch held."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
