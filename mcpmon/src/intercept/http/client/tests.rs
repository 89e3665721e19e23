//! The client against servers of every kind, in this process.
