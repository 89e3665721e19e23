//! The bridge against servers of every kind, in this process.
