//! A call whose input is still being told.

use super::{Fault, Judge};
use crate::{
    decode::{
        json::{DEEPEST, Defect, Doubt, LoneSurrogate, Scanner, canonical},
        llm::anthropic::Call,
    },
    model::{Input, Intent, RawJson, Spoken, ToolName, Verdict},
};

/// A call whose block has started.
#[derive(Debug)]
pub(super) struct Open {
    id: Option<String>,
    pub(super) name: ToolName<'static>,
    /// Input that came with the start of the block.
    started_with: Option<String>,
    /// Input that came behind it.
    told: String,
    /// Nothing more can come.
    pub(super) is_whole: bool,
}

impl Open {
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

    /// Bytes that are kept of it.
    pub(super) fn size(&self) -> usize {
        self.told.len() + self.started_with.as_ref().map_or(0, String::len)
    }

    /// What it is called with.
    pub(super) fn arguments(&self) -> Result<Arguments, Fault> {
        match (&self.started_with, self.told.as_str()) {
            (None, "") => Ok(Arguments::AsTold("{}".to_owned())),
            (Some(input), "") => Ok(Arguments::AsTold(input.clone())),
            (None, told) => Arguments::read(told),
            (Some(input), told) => {
                // Some readers take the one, some the other.
                let arguments = Arguments::read(told)?;
                if arguments.canonical()? == Arguments::read(input)?.canonical()? {
                    Ok(arguments)
                } else {
                    Err(Fault::malformed("a call is told two different inputs"))
                }
            }
        }
    }

    pub(super) fn judge(
        &self,
        arguments: &Arguments,
        called_by: CalledBy<'_>,
        judge: &mut dyn Judge,
    ) -> Verdict {
        let intent = Intent {
            id: self.id.as_deref().map(Into::into),
            name: self.name.clone(),
            input: arguments.input(),
        };
        judge.judge(&match called_by {
            CalledBy::Client => Spoken::Call(intent),
            CalledBy::Provider(server) => Spoken::Called {
                server: server.map(Into::into),
                intent,
            },
        })
    }
}

/// Who executes a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum CalledBy<'a> {
    Client,
    /// With a tool of this MCP server, or with one of its own.
    Provider(Option<&'a str>),
}

/// What a call's input comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arguments {
    /// JSON that all read alike.
    AsTold(String),
    /// JSON that not all read alike, written anew.
    Anew(String),
    /// No JSON.
    Malformed(String),
}

impl Arguments {
    fn read(text: &str) -> Result<Self, Fault> {
        let mut scanner = Scanner::new(DEEPEST);
        match scanner.scan(text.as_bytes(), LoneSurrogate::Replace) {
            Ok(scan) if scan.doubt < Doubt::Surrogate => Ok(Self::AsTold(text.to_owned())),
            Ok(scan) => {
                let anew = canonical(scan.document);
                // A name that cannot be written without an escape is in doubt for ever.
                Ok(if anew == text {
                    Self::AsTold(anew)
                } else {
                    Self::Anew(anew)
                })
            }
            Err(error) => match error.defect {
                // Others can read it.
                Defect::Depth | Defect::Range | Defect::Length => {
                    Err(Fault::malformed(format!("the input of a call: {error}")))
                }
                Defect::Utf8
                | Defect::Unexpected(_)
                | Defect::End
                | Defect::Control(_)
                | Defect::Escape
                | Defect::Surrogate
                | Defect::Number
                | Defect::Trailing => Ok(Self::Malformed(text.to_owned())),
            },
        }
    }

    fn canonical(&self) -> Result<String, Fault> {
        let (Self::AsTold(text) | Self::Anew(text) | Self::Malformed(text)) = self;
        let mut scanner = Scanner::new(DEEPEST);
        let scan = scanner.scan(text.as_bytes(), LoneSurrogate::Replace);
        let scan = scan.map_err(|error| Fault::malformed(format!("the input of a call: {error}")))?;
        Ok(canonical(scan.document))
    }

    fn input(&self) -> Input<'_> {
        match self {
            Self::AsTold(text) | Self::Anew(text) => Input::Json(RawJson::trusted(text)),
            Self::Malformed(text) => Input::Malformed(text.into()),
        }
    }
}
