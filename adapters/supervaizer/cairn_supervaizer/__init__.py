"""Keeps what a Supervaizer controller persists in Cairn: call `install` once, before the server is made."""

from cairn_supervaizer.errors import StaleObjectError, UnknownSupervaizerError
from cairn_supervaizer.installation import Installed, install
from cairn_supervaizer.options import Options
from cairn_supervaizer.reload import Rejected, Reloaded, reload_running
from cairn_supervaizer.storage import CairnStorage

__all__ = [
    "CairnStorage",
    "Installed",
    "Options",
    "Rejected",
    "Reloaded",
    "StaleObjectError",
    "UnknownSupervaizerError",
    "install",
    "reload_running",
]
