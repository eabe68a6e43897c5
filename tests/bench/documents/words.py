"""What the texts of the corpus are made of: words as frequent as they are, and sentences of them, in both languages.

Chinese words come with their frequencies from the dictionary that the segmenter ships; English ones stand here.
"""

import bisect
import itertools
import pathlib

import jieba

NOUNS = """harbour ledger invoice window garden network letter engine summary budget station bridge kitchen archive parser
client painter orchard thunder committee report contract supplier turbine valve sensor survey tender warehouse shipment
vessel crane channel pipeline reactor membrane catalyst sample microscope laboratory patient dosage trial vaccine
protocol firewall server database backup schedule deadline milestone department ministry council parliament statute
clause appendix annex glossary footnote chapter volume journal editor reviewer author manuscript museum gallery
sculpture violin orchestra festival theatre stadium tournament railway locomotive platform timetable passenger ticket
airport runway cargo customs tariff subsidy pension insurance premium claim mortgage dividend shareholder auditor
balance inventory orchid forest reservoir glacier valley sediment mineral quarry furnace alloy bearing gearbox piston
battery inverter transformer substation meter antenna satellite orbit telescope spectrum photon neutron isotope
polymer solvent enzyme protein genome bacterium tissue surgeon nurse clinic ambulance pharmacy school pupil teacher
curriculum seminar lecture scholarship library catalogue manual handbook guideline regulation permit licence inspector
farmer harvest irrigation fertiliser tractor barn dairy bakery brewery vineyard cellar tavern market merchant
neighbourhood apartment landlord tenant plumber electrician carpenter scaffold concrete asphalt tunnel viaduct""".split()
VERBS = """approved discussed postponed inspected measured replaced recorded described compared delivered repaired rejected
reviewed planned financed tested calibrated archived published translated evaluated expanded reduced reported examined
announced confirmed cancelled extended observed monitored collected distributed assembled designed certified restored
simplified documented negotiated reserved supervised corrected questioned completed""".split()
ADJECTIVES = """annual northern technical provisional municipal preliminary detailed regional industrial historical seasonal
electronic mechanical financial legal medical chemical thermal structural internal external joint revised additional
common remote modern ancient narrow spacious reliable defective affordable expensive temporary permanent coastal rural
urban voluntary mandatory confidential public quarterly unexpected moderate severe gradual sustainable portable""".split()
TAILS = """before the end of the quarter|in spite of the delay|with the consent of both parties|at the request of the owner
after a long debate|without further notice|as part of the programme|for the second time this year|under the new rules
in accordance with the plan|on behalf of the members|at short notice|despite considerable costs|during the winter months
by a narrow majority|to the satisfaction of the residents|in cooperation with the university""".replace("\n", "|").split("|")

SYLLABLES = "ar bel cor dan el fen gar hol im jor kal lin mar nor os pel quin ros sol tam ul ver wen yor zel".split()
ENDINGS = "burg ford ton stad wick holm dale mere port field haven moor".split()
FIRST = """Amelia Boris Clara Dmitri Elena Farid Greta Hassan Irene Jonas Katrin Luis Marta Nadia Oskar Petra Quentin Rosa
Stefan Tessa Ulrich Vera Walter Yusuf Zoe""".split()

ZH_PLACE = "临 青 云 安 东 西 南 北 新 永 长 平 石 金 玉 白 龙 凤 清 海 江 河 山 泉 林 宁 丰 和 兴 华".split()
ZH_KIND = ["县", "镇", "市", "区", "港", "乡"]
ZH_SURNAME = "王 李 张 刘 陈 杨 赵 黄 周 吴 徐 孙 胡 朱 高 林 何 郭 马 罗".split()
ZH_GIVEN = "建国 志强 秀英 海燕 晓明 文博 丽华 国栋 雪梅 子涵 永康 春兰 伟杰 思远 佳宁 立新 玉珍 振华 嘉怡 少云".split()


class Weighted:
    """Words, drawn as often as their weights say."""

    def __init__(self, words, weights):
        self.words = words
        self.sums = list(itertools.accumulate(weights))

    def draw(self, dice):
        return self.words[bisect.bisect_right(self.sums, dice.random() * self.sums[-1])]


def zipf(words):
    return Weighted(words, [1 / (rank + 3) for rank in range(len(words))])


def chinese_by_kind():
    """The words of the segmenter's dictionary by what they are, with their frequencies dampened, as texts of one
    subject repeat themselves less than a newspaper's archive does."""
    kinds = {"n": [], "v": [], "a": [], "d": [], "ns": []}
    dictionary = pathlib.Path(jieba.__file__).parent / "dict.txt"
    for line in dictionary.read_text(encoding="utf-8").splitlines():
        word, count, kind = line.split(" ")
        if kind in kinds and len(word) in (2, 3, 4) and int(count) > 20:
            kinds[kind].append((word, int(count) ** 0.6))
    return {kind: Weighted(*zip(*words)) for kind, words in kinds.items()}


class English:
    """Sentences that look like reports."""

    name = "en"

    def __init__(self, dice):
        self.dice = dice
        self.noun, self.verb, self.adjective = zipf(NOUNS), zipf(VERBS), zipf(ADJECTIVES)

    def group(self):
        adjective = f"{self.adjective.draw(self.dice)} " if self.dice.random() < 0.5 else ""
        return f"the {adjective}{self.noun.draw(self.dice)}"

    def sentence(self):
        text = f"{self.group()} of {self.group()} {self.verb.draw(self.dice)} {self.group()}"
        if self.dice.random() < 0.5:
            text += f" and {self.verb.draw(self.dice)} {self.group()}"
        if self.dice.random() < 0.6:
            text += f" {self.dice.choice(TAILS)}"
        if self.dice.random() < 0.3:
            text += f", which {self.verb.draw(self.dice)} {self.dice.randrange(2, 980)} of {self.group()}"
        return text[0].upper() + text[1:] + "."

    def heading(self):
        return f"{self.adjective.draw(self.dice)} {self.noun.draw(self.dice)} {self.noun.draw(self.dice)}".title()

    def join(self, sentences):
        return " ".join(sentences)

    def place(self):
        return (self.dice.choice(SYLLABLES) + self.dice.choice(SYLLABLES) + self.dice.choice(ENDINGS)).title()

    def person(self):
        return f"{self.dice.choice(FIRST)} {(self.dice.choice(SYLLABLES) + self.dice.choice(SYLLABLES)).title()}sen"


class Chinese:
    """Sentences of words of the dictionary."""

    name = "zh"

    def __init__(self, dice):
        self.dice = dice
        self.kinds = chinese_by_kind()

    def word(self, kind):
        return self.kinds[kind].draw(self.dice)

    def sentence(self):
        word = self.word
        text = f"{word('n')}{self.dice.choice(['的', '和', ''])}{word('n')}{word('v')}了{word('a')}的{word('n')}"
        if self.dice.random() < 0.6:
            text += f"，{word('d')}{word('v')}{word('n')}{word('n')}"
        if self.dice.random() < 0.4:
            text += f"，{self.dice.choice(['因此', '同时', '但是', '其中'])}{word('n')}{word('v')}了{self.dice.randrange(2, 980)}个{word('n')}"
        return text + "。"

    def heading(self):
        return f"{self.word('n')}{self.word('n')}的{self.word('v')}"

    def join(self, sentences):
        return "".join(sentences)

    def place(self):
        """Half of them are in the dictionary; the others are as new to it as most names of firms and people are."""
        if self.dice.random() < 0.5:
            return self.dice.choice(self.kinds["ns"].words)
        return "".join(self.dice.sample(ZH_PLACE, 2)) + self.dice.choice(ZH_KIND)

    def person(self):
        return self.dice.choice(ZH_SURNAME) + self.dice.choice(ZH_GIVEN)
