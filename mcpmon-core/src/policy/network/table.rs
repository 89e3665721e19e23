//! Compiles rules and resolved names into the entries the kernel looks up.
