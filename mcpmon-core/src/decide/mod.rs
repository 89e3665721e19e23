//! What follows: the registry, the pins, and the Monitor every layer asks.

pub mod pins;
