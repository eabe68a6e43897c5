"""The summary that the scripted model writes, the same for every product: sentences of what it was shown, none of its own.

It is what an honest but short summariser does. Of each message it takes the first sentence; what people said goes before what
the model said, that before what tools returned. An earlier summary may keep up to half of the room. Where there is more than
room, it leaves out evenly, so that neither the beginning nor the end is preferred. It does not know which sentences are tested.
"""

import html
import re

WORDS = 800

# How products show the history that is to be summed up, where they do not send it as messages.
XML = re.compile(r'<message type="(human|ai|tool|system)"[^>]*>(.*?)</message>', re.S)
CALL = re.compile(r"<tool_call[^>]*>(.*?)</tool_call>", re.S)
TAGS = re.compile(r"</?content>")
MARKDOWN = re.compile(r"^### (Person|Assistant|Call of|Call to|Result of|Summary of|Notice|Files)[^\n]*\n(.*?)(?=^### |\Z)", re.S | re.M)
SUMMARIES = re.compile(r"<(summary|earlier_summary|conversation_summary)>(.*?)</\1>", re.S)
# How the person of our conversation begins.
SAID = re.compile(r"Day \d+: ")
FRAME = re.compile(r"\\?#|\[…|What came before in this session|This summary replaces the earlier part|The person said, word for word")
BOUND = re.compile(r"(?:at most|no more than|up to)[^\n.]{0,20}?(\d[\d,]*) words")
AUTHORS = {"human": "person", "user": "person", "Person": "person", "ai": "model", "assistant": "model", "Assistant": "model"}


def text_of(message):
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "\n".join(part.get("text", "") for part in content if isinstance(part, dict))
    calls = [call["function"]["arguments"] for call in message.get("tool_calls") or []]
    return content, calls


def from_xml(whole):
    """The messages that are shown as elements; the calls in an answer are elements of it."""
    for author, text in XML.findall(whole):
        calls = CALL.findall(text)
        text = TAGS.sub("", CALL.sub("", text)).strip()
        if text:
            yield author, html.unescape(text)
        yield from (("tool", html.unescape(call)) for call in calls)


def pieces(messages):
    """Author and text of all that is to be summed up."""
    said = [message for message in messages if message["role"] != "system"]
    if len(said) <= 2:
        whole = "\n".join(text_of(message)[0] for message in said)
        found = list(from_xml(whole)) or MARKDOWN.findall(whole)
        inside = "\n".join(text for _, text in found)
        for earlier in SUMMARIES.finditer(inside if SUMMARIES.search(inside) else whole):
            yield "summary", earlier.group(2)
        for author, text in found or [("person", whole)]:
            if author == "Summary of":
                yield "summary", text
            elif not SUMMARIES.search(text):
                yield AUTHORS.get(author, "tool"), text
        return
    # The last one is the request for the summary itself.
    for message in said[:-1]:
        text, calls = text_of(message)
        for earlier in SUMMARIES.finditer(text):
            yield "summary", earlier.group(2)
        text = SUMMARIES.sub("", text)
        if text.strip():
            yield AUTHORS.get(message["role"], "tool"), text
        for arguments in calls:
            yield "tool", arguments


def first_sentence(text):
    # A call's arguments have their line ends in writing.
    lines = [line.strip(" -*#>`") for line in text.replace("\\n", "\n").strip().splitlines()]
    line = next((line for line in lines if line), "")
    return re.split(r"(?<=[.!?])\s", line, maxsplit=1)[0][:300]


def points(text):
    """The lines of an earlier summary, without its headings and what a product says of it."""
    lines = (line.strip(" -*") for line in text.splitlines())
    return [line for line in lines if line and not FRAME.match(line)]


def thinned(lines, words):
    """As many of them as fit, evenly over all of them."""
    lines = list(dict.fromkeys(line for line in lines if line))
    total = sum(len(line.split()) for line in lines)
    if total <= words:
        return lines
    kept, every, due = [], total / max(words, 1), 0.0
    spent = seen = 0
    for line in lines:
        size = len(line.split())
        seen += size
        if seen >= due and spent + size <= words:
            kept.append(line)
            spent += size
            due = spent * every
    return kept


def summed_up(messages, most_tokens=None):
    """The summary; with a bound on its tokens where the request has one."""
    asked = text_of(messages[-1])[0] + text_of(messages[0])[0]
    room = min([WORDS, *(int(number.replace(",", "")) for number in BOUND.findall(asked))])
    if most_tokens:
        # A word is about six bytes with its space, a token four bytes.
        room = min(room, most_tokens * 6 // 10)
    # Some products keep the user messages themselves, and say so in the prompt.
    excludes_user_text = "do not repeat" in asked.lower()
    by_author = {"summary": [], "person": [], "model": [], "tool": []}
    for author, text in pieces(messages):
        if author == "summary":
            by_author[author] += points(text)
        elif author != "person" or not excludes_user_text:
            by_author[author].append(first_sentence(text))
    if excludes_user_text:
        by_author["summary"] = [line for line in by_author["summary"] if not SAID.match(line)]
    kept = {"summary": thinned(by_author["summary"], room // 2)}
    left = room - sum(len(line.split()) for line in kept["summary"])
    for author in ("person", "model", "tool"):
        kept[author] = thinned(by_author[author], left)
        left -= sum(len(line.split()) for line in kept[author])
    heads = {
        "person": "## What the person wants",
        "summary": "## Constraints and rules",
        "model": "## Decisions and reasons",
        "tool": "## Commands and results",
    }
    parts = [head + "\n" + "\n".join(f"- {line}" for line in kept[author]) for author, head in heads.items() if kept[author]]
    return "\n\n".join(parts) or "Nothing was said yet."

