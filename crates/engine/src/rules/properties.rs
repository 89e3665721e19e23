//! Properties of every set of rules.

use mcpmon_policy::{
    Decision, Policy,
    rules::{
        ArgumentPath, CallRule, PathGlob, Pattern, Rules, SpellingGlob, ToolEntry, ToolMatch, ToolPolicy,
        ValueLimit,
    },
};
use proptest::prelude::*;

use super::{ObjectionEffect, RULES, Ruling, fixture::Stage};

/// Names, globs and values from one small world, so that they meet.
const NAMES: [&str; 6] = ["read_file", "Read-File", "reаd_file", "write_file", "send", "*"];
const GLOBS: [&str; 5] = ["*", "read_*", "write_file", "s?nd", "*_file"];
const PATHS: [&str; 6] = [
    "/home/me/a",
    "/home/me/../../etc/shadow",
    "~/.ssh/id",
    "%2fetc%2fshadow",
    "/etc",
    "x",
];
const PATH_GLOBS: [&str; 4] = ["/home/me/**", "**/.ssh/**", "/etc/**", "*"];
const NUMBERS: [&str; 7] = ["1", "\"1,000\"", "\"1e3\"", "\"NaN\"", "999", "-5", "\"ten\""];

fn pick(from: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(from)
}

fn decision() -> impl Strategy<Value = Decision> {
    prop_oneof![
        Just(Decision::Allow),
        Just(Decision::Audit),
        Just(Decision::Ask),
        Just(Decision::Block)
    ]
}

fn tool() -> impl Strategy<Value = ToolMatch> {
    let glob = || pick(&GLOBS).prop_map(SpellingGlob::new);
    let regex = prop::option::of(pick(&["^read", "send|write", "file$"]));
    (
        prop::option::of(glob()),
        prop::collection::vec(glob(), 0..2),
        regex,
    )
        .prop_map(|(name, any, regex)| ToolMatch {
            name,
            any,
            regex: regex.map(|regex| Pattern::new(regex).expect("a pattern")),
        })
}

fn call_rule() -> impl Strategy<Value = CallRule> {
    let condition = (pick(&["path", "opts.path", "*"]), pick(&PATH_GLOBS)).prop_map(|(path, glob)| {
        (
            ArgumentPath::new(path).expect("a way"),
            PathGlob::new(glob).expect("a glob"),
        )
    });
    let arguments = prop::collection::vec(condition, 0..2);
    (tool(), arguments, decision(), "[a-z]{6}").prop_map(|(tool, arguments, decision, id)| CallRule {
        id,
        tool,
        server: None,
        arguments,
        decision,
        reason: String::new(),
    })
}

fn limit() -> impl Strategy<Value = ValueLimit> {
    (tool(), -10..2000_i64, "[a-z]{6}").prop_map(|(tool, max, id)| ValueLimit {
        id,
        tool,
        argument: ArgumentPath::new("amount").expect("a way"),
        min: None,
        max: Some(i128::from(max).into()),
        decision: Decision::Block,
        reason: String::new(),
    })
}

fn entry() -> impl Strategy<Value = ToolEntry> {
    pick(&GLOBS).prop_map(|glob| ToolEntry {
        server: SpellingGlob::new("*"),
        tool: SpellingGlob::new(glob),
        content_hash: None,
    })
}

fn tools() -> impl Strategy<Value = ToolPolicy> {
    let entries = || prop::collection::vec(entry(), 0..3);
    prop_oneof![
        Just(ToolPolicy::None),
        entries().prop_map(ToolPolicy::Allowlist),
        entries().prop_map(ToolPolicy::Denylist),
    ]
}

fn rules() -> impl Strategy<Value = Rules> {
    let blocked = prop::collection::vec(pick(&GLOBS[1..]).prop_map(SpellingGlob::new), 0..2);
    let calls = prop::collection::vec(call_rule(), 0..4);
    let limits = prop::collection::vec(limit(), 0..3);
    (tools(), decision(), blocked, calls, limits).prop_map(
        |(tools, default, blocked_tools, calls, limits)| Rules {
            tools,
            default,
            blocked_tools,
            calls,
            limits,
            ..Rules::default()
        },
    )
}

/// A call: its tool and its arguments.
fn call() -> impl Strategy<Value = (&'static str, String)> {
    let arguments = (pick(&PATHS), pick(&PATHS), pick(&NUMBERS)).prop_map(|(path, other, amount)| {
        format!(r#"{{"path":["{path}","{other}"],"opts":{{"path":"{other}"}},"amount":{amount}}}"#)
    });
    (pick(&NAMES), arguments)
}

/// Returns the combined result of all rules.
fn judge(rules: Rules, (tool, arguments): &(&str, String)) -> Ruling {
    let policy = Policy {
        rules,
        ..Policy::default()
    };
    let mut stage = Stage::new(policy);
    stage.list(&[("read_file", ""), ("write_file", ""), ("send", "")]);
    let objections = RULES
        .iter()
        .flat_map(|rule| stage.every(*rule, tool, arguments))
        .collect::<Vec<_>>();
    Ruling::of(objections.into_iter())
}

fn blocks(rules: Rules, call: &(&str, String)) -> bool {
    judge(rules, call).effect() == ObjectionEffect::Block
}

proptest! {
    #[test]
    fn adding_what_refuses_never_allows_more(rules in rules(), rule in call_rule(), limit in limit(), denied in entry(), call in call()) {
        let before = blocks(rules.clone(), &call);
        let mut more = rules.clone();
        more.blocked_tools.push(denied.tool.clone());
        prop_assert!(blocks(more, &call) || !before);
        let mut more = rules.clone();
        more.calls.push(CallRule { decision: Decision::Block, ..rule });
        prop_assert!(blocks(more, &call) || !before);
        let mut more = rules.clone();
        more.limits.push(limit);
        prop_assert!(blocks(more, &call) || !before);
        let mut more = rules;
        if let ToolPolicy::Denylist(list) = &mut more.tools {
            list.push(denied);
        }
        prop_assert!(blocks(more, &call) || !before);
    }

    #[test]
    fn removing_what_allows_never_allows_more(rules in rules(), call in call()) {
        let before = blocks(rules.clone(), &call);
        let mut fewer = rules.clone();
        fewer.calls.retain(|rule| rule.decision != Decision::Allow);
        prop_assert!(blocks(fewer, &call) || !before);
        let mut fewer = rules;
        if let ToolPolicy::Allowlist(list) = &mut fewer.tools {
            list.pop();
        }
        prop_assert!(blocks(fewer, &call) || !before);
    }

    #[test]
    fn the_order_of_rules_does_not_matter(rules in rules(), call in call()) {
        let mut turned = rules.clone();
        turned.calls.reverse();
        turned.limits.reverse();
        turned.blocked_tools.reverse();
        let noted = |ruling: &Ruling| {
            let mut noted: Vec<String> = ruling.audits.iter().map(|audit| audit.reason.clone()).collect();
            noted.sort();
            noted
        };
        let (before, after) = (judge(rules, &call), judge(turned, &call));
        prop_assert_eq!(before.effect(), after.effect());
        if before.block.is_none() {
            prop_assert_eq!(noted(&before), noted(&after));
        }
    }

    #[test]
    fn a_stricter_decision_never_loosens(rules in rules(), call in call()) {
        let before = blocks(rules.clone(), &call);
        let stricter = |decision| match decision {
            Decision::Allow => Decision::Audit,
            Decision::Audit => Decision::Ask,
            Decision::Ask | Decision::Block => Decision::Block,
        };
        let mut strict = rules.clone();
        strict.default = stricter(strict.default);
        prop_assert!(blocks(strict, &call) || !before);
        let mut strict = rules;
        for rule in &mut strict.calls {
            rule.decision = stricter(rule.decision);
        }
        prop_assert!(blocks(strict, &call) || !before);
    }

    #[test]
    fn of_two_policies_the_stricter_holds(own in rules(), other in rules(), call in call()) {
        let both = own.clone().tightened_by(other.clone());
        let (own, other) = (blocks(own, &call), blocks(other, &call));
        prop_assert_eq!(blocks(both, &call), own || other);
    }

    #[test]
    fn a_judgement_depends_on_nothing_else(rules in rules(), call in call()) {
        prop_assert_eq!(judge(rules.clone(), &call), judge(rules, &call));
    }
}
