"""The conversation that is played: turns, what the model does in each, and the facts that are planted in them.

A fact is a subject and a code: "The code of the amber falcon is K7XQ-2941." The code stands nowhere else, so whoever has it has
the fact. Facts are planted where they come up in real work: in what the person says, in what a tool returns, in what the person
answers to a question, in a file that the model writes, and in what the model decides. Everything follows from one seed.
"""

import random
from dataclasses import dataclass, field

KINDS = ["input", "result", "answer", "file", "decision"]
LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
ADJECTIVES = (
    "amber azure bitter brass bright bronze calm cedar clever copper coral crimson distant eager early fabled fern frosty gentle "
    "golden hollow humble indigo ivory jagged keen lively lunar mellow misty noble olive opal pale quiet rapid russet silent "
    "silver slender solar steady sturdy tidal velvet violet wary wild winter woven"
).split()
NOUNS = (
    "anchor badger beacon bridge canyon castle comet compass condor cradle delta ember falcon ferry forge garnet glacier harbor "
    "hawk heron island kestrel lagoon lantern ledger magnet marten meadow mill orchard otter pillar prairie quarry raven reef "
    "ridge saddle spruce stable summit temple thicket tower tunnel valley vessel walnut willow"
).split()
PLACES = "Porto Bergen Gdansk Lyon Turin Ghent Leeds Malmo Basel Cork Split Tartu Graz Brno Vigo Bari".split()
STATES = "on time,late by a day,waiting for parts,in inspection,repacked,handed over,returned,on hold".split(",")
CLERKS = ["Ann", "Ben", "Eva", "Tom"]
ASIDES = [
    "The weather held up the ferry again, but nobody complained.",
    "Marta is back from her leave and sits at the old desk.",
    "The printer on the second floor works again.",
    "I looked at the figures over lunch and they are plausible.",
    "Please keep the tone of the notes as it was.",
    "The visitors of yesterday liked the short version better.",
    "Nothing else changed since we last spoke.",
    "Jonas asks whether the table can stay as it is.",
]
REQUESTS = [
    "Look at the report of today and tell me whether anything stands out.",
    "Go through the report and say which deliveries are late.",
    "Please check the new report against what we know.",
    "Read the report of today, then tell me in two sentences where we are.",
]
ANSWERS = [
    "The report has no surprises: two deliveries are late and the rest moves.",
    "Most of it is on time; what waits for parts waits as before.",
    "I went through the report, and the late ones are the same as before.",
    "All in order, apart from what is in inspection.",
]


@dataclass
class Fact:
    number: int
    kind: str
    turn: int
    subject: str
    code: str

    @property
    def sentence(self):
        if self.kind == "decision":
            return f"Decision: the {self.subject} gets the code {self.code}, because the other one is taken."
        if self.kind == "answer":
            return f"For the {self.subject} use the code {self.code}, never the old one."
        return f"The code of the {self.subject} is {self.code}."


@dataclass
class Turn:
    """What happens in one turn. A step is what the model does in one answer: a list of actions, each of which is one call of a
    tool; the words come last."""

    number: int
    text: str
    report: str
    answer: str
    steps: list = field(default_factory=list)
    # What the person says when they are asked in this turn.
    reply: str = ""


class Plan:
    def __init__(self, turns, todos=False, seed=7):
        self.dice = random.Random(f"{seed}/{turns}")
        self.todos = todos
        self.facts = self._facts(turns)
        self.turns = [self._turn(number) for number in range(1, turns + 1)]

    def _facts(self, turns):
        """One a turn, but ten at the least; each kind as often as the others."""
        pairs = [f"{adjective} {noun}" for adjective in ADJECTIVES for noun in NOUNS]
        subjects = self.dice.sample(pairs, max(turns, 10))
        facts, kinds = [], []
        for number, subject in enumerate(subjects):
            if not kinds:
                kinds = self.dice.sample(KINDS, len(KINDS))
            letters = "".join(self.dice.choices(LETTERS, k=4))
            code = f"{letters}-{self.dice.randrange(1000, 10000)}"
            facts.append(Fact(number, kinds.pop(), 1 + number * turns // len(subjects), subject, code))
        return facts

    def _turn(self, number):
        facts = {}
        for fact in self.facts:
            if fact.turn == number:
                facts.setdefault(fact.kind, []).append(fact.sentence)
        dice = self.dice
        # With a fact it is about as long as without.
        inputs = facts.get("input", [])
        said = [dice.choice(REQUESTS), *dice.sample(ASIDES, max(2 - len(inputs), 0))]
        for sentence in inputs:
            said.insert(dice.randrange(len(said) + 1), sentence)
        report = [
            f"{dice.randrange(100, 999)} | {dice.choice(PLACES)} to {dice.choice(PLACES)} | {dice.randrange(2, 60)} crates | "
            f"{dice.choice(STATES)} | checked by {dice.choice(CLERKS)} at {dice.randrange(6, 20)}:{dice.randrange(10, 60)}"
            for _ in range(22)
        ]
        for sentence in facts.get("result", []):
            report.insert(dice.randrange(2, len(report)), sentence)
        answered = [dice.choice(ANSWERS), "Tell me if you want it in more detail."]
        for sentence in facts.get("decision", []):
            answered.insert(dice.randrange(len(answered) + 1), sentence)
        steps = [[("read",)]]
        if number % 3 == 0:
            steps.append([("find", "late by a day")])
        if facts.get("answer"):
            steps.append([("ask", f"Which code do I use here, the old one or another one? This is about delivery {number}.")])
        if facts.get("file"):
            note = [f"# Note {number}", "", *dice.sample(ASIDES, 2), *facts["file"], *dice.sample(ASIDES, 2)]
            steps.append([("write", f"note-{number}.md", "\n".join(note) + "\n")])
        if self.todos and number % 3 == 1:
            steps = [[("plan", 0)], steps[0], [("plan", 1)], *steps[1:], [("plan", 4)]]
        return Turn(
            number,
            f"Day {number}: " + " ".join(said),
            f"Report of day {number}\n\n" + "\n".join(report) + "\n",
            " ".join(answered),
            steps,
            " ".join(facts.get("answer", [])),
        )


CLOSING = "That was the last day. Before we end: do you have all of it at hand?"


def question(fact):
    """The person asks for one fact by its name."""
    return f"What was it with the {fact.subject} again?"
