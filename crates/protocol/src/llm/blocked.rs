//! Calls that are stopped: the denial of a verdict, and the text in place of the call.

use mcpmon_model::{Denial, ToolName, Verdict};

use super::LlmFault;
use crate::rewrite::stop;

/// Builds the text that the model reads in place of a blocked call. Names and reasons come from untrusted sources, so
/// the caller must quote the text when it puts it into JSON.
pub(super) fn blocked_text(name: &ToolName<'_>, denial: &Denial) -> String {
    let tool = match &name.namespace {
        Some(namespace) => format!("Tool '{}/{}'", stop::shown(namespace), stop::shown(&name.name)),
        None => format!("Tool '{}'", stop::shown(&name.name)),
    };
    stop::text(&tool, denial)
}

/// Returns the denial if the message is to be stopped. A verdict that does not apply to calls stops it.
pub(super) fn denial(verdict: Verdict) -> Option<Denial> {
    match verdict {
        Verdict::Allow => None,
        Verdict::Block(denial) => Some(denial),
        Verdict::Hide(_) | Verdict::StripInstructions | Verdict::Redact(_) | Verdict::Ask(_) => {
            Some(Denial {
                rule: "internal".to_owned(),
                reason: "the decision does not fit what it is about".to_owned(),
                remedy: None,
                event: None,
            })
        }
    }
}

impl From<Denial> for LlmFault {
    fn from(denial: Denial) -> Self {
        Self::Blocked(denial)
    }
}

#[cfg(test)]
mod tests {
    use mcpmon_model::EventId;
    use test_case::test_case;

    use super::*;

    #[test_case(None, "read", None => "[mcpmon] Tool 'read' blocked by policy: it is \"denied\" (rule tool_denied)."; "a name")]
    #[test_case(Some("mcp__files"), "read", None => "[mcpmon] Tool 'mcp__files/read' blocked by policy: it is \"denied\" (rule tool_denied)."; "in a namespace")]
    #[test_case(None, "a'\"\n", Some(7) => "[mcpmon] Tool 'a'\"\n' blocked by policy: it is \"denied\" (rule tool_denied, event 00000000-0000-0000-0000-000000000007). The user can look it up with: mcpmon explain 00000000-0000-0000-0000-000000000007"; "recorded")]
    fn texts(namespace: Option<&'static str>, name: &'static str, event: Option<u128>) -> String {
        let name = ToolName {
            namespace: namespace.map(Into::into),
            name: name.into(),
        };
        let denial = Denial {
            rule: "tool_denied".to_owned(),
            reason: "it is \"denied\"".to_owned(),
            remedy: Some("mcpmon approve files:read".to_owned()),
            event: event.map(|number| EventId(number.to_be_bytes())),
        };
        blocked_text(&name, &denial)
    }

    #[test]
    fn long_names_are_cut() {
        let name = ToolName {
            namespace: Some("n".repeat(1 << 20).into()),
            name: "\u{e9}".repeat(1 << 20).into(),
        };
        let denial = Denial {
            rule: String::new(),
            reason: String::new(),
            remedy: None,
            event: None,
        };
        assert!(blocked_text(&name, &denial).chars().count() < 320);
    }
}
