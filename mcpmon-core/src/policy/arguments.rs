//! What is looked for in the arguments of calls, and what is done about it.

/// `mcp.argument_inspection`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentInspection {
    /// Whether arguments are inspected.
    pub enabled: bool,
    /// What a secret in them does.
    pub on_detection: OnSecret,
}

impl Default for ArgumentInspection {
    fn default() -> Self {
        Self {
            enabled: true,
            on_detection: OnSecret::Block,
        }
    }
}

/// What a secret in an argument does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnSecret {
    /// It is reported.
    Alert,
    /// The call is stopped.
    #[default]
    Block,
    /// The call goes on with a placeholder in its place.
    Redact,
}
