"""What can be wrong with an offboarding."""

from __future__ import annotations

from app.errors import Conflict, NotFound


class OffboardingNotFound(NotFound):
    """There is no such offboarding."""

    code, title = "offboarding_not_found", "There is no such offboarding"


class OffboardingUnderWay(Conflict):
    """The offboarding is not completed, so there is no receipt yet; `state` says how far it is."""

    code, title = "offboarding_under_way", "The offboarding is under way"
