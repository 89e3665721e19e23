//! Secrets, the files that hold them, and what a conversation holds: taken.

use super::{Shape, Signal};

const FILES: &[&str] = &[
    ".ssh", "id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", "authorized_keys", ".aws", ".env", "/etc/passwd", "/etc/shadow", "/etc/sudoers",
    "kube", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".gnupg", ".docker/config", "gcloud", ".azure", "mcp.json",
    "claude_desktop_config", "_history", "wallet.dat", "keychain", "login data", "cookies.sqlite", ".pem", ".p12", "shadow file",
    "/proc/self/environ", ".vault-token", "secret.", "secrets.", "credentials.", "credential.",
];
const SECRETS: &[&str] = &[
    "credential", "password", "passwd", "passphrase", "secret", "api key", "api_key", "api-key", "apikey", "api token", "api_token", "token",
    "ssh key", "ssh-key", "private key", "private_key", "encryption key", "signing key", "master key", "database_url", "seed phrase",
    "mnemonic", "recovery", "environment var", "env var", "config file", "configuration file", "cookies", "otp code", "2fa code",
    "one-time", "credit card", "social security", "ssn", "bank", "private data", "private file", "private message", "private info",
    "sensitive", "confidential", "personal", "key store", "keystore", "key file", "access key",
];
const CONTEXTS: &[&str] = &[
    "system prompt", "system message", "system instruction", "conversation", "chat history", "chat log", "message history", "previous messages",
    "context", "internal state", "hidden ", "initial ", "original ", "chain of thought", "chain-of-thought", "reasoning", "tool definition",
    "tool description", "names of", "tools", "your memory", "your instructions", "your rules", "your prompt", "your configuration", "transcript", "full prompt", "entire prompt", "the assistant",
];

pub(super) const SHAPES: &[Shape] = &[
    Shape {
        signal: Signal::TakeFile,
        anchors: FILES,
        pattern: r"\b(?:%acquire%|%send%)\b%near%%file%",
    },
    Shape {
        signal: Signal::TakeFile,
        anchors: FILES,
        pattern: r"%file%[^!?;]{0,60}?\b(?:(?:and|then|must be|should be|to be|is|are|will be|contents?|be)%s%)(?:[a-z]{1,12}%s%){0,2}?(?:%send%|read|included|provided|passed|copied)\b",
    },
    Shape {
        signal: Signal::TakeSecret,
        anchors: SECRETS,
        pattern: r"\b(?:%acquire%|%send%)%s%(?:(?:the|your|all|any|his|her|their|my|every|a|an|its|of|contents?|user'?s?|stored|saved|full|and|these|those|following|current|sensitive|available|from|in|secret|customer|complete|value|values|to|copy)%s%){0,6}(?:[a-z'_-]{1,20}%s%){0,2}?%secret%\b",
    },
    Shape {
        signal: Signal::File,
        anchors: FILES,
        pattern: r"%file%",
    },
    Shape {
        signal: Signal::Secret,
        anchors: &[],
        pattern: r"\b%secret%\b",
    },
    Shape {
        signal: Signal::TakeContext,
        anchors: CONTEXTS,
        pattern: r"\b(?:%send%|%acquire%|reveal(?:s|ing)?|show|display|repeat|recite|disclose|divulge|expose|tell me|give me|summari[sz]e)%s%(?:(?:the|your|all|any|of|a|an|me|full|entire|complete|contents?|its|and|plus|verbatim|current|user'?s?|names?|list|everything|in|with|to|from)%s%){0,6}(?:[a-z'-]{1,16}%s%){0,1}?%context%\b",
    },
    Shape {
        signal: Signal::TakeContext,
        anchors: CONTEXTS,
        pattern: r"\b%context%%s%(?:[a-z'-]{1,14}%s%){0,5}?(?:must|should|shall|needs? to|has to|have to|will|to)%s%(?:also%s%|always%s%)?be%s%(?:[a-z]{1,12}%s%)?(?:%send%|extracted|included|provided|passed|sent|revealed|returned|logged|shared|recorded|captured|printed|output|disclosed)\b",
    },
];
