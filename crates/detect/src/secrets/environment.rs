//! Whole environments: lines of `NAME=value`, some of them secrets.

use mcpmon_model::Severity;

use super::{
    SecretHit,
    names::{self, NameClaim},
    value,
};

/// Lines that make a file, and longest line.
const LINES: usize = 3;
const MAX_LINE: usize = 4096;

/// Returns the lines that are an environment with secrets in it, if there are any.
pub(super) fn block(text: &str) -> Option<SecretHit> {
    let (mut start, mut at, mut count, mut secrets, mut placeholders) = (0, 0, 0, 0, 0);
    for line in text.split_inclusive('\n') {
        match assignment(line.trim()) {
            Some((name, value)) => {
                if count == 0 {
                    start = at;
                }
                count += 1;
                if matches!(
                    names::claim(name),
                    Some(NameClaim::Password | NameClaim::Generated)
                ) && !value::is_reference(value)
                    && value.len() >= 4
                {
                    match value::is_placeholder(value) || value::is_wordy(value) && value.len() < 6 {
                        true => placeholders += 1,
                        false => secrets += 1,
                    }
                }
            }
            None if line.trim().is_empty() || line.trim_start().starts_with('#') => {}
            None if is_block(count, secrets, placeholders) => break,
            None => (count, secrets, placeholders) = (0, 0, 0),
        }
        at += line.len();
    }
    is_block(count, secrets, placeholders).then(|| {
        let severity = if secrets > 0 {
            Severity::High
        } else {
            Severity::Low
        };
        SecretHit::new("env_file_content", severity, start..at).only_if(false)
    })
}

const fn is_block(count: usize, secrets: usize, placeholders: usize) -> bool {
    count >= LINES && secrets + placeholders >= 1 || secrets + placeholders >= 2
}

/// Reads `NAME=value`, also exported; the name has to be in upper case, as in environments.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=').filter(|_| line.len() <= MAX_LINE)?;
    let is_variable = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        && !name.as_bytes()[0].is_ascii_digit();
    let value = value.trim_matches(['"', '\'']);
    (is_variable && !value.starts_with(['=', '~', '('])).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("A=1\nDB_PASSWORD=hunter22\nB=2\n" => Some(Severity::High); "one secret of three lines")]
    #[test_case("export API_TOKEN='k2Lp9xQ'\nexport DB_PASSWORD=\"hunter22\"" => Some(Severity::High); "two secrets")]
    #[test_case("# settings\nA=1\n\nB=2\nAPI_TOKEN=your-token\n" => Some(Severity::Low); "placeholders")]
    #[test_case("A=1\nB=2\nC=3" => None; "no secret")]
    #[test_case("A=1\nAPI_TOKEN=${TOKEN}\nC=3" => None; "reference")]
    #[test_case("if a == b {\n  x\n}\nTOKEN=k2Lp9xQ" => None; "one line")]
    fn environments(text: &str) -> Option<Severity> {
        block(text).map(|hit| hit.severity)
    }
}
