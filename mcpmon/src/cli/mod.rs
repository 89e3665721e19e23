//! The command line: the only module that prints. One verb per file in `commands/`.

pub mod commands;
