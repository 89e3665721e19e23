//! Files of clients before and after.

mod clients;
mod files;
mod properties;
mod texts;
