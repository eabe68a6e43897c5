"""Compares each price of config/catalogue.json with the table that it names as its source, in both directions.

    python3 tests/catalogue/run.py FOLDER

The table is in a package of PyPI, which pip puts into FOLDER once. Nothing of the package is run, and nothing of the script
that writes the catalogue is used: what that script overlooks shows here.
"""

import json
import pathlib
import re
import subprocess
import sys
import zipfile

CATALOGUE = pathlib.Path(__file__).parents[2] / "config" / "catalogue.json"
TABLE = "litellm/model_prices_and_context_window_backup.json"
# Names of a price in the table, and in the catalogue.
PRICES = {
    "input_cost_per_token": "input",
    "cache_read_input_token_cost": "cached_input",
    "cache_creation_input_token_cost": "cache_write",
    "cache_creation_input_token_cost_above_1hr": "cache_write_1h",
    "output_cost_per_token": "output",
    "output_cost_per_reasoning_token": "reasoning",
}
FIELD = re.compile(rf"({'|'.join(PRICES)})(?:_above_(\d+)k_tokens)?")
# Prices for what agentd does not ask for: other speeds, other media, caches that last for half a day.
NOT_USED = re.compile(
    r"batches|flex|priority|ultrafast|decisions|12hr|audio|image|video|character|search|grounding|cache_hit|explicit_cache"
)
# The border itself has the price above it.
INCLUSIVE = {"xai"}


def package(folder, source):
    """The package that the catalogue names, such as `litellm 1.2.3 (MIT)`."""
    name, version, _ = source.split(" ", 2)
    there = sorted(folder.glob(f"{name}-{version}-*.whl"))
    if not there:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"]
        subprocess.run([*command, str(folder), f"{name}=={version}"], check=True)
        there = sorted(folder.glob(f"{name}-{version}-*.whl"))
    return json.loads(zipfile.ZipFile(there[0]).read(TABLE))


def millionths(dollars):
    """Dollars for a token as a number of digits that can be compared."""
    return f"{dollars * 1e6:.6g}"


def published(provider, entry):
    """Prices of an entry as (border, name, price), and names of fields that may be prices and are not known."""
    found, unknown = set(), []
    for field, value in entry.items():
        match = FIELD.fullmatch(field)
        if match and isinstance(value, (int, float)):
            border = int(match[2] or 0) * 1000
            found.add((border - (border > 0 and provider in INCLUSIVE), PRICES[match[1]], millionths(value)))
        elif ("cost" in field or "above" in field or "tier" in field) and not NOT_USED.search(field):
            if field not in ("tiered_pricing", "supports_service_tier"):
                unknown.append(field)
    for tier in entry.get("tiered_pricing") or []:
        border = int(tier["range"][0])
        found |= {(border, PRICES[field], millionths(value)) for field, value in tier.items() if field in PRICES}
        unknown += [field for field in tier if field not in PRICES and field != "range"]
    return found, unknown


def listed(prices):
    """The same of the catalogue, whose prices are for a million tokens."""
    found = set()
    for tier in [prices, *prices.get("tiers", [])]:
        rates = {name: value for name, value in tier.items() if name not in ("above", "tiers")}
        found |= {(tier.get("above", 0), name, f"{value:.6g}") for name, value in rates.items()}
    return found


def left_out(prices):
    """Prices of the table that say nothing of their own: free models, free writes, reasoning at the price of the answer."""
    by_place = {(border, name): price for border, name, price in prices}
    if float(by_place.get((0, "input"), 0)) + float(by_place.get((0, "output"), 0)) == 0:
        return prices
    is_idle = {
        "cache_write": lambda border, price: float(price) == 0,
        "reasoning": lambda border, price: price == by_place.get((border, "output")),
    }
    return {row for row in prices if row[1] in is_idle and is_idle[row[1]](row[0], row[2])}


def problems(catalogue, table):
    for provider, models in catalogue["models"].items():
        for name, model in models.items():
            entry = table.get(f"{provider}/{name}") or table.get(name)
            if entry is None or entry.get("litellm_provider") != provider:
                yield f"{provider}/{name} is not in the table"
                continue
            prices, unknown = published(provider, entry)
            yield from (f"{provider}/{name} has a price that nobody reads: {field}" for field in unknown)
            own = listed(model.get("prices", {}))
            for row in sorted(prices - left_out(prices) - own):
                yield f"{provider}/{name} lacks {row}"
            for row in sorted(own - prices):
                yield f"{provider}/{name} has {row}, which is not published"


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    catalogue = json.loads(CATALOGUE.read_text())
    found = list(problems(catalogue, package(folder, catalogue["source"])))
    count = sum(len(listed(model.get("prices", {}))) for models in catalogue["models"].values() for model in models.values())
    print("\n".join(found) or f"{count} prices of the catalogue are those of {catalogue['source']}")
    sys.exit(1 if found or count < 500 else 0)


if __name__ == "__main__":
    main()
