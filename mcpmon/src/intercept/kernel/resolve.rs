//! Names to addresses, again and again.
