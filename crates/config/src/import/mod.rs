//! Other tools' policies as ours: `tables` says which key becomes which, `convert` carries values over, `refine` leaves
//! out what cannot be used, `emit` writes the rest. What is not carried over is named, with its reason.

mod convert;
mod emit;
mod refine;
mod tables;
#[cfg(test)]
mod tests;

use super::{
    load::{self, Node, YamlValue},
    mistake::{InvalidConfiguration, Mistake, Mistakes, Origin, Place},
    sources::{Source, Sources},
};

/// A tool whose policies can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// `agentsh`: `sandbox.mcp` or `mcp_rules`, `mcp.inspection`, `proxy`, `dlp`.
    Agentsh,
    /// `agentshield`: `mcp-policy.yaml`.
    Agentshield,
}

impl Foreign {
    /// Returns its display name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agentsh => "agentsh",
            Self::Agentshield => "agentshield",
        }
    }
}

/// A policy that was converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedPolicy {
    /// A configuration file that can be used.
    pub text: String,
    /// The notes on parts of the original that are missing or have another meaning here, in the original's
    /// order.
    pub notes: Vec<Note>,
}

/// Something of the original that is not carried over as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The key in the original.
    pub path: String,
    /// Its line, from 1; `None` where the original does not have the key.
    pub line: Option<u32>,
    /// The way in which it is not carried over.
    pub kind: NoteKind,
    /// The reason, and the remedy.
    pub message: String,
}

/// The way in which something is not carried over as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// Not at all.
    LeftOut,
    /// With another meaning, or under another name that is worth a look.
    Differs,
}

/// Converts the text of a policy that is called `name`.
///
/// # Errors
/// Returns an error if it is no YAML.
pub fn import(from: Foreign, name: &str, text: &str) -> Result<ImportedPolicy, InvalidConfiguration> {
    let origin = Origin {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    let mut tree = load::any(origin.clone())?;
    not_of_another(from, &tree, origin)?;
    let mut places = ValuePlaces::default();
    places.number(&mut tree, String::new(), None);
    let mut draft = convert::convert(from, tree, places);
    refine::refine(&mut draft);
    let mut notes = draft.notes;
    notes.sort_by(|a, b| (a.line, &a.path).cmp(&(b.line, &b.path)));
    notes.dedup();
    let text = emit::file(from, name, &draft.tree, &draft.comments, &notes);
    let sources = Sources::of_parts(vec![(Source::File(name.into()), text.clone())]);
    if let Some(sources) = sources
        && let Err(super::ConfigError::Invalid(invalid)) = super::load_sources(&sources)
    {
        return Err(invalid);
    }
    Ok(ImportedPolicy { text, notes })
}

/// A file of another tool would become a policy without anything in it.
fn not_of_another(from: Foreign, tree: &Node, origin: Origin) -> Result<(), InvalidConfiguration> {
    let YamlValue::Map(entries) = &tree.value else {
        return Ok(());
    };
    let is_known = |tool: &Foreign| {
        let rows = tables::root(*tool);
        entries
            .iter()
            .any(|entry| rows.iter().any(|row| row.key == entry.key))
    };
    let mut mistakes = Mistakes::new(vec![origin]);
    let mut tools = [Foreign::Agentsh, Foreign::Agentshield].into_iter();
    if !is_known(&from)
        && let Some(meant) = tools.find(is_known)
    {
        let (from, meant) = (from.name(), meant.name());
        mistakes.push(Mistake {
            place: Place::START,
            key: String::new(),
            message: format!(
                "no key of it is one of {from}, and some are of {meant}: did you mean `--from {meant}`?"
            ),
            related: None,
        });
    }
    mistakes.unless_any(())
}

/// The place of every value of the original. A value carries its number in place of its line when it is
/// moved.
#[derive(Debug, Default)]
struct ValuePlaces(Vec<(String, u32)>);

impl ValuePlaces {
    /// Numbers a value and all below.
    fn number(&mut self, node: &mut Node, path: String, key_line: Option<u32>) {
        let line = key_line.unwrap_or(node.place.line);
        node.place.line = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.push((path.clone(), line));
        match &mut node.value {
            YamlValue::Map(entries) => {
                for entry in entries {
                    let path = match path.as_str() {
                        "" => entry.key.clone(),
                        path => format!("{path}.{}", entry.key),
                    };
                    self.number(&mut entry.node, path, Some(entry.place.line));
                }
            }
            YamlValue::List(items) => {
                for item in items {
                    self.number(&mut item.node, format!("{path}[{}]", item.index), None);
                }
            }
            YamlValue::Null
            | YamlValue::Bool(_)
            | YamlValue::Integer(_)
            | YamlValue::Float(_)
            | YamlValue::Text(_) => {}
        }
    }

    /// Path and line of a value; `None` for one that the original does not have.
    fn of(&self, node: &Node) -> Option<(&str, u32)> {
        let number = usize::try_from(node.place.line).ok()?;
        self.0.get(number).map(|(path, line)| (path.as_str(), *line))
    }
}
