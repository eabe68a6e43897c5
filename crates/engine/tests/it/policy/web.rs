//! Requests over the network: fetching is allowed, and sending asks.

use agentd_core::{policy::Layer, session::SessionSettings, tool::Effect};
use agentd_policy::check_grant;
use serde_json::{Value, json};

use super::{compiled, granting, judge, mark, shipped, tool};

#[test]
fn requests_that_send_data_always_ask() {
    let policy = shipped();
    let fetch = tool("http_fetch", Effect::Network);
    let trusting = SessionSettings { confirm_write: false, confirm_exec: false, ..SessionSettings::default() };
    let check = |args: Value, expected: &str| {
        for settings in [&SessionSettings::default(), &trusting] {
            assert_eq!(mark(&judge(&policy, &fetch, &args, settings)), expected, "{args}");
        }
    };
    check(json!({"url": "https://example.org/"}), "allow");
    check(json!({"url": "https://example.org/", "method": "head", "headers": {"Accept": "text/html"}}), "allow");
    check(json!({"query": "whales"}), "allow");
    check(json!({"url": "https://example.org/", "method": "POST"}), "ask");
    check(json!({"url": "https://example.org/", "method": "get", "body": "x"}), "ask");
    check(json!({"url": "https://example.org/", "headers": {"cookie": "x"}}), "ask");
    // Patterns for all tools also apply to URLs.
    check(json!({"url": "https://example.org/?api_key=ABCDEFGH12345"}), "critical");
    check(json!([]), "high");
}

#[test]
fn rules_match_request_urls() {
    let rules = "
        tools:
          http_fetch:
            patterns: {high_risk: ['/admin/'], medium_risk: ['\\bapi\\.'], low_risk: ['https://hooks\\.lan/']}
            actions: {high_risk: deny, medium_risk: require_approval}";
    let policy = compiled(rules);
    let fetch = tool("http_fetch", Effect::Network);
    let check = |args: Value, expected: &str| {
        assert_eq!(mark(&judge(&policy, &fetch, &args, &SessionSettings::default())), expected, "{args}");
    };
    check(json!({"url": "https://example.org/admin/"}), "deny");
    check(json!({"url": "https://api.example.org/"}), "ask");
    check(json!({"url": "https://hooks.lan/x", "method": "POST"}), "allow");
    // An allowed URL matches only at the start.
    check(json!({"url": "https://example.org/?https://hooks.lan/", "method": "POST"}), "ask");
    let closed = compiled("global: {default_action: deny}");
    let post = json!({"url": "https://example.org/", "method": "POST"});
    assert_eq!(mark(&judge(&closed, &fetch, &post, &SessionSettings::default())), "deny");
    let get = json!({"url": "https://example.org/"});
    assert_eq!(mark(&judge(&closed, &fetch, &get, &SessionSettings::default())), "allow");
}

#[test]
fn request_grant_covers_the_exact_request_only() {
    let policy = shipped();
    let fetch = tool("http_fetch", Effect::Network);
    let post = |body: &str| json!({"url": "https://example.org/", "method": "POST", "body": body});
    let explanation = judge(&policy, &fetch, &post("a"), &granting(&[]));
    let [rule] = explanation.grants.as_slice() else { panic!("{explanation:?}") };
    assert_eq!(check_grant(&policy, rule, std::slice::from_ref(&fetch)), Ok(()));
    let granted = granting(&[rule]);
    let allowed = judge(&policy, &fetch, &post("a"), &granted);
    assert_eq!((mark(&allowed), allowed.layer), ("allow", Layer::Grant));
    assert_eq!(mark(&judge(&policy, &fetch, &post("b"), &granted)), "ask");
    for wide in ["http_fetch", "http_fetch: make", "http_fetch *"] {
        let unfit = check_grant(&policy, wide, std::slice::from_ref(&fetch)).expect_err(wide);
        assert!(unfit.problem.contains("call by call"), "{wide}: {unfit:?}");
    }
}
