//! Questions to the user that a server may not ask: MCP forbids to ask for credentials in forms, and a page that is
//! opened for a user has to be the one that its address names.

mod address;
mod fields;
mod spelling;
mod terms;

use std::borrow::Cow;

use mcpmon_model::{Category, Finding, Match, RawJson, Severity};

use self::{
    fields::{Field, Fields},
    terms::{Asking, TERMS},
};
use crate::{
    labels,
    mask::mask_text,
    normalise::{decode::layers, skeleton::Skeleton},
    walk::{self, Part, Path},
};

/// Members of a form whose values are no text for the user.
const UNREAD: [&str; 9] = [
    "default",
    "examples",
    "pattern",
    "type",
    "url",
    "mode",
    "elicitationId",
    "$schema",
    "_meta",
];
/// Members that list what can be chosen.
const CHOICES: [&str; 5] = ["enum", "enumNames", "const", "oneOf", "anyOf"];
/// Formats of fields for secrets.
const SECRET_FORMATS: [&str; 3] = ["password", "secret", "credential"];
/// Most characters of a text that a finding shows.
const SHOWN: usize = 100;

/// Returns the part of a question's parameters that asks for credentials, if one does. A question that leads to a page
/// of the server (`mode: url`) is no form, unless it contains one.
pub(super) fn asks_for_credentials(params: RawJson<'_>) -> Option<Finding> {
    let schema = params.member("requestedSchema");
    let is_page = params.member("mode").and_then(RawJson::text).as_deref() == Some("url");
    if is_page && schema.is_none() && params.member("url").is_some() {
        return None;
    }
    let fields = Fields::of(schema);
    let mut found = None;
    walk::strings(params, |path, part, text| {
        if found.is_none() {
            let encoded = || {
                layers(&text)
                    .into_iter()
                    .find_map(|layer| asked(&fields, path, part, &layer.text))
            };
            let asked = asked(&fields, path, part, &text).or_else(encoded);
            found = asked.map(|asked| finding(path, &text, asked));
        }
    });
    found
}

/// Returns the address of a question's page, if it is not what it seems to be.
pub(super) fn leads_astray(params: RawJson<'_>) -> Option<(Finding, &'static str)> {
    let url = params.member("url")?;
    let text = url.text().unwrap_or(Cow::Borrowed(url.as_str()));
    let reason = address::misleads(&text)?;
    let matched = shown(&text, &text, 0);
    Some((of_rule("misleading_address", "url".to_owned(), matched), reason))
}

/// Returns the credential that a text of a question asks for, in view of its place.
fn asked(fields: &Fields, path: &Path<'_>, part: Part, text: &str) -> Option<String> {
    let members: Vec<&str> = path.members().collect();
    let (last, around) = members.split_last()?;
    let in_schema = members[0] == "requestedSchema";
    let is_field = in_schema && around.last() == Some(&"properties");
    if part == Part::Key {
        return match is_field {
            true => label(fields.at(&members), text, true),
            false => TERMS.in_prose(text, Asking::Typed),
        };
    }
    if members.iter().any(|member| UNREAD.contains(member)) && !is_field {
        return None;
    }
    if in_schema && *last == "format" {
        let format = Skeleton::of(text).text.to_lowercase();
        return SECRET_FORMATS.contains(&format.as_str()).then_some(format);
    }
    let is_choice = in_schema && around.iter().chain([last]).any(|member| CHOICES.contains(member));
    let field = fields.around(&members);
    let asking = match field {
        _ if is_choice => Asking::Typed,
        Some(Field::Closed) => Asking::Typed,
        Some(Field::Text | Field::Number) => Asking::Named,
        None if fields.take_text() => Asking::Named,
        None => Asking::Typed,
    };
    let titled = || {
        let is_title = *last == "title" && fields.at(around).is_some();
        is_title.then(|| label(fields.at(around), text, false)).flatten()
    };
    TERMS
        .in_prose(text, asking)
        .or_else(|| file_contents(text, asking))
        .or_else(titled)
}

/// Returns the credential that the name or the title of a field asks for.
fn label(field: Option<Field>, text: &str, is_name: bool) -> Option<String> {
    match field {
        Some(Field::Closed) => TERMS.in_prose(text, Asking::Typed),
        Some(Field::Number) => TERMS.in_prose(text, Asking::Named),
        Some(Field::Text) | None => TERMS.in_label(text, is_name).or_else(|| {
            let skeleton = Skeleton::of(text);
            labels::names_secret_file(&skeleton.text).then(|| skeleton.text.into_owned())
        }),
    }
}

/// Returns the file of secrets whose contents a text asks for.
fn file_contents(text: &str, asking: Asking) -> Option<String> {
    let skeleton = Skeleton::of(text);
    let is_named = || {
        let mut words = skeleton.text.split_whitespace();
        words.any(|word| labels::names_secret_file(word.trim_end_matches(['.', ',', ':', ';', '?', '!'])))
    };
    let asks = TERMS.asks_for_contents(text, asking) && is_named();
    asks.then(|| skeleton.text.chars().take(SHOWN).collect())
}

fn finding(path: &Path<'_>, text: &str, asked: String) -> Finding {
    let position = text.find(&asked).unwrap_or(0);
    of_rule(
        "asks_for_credentials",
        path.shown(),
        shown(&asked, text, position),
    )
}

fn of_rule(rule: &str, field: String, matched: Match) -> Finding {
    Finding::built_in(rule, Category::CredentialTheft, Severity::High, field, matched)
}

fn shown(asked: &str, text: &str, position: usize) -> Match {
    let cut = |text: &str| mask_text(&text.chars().take(SHOWN).collect::<String>());
    Match {
        text: cut(asked),
        position,
        context: cut(text),
    }
}

#[cfg(test)]
mod tests;
