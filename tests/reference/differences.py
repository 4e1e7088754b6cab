"""The list of known differences between Kafka's answers and ours, made from the stories that tell them.

    python -m tests.reference.differences        write DIFFERENCES.md; record.py does so, too

A story says why an answer of ours is another one (`---- ours: why`, see story.py). What no story can tell, because it
is a matter of chance in Kafka or of sizes, is told here.
"""

from __future__ import annotations

from pathlib import Path

from tests.reference.story import Story, all_stories

LIST = Path(__file__).parent / "DIFFERENCES.md"

WITHOUT_STORY = (
    (
        "The next leader",
        "When a group loses its leader, Kafka takes the first member in the order of a hash map of random member ids. "
        "We take the one that has been a member for longest. A leader that is there and joins again stays the leader "
        "in both.",
    ),
    (
        "Limits",
        "Kafka bounds neither the ids that it hands out to members that never come back, nor the length of a group id "
        "beyond what its log takes, nor a member's metadata. We refuse what passes our limits: "
        "GROUP_MAX_SIZE_REACHED, INVALID_GROUP_ID and POLICY_VIOLATION.",
    ),
    (
        "Before the first FindCoordinator",
        "Kafka makes `__consumer_offsets` when it is first asked for a coordinator; until then requests of groups are "
        "answered NOT_COORDINATOR. We have the topic from the start and serve at once.",
    ),
)

HEAD = """\
# Known differences from Apache Kafka 4.3

Made by `python -m tests.reference.differences`; the stories are in `tests/reference/stories/`, where each shows what
Kafka answers and what we answer. Everything else that a story tells is the same in both.
"""


def text(stories: list[Story]) -> str:
    """The whole list."""
    out = [HEAD, "| story | what is asked | why our answer is another one |", "|---|---|---|"]
    for story in stories:
        for step in story.steps:
            if step.reason:
                asked = f"{step.api} v{step.version}" if step.api else step.kind
                out.append(f"| {story.name} | {_ASKED.get(asked, asked)} | {step.reason} |")
    out += ["", "## What no story tells", ""]
    out += [f"- **{name}.** {why}" for name, why in WITHOUT_STORY]
    return "\n".join(out) + "\n"


_ASKED = {"?": "an answer that is late", "<": "an answer that is late", "frame": "a frame", "bytes": "bytes"}


def main() -> None:
    LIST.write_text(text(all_stories()))


if __name__ == "__main__":
    main()
