//! Files of clients before and after.

mod files;
mod texts;
