//! Stands in for `inspect::similarity` until that is there.

#[derive(Debug)]
pub(super) struct Resemblance {
    pub(super) similar_to: String,
    pub(super) score: f64,
    pub(super) method: &'static str,
}

pub(super) fn resembles<'k>(
    name: &str,
    known: impl IntoIterator<Item = &'k str>,
    threshold: f64,
) -> Option<Resemblance> {
    known
        .into_iter()
        .map(|other| (strsim::normalized_levenshtein(name, other), other))
        .filter(|(score, _)| *score >= threshold)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(score, other)| Resemblance {
            similar_to: other.to_owned(),
            score,
            method: "levenshtein",
        })
}

pub(super) const fn well_known() -> &'static [&'static str] {
    &["mcp-server-time"]
}
