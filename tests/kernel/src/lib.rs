//! Attempts to connect by every path.
