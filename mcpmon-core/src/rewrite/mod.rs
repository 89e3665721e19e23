//! Verdicts to bytes: answers that the protocol allows, lists without what is hidden.
