"""Pairs of sentences with the same meaning, for tests and for perf/half_precision.py."""

from __future__ import annotations

PARAPHRASES = [
    ("A man is playing a guitar on stage.", "Someone plays the guitar in front of an audience."),
    ("The cat sleeps on the sofa.", "A cat is napping on the couch."),
    ("Oil prices rose sharply on Monday.", "On Monday there was a steep increase in oil prices."),
    ("She bought two tickets for the concert.", "Two concert tickets were purchased by her."),
    ("Heavy rain flooded the streets of the town.", "The town's roads were under water."),
    ("The doctor told him to stop smoking.", "His physician advised him to give up cigarettes."),
    ("Bees are vital for pollinating crops.", "Crop pollination depends on bees."),
    ("The train was delayed by an hour.", "The train arrived sixty minutes late."),
    ("Children are building a sandcastle.", "Kids make a castle out of sand on the beach."),
    ("The company will cut five hundred jobs.", "Five hundred employees are to be laid off."),
    ("He forgot his umbrella at the office.", "His umbrella was left behind at work."),
    ("The bridge was built in the nineteenth century.", "The bridge dates from the 1800s."),
]  # fmt: skip
