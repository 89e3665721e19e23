//! A report as one self-contained page: its script draws the report from the JSON in the page.
//!
//! Texts of servers and models are in that JSON only. The page's own policy names its script and its style by their
//! digests (Content Security Policy Level 3, section 2.3.1): no other script or style is used, and nothing is loaded.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256};

use super::contents::Report;
use crate::cli::text;

const PAGE: &str = include_str!("page.html");
pub(super) const STYLE: &str = include_str!("page.css");
pub(super) const SCRIPT: &str = include_str!("page.js");

pub(super) fn html(report: &Report) -> String {
    let parts = [
        ("{style_digest}", source(STYLE)),
        ("{script_digest}", source(SCRIPT)),
        ("{title}", escaped(&report.session)),
        ("{style}", STYLE.to_owned()),
        ("{script}", SCRIPT.to_owned()),
        // Replaced last, so that placeholders within the report are not replaced.
        ("{report}", embedded(report)),
    ];
    parts
        .iter()
        .fold(PAGE.to_owned(), |page, (name, part)| page.replace(name, part))
}

/// Returns the source expression that allows exactly this text.
fn source(inline: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(inline)))
}

/// Returns the report's JSON, without characters that could end its element, begin a comment, or be invisible.
fn embedded(report: &Report) -> String {
    let json = serde_json::Value::Object(report.object()).to_string();
    let json = json.replace('<', "\\u003c").replace('>', "\\u003e");
    text::escape_json(&json.replace('&', "\\u0026")).into_owned()
}

fn escaped(text: &str) -> String {
    let text = text::escape(text);
    let entities = [
        ('&', "&amp;"),
        ('<', "&lt;"),
        ('>', "&gt;"),
        ('"', "&quot;"),
        ('{', "&#123;"),
    ];
    entities
        .iter()
        .fold(text.into_owned(), |text, (c, entity)| text.replace(*c, entity))
}
