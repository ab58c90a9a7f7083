"""The clips of the bundled sample: what is heard, what is asked, and what a right answer says."""

from __future__ import annotations

from typing import Any

import numpy as np
import sample_scenes as scene
from sample_scenes import Clip

FERRY = "The last ferry leaves the harbour at twenty past nine."
APPLES = "My grandfather planted seven apple trees behind the old mill."
JOB = "I got the job! I really got it! I start on Monday!"
WAITED = "I waited all evening. Nobody called."
PUPPY = [
    ("A", "So, did you bring the puppy home?"),
    ("B", "Yes, on Saturday. She is called Pepper."),
    ("A", "And does your cat like her?"),
    ("B", "Not yet. He hides on top of the fridge."),
]
GARDEN = [
    ("B", "I want to grow tomatoes on my balcony."),
    ("A", "Does it get the sun in the morning?"),
    ("B", "No, only after four o'clock."),
    ("A", "Then try lettuce. It needs less light."),
]
TABLE = [
    ("B", "Good evening. I would like a table for four on Friday."),
    ("A", "At which time?"),
    ("B", "Half past seven, please."),
    ("A", "Done. Your number is B, twelve."),
]
TRAIN = [
    ("A", "I need a train to Norwich before ten."),
    ("B", "There is one at eight forty. It costs fourteen pounds."),
    ("A", "Two tickets, please."),
]
PARCEL = "Please leave the parcel with my neighbour."
DOORS = "Walk to the nearest door. Do not use the lift."
WELCOME = "Welcome to the museum. The tour begins in five minutes."
RACE = "Three, two, one, and they are off!"


def spoken(lines: list[tuple[str, str]], **more: Any) -> dict[str, Any]:
    """The description of a dialogue, with each turn's speaker and words."""
    voices = {"A": "synthetic, female-sounding", "B": "synthetic, male-sounding"}
    return {"speakers": voices, "dialogue": [f"{who}: {text}" for who, text in lines]} | more


CLIPS = [
    Clip(
        "speech_QA",
        "common_voice_en",
        "ferry.mp3",
        16000,
        1,
        "When does the last ferry leave, according to the speaker?",
        "The speaker says that the last ferry leaves the harbour at twenty past nine.",
        {"text": FERRY, "gender": "female", "accent": "British English", "voice": "synthetic"},
        scene.says(FERRY, voice=scene.WOMAN),
    ),
    Clip(
        "speech_QA",
        "common_voice_en",
        "apple_trees.mp3",
        44100,
        1,
        "Who planted the trees, and how many of which kind were there?",
        "The speaker's grandfather planted seven apple trees.",
        {"text": APPLES, "gender": "male", "accent": "American English", "voice": "synthetic"},
        scene.says(APPLES, voice=scene.MAN),
    ),
    Clip(
        "speech_QA",
        "iemocap",
        "good_news.wav",
        16000,
        1,
        "What news does the speaker bring, and in what manner is it told?",
        "The speaker got a job that starts on Monday, and tells it quickly and in a high voice, full of joy.",
        {"text": JOB, "emotion": "happy", "speed": "fast", "pitch": "high", "gender": "female"},
        scene.says(JOB, voice=scene.WOMAN, speed=200, pitch=75),
    ),
    Clip(
        "speech_QA",
        "iemocap",
        "no_call.wav",
        16000,
        1,
        "Which feeling do the words and the voice suggest?",
        "Sadness or disappointment: a low voice says slowly and quietly that it waited all evening and nobody called.",
        {"text": WAITED, "emotion": "sad", "speed": "slow", "pitch": "low", "volume": "quiet", "gender": "male"},
        scene.says(WAITED, voice=scene.MAN, speed=115, pitch=20),
        peak=0.25,
    ),
    Clip(
        "speech_dialogue_QA",
        "fisher",
        "puppy.wav",
        8000,
        2,
        "What is the new pet called, and how does the cat take it?",
        "The puppy is called Pepper. The cat doesn't like her yet and hides on top of the fridge.",
        spoken(PUPPY, topic="pets", channels="A on the left, B on the right"),
        scene.dialogue(PUPPY, stereo=True),
    ),
    Clip(
        "speech_dialogue_QA",
        "fisher",
        "balcony.wav",
        8000,
        1,
        "What does the second speaker advise, and why?",
        "She advises lettuce instead of tomatoes, since the balcony has sun only after four o'clock "
        "and lettuce needs less light.",
        spoken(GARDEN, topic="gardening"),
        scene.dialogue(GARDEN, stereo=False),
    ),
    Clip(
        "speech_dialogue_QA",
        "spokenwoz",
        "table_for_four.wav",
        8000,
        1,
        "For how many people, on which day and at what time is the table booked?",
        "The table is booked for four people on Friday at half past seven.",
        spoken(TABLE, domain="restaurant", booking={"people": 4, "day": "Friday", "time": "19:30", "number": "B12"}),
        scene.dialogue(TABLE, stereo=False),
    ),
    Clip(
        "speech_dialogue_QA",
        "spokenwoz",
        "norwich.mp3",
        8000,
        1,
        "Where does the first speaker want to go, and how many tickets are asked for?",
        "The first speaker wants to go to Norwich by train before ten and asks for two tickets.",
        spoken(TRAIN, domain="train", booking={"to": "Norwich", "leaves": "08:40", "price": "14 pounds", "tickets": 2}),
        scene.dialogue(TRAIN, stereo=False),
    ),
    Clip(
        "sound_QA",
        "clotho",
        "storm.mp3",
        44100,
        2,
        "What weather is heard in this recording?",
        "Steady rain with one low roll of thunder: a thunderstorm.",
        [
            "Rain falls all the time while thunder rolls once.",
            "Rain falls, and a low thunder fades slowly.",
        ],
        lambda rng, rate: np.stack([scene.storm(rng, rate)] * 2, axis=1),
    ),
    Clip(
        "sound_QA",
        "clotho",
        "bell.wav",
        44100,
        1,
        "How many times is the bell struck, and what happens between the strokes?",
        "The bell is struck three times, and each stroke rings on and fades until the next one.",
        ["A bell rings three times at an even pace.", "Three strokes of one metal bell, each fading away."],
        scene.bells,
    ),
    Clip(
        "sound_generation_QA",
        "clotho",
        "surf.mp3",
        44100,
        2,
        "Describe this sound so that somebody could make it again.",
        "Two long swells of broad, hissing noise rise and fall like waves on a beach, moving from left to right.",
        [
            "Two waves roll onto a beach, one after the other.",
            "Sea waves swell and draw back, from left to right.",
        ],
        scene.surf,
    ),
    Clip(
        "sound_generation_QA",
        "clotho",
        "clock.wav",
        16000,
        1,
        "Which object makes this sound, and at which pace?",
        "A clock: short, dry clicks, higher and lower by turns, twice a second.",
        ["A clock ticks evenly in a quiet room, twice a second.", "Short clicks, higher and lower by turns."],
        scene.tick,
    ),
    Clip(
        "music_QA",
        "musiccaps",
        "scale.wav",
        44100,
        2,
        "Which kind of instrument plays, and which way does the melody go?",
        "A plucked string instrument such as a guitar plays five notes that climb step by step.",
        {
            "caption": "A plucked string plays the first five notes of a C major scale upwards, a little to the left.",
            "aspects": ["plucked string", "solo", "rising scale", "no drums", "no voice"],
        },
        scene.guitar,
    ),
    Clip(
        "music_QA",
        "musiccaps",
        "two_chords.mp3",
        44100,
        2,
        "What mood does this music have, and what creates it?",
        "It is calm and sombre: two soft, long, low minor chords follow each other without any rhythm.",
        {
            "caption": "A soft synthesizer holds two minor chords, A minor and then D minor, three seconds each.",
            "aspects": ["synthesizer pad", "slow", "minor", "no drums", "calm", "sombre"],
        },
        scene.chords,
    ),
    Clip(
        "music_generation_analysis_QA",
        "musiccaps",
        "drum_and_bass_line.mp3",
        44100,
        1,
        "Name the instruments and the tempo that one would need to make this music again.",
        "A bass drum and a snare drum by turns with a plucked bass line, at 120 beats a minute.",
        {
            "caption": "Bass drum and snare take turns at 120 beats a minute, with one plucked bass note a beat.",
            "aspects": ["drums", "bass", "120 bpm", "instrumental", "four-four time"],
        },
        scene.beat,
    ),
    Clip(
        "music_generation_analysis_QA",
        "musiccaps",
        "music_box.wav",
        16000,
        1,
        "What metre does the piece have, and which instrument could it be?",
        "It is a waltz in three-four time: a lower note and two higher ones a bar, as on a music box.",
        {
            "caption": "A music box plays three bars of a waltz, one lower note and two higher notes in each.",
            "aspects": ["music box", "waltz", "three-four time", "120 bpm", "gentle", "no voice"],
        },
        scene.waltz,
    ),
    Clip(
        "speech_and_sound_QA",
        "audiocaps_cv",
        "parcel_in_the_rain.wav",
        16000,
        1,
        "What is the weather like while the speaker talks, and what is asked for?",
        "It rains while the speaker asks that the parcel be left with the neighbour.",
        {"sound": "Rain falls steadily.", "speech": PARCEL, "gender": "female"},
        scene.over(scene.shower, 0.3, PARCEL, voice=scene.WOMAN),
    ),
    Clip(
        "speech_and_sound_QA",
        "audiocaps_cv",
        "alarm.mp3",
        16000,
        1,
        "Which sound is heard behind the voice, and what must people not use?",
        "An alarm beeps twice a second, and the voice says not to use the lift.",
        {"sound": "An alarm beeps twice a second at one pitch.", "speech": DOORS, "gender": "male"},
        scene.over(scene.alarm, 0.4, DOORS, voice=scene.MAN),
    ),
    Clip(
        "speech_and_music_QA",
        "musiccaps_cv",
        "museum.mp3",
        44100,
        2,
        "What music accompanies the voice, and when does the tour begin?",
        "A plucked string instrument plays a broken chord, and the tour begins in five minutes.",
        {"music": "A plucked string plays a broken C major chord.", "speech": WELCOME, "gender": "female"},
        scene.over(scene.strings, 0.35, WELCOME, voice=scene.WOMAN),
    ),
    Clip(
        "speech_and_music_QA",
        "musiccaps_cv",
        "race.wav",
        16000,
        1,
        "What does the voice count, and which instruments are heard behind it?",
        "The voice counts down from three to one for the start of a race, over a beat of bass drum and snare.",
        {"music": "Drums alone: bass drum and snare by turns at 120 beats a minute.", "speech": RACE, "gender": "male"},
        scene.over(lambda rng, rate, seconds: scene.beat(rng, rate, seconds, bass=False), 0.5, RACE, voice=scene.MAN),
    ),
]
