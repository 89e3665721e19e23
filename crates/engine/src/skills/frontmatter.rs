//! The head of a `SKILL.md`, compared with its copy in the skill's entry: a person accepts the entry, and the model
//! reads the file.

use mcpmon_model::RawJson;
use serde_json::Value;

use super::SkillError;

/// Longest head that is read, bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Deepest nesting that is compared.
const MAX_DEPTH: usize = 32;

/// Checks that the frontmatter of `file` equals that of `entry`.
///
/// # Errors
/// Returns an error if it differs, or cannot be read.
pub(super) fn verify(entry: RawJson<'_>, file: &[u8]) -> Result<(), SkillError> {
    let text = str::from_utf8(file).map_err(|_error| "SKILL.md is no UTF-8")?;
    let head = head(text).ok_or("SKILL.md has no frontmatter")?;
    if head.len() > MAX_HEAD_BYTES {
        return Err("the frontmatter of SKILL.md is too long".into());
    }
    let written: Value =
        serde_saphyr::from_str(head).map_err(|_error| "the frontmatter of SKILL.md cannot be read")?;
    let told: Value = serde_json::from_str(entry.as_str())
        .map_err(|_error| "the frontmatter of the entry cannot be read")?;
    match difference(&told, &written) {
        Some(member) => {
            Err(format!("the frontmatter of SKILL.md says another {member} than the entry").into())
        }
        None => Ok(()),
    }
}

/// Returns the text between the first two lines of three dashes.
fn head(text: &str) -> Option<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rest = text.strip_prefix("---")?;
    let rest = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'))?;
    let mut start = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some(&rest[..start]);
        }
        start += line.len();
    }
    None
}

/// Returns the first top-level member that differs.
fn difference(told: &Value, written: &Value) -> Option<String> {
    let (Value::Object(told), Value::Object(written)) = (told, written) else {
        return Some("thing".to_owned());
    };
    let names = told.keys().chain(written.keys());
    let mut differing = names.filter(|name| match (told.get(*name), written.get(*name)) {
        (Some(told), Some(written)) => !agree(told, written, MAX_DEPTH),
        _ => true,
    });
    differing
        .next()
        .map(|name| name.chars().filter(|c| c.is_ascii_graphic()).take(40).collect())
}

/// Returns whether two values are equal. Readers of YAML differ about what is a number, so scalars are compared by
/// their text.
fn agree(told: &Value, written: &Value, depth: usize) -> bool {
    match (told, written) {
        _ if depth == 0 => false,
        (Value::Object(told), Value::Object(written)) => {
            let same = |(name, value): (&String, &Value)| {
                written
                    .get(name)
                    .is_some_and(|other| agree(value, other, depth - 1))
            };
            told.len() == written.len() && told.iter().all(same)
        }
        (Value::Array(told), Value::Array(written)) => {
            told.len() == written.len()
                && told
                    .iter()
                    .zip(written)
                    .all(|(told, written)| agree(told, written, depth - 1))
        }
        (Value::Object(_) | Value::Array(_), _) | (_, Value::Object(_) | Value::Array(_)) => false,
        (told, written) => {
            let (told, written) = (scalar(told), scalar(written));
            let numbers = || Some((told.parse::<f64>().ok()?, written.parse::<f64>().ok()?));
            told == written || numbers().is_some_and(|(told, written)| told.total_cmp(&written).is_eq())
        }
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    const HEAD: &str = "---\nname: notes\ndescription: Takes notes.\nmetadata:\n  version: 1.0\n---\nText.\n";

    fn verified(entry: &str, file: &str) -> Result<(), String> {
        verify(RawJson::trusted(entry), file.as_bytes()).map_err(|error| error.to_string())
    }

    #[test_case(r#"{"description":"Takes notes.","name":"notes","metadata":{"version":"1.0"}}"#; "a number as a text")]
    #[test_case(r#"{"name":"notes","description":"Takes notes.","metadata":{"version":1}}"#; "a number")]
    fn the_same_said_otherwise(entry: &str) {
        assert_eq!(verified(entry, HEAD), Ok(()));
        assert_eq!(verified(entry, &HEAD.replace('\n', "\r\n")), Ok(()));
    }

    #[test_case(r#"{"name":"notes","description":"Takes notes. Runs them.","metadata":{"version":1}}"#, HEAD
        => "the frontmatter of SKILL.md says another description than the entry"; "another text")]
    #[test_case(r#"{"name":"notes","description":"Takes notes."}"#, HEAD
        => "the frontmatter of SKILL.md says another metadata than the entry"; "more in the file")]
    #[test_case(r#"{"name":"notes","description":"Takes notes.","metadata":{"version":1},"allowed-tools":"Bash"}"#, HEAD
        => "the frontmatter of SKILL.md says another allowed-tools than the entry"; "less in the file")]
    #[test_case("{}", "Text." => "SKILL.md has no frontmatter"; "no head")]
    #[test_case("{}", "---\nname: notes\n" => "SKILL.md has no frontmatter"; "a head without an end")]
    #[test_case("{}", "---\na: [\n---\n" => "the frontmatter of SKILL.md cannot be read"; "no YAML")]
    fn what_differs(entry: &str, file: &str) -> String {
        verified(entry, file).expect_err("it differs")
    }
}
