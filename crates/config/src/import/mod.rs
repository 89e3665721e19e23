//! Import of other tools' policies: `tables` maps their keys to mcpmon's, `convert` converts the values, `refine`
//! removes what cannot be used, and `emit` writes the result. What is left out is reported with its reason.

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
pub enum ImportedTool {
    /// `agentsh`: `sandbox.mcp` or `mcp_rules`, `mcp.inspection`, `proxy`, `dlp`.
    Agentsh,
    /// `agentshield`: `mcp-policy.yaml`.
    Agentshield,
}

impl ImportedTool {
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
    /// A valid configuration file.
    pub text: String,
    /// The notes on parts of the original that are missing or have another meaning here, in the original's
    /// order.
    pub notes: Vec<Note>,
}

/// A part of the original that was left out, or has another meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The key in the original.
    pub path: String,
    /// Its line, from 1; `None` if the original does not have the key.
    pub line: Option<u32>,
    /// The kind of the note.
    pub kind: NoteKind,
    /// The reason, and the remedy.
    pub message: String,
}

/// The outcome for a part that was not converted unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// It was left out.
    LeftOut,
    /// It has another meaning, or another name that should be checked.
    Differs,
}

/// Converts the text of a policy that is called `name`.
///
/// # Errors
/// Returns an error if it is not YAML.
pub fn import(from: ImportedTool, name: &str, text: &str) -> Result<ImportedPolicy, InvalidConfiguration> {
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

/// Refuses a file of another tool, which would otherwise become an empty policy.
fn not_of_another(from: ImportedTool, tree: &Node, origin: Origin) -> Result<(), InvalidConfiguration> {
    let YamlValue::Map(entries) = &tree.value else {
        return Ok(());
    };
    let is_known = |tool: &ImportedTool| {
        let rows = tables::root(*tool);
        entries
            .iter()
            .any(|entry| rows.iter().any(|row| row.key == entry.key))
    };
    let mut mistakes = Mistakes::new(vec![origin]);
    let mut tools = [ImportedTool::Agentsh, ImportedTool::Agentshield].into_iter();
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

/// The place of every value of the original. When a value is moved, it carries an index into this list instead of its
/// line.
#[derive(Debug, Default)]
struct ValuePlaces(Vec<(String, u32)>);

impl ValuePlaces {
    /// Numbers a value and all values below it.
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

    /// Returns path and line of a value; `None` for one that the original does not have.
    fn of(&self, node: &Node) -> Option<(&str, u32)> {
        let number = usize::try_from(node.place.line).ok()?;
        self.0.get(number).map(|(path, line)| (path.as_str(), *line))
    }
}
