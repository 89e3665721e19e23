//! Whole configurations: what is wrong with them as the user reads it, and what they mean.

mod bundle;
mod crossing;
mod meaning;
mod mistakes;
mod own;
mod places;
mod rules;
mod shipped;

use mcpmon_policy::{Bypass, ModelHost, OnBypass};

use super::{ConfigError, InvalidConfiguration, LoadedConfiguration};

/// Returns the default hosts of models: the usual providers.
fn usual_models() -> Bypass {
    let named = |name: &str| ModelHost {
        hosts: vec![name.parse().expect("a name")],
        addresses: Vec::new(),
        ports: vec![443],
    };
    let ollama = ModelHost {
        hosts: Vec::new(),
        addresses: vec![std::net::Ipv4Addr::LOCALHOST.into()],
        ports: vec![11434],
    };
    Bypass {
        action: OnBypass::Alert,
        models: vec![
            named("api.anthropic.com"),
            named("generativelanguage.googleapis.com"),
            ollama,
            named("api.openai.com"),
        ],
    }
}

/// Loads `files`, given as name and text.
fn compile(files: &[(&str, &str)]) -> Result<LoadedConfiguration, InvalidConfiguration> {
    let sources = super::Sources::of_texts(files);
    match super::load_sources(&sources) {
        Ok(loaded) => Ok(loaded),
        Err(ConfigError::Invalid(invalid)) => Err(invalid),
        Err(error @ (ConfigError::Source(_) | ConfigError::Vanished)) => panic!("no file is read: {error}"),
    }
}
