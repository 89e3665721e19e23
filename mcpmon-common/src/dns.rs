//! Answers of DNS servers to questions of the host: the maps that select answers for the daemon, and the records.

use crate::{assert_layout, pod};

/// Bytes of an answer that are copied; a longer answer cannot be parsed.
pub const MAX_ANSWER: usize = 4096;
/// Bytes of the ring of answers.
pub const ANSWER_RING: u32 = 256 << 10;
/// Most followed names.
pub const MAX_NAMES: u32 = 1 << 14;
/// Most questions that wait for an answer; the least recently used are forgotten first.
pub const MAX_QUESTIONS: u32 = 4096;
/// Nanoseconds for which a question waits for its answer.
pub const QUESTION_TIMEOUT: u64 = 10_000_000_000;
/// Bytes of a name in DNS format, with the final zero.
pub const MAX_NAME: usize = 255;
/// Bytes of the header of a DNS message.
pub const DNS_HEADER: u32 = 12;

/// A question that a socket of the host sent: the values that its answer has, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Question {
    /// Cookie of the socket, which stands for its address, port and network namespace.
    pub cookie: u64,
    /// Address of the server, in words of network order; an IPv4 address is in the first word.
    pub server: [u32; 4],
    /// Id of the message.
    pub id: u32,
    /// IP version, 4 or 6.
    pub family: u32,
}

/// The start of an answer in the ring; the message follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AnswerRecord {
    /// Address of the server, in words of network order; an IPv4 address is in the first word.
    pub server: [u32; 4],
    /// IP version, 4 or 6.
    pub family: u32,
    /// Bytes of the message that follow.
    pub length: u32,
}

/// Memory for the largest answer.
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
    /// Questions for a followed name.
    Questions = 0,
    /// Answers that were copied to the ring.
    Answers = 1,
    /// Answers that could not be copied or for which the ring was full, and questions that could not be noted.
    Lost = 2,
}

impl DnsCounter {
    /// Number of counters.
    pub const COUNT: u32 = 3;
}

/// Hash (64-bit FNV-1a) of a name in DNS format, in lower case, up to its final zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameHash(u64);

impl NameHash {
    /// The hash of the empty name.
    pub const EMPTY: Self = Self(0xcbf2_9ce4_8422_2325);

    /// Adds the next byte. The length of a label is at most 63, and so never looks like a letter.
    #[must_use]
    #[inline(always)]
    pub const fn then(self, byte: u8) -> Self {
        let is_capital = byte >= b'A' && byte <= b'Z';
        let byte = byte | (is_capital as u8) << 5;
        Self((self.0 ^ byte as u64).wrapping_mul(0x100_0000_01b3))
    }

    /// Returns the value of the hash.
    #[inline(always)]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Returns the hash of a name in text form, without the final dot; its labels must have 1 to 63 bytes.
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

    /// Hashes a name in a message, as the kernel program does.
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
