"""A campaign without Hypothesis and torch: what it finds stands in the `story` of the backend's factory.

Loaded by `-p fake_campaign`, it takes the place of `storage_conformance.campaign` in a run of pytest.
"""

from __future__ import annotations

import sys
from types import ModuleType

from storage_conformance.finding import Failure, Finding
from storage_conformance.requirements import specification


class SmokeError(Exception):
    def __init__(self, message, *, built):
        super().__init__(message)
        self.built = built


class Campaign:
    def __init__(self, backend, *, selected, profile, seed, expected, device="cpu"):
        self.backend = backend
        self.selected = selected
        self.profile = profile
        self.seed = seed
        self.expected = expected
        self.device = device
        self.story = getattr(backend.factory, "story", {})

    def __enter__(self):
        self.context = self.backend.context()
        self.context.__enter__()
        return self

    def __exit__(self, *exception):
        self.context.__exit__(None, None, None)

    def smoke(self):
        try:
            self.backend.factory(4, device=self.device)
        except Exception as error:
            raise SmokeError(f"it raised {type(error).__name__}: {error}", built=False) from error
        if "smoke" in self.story:
            raise SmokeError(self.story["smoke"], built=True)

    def applies(self, requirement_id):
        features = specification().requirements[requirement_id].features
        missing = [feature for feature in features if feature not in self.backend.features]
        return f"feature `{missing[0]}` is not claimed" if missing else None

    def finding(self, requirement_id):
        assert requirement_id in self.selected
        chapter = self.story.get("everything", 10)
        told = self.story.get(requirement_id, chapter)
        if isinstance(told, Exception):
            raise told
        if callable(told):
            told = told(self)
        if isinstance(told, Failure):
            return Finding(requirement_id, 7, told)
        return Finding(requirement_id, told)


module = ModuleType("storage_conformance.campaign")
module.Campaign = Campaign
module.SmokeError = SmokeError
sys.modules["storage_conformance.campaign"] = module
