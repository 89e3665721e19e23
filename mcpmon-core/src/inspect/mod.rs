//! What things look like: reads values and says what they are; knows no policy and no registry.

pub mod agents;
pub mod arguments;
pub mod category;
pub mod fingerprint;
pub mod labels;
pub mod launch;
pub mod mask;
pub mod meaning;
pub mod protected_paths;
pub mod scan;
pub mod secrets;
pub mod session;
pub mod similarity;
pub mod starter;
pub mod tool_names;

mod normalise;
mod vector;
mod walk;
