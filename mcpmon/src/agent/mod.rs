//! Composition root: wires config, senses, core and store together; control socket and self-test.

pub mod notify;
