//! What things look like: reads values and says what they are; knows no policy and no registry.

pub mod agents;
pub mod launch;
pub mod mask;
pub mod starter;
