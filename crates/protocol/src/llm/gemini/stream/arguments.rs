//! Arguments that come in parts: each part gives its place in the arguments as a JSON path (RFC 9535).

use std::{borrow::Cow, collections::BTreeMap};

use mcpmon_model::{Input, RawJson};

use crate::{
    decode::json::{Value, quote_into},
    llm::{LlmFault, strict},
};

/// Most steps of a path.
const MAX_STEPS: usize = 64;

/// The arguments so far.
#[derive(Debug, Default)]
pub(super) struct PartialArguments {
    root: ArgumentNode,
    /// The pieces as written, for arguments that cannot be combined.
    pieces: String,
    state: ArgumentState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ArgumentState {
    /// Every reader combines the parts in the same way.
    #[default]
    Sound,
    /// Readers could combine the parts in different ways, or not at all.
    Unsound,
}

#[derive(Debug, Default)]
enum ArgumentNode {
    #[default]
    Nothing,
    Object(BTreeMap<String, Self>),
    List(Vec<Self>),
    Text {
        text: String,
        is_open: bool,
    },
    /// Any other value, as written.
    Scalar(String),
}

enum Step {
    Name(String),
    Position(usize),
}

impl PartialArguments {
    /// Sets the complete arguments. An empty object sets nothing, because parts may follow.
    pub(super) fn put_whole(&mut self, arguments: Value<'_>) {
        if arguments.is_object() && arguments.members().next().is_none() {
            return;
        }
        self.pieces.push_str(arguments.text());
        self.state = match self.root {
            ArgumentNode::Nothing => self.state,
            ArgumentNode::Object(_)
            | ArgumentNode::List(_)
            | ArgumentNode::Text { .. }
            | ArgumentNode::Scalar(_) => ArgumentState::Unsound,
        };
        self.root = ArgumentNode::Scalar(arguments.text().to_owned());
    }

    /// Adds a part.
    pub(super) fn put(&mut self, part: Value<'_>) -> Result<(), LlmFault> {
        self.pieces.push_str(part.text());
        if self.state == ArgumentState::Sound && self.place(part)?.is_none() {
            self.state = ArgumentState::Unsound;
        }
        Ok(())
    }

    /// Returns the arguments.
    pub(super) fn written(&self) -> WrittenArguments {
        match (self.state, &self.root) {
            (ArgumentState::Unsound, _) => WrittenArguments::Unsound(self.pieces.clone()),
            (ArgumentState::Sound, ArgumentNode::Nothing) => WrittenArguments::Json("{}".to_owned()),
            (ArgumentState::Sound, root) => {
                let mut json = String::new();
                root.write(&mut json);
                WrittenArguments::Json(json)
            }
        }
    }

    fn place(&mut self, part: Value<'_>) -> Result<Option<()>, LlmFault> {
        let path = strict::text(part, "jsonPath")?;
        let is_open = strict::value(part, "willContinue")?.is_some_and(Value::is_true);
        let new = if let Some(text) = strict::text(part, "stringValue")? {
            let text = text.into_owned();
            ArgumentNode::Text { text, is_open }
        } else if let Some(value) = strict::value(part, "numberValue")? {
            ArgumentNode::Scalar(value.text().to_owned())
        } else if let Some(value) = strict::value(part, "boolValue")? {
            ArgumentNode::Scalar(value.text().to_owned())
        } else {
            ArgumentNode::Scalar("null".to_owned())
        };
        let steps = path.and_then(|path| steps(&path));
        Ok(steps.and_then(|steps| self.root.at(steps)?.fill(new)))
    }
}

/// All arguments of a call, combined.
#[derive(Debug)]
pub(super) enum WrittenArguments {
    Json(String),
    Unsound(String),
}

impl WrittenArguments {
    pub(super) fn input(&self) -> Input<'_> {
        match self {
            Self::Json(json) => Input::Json(RawJson::trusted(json)),
            Self::Unsound(pieces) => Input::Malformed(Cow::Borrowed(pieces)),
        }
    }
}

impl ArgumentNode {
    /// Returns the node at the end of these steps, and creates it if it is missing.
    fn at(&mut self, steps: Vec<Step>) -> Option<&mut Self> {
        let mut node = self;
        for step in steps {
            if matches!(node, Self::Nothing) {
                *node = match step {
                    Step::Name(_) => Self::Object(BTreeMap::new()),
                    Step::Position(_) => Self::List(Vec::new()),
                };
            }
            node = match (node, step) {
                (Self::Object(members), Step::Name(name)) => members.entry(name).or_default(),
                (Self::List(items), Step::Position(position)) => {
                    if position == items.len() {
                        items.push(Self::Nothing);
                    }
                    items.get_mut(position)?
                }
                (_, Step::Name(_) | Step::Position(_)) => return None,
            };
        }
        Some(node)
    }

    /// Sets a value that is still empty, or appends text to text that is to be continued.
    fn fill(&mut self, new: Self) -> Option<()> {
        match (&mut *self, new) {
            (Self::Nothing, new) => *self = new,
            (
                Self::Text { text, is_open: true },
                Self::Text {
                    text: more,
                    is_open: goes_on,
                },
            ) => {
                text.push_str(&more);
                *self = Self::Text {
                    text: std::mem::take(text),
                    is_open: goes_on,
                };
            }
            (Self::Object(_) | Self::List(_) | Self::Text { .. } | Self::Scalar(_), _) => return None,
        }
        Some(())
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Nothing => out.push_str("null"),
            Self::Scalar(json) => out.push_str(json),
            Self::Text { text, .. } => quote_into(text, out),
            Self::List(items) => {
                out.push('[');
                for (position, item) in items.iter().enumerate() {
                    out.push_str(if position == 0 { "" } else { "," });
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (position, (name, value)) in members.iter().enumerate() {
                    out.push_str(if position == 0 { "" } else { "," });
                    quote_into(name, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// Returns the steps of a path to one place; `None` if it leads to several places, or is no path.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() == MAX_STEPS {
            return None;
        }
        let step;
        (step, rest) = match rest.strip_prefix('[') {
            None => name(rest.strip_prefix('.')?)?,
            Some(selector) if selector.starts_with(['\'', '"']) => quoted(selector)?,
            Some(selector) => {
                let (digits, after) = selector.split_once(']')?;
                (Step::Position(digits.parse().ok()?), after)
            }
        };
        steps.push(step);
    }
    (!steps.is_empty()).then_some(steps)
}

fn name(rest: &str) -> Option<(Step, &str)> {
    let (name, after) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
    let is_name = !name.is_empty() && !name.contains(['*', '?', '@', ',', ':', '(', '\'', '"', ' ']);
    is_name.then(|| (Step::Name(name.to_owned()), after))
}

/// Reads a quoted name and the bracket after it.
fn quoted(rest: &str) -> Option<(Step, &str)> {
    let mut characters = rest.char_indices();
    let (_, quote) = characters.next()?;
    let mut name = String::new();
    loop {
        match characters.next()? {
            (at, end) if end == quote => {
                let after = rest[at + 1..].strip_prefix(']')?;
                return Some((Step::Name(name), after));
            }
            (_, '\\') => match characters.next()? {
                (_, escaped @ ('\'' | '"' | '\\' | '/')) => name.push(escaped),
                _ => return None,
            },
            (_, character) => name.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn put_together(parts: &str) -> String {
        let mut arguments = PartialArguments::default();
        let put = strict::read(parts.as_bytes(), |document, _| {
            document.root().items().try_for_each(|part| arguments.put(part))
        });
        put.unwrap().unwrap();
        match arguments.written() {
            WrittenArguments::Json(json) => json,
            WrittenArguments::Unsound(_) => "unsound".to_owned(),
        }
    }

    #[test_case("[]" => "{}"; "none")]
    #[test_case(r#"[{"jsonPath":"$.a","stringValue":"x"},{"jsonPath":"$.b","numberValue":1.50},{"jsonPath":"$.c","boolValue":true},{"jsonPath":"$.d","nullValue":"NULL_VALUE"}]"# => r#"{"a":"x","b":1.50,"c":true,"d":null}"#; "every kind")]
    #[test_case(r#"[{"jsonPath":"$.a","stringValue":"x\"","willContinue":true},{"json_path":"$.a","string_value":"y"}]"# => r#"{"a":"x\"y"}"#; "text that goes on")]
    #[test_case(r#"[{"jsonPath":"$.a.b[0].c","numberValue":1},{"jsonPath":"$.a.b[1]","numberValue":2}]"# => r#"{"a":{"b":[{"c":1},2]}}"#; "deeper")]
    #[test_case(r#"[{"jsonPath":"$['a.b'][\"c\"]['\\'']","numberValue":1}]"# => r#"{"a.b":{"c":{"'":1}}}"#; "names in quotes")]
    #[test_case(r#"[{"jsonPath":"$.a","stringValue":"x"},{"jsonPath":"$.a","stringValue":"y"}]"# => "unsound"; "text that was not to go on")]
    #[test_case(r#"[{"jsonPath":"$.a","numberValue":1},{"jsonPath":"$.a.b","numberValue":1}]"# => "unsound"; "a member of a number")]
    #[test_case(r#"[{"jsonPath":"$.a[1]","numberValue":1}]"# => "unsound"; "a gap")]
    #[test_case(r#"[{"jsonPath":"$.a[999999999999999999999]","numberValue":1}]"# => "unsound"; "a position beyond numbers")]
    #[test_case(r#"[{"jsonPath":"$.*","numberValue":1}]"# => "unsound"; "several places")]
    #[test_case(r#"[{"jsonPath":"$..a","numberValue":1}]"# => "unsound"; "any depth")]
    #[test_case(r#"[{"jsonPath":"a","numberValue":1}]"# => "unsound"; "no root")]
    #[test_case(r#"[{"jsonPath":"$","numberValue":1}]"# => "unsound"; "the root")]
    #[test_case(r#"[{"numberValue":1}]"# => "unsound"; "no path")]
    #[test_case(r#"[{"jsonPath":"$['a","numberValue":1}]"# => "unsound"; "an open quote")]
    fn arguments(parts: &str) -> String {
        put_together(parts)
    }

    #[test]
    fn paths_are_not_followed_without_end() {
        let path = |steps| format!(r#"[{{"jsonPath":"${}","numberValue":1}}]"#, ".a".repeat(steps));
        assert!(put_together(&path(MAX_STEPS)).starts_with("{\"a\":{\"a\""));
        assert_eq!(put_together(&path(MAX_STEPS + 1)), "unsound");
    }
}
