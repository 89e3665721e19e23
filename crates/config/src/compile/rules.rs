//! Compilation of the lists and rules for calls and resources.

use std::collections::BTreeMap;

use mcpmon_model::Decimal;
use mcpmon_policy::{
    Decision,
    rules::{
        ArgumentPath, CallRule, PathGlob, Pattern, ResourceRule, Rules, SpellingGlob, ToolEntry, ToolMatch,
        ToolPolicy, UriGlob, ValueLimit,
    },
};

use crate::{
    load::{KeyMistake, KeyPath, check_name},
    raw::{self, ListMode},
};

/// Most regular expressions and argument globs in one configuration. The daemon compiles the files of all users, and a
/// pattern can take 1 MiB.
const MAX_PATTERNS: usize = 256;

/// Compiles the lists and rules of the `mcp` section. Mistakes are reported even if `enforce_policy` is off.
pub(super) fn compile(mcp: &raw::Mcp, mistakes: &mut Vec<KeyMistake>) -> Rules {
    let section = KeyPath::root().key("mcp");
    let mut compiler = Compiler {
        mistakes,
        ids: BTreeMap::new(),
        patterns: 0,
    };
    let rules = Rules {
        tools: compiler.tools(mcp, &section),
        default: mcp.defaults.decision,
        blocked_tools: compiler.names(
            &mcp.blocked_tools,
            &section.key("blocked_tools"),
            SpellingGlob::new,
        ),
        calls: compiler.each(&mcp.rules, &section.key("rules"), Compiler::call),
        blocked_resources: compiler.names(
            &mcp.blocked_resources,
            &section.key("blocked_resources"),
            UriGlob::new,
        ),
        resources: compiler.each(
            &mcp.resource_rules,
            &section.key("resource_rules"),
            Compiler::resource,
        ),
        limits: compiler.each(&mcp.value_limits, &section.key("value_limits"), Compiler::limit),
        on_top: None,
    };
    match mcp.enforce_policy {
        true => rules,
        false => Rules {
            default: Decision::Allow,
            ..Rules::default()
        },
    }
}

struct Compiler<'f> {
    mistakes: &'f mut Vec<KeyMistake>,
    /// The place at which each id was first used: ids are unique, because an event names its rule by id.
    ids: BTreeMap<String, KeyPath>,
    /// The number of patterns so far.
    patterns: usize,
}

impl Compiler<'_> {
    fn wrong(&mut self, path: KeyPath, message: impl Into<String>) {
        self.mistakes.push(KeyMistake::new(path, message));
    }

    /// Returns the value, or reports its error and returns `None`.
    fn take<T, E: ToString>(&mut self, value: Result<T, E>, path: KeyPath) -> Option<T> {
        value.map_err(|error| self.wrong(path, error.to_string())).ok()
    }

    /// Compiles each entry of a list.
    fn each<R, T>(
        &mut self,
        entries: &[R],
        list: &KeyPath,
        compile: impl Fn(&mut Self, &R, &KeyPath) -> Option<T>,
    ) -> Vec<T> {
        let entries = entries.iter().enumerate();
        entries
            .filter_map(|(index, entry)| compile(self, entry, &list.index(index)))
            .collect()
    }

    /// Compiles a list of globs, none of which may be empty.
    fn names<T>(&mut self, globs: &[String], list: &KeyPath, new: impl Fn(&str) -> T) -> Vec<T> {
        self.each(globs, list, |compiler, glob, path| {
            compiler.glob(glob, path, &new)
        })
    }

    fn glob<T>(&mut self, glob: &str, path: &KeyPath, new: impl Fn(&str) -> T) -> Option<T> {
        if glob.trim().is_empty() {
            self.wrong(
                path.clone(),
                "an empty name matches nothing: expected a name or a glob, `*` for all",
            );
            return None;
        }
        Some(new(glob))
    }

    /// Compiles an optional glob.
    fn optional<T>(&mut self, glob: Option<&String>, path: &KeyPath, new: impl Fn(&str) -> T) -> Option<T> {
        glob.and_then(|glob| self.glob(glob, path, new))
    }

    fn regex(&mut self, pattern: Option<&String>, path: KeyPath) -> Option<Pattern> {
        let pattern = pattern?;
        if !self.has_room(&path) {
            return None;
        }
        self.take(Pattern::new(pattern), path)
    }

    /// Returns whether one more pattern may be compiled. The first one beyond the limit is reported.
    fn has_room(&mut self, path: &KeyPath) -> bool {
        self.patterns += 1;
        if self.patterns == MAX_PATTERNS + 1 {
            self.wrong(
                path.clone(),
                format!("more than {MAX_PATTERNS} regular expressions and globs: join expressions with `|`, and use wider globs"),
            );
        }
        self.patterns <= MAX_PATTERNS
    }

    fn id(&mut self, id: &str, path: KeyPath) {
        check_name(id, path.clone(), self.mistakes);
        match self.ids.get(id) {
            None => drop(self.ids.insert(id.to_owned(), path)),
            Some(first) => self.mistakes.push(KeyMistake {
                related: Some(KeyPath::clone(first)),
                ..KeyMistake::new(path, format!("the rule id `{id}` is used twice"))
            }),
        }
    }

    fn tools(&mut self, mcp: &raw::Mcp, section: &KeyPath) -> ToolPolicy {
        let entry = |compiler: &mut Self, entry: &raw::ToolMatch, path: &KeyPath| {
            Some(ToolEntry {
                server: compiler.glob(&entry.server, &path.key("server"), SpellingGlob::new)?,
                tool: compiler.glob(&entry.tool, &path.key("tool"), SpellingGlob::new)?,
                content_hash: entry.content_hash.map(|hash| hash.0),
            })
        };
        let allowed = self.each(&mcp.allowed_tools, &section.key("allowed_tools"), entry);
        let denied = self.each(&mcp.denied_tools, &section.key("denied_tools"), entry);
        match mcp.tool_policy {
            ListMode::None => ToolPolicy::None,
            ListMode::Allowlist => ToolPolicy::Allowlist(allowed),
            ListMode::Denylist => ToolPolicy::Denylist(denied),
        }
    }

    fn call(&mut self, raw: &raw::Rule, path: &KeyPath) -> Option<CallRule> {
        self.id(&raw.id, path.key("id"));
        let (given, at) = (&raw.condition, path.key("match"));
        if *given == raw::CallMatch::default() {
            self.wrong(
                at,
                "no condition is given, and every call would match: use `mcp.defaults`, or `tool_name: \"*\"`",
            );
            return None;
        }
        let tool = ToolMatch {
            name: self.optional(given.tool_name.as_ref(), &at.key("tool_name"), SpellingGlob::new),
            any: self.names(&given.tool_name_any, &at.key("tool_name_any"), SpellingGlob::new),
            regex: self.regex(given.tool_name_regex.as_ref(), at.key("tool_name_regex")),
        };
        let server = self.optional(given.server.as_ref(), &at.key("server"), SpellingGlob::new);
        let patterns = at.key("argument_patterns");
        let mut arguments = Vec::with_capacity(given.argument_patterns.len());
        for (argument, glob) in &given.argument_patterns {
            let at = patterns.key(argument);
            let argument = self.take(ArgumentPath::new(argument), at.clone());
            let glob = match self.has_room(&at) {
                true => self.take(PathGlob::new(glob), at),
                false => None,
            };
            arguments.extend(argument.zip(glob));
        }
        Some(CallRule {
            id: raw.id.clone(),
            tool,
            server,
            arguments,
            decision: raw.decision,
            reason: sentence(&raw.reason),
        })
    }

    fn resource(&mut self, raw: &raw::ResourceRule, path: &KeyPath) -> Option<ResourceRule> {
        self.id(&raw.id, path.key("id"));
        let (given, at) = (&raw.condition, path.key("match"));
        if *given == raw::ResourceMatch::default() {
            self.wrong(
                at,
                "no condition is given, and every resource would match: use `mcp.defaults`, or `uri_pattern: \"*\"`",
            );
            return None;
        }
        let is_scheme = |scheme: &str| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        };
        let scheme = given.scheme.as_ref().map(|scheme| scheme.to_ascii_lowercase());
        if let Some(scheme) = scheme.as_ref().filter(|scheme| !is_scheme(scheme)) {
            self.wrong(
                at.key("scheme"),
                format!("`{scheme}` is no scheme: expected for example `postgres`, without `:` and slashes"),
            );
        }
        Some(ResourceRule {
            id: raw.id.clone(),
            uri: self.optional(given.uri_pattern.as_ref(), &at.key("uri_pattern"), UriGlob::new),
            regex: self.regex(given.uri_regex.as_ref(), at.key("uri_regex")),
            scheme,
            decision: self.without_ask(raw.decision, path.key("decision"))?,
            reason: sentence(&raw.reason),
        })
    }

    /// Returns the decision of a resource rule, and reports `ASK`: only tool calls can wait for a person.
    fn without_ask(&mut self, decision: Decision, path: KeyPath) -> Option<Decision> {
        if decision == Decision::Ask {
            self.wrong(
                path,
                "a person is asked about tool calls only: expected `ALLOW`, `AUDIT` or `BLOCK`",
            );
            return None;
        }
        Some(decision)
    }

    fn limit(&mut self, raw: &raw::ValueLimit, path: &KeyPath) -> Option<ValueLimit> {
        self.id(&raw.id, path.key("id"));
        let tool = ToolMatch {
            name: self.optional(
                raw.tool_pattern.as_ref(),
                &path.key("tool_pattern"),
                SpellingGlob::new,
            ),
            any: Vec::new(),
            regex: self.regex(raw.tool_name_regex.as_ref(), path.key("tool_name_regex")),
        };
        let min = self.bound(raw.min, path.key("min"));
        let max = self.bound(raw.max, path.key("max"));
        if raw.min.is_none() && raw.max.is_none() {
            self.wrong(path.clone(), "no bound is given: expected `min`, `max`, or both");
        }
        if let (Some(min), Some(max)) = (&min, &max)
            && min > max
        {
            self.wrong(
                path.key("min"),
                format!("{min} is more than `max`, {max}: no value would be within"),
            );
        }
        if raw.decision == Decision::Allow {
            self.wrong(
                path.key("decision"),
                "`ALLOW` would permit values outside the limit: expected `AUDIT`, `ASK` or `BLOCK`",
            );
        }
        let argument = self.take(ArgumentPath::new(&raw.argument), path.key("argument"))?;
        Some(ValueLimit {
            id: raw.id.clone(),
            tool,
            argument,
            min,
            max,
            decision: raw.decision,
            reason: sentence(&raw.reason),
        })
    }

    fn bound(&mut self, number: Option<raw::Number>, path: KeyPath) -> Option<Decimal> {
        match number? {
            raw::Number::Whole(number) => Some(number.into()),
            raw::Number::Double(number) => {
                let number = Decimal::of_double(number).ok_or("expected a number that is finite");
                self.take(number, path)
            }
        }
    }
}

/// Returns a reason in one line without its full stop, because more text follows where it is shown.
fn sentence(reason: &str) -> String {
    let plain: String = reason
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    words.join(" ").trim_end_matches('.').to_owned()
}
