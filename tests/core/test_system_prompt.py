from __future__ import annotations

from dataclasses import dataclass

from tau.core.conversation.slash_commands import ResourceOrigin, Skill
from tau.core.conversation.system_prompt import (
    CONTEXT_INTRO,
    GENERAL_GUIDELINES,
    INTRODUCTION,
    MAX_DESCRIPTION_CHARACTERS,
    SKILLS_INTRO,
    ContextFile,
    PromptParts,
    system_prompt,
)
from tau.records.base import replace


@dataclass(frozen=True)
class Listed:
    name: str
    snippet: str
    guidelines: tuple[str, ...] = ()


def test_the_prompt_has_its_parts_in_order() -> None:
    tools = [Listed("read", "look into a file", ("Be careful.",)), Listed("bash", "run", ("Be careful.", "Be quick."))]
    assert system_prompt(tools, "/home/ana/here") == "\n".join(
        [
            INTRODUCTION,
            "",
            "Available tools:",
            "- read: look into a file",
            "- bash: run",
            "",
            "Guidelines:",
            "- Be careful.",
            "- Be quick.",
            *(f"- {line}" for line in GENERAL_GUIDELINES),
            "",
            "Current working directory: /home/ana/here",
        ]
    )


def test_without_tools_the_list_says_so() -> None:
    assert "\nAvailable tools:\n(none)\n" in system_prompt([], "/")


READ, BASH = Listed("read", "look into a file"), Listed("bash", "run")
DEPLOY = Skill("deploy", 'To "prod" & back', "/s/deploy/SKILL.md", "/s/deploy", False, ResourceOrigin("user", "auto"))
HIDDEN = replace(DEPLOY, name="hidden", hidden=True)
LISTING = """\
<available_skills>
  <skill>
    <name>deploy</name>
    <description>To &quot;prod&quot; &amp; back</description>
    <location>/s/deploy/SKILL.md</location>
  </skill>
</available_skills>"""


def test_words_of_the_users_own_replace_ours_and_the_rest_follows() -> None:
    parts = PromptParts(
        "Mine.", ["And this.", "And that."], [ContextFile("/a/AGENTS.md", "# A\n"), ContextFile("/b", "B")]
    )
    assert system_prompt([READ], "/here", parts) == "\n\n".join(
        [
            "Mine.",
            "And this.",
            "And that.",
            f"# Project Context\n\n{CONTEXT_INTRO}",
            "## /a/AGENTS.md\n\n# A",
            "## /b\n\nB",
            "Current working directory: /here",
        ]
    )


def test_skills_are_listed_for_a_model_that_can_look_into_a_file() -> None:
    def listing(*tools: Listed) -> str:
        return system_prompt(tools, "/", PromptParts("Mine.", skills=[DEPLOY, HIDDEN]))

    how = "read its file with `read`"
    assert listing(READ, BASH) == (
        f"Mine.\n\n{SKILLS_INTRO.format(how=how)}\n\n{LISTING}\n\nCurrent working directory: /"
    )
    assert LISTING in listing(READ)
    assert LISTING in listing(BASH) and "`cat`" in listing(BASH)
    assert listing(BASH, Listed("write", "write")) == listing() == "Mine.\n\nCurrent working directory: /"


def test_skills_that_only_the_user_calls_are_not_listed() -> None:
    assert "available_skills" not in system_prompt([READ], "/", PromptParts(skills=[HIDDEN]))


def test_a_description_without_end_is_cut() -> None:
    prompt = system_prompt([READ], "/", PromptParts("", skills=[replace(DEPLOY, description="x" * 5000)]))
    assert f"<description>{'x' * MAX_DESCRIPTION_CHARACTERS}</description>" in prompt
