//! Replays the corpus, and a few random bytes, through every target.
#![expect(clippy::disallowed_methods, reason = "I/O shell")]
#![expect(clippy::tests_outside_test_module, reason = "this file is the test")]

use std::{fs, path::Path};

use mcpmon_fuzz::TARGETS;
use proptest::prelude::*;

#[test]
fn the_corpus_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in TARGETS {
        let mut replayed = 0;
        for entry in fs::read_dir(corpus.join(name)).expect("every target has a corpus") {
            let path = entry.expect("the corpus can be read").path();
            target(&fs::read(&path).expect("the corpus can be read"));
            replayed += 1;
        }
        assert!(replayed > 0, "{name} has an empty corpus");
    }
}

#[test]
fn every_corpus_has_a_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for entry in fs::read_dir(corpus).expect("there is a corpus") {
        let name = entry.expect("the corpus can be read").file_name();
        assert!(TARGETS.iter().any(|(target, _)| name == *target), "{name:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_hold(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        for (_, target) in TARGETS {
            target(&data);
        }
    }
}
