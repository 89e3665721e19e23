#![allow(clippy::all, clippy::pedantic, clippy::restriction)]
fn main() { let t = std::time::Instant::now(); let c = mcpmon_detect::Context { place: mcpmon_detect::Place::Description, own: &[], others: &[], is_document: false }; mcpmon_detect::matches("x", &c, []); println!("{:?}", t.elapsed()); }
