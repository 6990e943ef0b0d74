"""What runs beside the requests, and how often."""

from __future__ import annotations

from pydantic import Field

from app.settings.group import Group


class BackgroundSettings(Group):
    """The jobs that run beside the API."""

    enabled: bool = Field(True, description="`cairn serve` runs the background jobs too.")
    sequencer_idle_seconds: float = Field(
        0.025, gt=0, le=5, description="Pause of the event sequencer when nothing waits."
    )
    job_idle_seconds: float = Field(1.0, gt=0, le=60, description="Pause of the job runner when nothing waits.")
    job_lease_seconds: float = Field(30, ge=1, le=3600, description="A job whose runner is silent for longer restarts.")
    housekeeping_lease_seconds: int = Field(
        15, ge=1, le=3600, description="The one process that keeps house is replaced when it is silent for longer."
    )
    metrics_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="`cairn worker` answers /metrics on this port of CAIRN_HTTP__HOST; 0 takes a free one. Empty: it"
        " answers nothing.",
    )


class QueueSettings(Group):
    """What becomes of submissions whose lease has lapsed."""

    lapse_seconds: float = Field(1.0, gt=0, le=60, description="How often lapsed leases are looked for.")
    backoff_first_seconds: float = Field(
        1.0, ge=0, le=3600, description="Longest pause after the first lapsed attempt; it doubles with each."
    )
    backoff_longest_seconds: float = Field(
        300, ge=0, le=86_400, description="Longest pause between two attempts. Half of a pause is at random."
    )
