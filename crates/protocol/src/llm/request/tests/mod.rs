//! Requests read through the public functions: the forwarded bodies, and what was judged.

mod left_out;
mod offers;
mod properties;
mod signed;
mod texts;

use mcpmon_model::{Denial, LlmMention, Offered, Redaction, Verdict};

use super::*;
use crate::llm::ContentJudge;

/// The secret of the tests' judge, and its replacement.
const SECRET: &str = "hunter2";
const PLACEHOLDER: &str = "<PASSWORD>";

/// Hides tools, blocks what the provider is to do itself, redacts the secret.
#[derive(Debug, Default)]
struct Rules {
    hidden: Vec<&'static str>,
    blocked: Vec<&'static str>,
    heard: Vec<String>,
    read: Vec<String>,
}

impl Rules {
    fn hiding(names: &[&'static str]) -> Self {
        Self {
            hidden: names.to_vec(),
            ..Self::default()
        }
    }

    fn blocking(kinds: &[&'static str]) -> Self {
        Self {
            blocked: kinds.to_vec(),
            ..Self::default()
        }
    }
}

fn denial() -> Denial {
    Denial {
        rule: "r".to_owned(),
        reason: "not here".to_owned(),
        remedy: None,
        event: None,
    }
}

fn full_name(tool: &Offered<'_>) -> String {
    match &tool.name.namespace {
        Some(namespace) => format!("{namespace}/{}", tool.name.name),
        None => tool.name.name.clone().into_owned(),
    }
}

impl ContentJudge for Rules {
    fn judge(&mut self, said: &LlmMention<'_>) -> Verdict {
        let verdict = |blocks: bool| {
            if blocks {
                Verdict::Block(denial())
            } else {
                Verdict::Allow
            }
        };
        let (heard, verdict) = match said {
            LlmMention::Offered(tools) => {
                let names: Vec<String> = tools.iter().map(full_name).collect();
                assert!(tools.iter().all(|tool| tool.definition.as_str().starts_with('{')));
                let hidden = names.iter().enumerate();
                let hidden = hidden.filter(|(_, name)| self.hidden.contains(&name.as_str()));
                let hidden: Vec<usize> = hidden.map(|(position, _)| position).collect();
                let verdict = if hidden.is_empty() {
                    Verdict::Allow
                } else {
                    Verdict::Hide(hidden)
                };
                (format!("offered {}", names.join(" ")), verdict)
            }
            LlmMention::Remote(remote) => {
                let url = remote.url.as_deref().unwrap_or("-");
                let tools = remote
                    .tools
                    .as_ref()
                    .map_or_else(|| "all".to_owned(), |tools| tools.join("+"));
                let blocks = self.blocked.contains(&&*remote.label);
                (format!("remote {} {url} {tools}", remote.label), verdict(blocks))
            }
            LlmMention::Hosted { kind } => {
                (format!("hosted {kind}"), verdict(self.blocked.contains(&&**kind)))
            }
            LlmMention::Call(_) | LlmMention::Called { .. } | LlmMention::Listed { .. } => {
                panic!("nothing is called in a request")
            }
        };
        self.heard.push(heard);
        verdict
    }

    fn redact(&mut self, text: &str) -> Vec<Redaction> {
        self.read.push(text.to_owned());
        let found = text.match_indices(SECRET).map(|(start, secret)| Redaction {
            place: start..start + secret.len(),
            text: PLACEHOLDER.to_owned(),
        });
        found.collect()
    }
}

/// Returns the forwarded text: the body itself if nothing changed.
fn goes_on(dialect: Dialect, body: &str, rules: &mut Rules) -> String {
    match read_request(dialect, body.as_bytes(), rules) {
        Ok(asked) => asked
            .body
            .map_or_else(|| body.to_owned(), |body| String::from_utf8(body).unwrap()),
        Err(fault) => fault.to_string(),
    }
}
