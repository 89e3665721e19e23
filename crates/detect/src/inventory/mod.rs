//! Inspection of a host's inventory before it runs: configured servers, and skills with the scripts that they bring.
//!
//! Texts in, findings out; the reading of files is the caller's. The rules are data: `rules/inventory.toml`.

mod names;
mod rules;
mod script;
mod server;
mod skill;

use mcpmon_clients::Place;
use mcpmon_model::{Finding, Severity};

pub use self::{
    names::{OfferedTool, Shadowed, shadowed_tools},
    rules::{About, InventoryRule, rule, rules},
    server::{FileTraits, inspect_server},
    skill::{TextKind, inspect_text, is_program, skill_description},
};

/// Longest evidence that a finding quotes, characters.
const MAX_EVIDENCE: usize = 160;

/// One match of one rule in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryFinding {
    /// The id of the rule.
    pub rule: String,
    /// The name by which several rules go; of the rules of an inventory the id.
    pub name: String,
    /// The severity.
    pub severity: Severity,
    /// The match, described for a person; never a secret in clear.
    pub message: String,
    /// The position in the file; `None` if the finding is about the whole file.
    pub place: Option<Place>,
}

impl InventoryFinding {
    /// Returns a match of a rule of the inventory, at its usual severity.
    ///
    /// # Panics
    /// Panics if there is no such rule.
    pub fn new(rule: &str, message: String, place: Option<Place>) -> Self {
        let known = rules::rule(rule).unwrap_or_else(|| panic!("{rule} is in the table"));
        Self {
            rule: known.id.clone(),
            name: known.id.clone(),
            severity: known.severity,
            message,
            place,
        }
    }

    /// Returns the same at another severity.
    #[must_use]
    pub const fn at(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Returns a match of a rule over texts, at the position of its first match in `text`.
    pub fn of_text(finding: &Finding, text: &str) -> Self {
        let first = finding.matches.first();
        let place = first.map(|matched| place_at(text, matched.position));
        let quoted = first.map_or("", |matched| matched.text.as_str());
        Self {
            rule: finding.rules.first().unwrap_or(&finding.pattern).clone(),
            name: finding.pattern.clone(),
            severity: finding.severity,
            message: format!("{}: {}", finding.pattern, shortened(quoted)),
            place,
        }
    }
}

/// Returns the position of a byte of a text.
fn place_at(text: &str, position: usize) -> Place {
    let before = &text[..text.floor_char_boundary(position)];
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    Place {
        line: before[..start].bytes().filter(|byte| *byte == b'\n').count() + 1,
        column: before[start..].chars().count() + 1,
    }
}

/// Returns a text on one line, cut to the length of a quotation.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_EVIDENCE) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
