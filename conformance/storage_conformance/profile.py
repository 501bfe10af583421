"""How long and how deep a campaign hunts.

Profiles are plain values handed to our own machines, never registered with Hypothesis: the settings of the user's own
tests stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PROFILES", "Profile"]


@dataclass(frozen=True)
class Profile:
    """Examples to generate.

    Attributes:
        programs: programs of the storage machine.
        steps: most steps of one program.
        examples: factor on the number of examples of each check.
    """

    name: str
    programs: int
    steps: int
    examples: float


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("quick", programs=150, steps=15, examples=0.4),
        Profile("default", programs=700, steps=20, examples=1.0),
        Profile("thorough", programs=10_000, steps=30, examples=10.0),
    )
}
