//! The plan for the settings in one file, without input and output: bytes and the ledger's record go in, new bytes and
//! a new record come out.

use serde::{Deserialize, Serialize};

use super::{
    SettingFormat, SettingKind,
    json::JsonText,
    lines::{LinesText, root_text},
};
use crate::{
    edit::{TextEdit, applied},
    syntax::{JsonDialect, SyntaxMistake},
};

/// A value that a file is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedSetting {
    pub(super) kind: SettingKind,
    /// The members from the root to the value, or to the list of an item.
    pub(super) path: Vec<String>,
    pub(super) leaf: SettingPosition,
    /// The value as JSON.
    pub(super) text: String,
    /// A member at the root that makes the value ineffective.
    pub(super) overruled_by: Option<&'static str>,
}

/// The position of a value in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SettingPosition {
    /// A member.
    Value,
    /// An item of a list.
    Item {
        /// The last words of its command, by which an item that a person added is recognised.
        words: String,
    },
}

/// A value that was added to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedSetting {
    pub(super) kind: SettingKind,
    path: Vec<String>,
    is_item: bool,
    /// The value as JSON.
    text: String,
    /// The whole inserted text, with the value in it.
    inserted: String,
    /// The number of members that were created for it.
    made: usize,
}

/// The result of a search for a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SettingMatch {
    Nothing,
    Wanted,
    /// The value that was added earlier, for another address or program.
    Before,
    /// Another value, which mcpmon did not add.
    Other(String),
}

/// The reason why a file cannot be changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SettingError {
    #[error("it cannot be read")]
    Malformed(SyntaxMistake),
    #[error("{0}")]
    Unclear(String),
}

impl From<SyntaxMistake> for SettingError {
    fn from(mistake: SyntaxMistake) -> Self {
        Self::Malformed(mistake)
    }
}

/// The outcome for a setting, or the reason why it is not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingOutcome {
    /// It is to be added.
    Add,
    /// It is to be updated to this mcpmon or this address.
    Update,
    /// It is to be removed.
    Remove,
    /// It is in the file already.
    Present,
    /// It is not in the file, and is not to be added.
    Absent,
    /// It is left unchanged, for this reason.
    Left(String),
}

impl SettingOutcome {
    /// Returns whether the file changes for this setting.
    pub const fn changes(&self) -> bool {
        matches!(self, Self::Add | Self::Update | Self::Remove)
    }
}

/// The plan for a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedSetting {
    /// Its purpose.
    pub kind: SettingKind,
    /// The members from the root to the value.
    pub path: Vec<String>,
    /// The outcome.
    pub outcome: SettingOutcome,
    /// The value before the change, as JSON.
    pub before: Option<String>,
    /// The value after the change.
    pub after: Option<String>,
}

/// The plan for a file.
#[derive(Debug)]
pub(super) struct SettingsPlan {
    pub(super) settings: Vec<PlannedSetting>,
    pub(super) text: Vec<u8>,
    /// The records of the settings in the file.
    pub(super) kept: Vec<RecordedSetting>,
}

/// A text with its syntax.
enum SettingsText<'b> {
    Json(JsonText<'b>),
    Lines(LinesText<'b>),
}

impl<'b> SettingsText<'b> {
    fn new(bytes: &'b [u8], format: SettingFormat) -> Result<Self, SyntaxMistake> {
        Ok(match format {
            SettingFormat::Json => Self::Json(JsonText::new(bytes, JsonDialect::Strict)?),
            SettingFormat::Jsonc => Self::Json(JsonText::new(bytes, JsonDialect::Comments)?),
            SettingFormat::Toml | SettingFormat::Env => Self::Lines(LinesText::new(bytes, format)),
        })
    }

    fn find(&self, wanted: &WantedSetting, before: Option<&str>) -> Result<SettingMatch, SettingError> {
        match self {
            Self::Json(text) => text.find(wanted, before),
            Self::Lines(text) => text.find(wanted, before),
        }
    }

    fn insertion(&self, wanted: &WantedSetting) -> Result<(TextEdit, usize), SettingError> {
        match self {
            Self::Json(text) => text.insertion(wanted),
            Self::Lines(text) => Ok((text.insertion(wanted), 1)),
        }
    }

    fn replacement(&self, wanted: &WantedSetting, before: &str) -> Result<Option<TextEdit>, SettingError> {
        match self {
            Self::Json(text) => text.replacement(wanted, before),
            Self::Lines(text) => text.replacement(wanted, before),
        }
    }

    fn removal(
        &self,
        wanted: &WantedSetting,
        kept: &RecordedSetting,
    ) -> Result<Option<TextEdit>, SettingError> {
        match self {
            Self::Json(text) => text.removal(wanted, &kept.text, kept.made),
            Self::Lines(text) => text.removal(wanted, &kept.text),
        }
    }
}

/// Plans to add the wanted settings, one after the other.
pub(super) fn add(
    bytes: &[u8],
    format: SettingFormat,
    wanted: &[WantedSetting],
    kept: &[RecordedSetting],
) -> Result<SettingsPlan, SettingError> {
    let mut plan = SettingsPlan {
        settings: Vec::new(),
        text: bytes.to_vec(),
        kept: kept.to_vec(),
    };
    for wanted in wanted {
        let planned = add_one(&mut plan, format, wanted)?;
        plan.settings.push(planned);
    }
    Ok(plan)
}

fn add_one(
    plan: &mut SettingsPlan,
    format: SettingFormat,
    wanted: &WantedSetting,
) -> Result<PlannedSetting, SettingError> {
    let bytes = plan.text.clone();
    let text = SettingsText::new(&bytes, format)?;
    let at = plan.kept.iter().position(|kept| kept.is_of(wanted));
    let before = at.map(|at| plan.kept[at].text.clone());
    let planned = |outcome, before: Option<String>| PlannedSetting {
        kind: wanted.kind,
        path: wanted.path.clone(),
        outcome,
        before,
        after: Some(wanted.text.clone()),
    };
    if let Some(member) = wanted.overruled_by
        && let Some(value) = root_text(&bytes, member).filter(|value| value != "openai")
    {
        let reason = format!(
            "`{member}` is {value:?}, whose own address holds: start it with `mcpmon run`, which follows that"
        );
        return Ok(planned(SettingOutcome::Left(reason), None));
    }
    let edit = match text.find(wanted, before.as_deref())? {
        SettingMatch::Wanted => return Ok(planned(SettingOutcome::Present, None)),
        SettingMatch::Before => {
            let (Some(at), Some(before)) = (at, before) else {
                return Ok(planned(SettingOutcome::Present, None));
            };
            let Some(edit) = text.replacement(wanted, &before)? else {
                return Ok(planned(SettingOutcome::Left("it was edited".to_owned()), None));
            };
            let kept = &mut plan.kept[at];
            kept.inserted = kept.inserted.replace(&kept.text, &wanted.text);
            if format == SettingFormat::Env {
                let bare = |text: &str| text.trim_matches('"').to_owned();
                kept.inserted = kept.inserted.replace(&bare(&before), &bare(&wanted.text));
            }
            kept.text.clone_from(&wanted.text);
            plan.text = applied(&bytes, vec![edit]);
            return Ok(planned(SettingOutcome::Update, Some(before)));
        }
        SettingMatch::Other(_) if matches!(wanted.leaf, SettingPosition::Item { .. }) => {
            let reason = "a hook that asks mcpmon was put there by hand".to_owned();
            return Ok(planned(SettingOutcome::Left(reason), None));
        }
        SettingMatch::Other(value) => {
            let reason = "it names another address, which the proxy may not speak to: start the client with `mcpmon run`, which follows it";
            return Ok(planned(SettingOutcome::Left(reason.to_owned()), Some(value)));
        }
        SettingMatch::Nothing => text.insertion(wanted)?,
    };
    let (edit, made) = edit;
    if let Some(at) = at {
        plan.kept.remove(at);
    }
    plan.kept.push(RecordedSetting {
        kind: wanted.kind,
        path: wanted.path.clone(),
        is_item: wanted.leaf != SettingPosition::Value,
        text: wanted.text.clone(),
        inserted: edit.text.clone(),
        made,
    });
    plan.text = applied(&bytes, vec![edit]);
    Ok(planned(SettingOutcome::Add, None))
}

/// Plans to remove the recorded settings of these kinds, the latest first.
pub(super) fn remove(
    bytes: &[u8],
    format: SettingFormat,
    kinds: &[SettingKind],
    kept: &[RecordedSetting],
) -> Result<SettingsPlan, SettingError> {
    let mut plan = SettingsPlan {
        settings: Vec::new(),
        text: bytes.to_vec(),
        kept: Vec::new(),
    };
    for kept in kept.iter().rev() {
        if !kinds.contains(&kept.kind) {
            plan.kept.insert(0, kept.clone());
            continue;
        }
        let removed = removed(&plan.text, format, kept)?;
        let outcome = match &removed {
            Some(_) => SettingOutcome::Remove,
            None => SettingOutcome::Absent,
        };
        if let Some(text) = removed {
            plan.text = text;
        }
        plan.settings.push(PlannedSetting {
            kind: kept.kind,
            path: kept.path.clone(),
            outcome,
            before: Some(kept.text.clone()),
            after: None,
        });
    }
    plan.settings.reverse();
    Ok(plan)
}

/// Returns the text without a setting: exactly the inserted text is removed if it occurs once, else the value alone.
fn removed(
    bytes: &[u8],
    format: SettingFormat,
    kept: &RecordedSetting,
) -> Result<Option<Vec<u8>>, SettingError> {
    let wanted = kept.wanted();
    let is_there = |bytes: &[u8]| -> Result<bool, SettingError> {
        let found = SettingsText::new(bytes, format)?.find(&wanted, None)?;
        Ok(found == SettingMatch::Wanted)
    };
    if !is_there(bytes)? {
        return Ok(None);
    }
    let inserted = kept.inserted.as_bytes();
    // In a file of lines, a line break that was inserted before the setting ends the line above once other lines
    // follow.
    let is_whole = |at: usize| match format {
        SettingFormat::Json | SettingFormat::Jsonc => true,
        SettingFormat::Toml | SettingFormat::Env => match inserted.first() {
            Some(b'\r' | b'\n') => at + inserted.len() == bytes.len(),
            _ => at == 0 || bytes[..at].ends_with(b"\n") || &bytes[..at] == "\u{feff}".as_bytes(),
        },
    };
    let mut places = bytes
        .windows(inserted.len().max(1))
        .enumerate()
        .filter(|(_, window)| *window == inserted);
    if let (Some((at, _)), None) = (places.next(), places.next())
        && is_whole(at)
    {
        let text = applied(bytes, vec![TextEdit::new(at..at + inserted.len(), "")]);
        if !is_there(&text).unwrap_or(true) {
            return Ok(Some(text));
        }
    }
    let edit = SettingsText::new(bytes, format)?.removal(&wanted, kept)?;
    let text = edit.map(|edit| applied(bytes, vec![edit]));
    Ok(text.filter(|text| !is_there(text).unwrap_or(true)))
}

impl RecordedSetting {
    fn is_of(&self, wanted: &WantedSetting) -> bool {
        self.kind == wanted.kind && self.path == wanted.path
    }

    /// Returns the setting as it was wanted when it was added.
    fn wanted(&self) -> WantedSetting {
        WantedSetting {
            kind: self.kind,
            path: self.path.clone(),
            leaf: match self.is_item {
                true => SettingPosition::Item { words: String::new() },
                false => SettingPosition::Value,
            },
            text: self.text.clone(),
            overruled_by: None,
        }
    }
}
