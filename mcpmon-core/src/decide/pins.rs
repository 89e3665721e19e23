//! Pins of executables, scripts and packages, and how a start compares with them.
