"""Runs with the vendors' SDKs: reads addresses of recorded answers from stdin, and prints what the SDK makes of each.

A line is `{"api": …, "url": …}`, and its answer `{"text": …, "thinking": …, "calls": [[name, arguments]], "output": …}`
or `{"error": …}`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any

PACKAGES = ("anthropic", "openai", "google-genai", "boto3")
REASONING = ("reasoning_content", "reasoning", "reasoning_text")
AWS = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
PROMPT = [{"role": "user", "content": "hi"}]


def chat(url: str) -> dict[str, Any]:
    import openai

    text, thinking, calls, output = "", "", {}, None
    client = openai.OpenAI(base_url=url, api_key="k", max_retries=0)
    for chunk in client.chat.completions.create(model="m", messages=PROMPT, stream=True):  # type: ignore[arg-type]
        if chunk.usage and chunk.usage.total_tokens:  # for some servers, only the total includes reasoning
            output = chunk.usage.total_tokens - chunk.usage.prompt_tokens
        for choice in (chunk.choices or ())[:1]:
            if choice.index or choice.delta is None:
                continue
            content: Any = choice.delta.content or ""
            if isinstance(content, list):  # Mistral
                thinking += "".join(each["text"] for part in content for each in part.get("thinking", ()))
                content = "".join(part.get("text", "") for part in content)
            text += content + (choice.delta.refusal or "")
            more = choice.delta.model_extra or {}
            details = [each.get("text") or each.get("summary") or "" for each in more.get("reasoning_details") or ()]
            thinking += next((more[name] for name in REASONING if more.get(name)), "".join(details))
            for call in choice.delta.tool_calls or ():
                made = calls.setdefault(call.index, ["", ""])
                if call.function:
                    made[0] += call.function.name or ""
                    made[1] += call.function.arguments or ""
    return answer(text, thinking, calls.values(), output)


def responses(url: str) -> dict[str, Any]:
    import openai

    client = openai.OpenAI(base_url=url, api_key="k", max_retries=0)
    done = []
    for event in client.responses.create(model="m", input="hi", stream=True):
        if event.type == "response.output_item.done":
            done.append(event.item)
        if event.type in ("error", "response.failed"):
            return {"error": event.to_json()[:200]}
        if event.type in ("response.completed", "response.incomplete"):
            items = event.response.output or done  # Codex repeats nothing at the end
            parts = [part for item in items if item.type == "message" for part in item.content]
            thoughts = [item for item in items if item.type == "reasoning"]
            return answer(
                "".join(getattr(part, "text", None) or getattr(part, "refusal", None) or "" for part in parts),
                "\n\n".join(part.text for item in thoughts for part in (item.summary or item.content or ())),
                [[item.name, item.arguments] for item in items if item.type == "function_call"],
                event.response.usage.output_tokens if event.response.usage else None,
            )
    return {"error": "no terminal event"}


def anthropic(url: str) -> dict[str, Any]:
    import anthropic

    return messages(anthropic.Anthropic(base_url=url, api_key="k", max_retries=0))


def anthropic_on_bedrock(url: str) -> dict[str, Any]:
    import anthropic

    options = {"aws_access_key": "k", "aws_secret_key": "s", "aws_region": "us-east-1", "max_retries": 0}
    return messages(anthropic.AnthropicBedrock(base_url=url, **options))  # type: ignore[arg-type]


def messages(client: Any) -> dict[str, Any]:
    from anthropic import NOT_GIVEN
    from anthropic.lib.streaming import MessageStream

    raw = client.messages.create(model="m", max_tokens=99, messages=PROMPT, stream=True)
    done = MessageStream(raw, output_format=NOT_GIVEN).get_final_message()
    blocks = done.content
    return answer(
        "".join(block.text for block in blocks if block.type == "text"),
        "".join(block.thinking for block in blocks if block.type == "thinking"),
        [[block.name, json.dumps(block.input)] for block in blocks if block.type == "tool_use"],
        done.usage.output_tokens,
    )


def google(url: str) -> dict[str, Any]:
    from google import genai

    text, thinking, calls, output = "", "", [], None
    client = genai.Client(api_key="k", http_options={"base_url": url})
    for chunk in client.models.generate_content_stream(model="m", contents="hi"):
        used = chunk.usage_metadata
        if used and (used.candidates_token_count or used.thoughts_token_count):
            output = (used.candidates_token_count or 0) + (used.thoughts_token_count or 0)
        for candidate in (chunk.candidates or ())[:1]:
            for part in (candidate.content and candidate.content.parts) or ():
                if part.function_call:
                    calls.append([part.function_call.name or "", json.dumps(part.function_call.args or {})])
                elif part.text:
                    text, thinking = (text, thinking + part.text) if part.thought else (text + part.text, thinking)
    return answer(text, thinking, calls, output)


def converse(url: str) -> dict[str, Any]:
    from botocore.session import Session

    client = Session().create_client("bedrock-runtime", region_name="us-east-1", endpoint_url=url, **AWS)
    text, thinking, calls, output = "", "", {}, None
    prompt = [{"role": "user", "content": [{"text": "hi"}]}]
    for event in client.converse_stream(modelId="m", messages=prompt)["stream"]:
        if "contentBlockStart" in event and "toolUse" in event["contentBlockStart"]["start"]:
            start = event["contentBlockStart"]
            calls[start["contentBlockIndex"]] = [start["start"]["toolUse"]["name"], ""]
        elif "contentBlockDelta" in event:
            delta = event["contentBlockDelta"]["delta"]
            text += delta.get("text", "")
            thinking += delta.get("reasoningContent", {}).get("text", "")
            if "toolUse" in delta:
                calls[event["contentBlockDelta"]["contentBlockIndex"]][1] += delta["toolUse"]["input"]
        elif "metadata" in event:
            output = event["metadata"]["usage"]["outputTokens"]
    return answer(text, thinking, calls.values(), output)


def answer(text: str, thinking: str, calls: Iterable[list[str]], output: int | None) -> dict[str, Any]:
    return {
        "text": text,
        "thinking": thinking,
        "calls": [[name, parsed(given)] for name, given in calls],
        "output": output,
    }


def parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


SDKS: dict[str, Callable[[str], dict[str, Any]]] = {
    "openai-completions": chat,
    "openai-responses": responses,
    "anthropic-messages": anthropic,
    "bedrock-anthropic-messages": anthropic_on_bedrock,
    "google-generative-ai": google,
    "bedrock-converse-stream": converse,
}


def main() -> None:
    print(json.dumps({name: version(name) for name in PACKAGES}), flush=True)
    for line in sys.stdin:
        given = json.loads(line)
        try:
            found = SDKS[given["api"]](given["url"])
        except Exception as error:  # whatever an SDK raises is its answer
            found = {"error": f"{type(error).__name__}: {error}"[:200]}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
