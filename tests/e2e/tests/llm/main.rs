//! The LLM proxy between real SDKs, real agents, and a model that follows a script. Needs no root.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the system"
)]
#![cfg(test)]

mod agents;
mod bodies;
mod sdks;
mod storage;
