//! Calls whose input is not complete yet.

use mcpmon_model::{Intent, LlmMention, ToolName, Verdict};

use super::{ContentJudge, LlmFault};
use crate::llm::{
    anthropic::decode::Call,
    arguments::{Arguments, spelled},
};

/// A call whose block has started.
#[derive(Debug)]
pub(super) struct OpenCall {
    id: Option<String>,
    pub(super) name: ToolName<'static>,
    /// Input in the start event of the block.
    started_with: Option<String>,
    /// Input in later events.
    told: String,
    /// True if no more input can come.
    pub(super) is_whole: bool,
}

impl OpenCall {
    pub(super) fn new(call: &Call<'_>) -> Self {
        let owned = |text: &str| text.to_owned().into();
        Self {
            id: call.id.as_deref().map(str::to_owned),
            name: ToolName {
                namespace: call.name.namespace.as_deref().map(owned),
                name: owned(&call.name.name),
            },
            started_with: call.input.map(|input| input.text().to_owned()),
            told: String::new(),
            is_whole: false,
        }
    }

    pub(super) fn tell(&mut self, part: &str) {
        self.told.push_str(part);
    }

    /// Returns the bytes that are kept of it.
    pub(super) fn size(&self) -> usize {
        self.told.len() + self.started_with.as_ref().map_or(0, String::len)
    }

    /// Returns the arguments of the call.
    pub(super) fn arguments(&self) -> Result<Arguments<'_>, LlmFault> {
        match (&self.started_with, self.told.as_str()) {
            (None, "") => Ok(Arguments::Absent),
            (Some(input), "") => Ok(Arguments::Exact(input)),
            (None, told) => Arguments::json(told),
            (Some(input), told) => {
                // Some readers use the input of the start, others that of the deltas.
                let arguments = Arguments::json(told)?;
                if spelled(told)? == spelled(input)? {
                    Ok(arguments)
                } else {
                    Err(LlmFault::malformed("a call is told two different inputs"))
                }
            }
        }
    }

    pub(super) fn judge(
        &self,
        arguments: &Arguments<'_>,
        called_by: CalledBy<'_>,
        judge: &mut dyn ContentJudge,
    ) -> Verdict {
        let intent = Intent {
            id: self.id.as_deref().map(Into::into),
            name: self.name.clone(),
            input: arguments.input(),
        };
        judge.judge(&match called_by {
            CalledBy::Client => LlmMention::Call(intent),
            CalledBy::Provider(server) => LlmMention::Called {
                server: server.map(Into::into),
                intent,
            },
        })
    }
}

/// The side that executes a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum CalledBy<'a> {
    Client,
    /// The provider, with a tool of this MCP server, or with one of its own.
    Provider(Option<&'a str>),
}
