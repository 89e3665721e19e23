//! Sentences that a server repeats in most of its definitions: they are judged once, and hide no whole list.

use std::collections::BTreeMap;

use mcpmon_model::{Finding, Severity};

/// Fewest definitions of a list in which repetition is evidence of boilerplate.
const MIN_ITEMS: usize = 4;

/// Lowers findings with the same text in more than half of a list's items below the threshold for effects. Findings in
/// decoded text, and ones more severe than an order, stay unchanged.
pub(super) fn soften(found: &mut [(usize, Vec<Finding>)], items: usize, act_threshold: Severity) {
    let lowered = match act_threshold {
        Severity::Critical | Severity::High => Severity::Medium,
        Severity::Medium => Severity::Low,
        Severity::Low | Severity::Info => return,
    };
    if items < MIN_ITEMS || found.len() * 2 <= items {
        return;
    }
    let is_order = |finding: &Finding| finding.severity == Severity::High && said(finding).contains(' ');
    let mut repeated: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (_, findings) in found.iter() {
        let orders = findings.iter().filter(|finding| is_order(finding)).map(key);
        let distinct: std::collections::BTreeSet<_> = orders.collect();
        for key in distinct {
            *repeated.entry(key).or_default() += 1;
        }
    }
    repeated.retain(|_, times| *times * 2 > items);
    for finding in found.iter_mut().flat_map(|(_, findings)| findings) {
        if is_order(finding) && repeated.contains_key(&key(finding)) {
            finding.severity = lowered;
        }
    }
}

fn key(finding: &Finding) -> (String, String) {
    (finding.pattern.clone(), said(finding).to_owned())
}

fn said(finding: &Finding) -> &str {
    finding
        .matches
        .first()
        .map_or("", |matched| matched.text.as_str())
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{Category, Match, TextStance};
    use test_case::test_case;

    use super::*;

    fn finding(text: &str, severity: Severity) -> Finding {
        Finding {
            pattern: "concealment".to_owned(),
            rules: vec!["concealment".to_owned()],
            category: Category::StealthInstruction,
            severity,
            field: "description".to_owned(),
            matches: vec![Match {
                text: text.to_owned(),
                position: 0,
                context: text.to_owned(),
            }],
            standing: TextStance::Asserted,
        }
    }

    fn softened(texts: &[&str], severity: Severity) -> Vec<Severity> {
        let found = texts
            .iter()
            .enumerate()
            .map(|(position, text)| match text.is_empty() {
                true => (position, Vec::new()),
                false => (position, vec![finding(text, severity)]),
            });
        let mut found: Vec<_> = found.collect();
        soften(&mut found, texts.len(), Severity::High);
        found
            .iter()
            .flat_map(|(_, findings)| findings)
            .map(|finding| finding.severity)
            .collect()
    }

    #[test_case(&["tell nobody", "tell nobody", "tell nobody", ""], Severity::High => vec![Severity::Medium; 3]; "in most of a list")]
    #[test_case(&["tell nobody", "tell nobody", "", ""], Severity::High => vec![Severity::High; 2]; "in half of it")]
    #[test_case(&["tell nobody", "tell nobody", "tell nobody"], Severity::High => vec![Severity::High; 3]; "in a short list")]
    #[test_case(&["tell nobody", "hide this", "keep it", "say nothing"], Severity::High => vec![Severity::High; 4]; "something else in each")]
    #[test_case(&["tell nobody", "tell nobody", "tell nobody", "tell nobody"], Severity::Critical => vec![Severity::Critical; 4]; "what was encoded")]
    fn what_is_repeated_is_reported(texts: &[&str], severity: Severity) -> Vec<Severity> {
        softened(texts, severity)
    }
}
