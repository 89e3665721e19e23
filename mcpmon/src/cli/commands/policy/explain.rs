//! `mcpmon policy explain`: the rules in force, in their order, with the file and line of each.

use clap::Args;
use mcpmon_config::{LoadedConfiguration, Outline, StatedKey};
use mcpmon_model::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    app::question::{About, BESIDE, Opinion, UseReply, guide},
    cli::{
        CliError, ErrorKind, Output,
        daemon::Socket,
        output::Form,
        question::{self, Question, Subject},
    },
};

/// Elements of a list that an overview shows.
const MAX_ELEMENTS: usize = 20;
/// Characters of a value in an overview.
const MAX_VALUE: usize = 72;
/// The source of a setting that is in no file.
const DEFAULT: &str = "default";

/// The subject to explain.
#[derive(Debug, Args)]
pub(in crate::cli) struct ExplainArgs {
    /// A rule as events name it, the id of a configured one, or a key; without it, all rules
    #[arg(value_name = "RULE|KEY", conflicts_with = "server")]
    what: Option<String>,
    #[command(flatten)]
    subject: Subject,
    #[command(flatten)]
    socket: Socket,
}

pub(in crate::cli) fn explain(
    args: &ExplainArgs,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let question = args.subject.question()?;
    let (loaded, search) = question::policy(&args.socket, output)?;
    let outline = Outline::of(&loaded);
    if let Some(what) = &args.what {
        return one(what, &outline, &loaded, output);
    }
    let asked = match question {
        Some(question) => {
            let reply = question::ask(&args.socket, (&loaded, search), &question, now, output)?;
            Some((question, reply))
        }
        None => None,
    };
    let rules = rules(&outline, asked.as_ref().map(|(_, reply)| reply));
    match output.form {
        Form::Json => rules.iter().try_for_each(|rule| output.json(&rule.object()))?,
        Form::Table => output.text(&page(&rules, asked.as_ref(), &outline, &loaded))?,
    }
    output.flush()?;
    match asked {
        Some(_) => question::note_limits(output),
        None => Ok(()),
    }
}

/// A rule with its settings in the configuration.
#[derive(Debug)]
struct Rule<'r> {
    /// Its position in the order of precedence, if it has one.
    position: Option<usize>,
    about: &'static About,
    keys: Vec<Key>,
    /// The opinions on the use in question; `None` if no use was given.
    said: Option<Vec<&'r Opinion>>,
}

/// A key with its value, which may be the default.
#[derive(Debug)]
struct Key {
    key: String,
    value: String,
    place: String,
}

fn rules<'r>(outline: &Outline, reply: Option<&'r UseReply>) -> Vec<Rule<'r>> {
    // Rules outside the order are about more than one use, so they are left out for a single use.
    all()
        .filter(|(position, _)| position.is_some() || reply.is_none())
        .map(|(position, about)| Rule {
            position,
            about,
            keys: about.keys.iter().flat_map(|key| keys(key, outline)).collect(),
            said: reply.map(|reply| said(about, outline, reply)),
        })
        .collect()
}

/// Returns every rule of the program; those in the order of precedence with their number.
fn all() -> impl Iterator<Item = (Option<usize>, &'static About)> {
    let ordered = (1..)
        .zip(guide())
        .map(|(position, about)| (Some(position), about));
    ordered.chain(BESIDE.iter().map(|about| (None, about)))
}

/// Returns the opinions of a rule of the program, or those of the configured rules in its lists.
fn said<'r>(about: &About, outline: &Outline, reply: &'r UseReply) -> Vec<&'r Opinion> {
    let is_of = |opinion: &&Opinion| match about.names {
        [] => {
            let stated = outline.rule(&opinion.rule);
            let is_in = |key: &&str| stated.as_ref().is_some_and(|stated| in_list(&stated.key, key));
            about.keys.iter().any(is_in)
        }
        names => names.contains(&opinion.rule.as_str()),
    };
    reply.opinions.iter().filter(is_of).collect()
}

/// A rule that an event names, with its settings in the configuration.
#[derive(Debug)]
pub(in crate::cli) struct RuleKeys {
    /// The effect of the rule; `None` if it is not a rule of the program.
    pub(in crate::cli) what: Option<String>,
    keys: Vec<Key>,
}

/// Returns the settings of the configuration for a rule.
pub(in crate::cli) fn rule_keys(name: &str, outline: &Outline) -> RuleKeys {
    if let Some(about) = all()
        .map(|(_, about)| about)
        .find(|about| about.names.contains(&name))
    {
        return RuleKeys {
            what: Some(about.what.to_owned()),
            keys: about.keys.iter().flat_map(|key| keys(key, outline)).collect(),
        };
    }
    // The name is that of a configured rule, or a key.
    let meaning = outline.meaning(name);
    RuleKeys {
        keys: match (outline.rule(name), &meaning) {
            (Some(stated), _) => vec![Key::of(stated)],
            (None, Some(_)) => keys(name, outline),
            (None, None) => Vec::new(),
        },
        what: meaning.map(|meaning| meaning.what),
    }
}

impl RuleKeys {
    /// Returns key, value and place of each setting.
    pub(in crate::cli) fn keys(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let keys = self.keys.iter();
        keys.map(|key| (key.key.as_str(), key.value.as_str(), key.place.as_str()))
    }

    /// Returns a line for each setting.
    pub(in crate::cli) fn lines(&self) -> impl Iterator<Item = String> {
        self.keys.iter().map(Key::line)
    }
}

fn in_list(element: &str, list: &str) -> bool {
    element
        .strip_prefix(list)
        .is_some_and(|rest| rest.starts_with('['))
}

/// Returns the settings at `key`: each element of a list, or the default.
fn keys(key: &str, outline: &Outline) -> Vec<Key> {
    let elements = outline.elements(key);
    if !elements.is_empty() {
        let more = elements.len().saturating_sub(MAX_ELEMENTS);
        let mut keys: Vec<Key> = elements.into_iter().take(MAX_ELEMENTS).map(Key::of).collect();
        if more > 0 {
            keys.push(Key {
                key: key.to_owned(),
                value: format!("and {more} more: `mcpmon policy explain {key}`"),
                place: String::new(),
            });
        }
        return keys;
    }
    match outline.key(key) {
        Some(stated) => vec![Key::of(stated)],
        None => vec![Key {
            key: key.to_owned(),
            value: outline
                .meaning(key)
                .and_then(|meaning| meaning.default)
                .unwrap_or_default(),
            place: DEFAULT.to_owned(),
        }],
    }
}

impl Key {
    fn of(stated: StatedKey) -> Self {
        Self {
            key: stated.key,
            value: stated.value,
            place: stated.place,
        }
    }

    fn line(&self) -> String {
        let mut value: String = self.value.chars().take(MAX_VALUE).collect();
        if value.len() < self.value.len() {
            value.push('…');
        }
        let place = match self.place.as_str() {
            "" => String::new(),
            place => format!("  ({place})"),
        };
        let gap = if value.is_empty() { "" } else { " " };
        format!("      {}:{gap}{value}{place}", self.key)
    }
}

impl Rule<'_> {
    fn lines(&self) -> Vec<String> {
        let name = match self.about.names {
            [] => self.about.keys.join(", "),
            names => names.join(", "),
        };
        let number = self
            .position
            .map_or_else(|| " -".to_owned(), |position| format!("{position:>2}."));
        let mut lines = vec![format!("{number} {name}: {}", self.about.what)];
        match self.said.as_deref() {
            None => lines.extend(self.keys.iter().map(Key::line)),
            Some([]) => return vec![format!("{number} {name}: nothing to say")],
            Some(opinions) => {
                for opinion in opinions {
                    let mark = if opinion.decides { ", and this decides" } else { "" };
                    lines.push(format!("      {}{mark}", question::line(opinion)));
                    let remedy = opinion.remedy.as_ref();
                    lines.extend(remedy.map(|remedy| format!("             remedy: {remedy}")));
                }
                lines.push("             what it goes by:".to_owned());
                lines.extend(self.keys.iter().map(Key::line));
            }
        }
        lines
    }

    fn object(&self) -> Map<String, Value> {
        let key = |key: &Key| json!({"key": key.key, "value": key.value, "place": key.place});
        let said = self.said.as_ref().map(|said| {
            let opinion = |opinion: &&Opinion| {
                json!({
                    "rule": opinion.rule,
                    "action": question::word(opinion),
                    "reason": opinion.reason,
                    "remedy": opinion.remedy,
                    "decides": opinion.decides,
                })
            };
            said.iter().map(opinion).collect::<Vec<_>>()
        });
        let mut object = Map::new();
        object.insert("position".to_owned(), self.position.into());
        object.insert("rules".to_owned(), json!(self.about.names));
        object.insert("what".to_owned(), self.about.what.into());
        object.insert("keys".to_owned(), self.keys.iter().map(key).collect());
        if let Some(said) = said {
            object.insert("opinions".to_owned(), said.into());
        }
        object
    }
}

fn page(
    rules: &[Rule<'_>],
    asked: Option<&(Question, UseReply)>,
    outline: &Outline,
    loaded: &LoadedConfiguration,
) -> Vec<String> {
    let mut lines = Vec::new();
    match asked {
        Some((question, reply)) => lines.extend(question::lines(question, reply, loaded)),
        None => {
            lines.push(format!("policy: {}", question::sources(loaded)));
            for key in ["mode", "mcp.enforce_policy"] {
                lines.extend(
                    keys(key, outline)
                        .iter()
                        .map(|key| key.line().trim_start().to_owned()),
                );
            }
        }
    }
    lines.push(String::new());
    lines.push(
        "A use meets these rules in this order. The first that blocks decides; what only notes adds up."
            .to_owned(),
    );
    lines.push(String::new());
    let (ordered, beside): (Vec<&Rule<'_>>, Vec<_>) = rules.iter().partition(|rule| rule.position.is_some());
    lines.extend(ordered.into_iter().flat_map(Rule::lines));
    if !beside.is_empty() {
        lines.extend([
            String::new(),
            "Each of these speaks where it applies, and stops what the others let through.".to_owned(),
            String::new(),
        ]);
        lines.extend(beside.into_iter().flat_map(Rule::lines));
    }
    if asked.is_none() {
        lines.extend(others(outline));
    }
    for key in &loaded.not_in_force {
        lines.push(format!("not in force: {key}"));
    }
    lines
}

/// Returns the keys that are set and belong to no rule.
fn others(outline: &Outline) -> Vec<String> {
    let of_rules: Vec<&str> = all().flat_map(|(_, about)| about.keys).copied().collect();
    let belongs = |key: &str| {
        of_rules
            .iter()
            .any(|of| *of == key || of.starts_with(&format!("{key}.")))
    };
    let mut others = outline.set();
    others.retain(|stated| {
        !belongs(&stated.key) && !["version", "mode", "mcp.enforce_policy"].contains(&stated.key.as_str())
    });
    if others.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), "What else is set:".to_owned(), String::new()];
    lines.extend(others.into_iter().map(|stated| Key::of(stated).line()));
    lines
}

/// Prints everything about one rule or key.
fn one(
    what: &str,
    outline: &Outline,
    loaded: &LoadedConfiguration,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let named: Vec<(Option<usize>, &About)> =
        all().filter(|(_, about)| about.names.contains(&what)).collect();
    let stated: Vec<StatedKey> = match outline.rule(what) {
        Some(rule) => vec![rule],
        None if !named.is_empty() => {
            let keys = named.iter().flat_map(|(_, about)| about.keys);
            keys.filter_map(|key| outline.key(key)).collect()
        }
        None => outline.key(what).into_iter().collect(),
    };
    let of = stated.first().map_or(what, |stated| stated.key.as_str());
    let meaning = outline.meaning(if named.is_empty() { of } else { what });
    if named.is_empty() && stated.is_empty() && meaning.is_none() {
        return Err(unknown(what, outline));
    }
    if output.form == Form::Json {
        return one_object(what, &named, &stated, outline, output);
    }
    let mut lines = Vec::new();
    for (position, about) in &named {
        let number = position.map(|position| format!(" (number {position} of {})", guide().count()));
        lines.push(format!("{what}: {}{}", about.what, number.unwrap_or_default()));
        if about.keys.is_empty() {
            lines.push("No key of the configuration changes it.".to_owned());
        }
    }
    if let Some(meaning) = &meaning {
        lines.push(format!("{of}: {}", meaning.what));
        let default = meaning.default.as_ref().filter(|_| stated.is_empty());
        lines.extend(default.map(|default| format!("default: {default}")));
    }
    for stated in &stated {
        lines.push(String::new());
        lines.push(format!("{} ({})", stated.key, stated.place));
        lines.extend(stated.text.lines().map(|line| format!("  {line}")));
    }
    let unset = named.iter().flat_map(|(_, about)| about.keys);
    for key in unset.filter(|key| outline.key(key).is_none()) {
        lines.push(String::new());
        lines.extend(
            keys(key, outline)
                .iter()
                .map(|key| key.line().trim_start().to_owned()),
        );
    }
    let off = loaded.not_in_force.iter().filter(|off| off.key == of);
    lines.extend(off.map(|off| format!("not in force: {off}")));
    output.text(&lines)?;
    Ok(output.flush()?)
}

fn one_object(
    what: &str,
    named: &[(Option<usize>, &About)],
    stated: &[StatedKey],
    outline: &Outline,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let meaning = stated.first().map_or(what, |stated| stated.key.as_str());
    let meaning = outline.meaning(meaning);
    let value = json!({
        "asked": what,
        "rules": named.iter().map(|(position, about)| json!({"position": position, "what": about.what, "keys": about.keys})).collect::<Vec<_>>(),
        "meaning": meaning.as_ref().map(|meaning| &meaning.what),
        "default": meaning.as_ref().and_then(|meaning| meaning.default.as_ref()),
        "stated": stated.iter().map(|stated| json!({
            "key": stated.key,
            "place": stated.place,
            "text": stated.text,
        })).collect::<Vec<_>>(),
    });
    if let Value::Object(object) = value {
        output.json(&object)?;
    }
    Ok(output.flush()?)
}

fn unknown(what: &str, outline: &Outline) -> CliError {
    let error = anyhow::anyhow!("there is no rule and no key `{what}`");
    let error = CliError::new(ErrorKind::Usage, error);
    match outline.resembling(what) {
        Some(meant) => error.with_hint(format!("did you mean `{meant}`?")),
        None => error.with_hint("`mcpmon policy explain` lists the rules"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use insta::assert_snapshot;
    use mcpmon_store::sample::{NOON, definition};

    use super::*;
    use crate::cli::commands::scene;

    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: ExplainArgs,
    }

    const POLICY: &str = "version: 1
mcp:
  blocked_tools: [run_shell, \"*_exec\"]
  rules:
    - {id: no-keys, match: {argument_patterns: {path: \"**/.ssh/**\"}}, decision: BLOCK, reason: Keys stay}
  denied_tools: [{tool: x}]
  registry: {persistent: false}
network: {resolve_interval: 1m}
";

    fn explained(form: Form, words: &[&str]) -> String {
        let line = std::iter::once("explain").chain(words.iter().copied());
        let args = CommandLine::try_parse_from(line).expect("a command line").args;
        let records = vec![definition("files", "run_shell", r#"{"name":"run_shell"}"#)];
        scene::shown_under(POLICY, records, Vec::new(), form, |output| {
            explain(&args, Timestamp(NOON), output).map(|()| 0)
        })
    }

    #[test]
    fn all_rules_in_their_order() {
        assert_snapshot!(explained(Form::Table, &[]));
    }

    #[test]
    fn all_rules_about_a_call() {
        let words = [
            "--server",
            "files",
            "--tool",
            "run_shell",
            "--args",
            r#"{"path":"/h/.ssh/id"}"#,
        ];
        assert_snapshot!(explained(Form::Table, &words));
    }

    #[test]
    fn one_rule_or_key() {
        assert_snapshot!(explained(Form::Table, &["no-keys"]), @r#"
        mcp.rules[0]: A rule over tool calls.

        mcp.rules[0] (DIR/policy.yaml:5)
          - id: no-keys
            match:
              argument_patterns:
                path: "**/.ssh/**"
            decision: BLOCK
            reason: "Keys stay"
        ---
        exit 0
        "#);
        assert_snapshot!(explained(Form::Table, &["blocked_tools"]), @r#"
        blocked_tools: a tool that may never be called is blocked (number 14 of 22)

        mcp.blocked_tools (DIR/policy.yaml:3)
          blocked_tools:
            - run_shell
            - "*_exec"
        ---
        exit 0
        "#);
        assert_snapshot!(explained(Form::Table, &["rate_limit"]), @"
        rate_limit: calls that are more than a server may get in a minute are blocked

        mcp.rate_limits: {enabled: true, default_rpm: 600, default_burst: 60}  (default)
        ---
        exit 0
        ");
        assert_snapshot!(explained(Form::Table, &["mcp.version_pinning"]), @"
        mcp.version_pinning: Pins of tool definitions and of the files servers run from.
        default: {enabled: true, on_change: block, auto_trust_first: true, pin_binary: true, known: []}
        ---
        exit 0
        ");
        assert_snapshot!(explained(Form::Table, &["mcp.registry.persistent"]), @"
        mcp.registry.persistent: True if the registry survives a restart.

        mcp.registry.persistent (DIR/policy.yaml:7)
          persistent: false
        not in force: mcp.registry.persistent
        ---
        exit 0
        ");
        assert_snapshot!(explained(Form::Json, &["no-keys"]), @r#"
        {"asked":"no-keys","rules":[],"meaning":"A rule over tool calls.","default":"{match: {tool_name_any: []}, reason: \"\"}","stated":[{"key":"mcp.rules[0]","place":"DIR/policy.yaml:5","text":"- id: no-keys\n  match:\n    argument_patterns:\n      path: \"**/.ssh/**\"\n  decision: BLOCK\n  reason: \"Keys stay\"\n"}]}
        ---
        exit 0
        "#);
    }

    #[test]
    fn what_is_neither() {
        assert_snapshot!(explained(Form::Table, &["mcp.block_tools"]), @"
        ---
        error: there is no rule and no key `mcp.block_tools`
        hint: did you mean `mcp.blocked_tools`?
        ExitCode(unix_exit_status(2))
        ");
        assert_snapshot!(explained(Form::Table, &["elephants"]), @"
        ---
        error: there is no rule and no key `elephants`
        hint: `mcpmon policy explain` lists the rules
        ExitCode(unix_exit_status(2))
        ");
    }

    #[test]
    fn one_object_a_rule() {
        let text = explained(Form::Json, &["--server", "files", "--tool", "run_shell"]);
        let objects = text.lines().take_while(|line| line.starts_with('{'));
        let objects: Vec<Value> = objects
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(objects.len(), guide().count());
        let deciding = |object: &&Value| {
            let said = object["opinions"].as_array().expect("a list");
            said.iter().any(|opinion| opinion["decides"] == true)
        };
        let decided: Vec<&Value> = objects
            .iter()
            .filter(deciding)
            .map(|object| &object["rules"])
            .collect();
        assert_eq!(decided, [&json!(["blocked_tools"])]);
    }
}
