//! Suggestions for misspelt words ("did you mean").

/// Longest word, in bytes, for which a suggestion is made.
const MAX_WORD: usize = 64;

/// Returns the candidate closest to `word`, if one is close enough.
pub(crate) fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    if word.len() > MAX_WORD {
        return None;
    }
    let normal = |text: &str| text.to_lowercase().replace('-', "_");
    let word = normal(word);
    let tolerated = (word.chars().count() / 3).max(1);
    candidates
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, &normal(candidate)), *candidate))
        .filter(|(distance, _)| *distance <= tolerated)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns a list like: `a`, `b` or `c`.
pub(super) fn listing(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("servrs" => Some("servers"))]
    #[test_case("Servers" => Some("servers"); "case")]
    #[test_case("server-policy" => Some("server_policy"); "dash for underscore")]
    #[test_case("pinning" => None; "too far")]
    #[test_case("" => None; "nothing")]
    fn words(word: &str) -> Option<&'static str> {
        closest(word, &["server_policy", "servers"])
    }
}
