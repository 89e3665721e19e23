//! Inspection of server messages, handling of server requests, and the limits of both.

use std::{collections::BTreeSet, time::Duration};

use jiff::tz::TimeZone;
use mcpmon_detect::scan::Scanner;
use mcpmon_engine::suppressible;
use mcpmon_model::{Category, CustomPattern, NameGlob, Timestamp};
use mcpmon_policy::{
    Approvals, DefinitionInspection, Handling, Limits, NameSimilarity, Requests, Suppression,
};

use crate::{
    load::{KeyMistake, KeyPath, check_name, closest},
    raw,
};

/// Smallest `mcp.limits.max_line`: a handshake must fit.
const MIN_LINE: u64 = 64 << 10;
/// Largest `mcp.limits.max_line`: a message is held in memory.
const MAX_LINE: u64 = 1 << 30;
/// Deepest `mcp.limits.max_schema_depth`: nesting costs stack.
const MAX_SCHEMA_DEPTH: u32 = 512;

/// Compiles the parts of `mcp.detection` that concern definitions.
pub(super) fn definitions(raw: &raw::Detection, mistakes: &mut Vec<KeyMistake>) -> DefinitionInspection {
    let builtin = &raw.builtin;
    let categories = [
        (builtin.credential_theft, Category::CredentialTheft),
        (builtin.exfiltration, Category::Exfiltration),
        (builtin.hidden_instructions, Category::HiddenInstructions),
        (builtin.shell_injection, Category::ShellInjection),
        (builtin.path_traversal, Category::PathTraversal),
        (builtin.cross_tool_override, Category::CrossToolOverride),
        (builtin.stealth_instruction, Category::StealthInstruction),
    ];
    DefinitionInspection {
        enabled: raw.enabled,
        builtin: categories
            .into_iter()
            .filter_map(|(wanted, category)| wanted.then_some(category))
            .collect(),
        custom: custom_patterns(&raw.custom_patterns, mistakes),
        alert_threshold: raw.alert_threshold.severity(),
        act_threshold: raw.act_threshold.severity().max(raw.alert_threshold.severity()),
        on_detection: raw.on_detection,
        on_new_tool: raw.on_new_tool,
    }
}

/// Most custom patterns: each can take 1 MiB.
const MAX_CUSTOM_PATTERNS: usize = 256;

/// Compiles each pattern by itself, so that each mistake is reported at its key.
fn custom_patterns(raw: &[raw::CustomPattern], mistakes: &mut Vec<KeyMistake>) -> Vec<CustomPattern> {
    let list = KeyPath::root().key("mcp").key("detection").key("custom_patterns");
    let mut names = BTreeSet::new();
    let mut patterns = Vec::with_capacity(raw.len());
    if raw.len() > MAX_CUSTOM_PATTERNS {
        let message = format!("more than {MAX_CUSTOM_PATTERNS} patterns: join expressions with `|`");
        mistakes.push(KeyMistake::new(list.index(MAX_CUSTOM_PATTERNS), message));
    }
    for (index, entry) in raw.iter().enumerate().take(MAX_CUSTOM_PATTERNS) {
        let path = list.index(index);
        check_name(&entry.name, path.key("name"), mistakes);
        if !names.insert(&entry.name) {
            let message = format!("the pattern name `{}` is used twice", entry.name);
            mistakes.push(KeyMistake::new(path.key("name"), message));
        }
        let pattern = CustomPattern {
            name: entry.name.clone(),
            pattern: entry.pattern.clone(),
            category: entry.category,
            severity: entry.severity.severity(),
        };
        match Scanner::new(&BTreeSet::new(), std::slice::from_ref(&pattern)) {
            Ok(_) if is_blank(&entry.pattern) => mistakes.push(KeyMistake::new(
                path.key("pattern"),
                "an empty pattern would match everything",
            )),
            Ok(_) => patterns.push(pattern),
            Err(error) => mistakes.push(KeyMistake::new(
                path.key("pattern"),
                // The error shows the pattern with a caret on several lines; its last line has the cause.
                format!(
                    "no valid regular expression: {}",
                    last_line(&error.source.to_string())
                ),
            )),
        }
    }
    patterns
}

fn is_blank(pattern: &str) -> bool {
    pattern.trim().is_empty()
}

fn last_line(text: &str) -> &str {
    let line = text.lines().last().unwrap_or(text);
    line.strip_prefix("error: ").unwrap_or(line)
}

/// Compiles `mcp.suppressions`.
pub(super) fn suppressions(mcp: &raw::Mcp, mistakes: &mut Vec<KeyMistake>) -> Vec<Suppression> {
    let raw = &mcp.suppressions;
    if raw.is_empty() {
        return Vec::new();
    }
    let list = KeyPath::root().key("mcp").key("suppressions");
    let mut known: Vec<&str> = suppressible().collect();
    known.extend(mcp.detection.custom_patterns.iter().map(|own| own.name.as_str()));
    let mut suppressions = Vec::with_capacity(raw.len());
    for (index, entry) in raw.iter().enumerate() {
        let path = list.index(index);
        for (key, text, message) in [
            (
                "rule",
                &entry.rule,
                "expected the rule or pattern that is accepted, `*` for all",
            ),
            ("reason", &entry.reason, "expected the reason why it is accepted"),
        ] {
            if text.trim().is_empty() {
                mistakes.push(KeyMistake::new(path.key(key), message));
            }
        }
        let rule = NameGlob::new(&entry.rule);
        if !entry.rule.trim().is_empty() && !known.iter().any(|name| rule.matches(name)) {
            mistakes.push(KeyMistake::new(
                path.key("rule"),
                unknown_rule(&entry.rule, &known),
            ));
        }
        let until = match entry.until.as_ref().map(|until| end_of(until.0)) {
            Some(None) => {
                mistakes.push(KeyMistake::new(path.key("until"), "this date is out of range"));
                continue;
            }
            Some(until) => until,
            None => None,
        };
        let glob = |text: &Option<String>| NameGlob::new(text.as_deref().unwrap_or("*"));
        suppressions.push(Suppression {
            rule,
            server: glob(&entry.server),
            tool: glob(&entry.tool),
            until,
            reason: entry.reason.clone(),
        });
    }
    suppressions
}

fn unknown_rule(name: &str, known: &[&str]) -> String {
    let meant = match closest(name, known) {
        Some(meant) => format!("; did you mean `{meant}`?"),
        None => ": `mcpmon detections --json` has the ids of rules that found something".to_owned(),
    };
    format!("`{name}` is neither the id of a rule nor the name of a finding{meant}")
}

/// Returns the first instant after a day, in UTC, so that a shared file means the same everywhere.
fn end_of(day: jiff::civil::Date) -> Option<Timestamp> {
    let next = day.tomorrow().ok()?.to_zoned(TimeZone::UTC).ok()?;
    i64::try_from(next.timestamp().as_nanosecond())
        .ok()
        .map(Timestamp)
}

/// Compiles the handling of requests that are not tool calls.
pub(super) const fn requests(mcp: &raw::Mcp) -> Requests {
    if !mcp.enforce_policy {
        return Requests {
            sampling: Handling::Allow,
            elicitation: Handling::Allow,
            prompts: Handling::Allow,
            completion: Handling::Allow,
        };
    }
    Requests {
        sampling: mcp.sampling,
        elicitation: mcp.elicitation,
        prompts: mcp.prompts,
        completion: mcp.completion,
    }
}

/// Compiles `mcp.limits`.
pub(super) fn limits(raw: &raw::Limits, mistakes: &mut Vec<KeyMistake>) -> Limits {
    let section = KeyPath::root().key("mcp").key("limits");
    let line = raw.max_line.0.0;
    if !(MIN_LINE..=MAX_LINE).contains(&line) {
        mistakes.push(KeyMistake::new(
            section.key("max_line"),
            "expected from `64KiB` (the `initialize` response must fit) to `1GiB` (it is held in memory)",
        ));
    }
    for (key, value, message) in [
        (
            "max_tools",
            raw.max_tools,
            "no tool could be listed: expected at least 1",
        ),
        (
            "max_batch",
            raw.max_batch,
            "no batch could pass: expected at least 1",
        ),
        (
            "max_pending",
            raw.max_pending,
            "no request could wait: expected at least 1",
        ),
        (
            "max_streams_per_server",
            raw.max_streams_per_server,
            "no remote server could notify of changes: expected at least 1",
        ),
    ] {
        if value == 0 {
            mistakes.push(KeyMistake::new(section.key(key), message));
        }
    }
    if !(8..=MAX_SCHEMA_DEPTH).contains(&raw.max_schema_depth) {
        mistakes.push(KeyMistake::new(
            section.key("max_schema_depth"),
            format!("expected 8 (tool schemas are at least this deep) to {MAX_SCHEMA_DEPTH}"),
        ));
    }
    let number = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
    Limits {
        max_line: usize::try_from(line).unwrap_or(usize::MAX),
        max_tools: number(raw.max_tools),
        max_schema_depth: number(raw.max_schema_depth),
        max_batch: number(raw.max_batch),
        max_pending: number(raw.max_pending),
        request_timeout: raw.request_timeout.0.0,
        max_streams: number(raw.max_streams_per_server),
    }
}

/// Compiles `mcp.approvals`.
pub(super) fn approvals(raw: &raw::Approvals, mistakes: &mut Vec<KeyMistake>) -> Approvals {
    let timeout = raw.timeout.0.0;
    if timeout < Duration::from_secs(1) {
        mistakes.push(KeyMistake::new(
            KeyPath::root().key("mcp").key("approvals").key("timeout"),
            "nobody can answer in that time: expected at least `1s`",
        ));
    }
    Approvals {
        required_for: raw.required_for.severity(),
        timeout,
        on_timeout: raw.on_timeout,
    }
}

/// Compiles the rule for names of servers that are reported as similar to known ones.
pub(super) fn name_similarity(raw: &raw::ShadowTool, mistakes: &mut Vec<KeyMistake>) -> NameSimilarity {
    let ratio = raw.similarity_threshold;
    if ratio.is_some_and(|ratio| !(0.0..=1.0).contains(&ratio)) {
        mistakes.push(KeyMistake::new(
            KeyPath::root()
                .key("mcp")
                .key("cross_server")
                .key("shadow_tool")
                .key("similarity_threshold"),
            "expected a number from 0 (every name) to 1 (the same name)",
        ));
    }
    NameSimilarity {
        built_in: raw.similarity_check && ratio.is_none(),
        ratio: ratio.filter(|_| raw.similarity_check),
    }
}
