//! What an inspection found, and where.

use serde::{Deserialize, Serialize};

use super::Severity;

/// One kind of attack, seen in one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Name of the pattern or rule, stable: suppressions name it.
    pub pattern: String,
    /// What kind of attack it is.
    pub category: Category,
    /// How bad it is.
    pub severity: Severity,
    /// Where: a JSON path such as `inputSchema.properties.path.description`.
    pub field: String,
    /// What matched; never a secret in clear.
    pub matches: Vec<Match>,
    /// Whether the text does it, or tells of it.
    #[serde(skip)]
    pub standing: Standing,
}

/// What matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// The text, at most 200 characters.
    pub text: String,
    /// Its first byte in the field, before any decoding.
    pub position: usize,
    /// Up to 50 characters on either side of it, from the field as it was sent.
    pub context: String,
}

/// Whether a text does something or tells of it. What only tells is never blocked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// It speaks to the model.
    #[default]
    Asserted,
    /// It quotes or describes: a document about attacks.
    Quoted,
}

/// Kinds of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Asks for keys, tokens, passwords, or the files that hold them.
    CredentialTheft,
    /// Asks to send data elsewhere.
    Exfiltration,
    /// Instructions a person does not see or would not expect.
    HiddenInstructions,
    /// Commands where text belongs.
    ShellInjection,
    /// Paths that climb out of where they should be.
    PathTraversal,
    /// Instructions about other tools.
    CrossToolOverride,
    /// Instructions to keep something from the user.
    StealthInstruction,
    /// A secret in clear.
    Secret,
    /// A pattern of the configuration that names no category.
    Custom,
}

impl Category {
    /// The name used in configuration, events and filters.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CredentialTheft => "credential_theft",
            Self::Exfiltration => "exfiltration",
            Self::HiddenInstructions => "hidden_instructions",
            Self::ShellInjection => "shell_injection",
            Self::PathTraversal => "path_traversal",
            Self::CrossToolOverride => "cross_tool_override",
            Self::StealthInstruction => "stealth_instruction",
            Self::Secret => "secret",
            Self::Custom => "custom",
        }
    }
}

/// What was inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A tool's definition.
    Definition,
    /// A tool's result.
    Output,
    /// A call's arguments.
    Argument,
    /// A server's instructions.
    Instructions,
    /// A prompt: its definition, or its messages.
    Prompt,
    /// A resource: its definition, or its contents.
    Resource,
    /// A request for an LLM call.
    Sampling,
    /// A question to the user.
    Elicitation,
    /// An error message.
    Error,
    /// A notification: a log message, a task's status.
    Notification,
}

/// A pattern of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomPattern {
    /// What events call it.
    pub name: String,
    /// A regular expression that was compiled once and is valid.
    pub pattern: String,
    /// What kind of attack it finds.
    pub category: Category,
    /// How bad it is.
    pub severity: Severity,
}
