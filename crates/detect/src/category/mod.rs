//! Category of a tool, from its name, its annotations, its schema and its description, in this order.
//!
//! All of this comes from the server. It can therefore give a tool a worse category than its name does, but never a
//! better one.

mod words;

use mcpmon_model::{RawJson, ToolCategory};

use self::words::{Strength, verb, words_of};

use crate::tables::{self, WordList};

/// Names of arguments for the recipient of something.
static RECIPIENTS: WordList = tables::CATEGORY.list("category", "recipients");
/// Names of arguments for what is sent to a recipient.
static CONTENTS: WordList = tables::CATEGORY.list("category", "contents");
/// Names of arguments that are executed.
static PROGRAMS: WordList = tables::CATEGORY.list("category", "programs");
/// Names of arguments for a question or a query.
static QUESTIONS: WordList = tables::CATEGORY.list("category", "questions");
/// Most properties of a schema that are read.
const MAX_PROPERTIES: usize = 200;

/// Returns the category of the tool `name`, from its name and its definition.
pub fn classify(name: &str, definition: Option<RawJson<'_>>) -> ToolCategory {
    let by_name = by_words(&words_of(name));
    let Some(definition) = definition else {
        return by_name.unwrap_or_default();
    };
    let schema = Schema::of(definition);
    match by_name {
        // `create_message` to a channel: the created message is sent.
        Some(ToolCategory::Write | ToolCategory::Unknown) if schema.sends() => ToolCategory::Send,
        Some(category) => category,
        None => by_annotations(definition)
            .into_iter()
            .chain(schema.category())
            .max()
            .or_else(|| by_description(definition))
            .unwrap_or_default(),
    }
}

/// Returns the words of a tool's name in any case style, in lower case.
pub(super) fn words(name: &str) -> Vec<String> {
    words_of(name)
}

/// Returns the category of the tool `name` from the beginning of its name only.
pub fn by_prefix(name: &str) -> ToolCategory {
    const PREFIXES: [(ToolCategory, &[&str]); 4] = [
        (
            ToolCategory::Read,
            &[
                "read_", "get_", "query_", "list_", "fetch_", "search_", "find_", "lookup_",
            ],
        ),
        (
            ToolCategory::Write,
            &[
                "write_", "update_", "set_", "create_", "delete_", "remove_", "put_", "insert_",
            ],
        ),
        (
            ToolCategory::Send,
            &[
                "send_", "post_", "upload_", "http_", "email_", "notify_", "publish_", "push_",
            ],
        ),
        (
            ToolCategory::Compute,
            &["run_", "exec_", "eval_", "execute_", "invoke_", "call_"],
        ),
    ];
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let found = PREFIXES.iter().find(|(_, prefixes)| starts(prefixes));
    found.map_or(ToolCategory::Unknown, |(category, _)| *category)
}

/// Returns the category by the verbs of a name. A joined name (`read_and_send`) has the worst category of its parts.
fn by_words(words: &[String]) -> Option<ToolCategory> {
    // The word `send` means sending, at any place in the name.
    if words.iter().any(|word| word == "send") {
        return Some(ToolCategory::Send);
    }
    let parts = words.split(|word| matches!(word.as_str(), "and" | "then" | "or"));
    parts.filter_map(by_part).max()
}

/// Returns the category by the first verb. A word that can also be a noun counts only if there is no other verb.
fn by_part(words: &[String]) -> Option<ToolCategory> {
    let of = |wanted: Strength| {
        let mut verbs = words.iter().filter_map(|word| verb(word));
        verbs.find(|(_, strength)| *strength == wanted)
    };
    let found = of(Strength::Verb)
        .or_else(|| of(Strength::Either))
        .or_else(|| of(Strength::Noun));
    found.map(|(category, _)| category)
}

/// Returns the category by the annotations that a server gives its client.
fn by_annotations(definition: RawJson<'_>) -> Option<ToolCategory> {
    let annotations = definition.member("annotations")?;
    let says = |hint: &str| annotations.member(hint).map(|value| value.as_str() == "true");
    match (says("readOnlyHint"), says("destructiveHint")) {
        (_, Some(true)) | (Some(false), _) => Some(ToolCategory::Write),
        (Some(true), _) => Some(ToolCategory::Read),
        (None, Some(false) | None) => None,
    }
}

/// Returns the category by the first word of the description: `Returns the …`.
fn by_description(definition: RawJson<'_>) -> Option<ToolCategory> {
    let description = definition.member("description")?.text()?;
    let is_end = |c: char| !c.is_alphanumeric() && c != '-';
    let first = description.trim_start().split(is_end).next()?;
    let word = words_of(first).into_iter().next()?;
    let stems = [
        word.as_str(),
        word.strip_suffix('s').unwrap_or(&word),
        word.strip_suffix("es").unwrap_or(&word),
        word.strip_suffix("d").unwrap_or(&word),
    ];
    let found = stems.into_iter().find_map(verb);
    found.map(|(category, _)| category)
}

/// The names of a tool's arguments.
#[derive(Default)]
struct Schema {
    has_recipient: bool,
    has_content: bool,
    has_program: bool,
    has_question: bool,
    has_path: bool,
}

impl Schema {
    fn of(definition: RawJson<'_>) -> Self {
        let mut schema = Self::default();
        let properties = definition
            .member("inputSchema")
            .and_then(|schema| schema.member("properties"))
            .filter(|properties| properties.as_str().starts_with('{'));
        let Some(properties) = properties else {
            return schema;
        };
        for (name, _) in properties.members().take(MAX_PROPERTIES) {
            let name = words_of(&name).join("_");
            let is = |names: &[&str]| names.contains(&name.as_str());
            schema.has_recipient |= is(&RECIPIENTS);
            schema.has_content |= is(&CONTENTS);
            schema.has_program |= is(&PROGRAMS);
            schema.has_question |= is(&QUESTIONS);
            schema.has_path |= matches!(name.as_str(), "path" | "file_path" | "filepath" | "filename");
        }
        schema
    }

    const fn sends(&self) -> bool {
        self.has_recipient && self.has_content
    }

    const fn category(&self) -> Option<ToolCategory> {
        if self.sends() {
            Some(ToolCategory::Send)
        } else if self.has_program {
            Some(ToolCategory::Compute)
        } else if self.has_path && self.has_content {
            Some(ToolCategory::Write)
        } else if self.has_question {
            Some(ToolCategory::Read)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("read_file" => ToolCategory::Read; "snake")]
    #[test_case("readFile" => ToolCategory::Read; "camel")]
    #[test_case("read-file" => ToolCategory::Read; "kebab")]
    #[test_case("admin.tools.list" => ToolCategory::Read; "dots")]
    #[test_case("READ_FILE" => ToolCategory::Read; "capitals")]
    #[test_case("HTTPGetPage" => ToolCategory::Read; "an abbreviation")]
    #[test_case("mcp__mail__send_email" => ToolCategory::Send; "a prefix")]
    #[test_case("linear_create_issue" => ToolCategory::Write; "a vendor in front")]
    #[test_case("get_sent_emails" => ToolCategory::Read; "sent is not send")]
    #[test_case("list_email_templates" => ToolCategory::Read; "a noun that is a verb elsewhere")]
    #[test_case("email_customer" => ToolCategory::Send; "the same word as a verb")]
    #[test_case("read_and_send" => ToolCategory::Send; "two verbs joined")]
    #[test_case("fetch_page_send_to" => ToolCategory::Send; "send anywhere")]
    #[test_case("kubectl_exec" => ToolCategory::Compute; "a command")]
    #[test_case("delete_message" => ToolCategory::Write; "deletes")]
    #[test_case("weather_forecast" => ToolCategory::Read; "a noun alone")]
    #[test_case("frobnicate" => ToolCategory::Unknown; "no word that is known")]
    #[test_case("" => ToolCategory::Unknown; "nothing")]
    #[test_case("____" => ToolCategory::Unknown; "only separators")]
    fn names(name: &str) -> ToolCategory {
        classify(name, None)
    }

    #[test_case("frob", r#"{"annotations":{"readOnlyHint":true}}"# => ToolCategory::Read; "read only")]
    #[test_case("frob", r#"{"annotations":{"readOnlyHint":false}}"# => ToolCategory::Write; "not read only")]
    #[test_case("frob", r#"{"annotations":{"destructiveHint":true}}"# => ToolCategory::Write; "destructive")]
    #[test_case("send_x", r#"{"annotations":{"readOnlyHint":true}}"# => ToolCategory::Send; "a hint takes nothing back")]
    #[test_case("frob", r#"{"annotations":{"readOnlyHint":true},"inputSchema":{"properties":{"to":{},"body":{}}}}"# => ToolCategory::Send; "nor from the schema")]
    #[test_case("create_message", r#"{"inputSchema":{"properties":{"channelId":{},"text":{}}}}"# => ToolCategory::Send; "what is made in a channel is sent")]
    #[test_case("create_note", r#"{"inputSchema":{"properties":{"title":{},"text":{}}}}"# => ToolCategory::Write; "what goes to nobody is not")]
    #[test_case("frob", r#"{"inputSchema":{"properties":{"command":{}}}}"# => ToolCategory::Compute; "a command")]
    #[test_case("frob", r#"{"inputSchema":{"properties":{"path":{},"content":{}}}}"# => ToolCategory::Write; "a file with content")]
    #[test_case("frob", r#"{"inputSchema":{"properties":{"query":{}}}}"# => ToolCategory::Read; "a question")]
    #[test_case("frob", r#"{"description":"Returns the time."}"# => ToolCategory::Read; "the description begins with a verb")]
    #[test_case("frob", r#"{"description":"A frob that returns"}"# => ToolCategory::Unknown; "it does not")]
    #[test_case("frob", r#"{"inputSchema":[],"annotations":7,"description":{}}"# => ToolCategory::Unknown; "nonsense")]
    fn definitions(name: &str, definition: &str) -> ToolCategory {
        classify(name, Some(RawJson::trusted(definition)))
    }

    #[test_case("read_file" => ToolCategory::Read)]
    #[test_case("put_object" => ToolCategory::Write)]
    #[test_case("http_request" => ToolCategory::Send)]
    #[test_case("call_function" => ToolCategory::Compute)]
    #[test_case("readFile" => ToolCategory::Unknown; "other case styles")]
    #[test_case("my_read_file" => ToolCategory::Unknown; "not at the beginning")]
    fn beginnings(name: &str) -> ToolCategory {
        by_prefix(name)
    }
}
