"""How much of a long conversation is still there at its end, and what it took, of agentd and of deepagents in the same run.

    python recall.py PROGRAMS FOLDER [--product ours|theirs]… [--window N]… [--turns N]…

Plays the same conversation (`plan.py`) with the same model (`server.py`) through both, and prints one line of JSON: one object
for each product, window and number of turns, and the prefixes of all of them. PROGRAMS is the folder with agentd and agentctl.

A fact is in view if its code stands in the first request behind the last turn, and usually in view by the share of the facts so
far that the turns of the second half begin with. For each that is not, the model then calls the
product's own search once (`search_history`; `grep` in the folder that the summary names), and it counts as found if the next
request has it. Before that the person asks for ten of them by name: those that are in view then came without a search.
"""

import argparse
import ctypes
import json
import os
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import judge
from plan import CLOSING, Plan, question
from server import Server

# Facts that are asked for by name; facts that one step searches for; such steps in one turn.
NAMED, AT_ONCE, STEPS = 10, 5, 12
DONE = "All of that is noted."
# How long one conversation may take, in seconds.
PATIENCE = 900
# Turns and window of the conversation with a todo list, which only prefixes are taken from.
WITH_TODOS = (20, 131072)


def product(name):
    # Only whoever is driven needs its packages.
    if name == "theirs":
        from theirs import Theirs

        return Theirs
    from ours import Ours

    return Ours


def played(name, window, turns, programs, folder, todos=False):
    """One conversation, from its first word to the search for what is lost."""
    begun = time.monotonic()
    plan, models = Plan(turns, todos), Server(window)
    models.translate = product(name).translate
    driven = product(name)(models, programs, folder)
    failed, shares = [], []

    def seen(before):
        """Which facts of earlier turns the turn began with."""
        facts = [fact for fact in plan.facts if fact.turn < before]
        return facts, [fact for fact in facts if fact.code not in models.record.first]

    def turn(number, text, steps, words, reply=""):
        if time.monotonic() - begun > PATIENCE:
            raise TimeoutError(f"it took more than {PATIENCE} s to come to turn {number}")
        models.play(number, text, steps, words)
        if not driven.turn(text, reply):
            failed.append(number)

    try:
        for planned in plan.turns:
            driven.report(planned.report)
            turn(planned.number, planned.text, planned.steps, planned.answer, planned.reply)
            if planned.number > turns / 2:
                facts, missing = seen(planned.number)
                shares.append(1 - len(missing) / len(facts))
        turn(turns + 1, CLOSING, [], DONE)
        requests = list(models.record.requests)
        refused, failed_turns = models.record.refused, list(failed)
        _, gone = seen(turns + 1)
        shares.append(1 - len(gone) / len(plan.facts))
        named = judge.spread(gone, NAMED)
        unasked = 0
        for fact in named:
            turn(turns + 2, question(fact), [], DONE)
            unasked += fact.code in models.record.last
        together = [gone[at : at + AT_ONCE] for at in range(0, len(gone), AT_ONCE)]
        for at in range(0, len(together), STEPS):
            steps = [[("search", fact.subject, fact.code) for fact in facts] for facts in together[at : at + STEPS]]
            turn(turns + 3, "Now look up what is missing.", steps, DONE)
        found = models.record.found
    finally:
        driven.close()
        models.close()
    return {
        "seconds": round(time.monotonic() - begun, 1),
        "facts": len(plan.facts),
        "in_view": len(plan.facts) - len(gone),
        # How full the window is at the end is chance: on average over the second half.
        "usually": sum(shares) / len(shares),
        "found": sum(fact.code in found for fact in gone),
        "gone": judge.by_kind(gone),
        "lost": judge.by_kind(fact for fact in gone if fact.code not in found),
        "unasked": unasked,
        "named": len(named),
        "failed_turns": len(failed_turns),
        "refused": refused,
        "details": [str(one)[:300] for one in driven.details[:20]],
        **judge.figures(requests),
    }


def run(job):
    """One conversation in a process of its own, and what went wrong in it."""
    name, window, turns, _, _, todos = job
    result = {"product": name, "window": window, "turns": turns, "todos": todos}
    try:
        result.update(played(*job))
    except SystemExit:
        # The pool would go on with the next one.
        os._exit(1)
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {error}"[:500]
    print(f"{name}, {turns} turns in {window}: {result.get('error') or result['seconds']}", file=sys.stderr)
    return result


def ends_with_its_parent():
    """Whatever happens to whoever started us, no daemon of ours is left."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("programs")
    arguments.add_argument("folder")
    arguments.add_argument("--product", action="append", choices=["ours", "theirs"])
    arguments.add_argument("--window", action="append", type=int)
    arguments.add_argument("--turns", action="append", type=int)
    given = arguments.parse_args()
    products = given.product or ["ours", "theirs"]
    jobs = [
        (name, window, turns, given.programs, given.folder, False)
        for turns in sorted(given.turns or [5, 30, 100], reverse=True)
        for window in given.window or [8192, 32768, 131072]
        for name in products
    ]
    if "ours" in products:
        jobs.append(("ours", WITH_TODOS[1], WITH_TODOS[0], given.programs, given.folder, True))
    # No time is measured, so they may share the machine.
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 4), initializer=ends_with_its_parent) as pool:
        runs = list(pool.map(run, jobs))
    whole = [one for one in runs if "error" not in one]
    groups = {
        "ours": [one for one in whole if one["product"] == "ours" and not one["todos"]],
        "theirs": [one for one in whole if one["product"] == "theirs"],
        "todos": [one for one in whole if one["todos"]],
    }
    prefixes = {name: judge.prefix(group) for name, group in groups.items() if group}
    for one in runs:
        one.pop("shares", None)
    runs.sort(key=lambda one: (one["turns"], one["window"]))
    print(json.dumps({"runs": [one for one in runs if not one["todos"]], "prefixes": prefixes, "todos": groups["todos"]}))


if __name__ == "__main__":
    main()
