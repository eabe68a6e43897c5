"""What the requests of a conversation come to."""

from collections import Counter
from statistics import median

# Characters of messages that have to go for it to be a relief of the window. What is less is no reason to break a prefix.
RELIEF = 1000


def spread(things, number):
    """So many of them, evenly over all."""
    if len(things) <= number:
        return list(things)
    return [things[at * len(things) // number] for at in range(number)]


def by_kind(facts):
    return dict(Counter(fact.kind for fact in facts))


def figures(requests):
    """Figures of a conversation: number and size of its requests, and the share of each that the next one repeats."""
    main = [request for request in requests if request.kind == "main"]
    shares, reliefs = {"step": [], "border": []}, 0
    for before, after in zip(main, main[1:]):
        if after.dropped >= RELIEF:
            # The history was made shorter, which breaks the prefix by intent: counted, and not among the rest.
            reliefs += 1
        else:
            shares["step" if after.turn == before.turn else "border"].append(100 * after.repeated / after.before)
    return {
        "requests": len(main),
        "summaries": len(requests) - len(main),
        "tokens": sum(request.tokens for request in requests),
        "new_tokens": sum(request.new for request in requests),
        "summary_tokens": sum(request.tokens for request in requests if request.kind == "summary"),
        "new_summary_tokens": sum(request.new for request in requests if request.kind == "summary"),
        "last_tokens": main[-1].tokens if main else 0,
        "reliefs": reliefs,
        "shares": shares,
        "breaks": breaks(main),
    }


def prefix(runs):
    """The shares of several conversations together."""
    quantiles = {"reliefs": sum(run["reliefs"] for run in runs)}
    for where in ("step", "border"):
        shares = [share for run in runs for share in run["shares"][where]]
        quantiles[where] = {"pairs": len(shares), "median": median(shares) if shares else 0, "least": min(shares, default=0)}
    return quantiles


def breaks(main):
    """Where prefixes broke, the worst first."""
    broken = [(100 * request.repeated / request.before, request) for request in main if request.broke]
    broken.sort(key=lambda pair: pair[0])
    return [f"turn {request.turn}, step {request.step}: {share:.1f} %, {request.broke}" for share, request in broken[:5]]
