//! Drives the target that `MCPMON_FUZZ_TARGET` names.
#![no_main]

use std::sync::LazyLock;

use mcpmon_fuzz::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("MCPMON_FUZZ_TARGET").expect("MCPMON_FUZZ_TARGET names a target");
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    target.expect("the target is known").1
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET(data));
