//! The proxy between a client and a provider that say exactly what a test has them say.

mod bodies;
mod kept;
mod limits;
mod scene;
mod streams;
mod wire;
