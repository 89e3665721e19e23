//! Answers of DNS servers to questions of the host: which are copied to the agent, and their layout in the ring.

use crate::{assert_layout, pod};

/// Bytes of an answer that are copied; one that is longer cannot be read.
pub const MAX_ANSWER: usize = 4096;
/// Bytes of the ring of answers.
pub const ANSWER_RING: u32 = 256 << 10;
/// Names of which answers are copied.
pub const MAX_NAMES: u32 = 1 << 14;
/// Questions that wait for their answer; the least recently used are forgotten first.
pub const MAX_QUESTIONS: u32 = 4096;
/// Nanoseconds for which a question waits.
pub const QUESTION_PATIENCE: u64 = 10_000_000_000;
/// Bytes of a name as DNS writes it, the final zero included.
pub const MAX_NAME: usize = 255;
/// Bytes of the header of a DNS message.
pub const DNS_HEADER: u32 = 12;

/// A question that a socket of the host sent, by what its answer is known by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Question {
    /// Cookie of the socket, which stands for its address, port and network namespace.
    pub cookie: u64,
    /// Address of the server, in words of network order; IPv4 in the first.
    pub server: [u32; 4],
    /// Number that the message bears.
    pub id: u32,
    /// IP version, 4 or 6.
    pub family: u32,
}

/// The start of an answer in the ring; the message follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AnswerRecord {
    /// Address of the server, in words of network order; IPv4 in the first.
    pub server: [u32; 4],
    /// IP version, 4 or 6.
    pub family: u32,
    /// Bytes of the message that follow.
    pub length: u32,
}

/// Room for the largest answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct AnswerBuffer {
    /// The start.
    pub record: AnswerRecord,
    /// The message.
    pub message: [u8; MAX_ANSWER],
}

/// A counter of the programs for DNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DnsCounter {
    /// Questions for a name that somebody follows.
    Questions = 0,
    /// Answers that were handed over.
    Answers = 1,
    /// Answers for which the ring had no room, or that could not be copied, and questions that could not be noted.
    Lost = 2,
}

impl DnsCounter {
    /// Number of counters.
    pub const COUNT: u32 = 3;
}

/// Hash (64-bit FNV-1a) of a name as DNS writes it, in small letters, up to the zero at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameHash(u64);

impl NameHash {
    /// Of the empty name.
    pub const EMPTY: Self = Self(0xcbf2_9ce4_8422_2325);

    /// Takes in the next byte. Lengths of labels are at most 63, so no letter.
    #[must_use]
    #[inline(always)]
    pub const fn then(self, byte: u8) -> Self {
        let is_capital = byte >= b'A' && byte <= b'Z';
        let byte = byte | (is_capital as u8) << 5;
        Self((self.0 ^ byte as u64).wrapping_mul(0x100_0000_01b3))
    }

    /// The number.
    #[inline(always)]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Hash of a name as people write it, without the final dot; it must have labels of 1 to 63 bytes.
pub fn name_hash(name: &str) -> u64 {
    let labels = name.split('.').flat_map(|label| {
        let length = u8::try_from(label.len()).unwrap_or(u8::MAX);
        core::iter::once(length).chain(label.bytes())
    });
    labels.fold(NameHash::EMPTY, NameHash::then).get()
}

assert_layout!(Question, size 32, server at 8, id at 24, family at 28);
assert_layout!(AnswerRecord, size 24, family at 16, length at 20);
assert_layout!(AnswerBuffer, size 24 + MAX_ANSWER, message at 24);
pod!(Question, AnswerRecord);

#[cfg(test)]
mod tests {
    extern crate std;

    use proptest::prelude::*;

    use super::*;

    /// As the kernel program walks a message.
    fn of_wire(wire: &[u8]) -> u64 {
        let name = wire.iter().copied().take_while(|byte| *byte != 0);
        name.fold(NameHash::EMPTY, NameHash::then).get()
    }

    #[test]
    fn a_name_is_known_as_dns_writes_it() {
        assert_eq!(
            name_hash("evil.example"),
            of_wire(b"\x04eViL\x07EXAMPLE\0\0\x01\0\x01")
        );
        assert_ne!(name_hash("evil.example"), of_wire(b"\x03evi\x08l.exampl\0"));
        assert_ne!(
            name_hash("evil.example"),
            of_wire(b"\x04evil\x07example\x03com\0")
        );
    }

    proptest! {
        #[test]
        fn labels_and_wire_agree(labels in prop::collection::vec("[a-z0-9_-]{1,63}", 1..4)) {
            let mut wire = std::vec::Vec::new();
            for label in &labels {
                wire.push(u8::try_from(label.len()).expect("short"));
                wire.extend(label.to_ascii_uppercase().bytes());
            }
            wire.push(0);
            prop_assert_eq!(name_hash(&labels.join(".")), of_wire(&wire));
        }
    }
}
