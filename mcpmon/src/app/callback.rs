//! Signed answers to held calls over HTTP: the holder of the key reads a whole call, and answers it once.
//!
//! A post is signed as in the Standard Webhooks specification. An answer contains the call's full id, the hash of its
//! arguments and the time at which it expires, so that it cannot be applied to another call; the store accepts one
//! answer to a call.

use mcpmon_http::{PostAnswer, SignedPost};
use mcpmon_model::{CallAnswer, HeldCall, Timestamp};
use mcpmon_store::{SigningKey, json::rfc3339};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Most seconds between the time of a post and this host's clock: for the difference of the clocks and the time in
/// transit.
const MAX_SKEW_SECONDS: i64 = 300;

/// The body of a post.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallbackBody {
    /// The full id of the call.
    held_call: String,
    /// The answer; `None` to read the call.
    answer: Option<AnswerWord>,
    /// The hash of the call's arguments, as it was read.
    arguments_sha256: Option<String>,
    /// The time at which the call expires, as it was read.
    expires: Option<String>,
}

/// The answer.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum AnswerWord {
    Once,
    Session,
    Deny,
}

impl From<AnswerWord> for CallAnswer {
    fn from(word: AnswerWord) -> Self {
        match word {
            AnswerWord::Once => Self::Once,
            AnswerWord::Session => Self::Session,
            AnswerWord::Deny => Self::Deny,
        }
    }
}

/// The calls that wait for an answer, and the way to answer them.
pub trait AnswerableCalls {
    /// Returns the call that waits with this id.
    ///
    /// # Errors
    /// Returns the reason why calls cannot be looked up.
    fn find(&self, id: &str) -> Result<Option<HeldCall>, String>;

    /// Returns the call as a JSON object.
    fn shown(&self, held: &HeldCall) -> Map<String, Value>;

    /// Records the answer.
    ///
    /// # Errors
    /// Returns the reason why the answer is not accepted.
    fn answer(&self, held: &HeldCall, answer: CallAnswer) -> Result<(), String>;
}

/// Answers a post.
pub fn reply(
    post: &SignedPost,
    key: &SigningKey,
    now: Timestamp,
    questions: &impl AnswerableCalls,
) -> PostAnswer {
    match replied(post, key, now, questions) {
        Ok(object) => PostAnswer {
            status: 200,
            json: Value::Object(object).to_string(),
        },
        Err((status, reason)) => PostAnswer {
            status,
            json: json!({ "error": reason }).to_string(),
        },
    }
}

fn replied(
    post: &SignedPost,
    key: &SigningKey,
    now: Timestamp,
    questions: &impl AnswerableCalls,
) -> Result<Map<String, Value>, (u16, String)> {
    let refused = |status: u16, reason: &str| (status, reason.to_owned());
    // The same reason for every fault, so that a sender without the key learns nothing.
    let unsigned = || refused(401, "the signature does not fit, or its time is not now");
    let seconds: i64 = post.timestamp.parse().map_err(|_not_a_number| unsigned())?;
    let is_fresh = (now.0 / 1_000_000_000).abs_diff(seconds) <= MAX_SKEW_SECONDS.unsigned_abs();
    if !key.verify(&post.id, seconds, &post.body, &post.signature) || !is_fresh {
        return Err(unsigned());
    }
    let body: CallbackBody = serde_json::from_slice(&post.body).map_err(|error| (400, error.to_string()))?;
    let gone = || {
        refused(
            404,
            "no call waits with this id: it was answered or taken back, its time ran out, or there never was one",
        )
    };
    let held = questions.find(&body.held_call).map_err(|reason| (503, reason))?;
    let held = held
        .filter(|held| held.id == body.held_call && held.expires > now)
        .ok_or_else(gone)?;
    let Some(word) = body.answer else {
        return Ok(questions.shown(&held));
    };
    let is_meant = body.arguments_sha256 == Some(held.arguments_hash.to_string())
        && body.expires == Some(rfc3339(held.expires));
    if !is_meant {
        return Err(refused(
            409,
            "`arguments_sha256` and `expires` are not those of the call that waits",
        ));
    }
    questions
        .answer(&held, word.into())
        .map_err(|reason| (409, reason))?;
    let mut answered = Map::new();
    answered.insert("answered".to_owned(), held.id.into());
    Ok(answered)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use mcpmon_model::{Digest, PinKey, ServerId};
    use test_case::test_case;

    use super::*;

    const NOW: Timestamp = Timestamp(1_795_000_000_000_000_000);

    struct OneHeldCall {
        held: HeldCall,
        answers: RefCell<Vec<CallAnswer>>,
    }

    impl AnswerableCalls for OneHeldCall {
        fn find(&self, id: &str) -> Result<Option<HeldCall>, String> {
            Ok(self.held.id.starts_with(id).then(|| self.held.clone()))
        }

        fn shown(&self, held: &HeldCall) -> Map<String, Value> {
            Map::from_iter([("arguments".to_owned(), held.arguments.clone().into())])
        }

        fn answer(&self, _held: &HeldCall, answer: CallAnswer) -> Result<(), String> {
            if !self.answers.borrow().is_empty() {
                return Err("it was answered already".to_owned());
            }
            self.answers.borrow_mut().push(answer);
            Ok(())
        }
    }

    fn waiting() -> OneHeldCall {
        let held = HeldCall {
            id: "0123456789ab".to_owned(),
            identity: PinKey {
                server: ServerId::new("mail").unwrap(),
                name: "mail".to_owned(),
                uid: 1000,
            },
            session: None,
            tool: "send".to_owned(),
            arguments: "{}".to_owned(),
            arguments_hash: Digest::of(b"{}"),
            rule: "ask".to_owned(),
            other_rules: Vec::new(),
            reason: "It leaves the house".to_owned(),
            since: NOW,
            expires: Timestamp(NOW.0 + 60_000_000_000),
        };
        OneHeldCall {
            held,
            answers: RefCell::default(),
        }
    }

    fn post(body: &str, key: &SigningKey, seconds: i64) -> SignedPost {
        SignedPost {
            id: "msg_1".to_owned(),
            timestamp: seconds.to_string(),
            signature: key.sign("msg_1", seconds, body.as_bytes()),
            body: body.to_owned().into_bytes().into(),
        }
    }

    fn answer_of(waiting: &OneHeldCall, word: &str) -> String {
        json!({
            "held_call": waiting.held.id,
            "answer": word,
            "arguments_sha256": waiting.held.arguments_hash.to_string(),
            "expires": rfc3339(waiting.held.expires),
        })
        .to_string()
    }

    const SECONDS: i64 = NOW.0 / 1_000_000_000;

    #[test_case("once", CallAnswer::Once)]
    #[test_case("session", CallAnswer::Session)]
    #[test_case("deny", CallAnswer::Deny)]
    fn a_call_is_shown_and_answered_once(word: &str, expected: CallAnswer) {
        let (waiting, key) = (waiting(), SigningKey::new(&[7; 32]));
        let shown = reply(
            &post(r#"{"held_call":"0123456789ab"}"#, &key, SECONDS),
            &key,
            NOW,
            &waiting,
        );
        assert_eq!(
            (shown.status, shown.json.as_str()),
            (200, r#"{"arguments":"{}"}"#)
        );
        assert!(waiting.answers.borrow().is_empty());
        let answer = post(&answer_of(&waiting, word), &key, SECONDS);
        assert_eq!(reply(&answer, &key, NOW, &waiting).status, 200);
        assert_eq!(*waiting.answers.borrow(), [expected]);
        let again = reply(&answer, &key, NOW, &waiting);
        assert_eq!(again.status, 409, "{again:?}");
        assert_eq!(waiting.answers.borrow().len(), 1);
    }

    #[test]
    fn who_has_not_the_key_learns_nothing_and_answers_nothing() {
        let (waiting, key) = (waiting(), SigningKey::new(&[7; 32]));
        let good = post(&answer_of(&waiting, "once"), &key, SECONDS);
        let other = SigningKey::new(&[8; 32]);
        let bad = [
            post(&answer_of(&waiting, "once"), &other, SECONDS),
            SignedPost {
                body: answer_of(&waiting, "session").into_bytes().into(),
                ..good.clone()
            },
            SignedPost {
                id: "msg_2".to_owned(),
                ..good.clone()
            },
            SignedPost {
                timestamp: (SECONDS + 1).to_string(),
                ..good.clone()
            },
            SignedPost {
                timestamp: "now".to_owned(),
                ..good.clone()
            },
            SignedPost {
                timestamp: i64::MIN.to_string(),
                ..good.clone()
            },
            SignedPost {
                signature: String::new(),
                ..good.clone()
            },
            SignedPost {
                signature: "v1,".to_owned(),
                ..good.clone()
            },
            SignedPost {
                signature: good.signature.replace("v1,", "v2,"),
                ..good.clone()
            },
            post(&answer_of(&waiting, "once"), &key, SECONDS - MAX_SKEW_SECONDS - 1),
            post(&answer_of(&waiting, "once"), &key, SECONDS + MAX_SKEW_SECONDS + 1),
        ];
        for post in bad {
            let answer = reply(&post, &key, NOW, &waiting);
            assert_eq!(answer.status, 401, "{post:?}");
            assert!(!answer.json.contains("mail"), "{answer:?}");
        }
        assert!(waiting.answers.borrow().is_empty());
        // Several signatures, as during a change of keys.
        let two = SignedPost {
            signature: format!("v1,AAAA {}", good.signature),
            ..good
        };
        assert_eq!(reply(&two, &key, NOW, &waiting).status, 200);
    }

    #[test_case(r#"{"held_call":"0123"}"#, 404; "the beginning of an id")]
    #[test_case(r#"{"held_call":"ffffffffffff"}"#, 404; "another id")]
    #[test_case(r#"{"held_call":"0123456789ab","answer":"once"}"#, 409; "an answer to anything")]
    #[test_case(r#"{"held_call":"0123456789ab","answer":"always"}"#, 400; "another answer")]
    #[test_case(r#"{"held_call":"0123456789ab","note":1}"#, 400; "another member")]
    #[test_case("", 400; "nothing")]
    fn what_is_signed_and_does_not_fit_changes_nothing(body: &str, status: u16) {
        let (waiting, key) = (waiting(), SigningKey::new(&[7; 32]));
        assert_eq!(
            reply(&post(body, &key, SECONDS), &key, NOW, &waiting).status,
            status
        );
        assert!(waiting.answers.borrow().is_empty());
    }

    #[test]
    fn an_answer_to_other_arguments_or_another_time_or_too_late_is_none() {
        let (mut waiting, key) = (waiting(), SigningKey::new(&[7; 32]));
        let answer = post(&answer_of(&waiting, "once"), &key, SECONDS);
        waiting.held.arguments_hash = Digest::of(b"{\"other\":1}");
        assert_eq!(reply(&answer, &key, NOW, &waiting).status, 409);
        let answer = post(&answer_of(&waiting, "once"), &key, SECONDS);
        waiting.held.expires = Timestamp(waiting.held.expires.0 + 1);
        assert_eq!(reply(&answer, &key, NOW, &waiting).status, 409);
        let answer = post(&answer_of(&waiting, "once"), &key, SECONDS);
        assert_eq!(reply(&answer, &key, waiting.held.expires, &waiting).status, 404);
        assert!(waiting.answers.borrow().is_empty());
    }
}
