//! Digests of what really runs: executable, script, package.
