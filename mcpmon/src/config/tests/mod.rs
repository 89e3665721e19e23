//! Whole configurations: what is wrong with them as the user reads it, and what they mean.

mod crossing;
mod meaning;
mod mistakes;
mod own;
mod places;
mod rules;
mod shipped;

use super::{ConfigError, Invalid, Loaded};

/// Makes sense of `files`, given as name and text.
fn compile(files: &[(&str, &str)]) -> Result<Loaded, Invalid> {
    let sources = super::Sources::of_texts(files);
    match super::load_sources(&sources) {
        Ok(loaded) => Ok(loaded),
        Err(ConfigError::Invalid(invalid)) => Err(invalid),
        Err(error @ (ConfigError::Source(_) | ConfigError::Vanished)) => panic!("no file is read: {error}"),
    }
}
