//! Findings: the result of an inspection, with the places in the text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Severity;

/// One kind of attack, seen in one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Name of the finding, which several rules can share.
    pub pattern: String,
    /// Ids of the rules that found the most severe match; they are stable, because suppressions name them. Empty in old
    /// records, which had no ids.
    #[serde(default)]
    pub rules: Vec<String>,
    /// The kind of attack.
    pub category: Category,
    /// The severity of the finding.
    pub severity: Severity,
    /// The place, as a JSON path such as `inputSchema.properties.path.description`.
    pub field: String,
    /// The matching parts of the text; never a secret in clear.
    pub matches: Vec<Match>,
    /// The stance of the text: it performs the attack, or only describes it.
    #[serde(skip)]
    pub standing: TextStance,
}

impl Finding {
    /// Returns a finding of a built-in rule whose pattern has the same name as the rule.
    pub fn built_in(
        rule: &str,
        category: Category,
        severity: Severity,
        field: String,
        matched: Match,
    ) -> Self {
        debug_assert!(BUILT_IN.contains(&rule), "{rule} is not listed");
        Self {
            pattern: rule.to_owned(),
            rules: vec![rule.to_owned()],
            category,
            severity,
            field,
            matches: vec![matched],
            standing: TextStance::Asserted,
        }
    }
}

/// Built-in rules other than those over texts; each has its own pattern of the same name.
pub const BUILT_IN: [&str; 52] = [
    "asks_for_credentials",
    "atlassian_token",
    "aws_credential",
    "azure_credential",
    "bank_account",
    "base64_blob",
    "basic_auth",
    "bearer_token",
    "bidi_control",
    "client_tool_name",
    "context_theft",
    "credential_file",
    "credit_card",
    "database_url",
    "digitalocean_token",
    "discord_token",
    "empty_name",
    "encoded_host",
    "encoded_text",
    "env_file_content",
    "facebook_token",
    "false_read_only_hint",
    "generic_secret",
    "github_token",
    "gitlab_token",
    "google_key",
    "high_entropy",
    "issued_token",
    "llm_key",
    "lookalike_name",
    "mail_key",
    "misleading_address",
    "npm_token",
    "password_hash",
    "private_key",
    "private_use_characters",
    "protected_link",
    "pypi_token",
    "registry_token",
    "sendgrid_key",
    "shopify_token",
    "slack_token",
    "square_token",
    "stripe_key",
    "tag_characters",
    "telegram_token",
    "terminal_escape",
    "twilio_key",
    "variation_selectors",
    "vault_token",
    "webhook",
    "zero_width",
];

/// A matching part of the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// The text, at most 200 characters.
    pub text: String,
    /// Its first byte in the field, before any decoding.
    pub position: usize,
    /// Up to 50 characters on either side of it, from the field as it was sent.
    pub context: String,
}

/// The stance of a text towards an attack: it performs it or describes it. Text that only describes an attack
/// is never blocked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextStance {
    /// The text speaks to the model.
    #[default]
    Asserted,
    /// The text quotes or describes, as a document about attacks does.
    Quoted,
}

/// Kinds of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
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
    /// Returns the name used in configuration, events and filters.
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

/// The subject of an inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InspectionSubject {
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
    /// The name of the rule in events.
    pub name: String,
    /// A regular expression that was compiled once and is valid.
    pub pattern: String,
    /// The kind of attack the rule finds.
    pub category: Category,
    /// The severity of its findings.
    pub severity: Severity,
}
