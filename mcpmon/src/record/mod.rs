//! The store: bounded queue, one writer thread, schema migrations, typed queries.
//!
//! [`Recorder`] writes, [`Reader`] reads; neither knows why something happened.

mod access;
mod event;
mod follow;
pub mod json;
mod launches;
mod names;
mod pins;
mod query;
mod queue;
mod reader;
mod recorder;
mod retention;
mod row;
mod schema;
mod servers;
mod store;
mod writer;

#[cfg(test)]
pub(crate) mod sample;

pub use access::{Access, AccessError};
pub use event::StoredEvent;
pub use follow::Follow;
pub use launches::{Ending, Launch};
pub use names::{name, parse_name};
pub use pins::BinaryPin;
pub use query::Filter;
pub use queue::Refused;
pub use reader::{OpenError, QueryError, Reader};
pub use recorder::{Recorder, RecorderStatus, Settings, Unsettled};
pub use schema::SchemaError;
pub use servers::{DeclaredServer, ServerStatus, ServerSummary, command_line};
pub use store::{Store, StoreError};
