//! The senses, and what more than one of them needs.

pub mod hash;
pub mod http;
pub mod kernel;
pub mod stdio;
pub mod tree;
