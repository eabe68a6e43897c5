use agentd_core::{interrupt::AnsweredBy, policy::Risk};

use crate::links::gates::approvals::*;

#[test]
fn the_strictest_decides() {
    let deny = Verdict::Deny { reason: "no".to_owned() };
    let ask = Verdict::Ask { risk: Risk::High, reason: "why".to_owned() };
    let answered = ResolvedInterrupt::new(None, &Answer::Approve, &AnsweredBy::Daemon);
    let before = Some(Some(&answered));
    let check = |verdict: &Verdict, fails, earlier, on_interrupt, expected: Decision<'_>| {
        assert_eq!(decide(verdict, fails, earlier, on_interrupt), expected, "{verdict:?} {fails} {earlier:?}");
    };
    for on_interrupt in [OnInterrupt::Approve, OnInterrupt::Deny, OnInterrupt::Fail, OnInterrupt::Wait] {
        for earlier in [None, Some(None), before] {
            for fails in [true, false] {
                check(&deny, fails, earlier, on_interrupt, Decision::Deny("no"));
            }
            check(&Verdict::Allow, true, earlier, on_interrupt, Decision::Fail);
            check(&ask, true, earlier, on_interrupt, Decision::Fail);
        }
        for verdict in [&Verdict::Allow, &ask] {
            check(verdict, false, before, on_interrupt, Decision::Obey(&answered));
            check(verdict, false, Some(None), on_interrupt, Decision::Run);
        }
        check(&Verdict::Allow, false, None, on_interrupt, Decision::Run);
    }
    check(&ask, false, None, OnInterrupt::Wait, Decision::Ask);
    check(&ask, false, None, OnInterrupt::Approve, Decision::RunUnasked);
    check(&ask, false, None, OnInterrupt::Deny, Decision::Refuse("why"));
    check(&ask, false, None, OnInterrupt::Fail, Decision::EndTurn("why"));
}
