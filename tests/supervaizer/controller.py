"""A process of a controller, run by the tests: it adds cases and responses to the job `shared`, as others do."""

from __future__ import annotations

import sys

from tests.supervaizer import package

package.ready()

from supervaizer.job import Job, JobResponse, Jobs  # noqa: E402
from supervaizer.lifecycle import EntityStatus  # noqa: E402

from cairn_supervaizer import install  # noqa: E402
from tests.supervaizer.entities import context  # noqa: E402


def main(url: str, key: str, name: str, count: int) -> None:
    """Make the job of the platform here too, wait for the word, and add to it."""
    installed = install(url, key)
    job = Job.new(context("shared"), "agent_1")
    print("ready", flush=True)  # noqa: T201 - what the test waits for
    assert sys.stdin.readline() == "go\n"
    for number in range(count):
        job.add_case_id(f"{name}{number}")
        # Not through add_response, which also sets what only one of them can: the payload, and the end.
        job.responses.append(JobResponse("shared", EntityStatus.IN_PROGRESS, f"{name}{number}"))
        installed.storage.save_object("Job", job.to_dict)
    assert Jobs().get_job("shared") is job
    installed.uninstall()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
