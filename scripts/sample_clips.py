"""How each clip of the bundled sample is made; what is said in it stands in its record."""

from __future__ import annotations

from typing import Any

import numpy as np
import sample_scenes as scene
from sample_scenes import MAN, WOMAN, Clip


def clips(said: dict[str, Any]) -> dict[str, Clip]:
    """All clips by the name of their file.

    Args:
        said: name -> the words that are spoken in it; of a dialogue a list of (speaker, words).
    """
    return {
        "ferry.mp3": Clip(16000, 1, scene.says(said["ferry.mp3"], voice=WOMAN)),
        "apple_trees.mp3": Clip(44100, 1, scene.says(said["apple_trees.mp3"], voice=MAN)),
        "good_news.wav": Clip(16000, 1, scene.says(said["good_news.wav"], voice=WOMAN, speed=200, pitch=75)),
        "no_call.wav": Clip(16000, 1, scene.says(said["no_call.wav"], voice=MAN, speed=115, pitch=20), peak=0.25),
        "puppy.wav": Clip(8000, 2, scene.dialogue(said["puppy.wav"], stereo=True)),
        "balcony.wav": Clip(8000, 1, scene.dialogue(said["balcony.wav"], stereo=False)),
        "table_for_four.wav": Clip(8000, 1, scene.dialogue(said["table_for_four.wav"], stereo=False)),
        "norwich.mp3": Clip(8000, 1, scene.dialogue(said["norwich.mp3"], stereo=False)),
        "storm.mp3": Clip(44100, 2, lambda rng, rate: np.stack([scene.storm(rng, rate)] * 2, axis=1)),
        "bell.wav": Clip(44100, 1, scene.bells),
        "surf.mp3": Clip(44100, 2, scene.surf),
        "clock.wav": Clip(16000, 1, scene.tick),
        "scale.wav": Clip(44100, 2, scene.guitar),
        "two_chords.mp3": Clip(44100, 2, scene.chords),
        "drum_and_bass_line.mp3": Clip(44100, 1, scene.beat),
        "music_box.wav": Clip(16000, 1, scene.waltz),
        "parcel_in_the_rain.wav": Clip(
            16000, 1, scene.over(scene.shower, 0.3, said["parcel_in_the_rain.wav"], voice=WOMAN)
        ),
        "alarm.mp3": Clip(16000, 1, scene.over(scene.alarm, 0.4, said["alarm.mp3"], voice=MAN)),
        "museum.mp3": Clip(44100, 2, scene.over(scene.strings, 0.35, said["museum.mp3"], voice=WOMAN)),
        "race.wav": Clip(16000, 1, scene.over(scene.drums, 0.5, said["race.wav"], voice=MAN)),
    }
