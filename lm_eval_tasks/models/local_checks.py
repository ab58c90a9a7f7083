"""What is tried with a checkpoint before its first answer: that it hears, how much of a clip, and batches.

Each of these faults would else give numbers without an error.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from lm_eval.api.instance import Instance

from lm_eval_tasks.errors import BadAudio
from lm_eval_tasks.models.local_batches import free_memory, groups, lacks_memory
from lm_eval_tasks.models.local_generate import Generator
from lm_eval_tasks.models.local_prompt import SERVER_WAY, Chat, Deaf, Prompts, references

log = logging.getLogger(f"lm_eval.{__name__}")

LEAK = 1e-3
"""Largest distance (Kullback-Leibler, in nats) between the next-token distributions of a chat alone and in a batch.

Measured on checkpoints of six families: rounding stays below 5e-5, padding that leaks into an encoder is above 0.02.
"""
_ROUNDING = 10  # leaks are larger than so many times what the batch alone, without padding, changes


class Checks:
    """The checks of one loaded checkpoint.

    Args:
        prompts, generator: of the checkpoint.

    Attributes:
        found: what they found, for the results.
    """

    def __init__(self, prompts: Prompts, generator: Generator) -> None:
        self.prompts, self.generator = prompts, generator
        base = getattr(generator.model, "get_base_model", lambda: generator.model)()  # below a PEFT adapter
        self.found: dict[str, Any] = {"model_class": type(base).__name__, "sampling_rate": prompts.rate}
        self._hears = False
        self._exact = True

    def run(self, requests: list[Instance], size: int) -> int:
        """Check what these requests need.

        Returns:
            How many may be answered at once.

        Raises:
            Deaf: the model does not hear.
        """
        with_clips = [request for request in requests if references(request.args[0])]
        if with_clips:
            self._check_hearing()
            self._warn_of_long_clips(with_clips)
        if size > 1 and self._exact:
            self._exact = all(self._is_exact([requests[place] for place in group]) for group in groups(requests))
        size = size if self._exact else 1
        self.found["batch_size"] = size
        return size

    def _check_hearing(self) -> None:
        """Silence and noise must lead to different answers."""
        if self._hears:
            return
        silence, noise = (self.generator.next_token(self.prompts.encode([chat])) for chat in self.prompts.probes())
        if silence.isnan().any() or noise.isnan().any():
            dtype = str(self.generator.model.dtype).removeprefix("torch.")
            raise Deaf(f"its outputs are not numbers in {dtype}; set another dtype in --model_args, such as bfloat16")
        if torch.equal(silence, noise):
            raise Deaf(f"it answers silence and noise alike, so it hears nothing: {SERVER_WAY}")
        self._hears = True

    def _warn_of_long_clips(self, requests: list[Instance]) -> None:
        lengths = [max(ref["seconds"] for ref in references(request.args[0])) for request in requests]
        longest = max(range(len(lengths)), key=lengths.__getitem__)
        try:
            clip = max(self.prompts.read(requests[longest].args[0]).clips, key=len)
            heard = self.prompts.seconds_heard(clip)
        except Exception as error:  # which will be said of this clip when its turn comes
            log.debug("How much of a clip is heard could not be tried: %s", error)
            return
        cut = sum(length > heard + 0.1 for length in lengths)
        if cut and heard < len(clip) / self.prompts.rate:
            self.found |= {"hears_seconds": round(heard, 1), "clips_cut": cut}
            log.warning(
                "%d of %d CLIPS ARE LONGER THAN THE MODEL HEARS: it gets the first %.1f s of each, and the longest has "
                "%.1f s. A server may hear more.",
                *(cut, len(lengths), heard, lengths[longest]),
            )

    def _is_exact(self, group: list[Instance]) -> bool:
        """Whether the shortest chat of a group is answered in a batch with the longest as it is alone."""
        if len(group) < 2:
            return True
        try:
            longest, shortest = self.prompts.read(group[0].args[0]), self.prompts.read(group[-1].args[0])
            alone = self._distribution([shortest])[0]
            rounding = _distance(alone, self._distribution([shortest, shortest])[1])
            distance = _distance(alone, self._distribution([longest, shortest])[1])
        except BadAudio:
            return self._is_exact(group[1:-1])
        except Exception as error:  # of a processor or a model: whatever it is, one clip at a time is safe
            why = "do not fit into memory" if lacks_memory(error) else f"fail ({' '.join(str(error).split())[:200]})"
            log.warning("Two clips at once %s; going on with batch_size=1.", why)
            error = None
            free_memory()
            return False
        self.found["batch_distance"] = max(distance, self.found.get("batch_distance", 0.0))
        if distance <= max(LEAK, _ROUNDING * rounding):
            return True
        log.warning(
            "Batches change this model's answers: beside a longer clip, the next-token distribution of a clip moves "
            "by %.2g nats (rounding stays below %.2g). Going on with batch_size=1.",
            *(distance, LEAK),
        )
        return False

    def _distribution(self, chats: list[Chat]) -> torch.Tensor:
        return self.generator.next_token(self.prompts.encode(chats)).log_softmax(dim=-1)


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return torch.nn.functional.kl_div(other, one, log_target=True, reduction="sum").clamp(min=0).item()
