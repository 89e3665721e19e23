//! Synthetic secrets. Cases name them as `${kind}`, and this module assembles them, so that no file contains one.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

/// Replaces every `${kind}` in `text`; `$${` becomes a literal `${`.
///
/// # Errors
/// Returns an error if there is no such kind.
pub(crate) fn baited(text: &str) -> Result<String> {
    let mut baited = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            baited.push_str(before);
            baited.push_str("${");
            rest = &after[2..];
            continue;
        }
        baited.push_str(before);
        let (kind, after) = after[2..]
            .split_once('}')
            .context("a kind of bait is not closed")?;
        baited.push_str(&bait(kind).with_context(|| format!("there is no bait of kind {kind}"))?);
        rest = after;
    }
    baited.push_str(rest);
    Ok(baited)
}

/// Returns a secret of a kind; `kind|form` returns the same secret in another form.
fn bait(kind: &str) -> Option<String> {
    let (kind, forms) = kind.split_once('|').unwrap_or((kind, ""));
    let mut bait = plain(kind)?;
    for form in forms.split('|').filter(|form| !form.is_empty()) {
        bait = formed(&bait, form)?;
    }
    Some(bait)
}

fn plain(kind: &str) -> Option<String> {
    Some(match kind {
        "github" => with_checksum(&["gh", "p_"].concat(), &random(30, BASE62, 1)),
        "github_oauth" => with_checksum(&["gh", "o_"].concat(), &random(30, BASE62, 2)),
        "npm" => with_checksum(&["np", "m_"].concat(), &random(30, BASE62, 3)),
        "gitlab" => format!("{}{}", ["gl", "pat-"].concat(), random(20, BASE62, 4)),
        "aws_id" => format!("{}{}", ["AK", "IA"].concat(), random(16, BASE32, 5)),
        "aws_secret" => random(40, BASE64, 6),
        "slack" => format!(
            "{}{}-{}-{}",
            ["xo", "xb-"].concat(),
            random(12, DIGITS, 7),
            random(12, DIGITS, 8),
            random(24, BASE62, 9)
        ),
        "stripe" => format!("{}{}", ["sk_", "live_"].concat(), random(24, BASE62, 10)),
        "openai" => format!("{}{}", ["sk-", "proj-"].concat(), random(48, BASE62, 11)),
        "anthropic" => format!("{}{}AA", ["sk-", "ant-api03-"].concat(), random(91, BASE62, 12)),
        "google" => format!("{}{}", ["AI", "zaSy"].concat(), random(33, BASE62, 13)),
        "sendgrid" => format!(
            "{}{}.{}",
            ["S", "G."].concat(),
            random(22, BASE62, 14),
            random(43, BASE62, 15)
        ),
        "jwt" => format!(
            "{}.{}.{}",
            base64(br#"{"alg":"HS256","typ":"JWT"}"#).trim_end_matches('='),
            base64(br#"{"sub":"1234567890","name":"Mallory","iat":1516239022}"#).trim_end_matches('='),
            random(43, BASE62, 16)
        ),
        "password" => random(20, BASE62, 17),
        "blob" => base64(random(400, BASE64, 18).as_bytes()),
        "noise" => random(140, BASE64, 19),
        "hex64" => random(64, b"0123456789abcdef", 20),
        "hex40" => random(40, b"0123456789abcdef", 21),
        "hex32" => random(32, b"0123456789abcdef", 22),
        "integrity" => format!("sha512-{}==", random(86, BASE64, 23)),
        "cursor" => format!("{}==", random(70, BASE62, 24)),
        "png" => base64(
            &[
                b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
                random(900, BASE64, 25).as_bytes(),
            ]
            .concat(),
        ),
        "private_key" => {
            let body: Vec<String> = (0..12).map(|line| random(64, BASE64, 100 + line)).collect();
            let kind = ["RSA PRIVATE", " KEY"].concat();
            format!(
                "-----BEGIN {kind}-----\\n{}\\n-----END {kind}-----",
                body.join("\\n")
            )
        }
        "openssh_key" => {
            let body: Vec<String> = (0..6).map(|line| random(70, BASE64, 200 + line)).collect();
            let kind = ["OPENSSH PRIVATE", " KEY"].concat();
            let first = base64(b"openssh-key-v1\0\0\0\0\x04none\0\0\0\x04none");
            format!(
                "-----BEGIN {kind}-----\\n{first}\\n{}\\n-----END {kind}-----",
                body.join("\\n")
            )
        }
        "public_key" => {
            let body: Vec<String> = (0..5).map(|line| random(64, BASE64, 300 + line)).collect();
            format!(
                "-----BEGIN PUBLIC KEY-----\\n{}\\n-----END PUBLIC KEY-----",
                body.join("\\n")
            )
        }
        _ => return None,
    })
}

fn formed(text: &str, form: &str) -> Option<String> {
    Some(match form {
        "base64" => base64(text.replace("\\n", "\n").as_bytes()),
        "hex" => text.bytes().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("a string takes any text");
            hex
        }),
        "percent" => text.bytes().fold(String::new(), |mut percent, byte| {
            write!(percent, "%{byte:02X}").expect("a string takes any text");
            percent
        }),
        "entities" => text.bytes().fold(String::new(), |mut entities, byte| {
            write!(entities, "&#{byte};").expect("a string takes any text");
            entities
        }),
        "split" => {
            let (head, tail) = text.split_at(text.len() / 2);
            format!("{head}\u{200b}{tail}")
        }
        "head" => text.split_at(text.len() / 2).0.to_owned(),
        "tail" => text.split_at(text.len() / 2).1.to_owned(),
        _ => return None,
    })
}

const DIGITS: &[u8] = b"0123456789";
const BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BASE62: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns pseudo-random text, which is always the same for the same seed (xorshift).
fn random(length: usize, alphabet: &[u8], seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(alphabet[(state >> 33) as usize % alphabet.len()])
    };
    (0..length).map(|_| next()).collect()
}

/// Appends a checksum as GitHub and npm do: the CRC-32 of the random part, in six characters of base 62.
fn with_checksum(prefix: &str, random: &str) -> String {
    let mut rest = crc32(random.as_bytes());
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    let digits = digits.map(char::from);
    format!("{prefix}{random}{}", digits.iter().collect::<String>())
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let group = chunk
            .iter()
            .chain(&[0, 0])
            .take(3)
            .fold(0_usize, |group, byte| group << 8 | usize::from(*byte));
        for digit in 0..4 {
            let is_there = digit <= chunk.len();
            text.push(match is_there {
                true => char::from(BASE64[group >> (18 - 6 * digit) & 63]),
                false => '=',
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bait_is_what_it_is_taken_for() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(base64(b"any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw==");
        assert_eq!(base64(b"any carnal pleasure"), "YW55IGNhcm5hbCBwbGVhc3VyZQ==");
        let token = baited("a ${github} b $${github}").expect("a kind");
        assert_eq!(token.len(), "a ".len() + 40 + " b ${github}".len());
        let error = baited("${nothing}").expect_err("no kind");
        assert_eq!(error.to_string(), "there is no bait of kind nothing");
    }
}
