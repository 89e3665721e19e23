//! Decisions of a person about definitions: approve, refuse, forget. The process that has the store open carries them
//! out.

use mcpmon_model::{
    ApprovalState, DefinitionKey, DefinitionKind, DefinitionRecord, Event, EventKind, Layer, ServerId,
    Timestamp,
};
use mcpmon_session::pins;
use mcpmon_store::{ApprovalOutcome, Selection, Store, StoreError};
use serde::{Deserialize, Serialize};

/// The definitions that a decision is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalSubject {
    /// The server.
    pub server: ServerId,
    /// Name of one definition; `None` for all definitions of the server.
    pub name: Option<String>,
}

/// A decision about definitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ApprovalDecision {
    /// The definitions are accepted as they were last listed.
    Approve {
        /// Approves only the version with this hash; its first hexadecimal digits are enough.
        hash: Option<String>,
    },
    /// The definitions are refused as they were last listed.
    Refuse,
    /// The acceptance is forgotten.
    Forget,
}

/// The reason why a decision was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// No definition of this name was listed.
    #[error(
        "{subject} is not in the registry: it was never listed, or not since its pin was reset; see `mcpmon registry list`"
    )]
    Unknown {
        /// The named subject.
        subject: String,
    },
    /// The definition has changed since its hash was copied.
    #[error("{subject} is {seen} now, not {hash}; look at it with `mcpmon registry show {subject}`")]
    Differs {
        /// The named subject.
        subject: String,
        /// The approved hash.
        hash: String,
        /// The listed hash.
        seen: String,
    },
    /// Root denied the definition, and another user may not change that.
    #[error("root denied {subject}: only root can change that")]
    DeniedByRoot {
        /// The named subject.
        subject: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Returns `SERVER:NAME`, the form in which events and commands name a definition.
pub fn name(key: &DefinitionKey) -> String {
    format!("{}:{}", key.identity.server, key.name)
}

/// The person who decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decider {
    /// The name in records.
    pub name: String,
    /// The user whose servers the decision is limited to; `None` for every user's.
    pub own: Option<u32>,
}

/// Carries `word` out for the definitions that `subject` names. Returns their names, and the events that record the
/// decision.
///
/// # Errors
/// Returns an error if no definition matches, if root denied one, or if one has another hash now; that one was not
/// changed.
pub fn decide(
    store: &mut Store,
    now: Timestamp,
    subject: &ApprovalSubject,
    word: &ApprovalDecision,
    by: &Decider,
) -> Result<(Vec<String>, Vec<Event>), DecideError> {
    let selection = Selection {
        server: Some(subject.server.to_string()),
        item: subject.name.clone(),
        uid: by.own,
    };
    let mut records = store.read(|reader| reader.definitions(&selection))?;
    // `SERVER:` means the instructions. A tool with an empty name is accepted with its whole server only.
    if subject.name.as_deref() == Some("") {
        records.retain(|record| record.key.kind == DefinitionKind::Instructions);
    }
    let named = || match &subject.name {
        Some(name) => format!("{}:{name}", subject.server),
        None => subject.server.to_string(),
    };
    if records.is_empty() {
        return Err(DecideError::Unknown { subject: named() });
    }
    if by.own.is_some() && *word != ApprovalDecision::Refuse {
        check_denials(store, &records)?;
    }
    let by = by.name.as_str();
    if let ApprovalDecision::Forget = word {
        store.forget_definitions(now, &selection)?;
        return Ok((
            records.iter().map(|record| name(&record.key)).collect(),
            Vec::new(),
        ));
    }
    let (mut done, mut events) = (Vec::new(), Vec::new());
    for record in &records {
        let state = match word {
            ApprovalDecision::Approve { hash } => approve(store, record, hash.as_deref(), by)?,
            ApprovalDecision::Refuse => refuse(store, now, record, by)?,
            ApprovalDecision::Forget => None,
        };
        let Some(state) = state else { continue };
        done.push(name(&record.key));
        events.push(decided(now, record, by, state));
    }
    Ok((done, events))
}

/// Checks that root denied none of these definitions.
fn check_denials(store: &mut Store, records: &[DefinitionRecord]) -> Result<(), DecideError> {
    for record in records {
        let denied = store.read(|reader| reader.refused(&record.key.identity))?;
        let by_root = |(key, author): &(DefinitionKey, String)| *key == record.key && is_by_root(author);
        if denied.iter().any(by_root) {
            return Err(DecideError::DeniedByRoot {
                subject: name(&record.key),
            });
        }
    }
    Ok(())
}

/// Returns whether root is the author of a denial, which names its time as well: `root at 2026-11-20T12:00:00Z`.
fn is_by_root(author: &str) -> bool {
    let rest = author.strip_prefix(pins::APPROVED);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" at "))
}

fn approve(
    store: &mut Store,
    record: &DefinitionRecord,
    hash: Option<&str>,
    by: &str,
) -> Result<Option<ApprovalState>, DecideError> {
    match store.approve(&record.key, hash, by)? {
        ApprovalOutcome::Accepted(_) => Ok(Some(ApprovalState::Granted)),
        ApprovalOutcome::Unknown => Ok(None), // forgotten in between
        ApprovalOutcome::Differs { seen } => Err(DecideError::Differs {
            subject: name(&record.key),
            hash: hash.unwrap_or_default().to_owned(),
            seen: seen.short(12),
        }),
    }
}

fn refuse(
    store: &mut Store,
    now: Timestamp,
    record: &DefinitionRecord,
    by: &str,
) -> Result<Option<ApprovalState>, DecideError> {
    let refused = store.refuse(&record.key, now, by)?;
    Ok(refused.then_some(ApprovalState::Denied))
}

fn decided(now: Timestamp, record: &DefinitionRecord, by: &str, state: ApprovalState) -> Event {
    let mut event = Event::new(now, Layer::Agent, EventKind::approval(record, by, state));
    event.server_id = Some(record.key.identity.server.clone());
    event.package = record.key.identity.package();
    event.rule = Some("approval".to_owned());
    event
}

#[cfg(test)]
mod tests {
    use mcpmon_store::{StoreEntry, sample};

    use super::*;

    fn filled() -> (tempfile::TempDir, Store) {
        let (directory, mut store) = sample::store();
        let mut unpinned = sample::definition("files", "write_file", "w");
        unpinned.pinned = None;
        unpinned.hidden = true;
        let records = [sample::definition("files", "read_file", "r"), unpinned];
        let entries = records.map(StoreEntry::Definition);
        mcpmon_store::Destination::keep(&mut store, &entries).expect("kept");
        (directory, store)
    }

    fn subject(name: Option<&str>) -> ApprovalSubject {
        ApprovalSubject {
            server: ServerId::new("files").expect("id"),
            name: name.map(str::to_owned),
        }
    }

    fn said(store: &mut Store, name: Option<&str>, word: &ApprovalDecision) -> Result<Vec<String>, String> {
        decided_by(store, name, word, None)
    }

    fn decided_by(
        store: &mut Store,
        name: Option<&str>,
        word: &ApprovalDecision,
        own: Option<u32>,
    ) -> Result<Vec<String>, String> {
        let by = Decider {
            name: own.map_or_else(|| pins::APPROVED.to_owned(), |uid| format!("user {uid}")),
            own,
        };
        decide(store, Timestamp(7), &subject(name), word, &by)
            .map(|(done, _)| done)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn one_is_approved_by_name_and_all_by_server() {
        let (_directory, mut store) = filled();
        let approve = ApprovalDecision::Approve { hash: None };
        assert_eq!(
            said(&mut store, Some("write_file"), &approve),
            Ok(vec!["files:write_file".to_owned()])
        );
        let both = vec!["files:read_file".to_owned(), "files:write_file".to_owned()];
        assert_eq!(said(&mut store, None, &approve), Ok(both));
        let all = store
            .read(|reader| reader.definitions(&Selection::default()))
            .expect("definitions");
        assert!(
            all.iter()
                .all(|record| !record.hidden && record.approved_by.as_deref() == Some(pins::APPROVED))
        );
    }

    #[test]
    fn without_a_name_the_instructions_are_meant_and_no_tool() {
        let (_directory, mut store) = filled();
        let nameless = sample::definition("files", "", "a tool");
        let mut instructions = sample::definition("files", "", "what to do");
        instructions.key.kind = DefinitionKind::Instructions;
        let approve = ApprovalDecision::Approve { hash: None };
        let keep = |store: &mut Store, record: DefinitionRecord| {
            mcpmon_store::Destination::keep(store, &[StoreEntry::Definition(record)]).expect("kept");
        };
        keep(&mut store, nameless);
        assert!(
            said(&mut store, Some(""), &approve).is_err(),
            "a tool without a name"
        );
        keep(&mut store, instructions);
        assert_eq!(
            said(&mut store, Some(""), &approve),
            Ok(vec!["files:".to_owned()])
        );
        let all = store
            .read(|reader| reader.definitions(&Selection::default()))
            .expect("definitions");
        let approved = all.iter().filter(|record| record.approved_by.is_some());
        let kinds: Vec<DefinitionKind> = approved.map(|record| record.key.kind).collect();
        assert_eq!(kinds, [DefinitionKind::Instructions]);
    }

    #[test]
    fn what_is_another_by_now_is_not_approved() {
        let (_directory, mut store) = filled();
        let approve = ApprovalDecision::Approve {
            hash: Some("abc123".to_owned()),
        };
        let error = said(&mut store, Some("read_file"), &approve).expect_err("another");
        assert!(
            error.starts_with("files:read_file is ") && error.contains("not abc123"),
            "{error}"
        );
    }

    #[test]
    fn what_was_never_listed_is_an_error_that_says_where_to_look() {
        let (_directory, mut store) = filled();
        assert_eq!(
            said(&mut store, Some("nothing"), &ApprovalDecision::Refuse),
            Err("files:nothing is not in the registry: it was never listed, or not since its pin was reset; see `mcpmon registry list`".to_owned())
        );
    }

    #[test]
    fn a_refusal_and_an_approval_are_events() {
        let (_directory, mut store) = filled();
        let (_, events) = decide(
            &mut store,
            Timestamp(7),
            &subject(Some("write_file")),
            &ApprovalDecision::Refuse,
            &Decider {
                name: "ann".to_owned(),
                own: None,
            },
        )
        .expect("done");
        assert_eq!(
            events[0].kind,
            EventKind::Approval {
                subject: "files:write_file".to_owned(),
                by: "ann".to_owned(),
                state: ApprovalState::Denied,
                tool_name: Some("write_file".to_owned()),
                detections: Vec::new(),
                held_call: None,
            }
        );
        assert_eq!(events[0].rule.as_deref(), Some("approval"));
        let identity = store
            .read(|reader| reader.definitions(&Selection::default()))
            .expect("definitions")[0]
            .key
            .identity
            .clone();
        let refused = store.read(|reader| reader.refused(&identity)).expect("read");
        assert_eq!(refused[0].1, "ann at 1970-01-01T00:00:00Z");
    }

    #[test]
    fn what_is_forgotten_is_gone() {
        let (_directory, mut store) = filled();
        said(&mut store, None, &ApprovalDecision::Forget).expect("done");
        assert_eq!(
            store
                .read(|reader| reader.definitions(&Selection::default()))
                .expect("definitions"),
            []
        );
    }

    #[test]
    fn a_user_decides_about_own_definitions_only() {
        let (_directory, mut store) = filled();
        let owner = sample::definition("files", "read_file", "r").key.identity.uid;
        let approve = ApprovalDecision::Approve { hash: None };
        let error =
            decided_by(&mut store, Some("write_file"), &approve, Some(owner + 1)).expect_err("refused");
        assert!(
            error.starts_with("files:write_file is not in the registry"),
            "{error}"
        );
        decided_by(&mut store, Some("write_file"), &approve, Some(owner)).expect("the owner's");
    }

    #[test]
    fn a_user_does_not_lift_a_denial_of_root() {
        let (_directory, mut store) = filled();
        let owner = sample::definition("files", "read_file", "r").key.identity.uid;
        said(&mut store, Some("write_file"), &ApprovalDecision::Refuse).expect("root denies it");
        for word in [ApprovalDecision::Approve { hash: None }, ApprovalDecision::Forget] {
            assert_eq!(
                decided_by(&mut store, Some("write_file"), &word, Some(owner)),
                Err("root denied files:write_file: only root can change that".to_owned())
            );
        }
        decided_by(
            &mut store,
            Some("read_file"),
            &ApprovalDecision::Refuse,
            Some(owner),
        )
        .expect("denied");
        decided_by(
            &mut store,
            Some("read_file"),
            &ApprovalDecision::Approve { hash: None },
            Some(owner),
        )
        .expect("the own denial is lifted");
    }
}
