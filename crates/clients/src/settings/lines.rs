//! Edits of settings files that consist of lines: a key is added at the top of a TOML file, a variable at the end of an
//! env file.

use std::ops::Range;

use serde_json::Value;

use super::{
    SettingFormat,
    plan::{SettingError, SettingMatch, WantedSetting},
};
use crate::{
    edit::TextEdit,
    syntax::{self, SyntaxMistake},
    table::Format,
};

/// A TOML file or a file of environment variables.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinesText<'b> {
    bytes: &'b [u8],
    format: SettingFormat,
}

/// A setting on its line.
struct PlacedLine {
    /// From the start of its name to the end of its value.
    range: Range<usize>,
    value: Range<usize>,
    text: Option<String>,
}

impl<'b> LinesText<'b> {
    pub(super) const fn new(bytes: &'b [u8], format: SettingFormat) -> Self {
        Self { bytes, format }
    }

    pub(super) fn find(
        self,
        wanted: &WantedSetting,
        before: Option<&str>,
    ) -> Result<SettingMatch, SettingError> {
        let Some(line) = self.place(wanted)? else {
            return Ok(SettingMatch::Nothing);
        };
        let is = |text: &str| line.text.is_some() && line.text == plain(text);
        Ok(match () {
            () if is(&wanted.text) => SettingMatch::Wanted,
            () if before.is_some_and(is) => SettingMatch::Before,
            () => SettingMatch::Other(String::from_utf8_lossy(&self.bytes[line.value]).into_owned()),
        })
    }

    pub(super) fn insertion(self, wanted: &WantedSetting) -> TextEdit {
        let newline = match self.bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) if self.bytes[..end].ends_with(b"\r") => "\r\n",
            Some(_) | None => "\n",
        };
        let name = name(wanted);
        match self.format {
            SettingFormat::Toml => {
                let start = if self.bytes.starts_with("\u{feff}".as_bytes()) {
                    3
                } else {
                    0
                };
                TextEdit::new(start..start, format!("{name} = {}{newline}", wanted.text))
            }
            SettingFormat::Env | SettingFormat::Json | SettingFormat::Jsonc => {
                let end = self.bytes.len();
                let gap = if end == 0 || self.bytes.ends_with(b"\n") {
                    ""
                } else {
                    newline
                };
                let value = plain(&wanted.text).unwrap_or_default();
                TextEdit::new(end..end, format!("{gap}{name}={value}{newline}"))
            }
        }
    }

    pub(super) fn replacement(
        self,
        wanted: &WantedSetting,
        before: &str,
    ) -> Result<Option<TextEdit>, SettingError> {
        let line = self.place(wanted)?.filter(|line| line.text == plain(before));
        Ok(line.map(|line| match self.format {
            SettingFormat::Toml => TextEdit::new(line.value, wanted.text.clone()),
            SettingFormat::Env | SettingFormat::Json | SettingFormat::Jsonc => {
                TextEdit::new(line.value, plain(&wanted.text).unwrap_or_default())
            }
        }))
    }

    pub(super) fn removal(
        self,
        wanted: &WantedSetting,
        before: &str,
    ) -> Result<Option<TextEdit>, SettingError> {
        let line = self.place(wanted)?.filter(|line| line.text == plain(before));
        Ok(line.map(|PlacedLine { range, .. }| {
            let start = self.bytes[..range.start]
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |end| end + 1);
            let end = self.bytes[range.end..].iter().position(|byte| *byte == b'\n');
            TextEdit::new(start..end.map_or(self.bytes.len(), |end| range.end + end + 1), "")
        }))
    }

    fn place(self, wanted: &WantedSetting) -> Result<Option<PlacedLine>, SettingError> {
        match self.format {
            SettingFormat::Toml => self.place_in_toml(name(wanted)),
            SettingFormat::Env | SettingFormat::Json | SettingFormat::Jsonc => {
                self.place_in_env(name(wanted))
            }
        }
    }

    fn place_in_toml(self, name: &str) -> Result<Option<PlacedLine>, SettingError> {
        let Some(root) = syntax::parse(self.bytes, Format::Toml, &[])? else {
            return Ok(None);
        };
        let member = root.members().iter().find(|member| member.name == name);
        Ok(member.map(|member| PlacedLine {
            range: member.start..member.node.range.end,
            value: member.node.range.clone(),
            text: member.node.text().map(str::to_owned),
        }))
    }

    fn place_in_env(self, name: &str) -> Result<Option<PlacedLine>, SettingError> {
        let text = str::from_utf8(self.bytes)
            .map_err(|error| SyntaxMistake::at(self.bytes, error.valid_up_to(), "this is not UTF-8"))?;
        let (mut at, mut found) = (0, None);
        for line in text.split_inclusive('\n') {
            let start = at;
            at += line.len();
            let Some((left, right)) = line.trim_end().split_once('=') else {
                continue;
            };
            let left = left.trim();
            if left.strip_prefix("export ").unwrap_or(left).trim() != name {
                continue;
            }
            if found.is_some() {
                return Err(SettingError::Unclear(format!("`{name}` is set twice in it")));
            }
            let end = start + line.trim_end().len();
            let value = right.trim().trim_matches(['"', '\'']);
            found = Some(PlacedLine {
                range: start..end,
                value: end - right.len()..end,
                text: Some(value.to_owned()),
            });
        }
        Ok(found)
    }
}

fn name(wanted: &WantedSetting) -> &str {
    wanted.path.first().map_or("", String::as_str)
}

/// Returns the text of a JSON string; `None` for another literal.
fn plain(literal: &str) -> Option<String> {
    match serde_json::from_str(literal) {
        Ok(Value::String(text)) => Some(text),
        Ok(_) | Err(_) => None,
    }
}

/// Returns the value of a key at the top of a TOML file, if it is a text.
pub(super) fn root_text(bytes: &[u8], name: &str) -> Option<String> {
    let root = syntax::parse(bytes, Format::Toml, &[]).ok()??;
    let member = root.members().iter().find(|member| member.name == name)?;
    member.node.text().map(str::to_owned)
}
