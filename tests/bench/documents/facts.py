"""Facts that are planted in the corpus, one a page, and how people ask for them.

A question shares the names of its fact and says the rest in other words where language offers them. Names come back in
other facts and in running text, so that a name alone is not enough. Beside questions there are the other things that people
and models type: keywords, a phrase in quotes, a number of a permit.
"""

EN_PROJECTS = ["the dredging of the inner basin", "a covered market hall", "new trams", "flood gates", "street lighting",
               "a children's hospital", "the repair of the town wall", "solar roofs", "a cycle path along the river",
               "digital land registers"]
EN_DEPARTMENTS = ["procurement", "water quality", "archives", "patient safety", "foreign trade", "fire prevention",
                  "apprentice training", "data protection"]
EN_REPORTS = ["emissions report", "statement of accounts", "noise survey", "safety concept", "list of subcontractors",
              "progress summary"]
EN_MACHINES = ["pumping station", "cooling tower", "signal box", "paper mill", "freight elevator", "radar mast"]
EN_CAUSES = ["a cracked bearing", "salt in the control cabinet", "a swarm of jellyfish", "an expired certificate",
             "frozen lubricant", "a miswired relay", "lightning"]
EN_MATERIALS = ["pollen", "peat", "blood plasma", "sea ice", "resin", "yeast", "moss", "meteorite dust"]

ZH_PROJECTS = ["内港清淤", "农贸市场改造", "新型有轨电车", "防洪闸门", "路灯更换", "儿童医院建设", "古城墙修缮", "屋顶光伏",
               "滨河自行车道", "不动产登记数字化"]
ZH_DEPARTMENTS = ["采购部", "水质监测科", "档案室", "患者安全办公室", "对外贸易处", "消防科", "学徒培训中心", "数据保护组"]
ZH_REPORTS = ["排放报告", "决算报表", "噪声调查表", "安全方案", "分包商名单", "进度总结"]
ZH_MACHINES = ["泵站", "冷却塔", "信号楼", "造纸机", "货运电梯", "雷达天线"]
ZH_CAUSES = ["轴承开裂", "控制柜进盐水", "水母群堵塞进水口", "证书过期", "润滑油冻结", "继电器接线错误", "雷击"]
ZH_MATERIALS = ["花粉", "泥炭", "血浆", "海冰", "树脂", "酵母", "苔藓", "陨石粉末"]


def code(dice):
    letters = "".join(dice.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(3))
    return f"{letters}-{dice.randrange(1000, 9999)}-{dice.randrange(10, 99)}"


def english(dice, language, places):
    """What the page says, a question, and keywords."""
    place, other, year = dice.choice(places), dice.choice(places), dice.randrange(1950, 2025)
    amount = f"{dice.randrange(2, 980)},{dice.randrange(100, 999)}"
    kind = dice.randrange(8)
    if kind == 0:
        what = dice.choice(EN_PROJECTS)
        says = f"In {year} the council of {place} set aside {amount} crowns for {what}."
        return says, f"How much money did {place} reserve for {what}?", f"{place} {what} crowns"
    if kind == 1:
        person, what = language.person(), dice.choice(EN_DEPARTMENTS)
        says = f"{person} was appointed head of {what} by the {place} board."
        return says, f"Who leads {what} in {place}?", f"{place} head of {what}"
    if kind == 2:
        what, day = dice.choice(EN_REPORTS), dice.randrange(1, 29)
        says = f"Contractors in {place} must hand in the {what} no later than {day} October."
        return says, f"When is the {what} of contractors due in {place}?", f"{place} {what}"
    if kind == 3:
        what, why = dice.choice(EN_MACHINES), dice.choice(EN_CAUSES)
        says = f"The {what} at {place} failed because of {why}."
        return says, f"Why did the {what} in {place} break down?", f"{place} {what} failure"
    if kind == 4:
        says = f"The power line between {place} and {other} measures {dice.randrange(20, 900)} kilometres."
        return says, f"How long is the power line from {place} to {other}?", f"power line {place} {other}"
    if kind == 5:
        what, degrees = dice.choice(EN_MATERIALS), dice.randrange(2, 40)
        says = f"Samples of {what} from {place} have to be kept below {degrees} degrees."
        return says, f"At what temperature are {what} samples from {place} stored?", f"{place} {what} samples degrees"
    if kind == 6:
        number = code(dice)
        says = f"The mooring permit of {place} is filed under {number}."
        return says, f"Under which number is the mooring permit of {place} filed?", number
    says = f"The observatory of {place} opened its doors in {year} and was enlarged twice."
    return says, f"In which year did the {place} observatory open?", f"observatory {place}"


def chinese(dice, language, places):
    """The same in Chinese."""
    place, other, year = dice.choice(places), dice.choice(places), dice.randrange(1950, 2025)
    kind = dice.randrange(8)
    if kind == 0:
        what = dice.choice(ZH_PROJECTS)
        says = f"{year}年，{place}政府决定拿出{dice.randrange(20, 9800)}万元用于{what}。"
        return says, f"{place}为{what}安排了多少资金？", f"{place} {what}"
    if kind == 1:
        person, what = language.person(), dice.choice(ZH_DEPARTMENTS)
        says = f"经{place}理事会研究，任命{person}为{what}负责人。"
        return says, f"{place}{what}由谁负责？", f"{place} {what} 任命"
    if kind == 2:
        what = dice.choice(ZH_REPORTS)
        says = f"{place}的承包单位应当在十月{dice.randrange(1, 29)}日之前提交{what}。"
        return says, f"{place}的承包商什么时候要交{what}？", f"{place} {what} 提交"
    if kind == 3:
        what, why = dice.choice(ZH_MACHINES), dice.choice(ZH_CAUSES)
        says = f"{place}的{what}因{why}而停止运行。"
        return says, f"{place}的{what}为什么停运？", f"{place} {what} 原因"
    if kind == 4:
        says = f"从{place}到{other}的输电线路全长{dice.randrange(20, 900)}公里。"
        return says, f"{place}与{other}之间的输电线路有多长？", f"输电线路 {place} {other}"
    if kind == 5:
        what = dice.choice(ZH_MATERIALS)
        says = f"采自{place}的{what}样品必须在{dice.randrange(2, 40)}摄氏度以下保存。"
        return says, f"{place}的{what}样品应在什么温度下存放？", f"{place} {what} 样品 保存"
    if kind == 6:
        number = code(dice)
        says = f"{place}的停泊许可证编号为{number}。"
        return says, f"{place}停泊许可证的编号是什么？", number
    says = f"{place}天文台于{year}年对外开放，此后扩建过两次。"
    return says, f"{place}天文台是哪一年开放的？", f"天文台 {place}"


def asked(dice, says, question, keywords):
    """Mostly questions, as models ask; else what people type."""
    roll = dice.random()
    if roll < 0.6:
        return question
    if roll < 0.9:
        return keywords
    # A part of it word for word.
    words = says.rstrip(".。").split(" ")
    if len(words) > 6:
        return '"' + " ".join(words[2:6]) + '"'
    return '"' + says[2:10] + '"'
