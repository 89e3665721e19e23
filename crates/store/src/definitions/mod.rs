//! The registry of definitions in the store: what servers listed, and what of it was accepted.
//!
//! Several processes write to it at once, each with the state that it read a while ago. So only an approval changes
//! what is accepted: a new record never replaces a pin. And the stored definition is the one that was listed last, in
//! whatever order the records come; an approval accepts that one.

use mcpmon_model::{Definition, DefinitionKey, DefinitionRecord, Digest, PinKey, ServerId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row, named_params, params};

use super::{forgotten, json::rfc3339, names, row};

#[cfg(test)]
mod tests;

/// Most definitions of one server, package and user; other programs choose their names.
const MAX_DEFINITIONS: u32 = 10_000;
/// Longest text that is stored, bytes; of a longer definition only the hash is stored.
const MAX_TEXT: usize = 256 << 10;

/// The margin, in nanoseconds, by which a listing may precede the stored one without counting as older: writers are
/// late by less, and a clock may be set back by more.
const LATE: i64 = 600_000_000_000;

const COLUMNS: &str = "server_id, name, uid, kind, item, seen_hash, seen_text, pinned_hash, pinned_text, \
     approved_by, first_seen, last_seen, findings, hidden";

/// A selection of definitions; without conditions it selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Definitions of this server.
    pub server: Option<String>,
    /// Definitions of this user.
    pub uid: Option<u32>,
    /// Definitions with this name.
    pub item: Option<String>,
}

/// The outcome of an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalOutcome {
    /// The definition is accepted now.
    Accepted(Box<DefinitionRecord>),
    /// The definition was never listed.
    Unknown,
    /// The listed definition has another hash than the approved one.
    Differs {
        /// The hash of the listed definition.
        seen: Digest,
    },
}

/// The outcome of putting a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// The record existed, with this definition.
    Known,
    /// The record existed, with another definition that was listed later.
    Late,
    /// The record is new.
    News,
    /// The record is new, and the store is full.
    NoRoom,
    /// A person reset it after it was listed.
    Forgotten,
}

/// Stores a listed definition, unless another one was listed later. An existing pin is kept; a missing one is taken
/// from `record`.
pub(super) fn put(connection: &Connection, record: &DefinitionRecord) -> rusqlite::Result<Put> {
    if forgotten::is_over(connection, record)? {
        return Ok(Put::Forgotten);
    }
    let identity = &record.key.identity;
    let before = get(connection, &record.key)?;
    let is_late = before.as_ref().is_some_and(|before| {
        let behind = before.last_seen.0.saturating_sub(record.last_seen.0);
        before.seen.hash != record.seen.hash && (1..LATE).contains(&behind)
    });
    let pinned = record.pinned.as_ref();
    let findings = serde_json::to_string(&*record.findings).expect("findings are plain values");
    let written = connection
        .prepare_cached(
            "INSERT INTO definitions (server_id, name, uid, kind, item, seen_hash, seen_text, pinned_hash, \
                 pinned_text, approved_by, first_seen, last_seen, findings, hidden) \
             SELECT :server, :name, :uid, :kind, :item, :seen_hash, :seen_text, :pinned_hash, :pinned_text, \
                 :approved_by, :first_seen, :last_seen, :findings, :hidden \
             WHERE EXISTS (SELECT 1 FROM definitions WHERE server_id = :server AND name = :name \
                     AND uid = :uid AND kind = :kind AND item = :item) \
                 OR (SELECT count(*) FROM definitions WHERE server_id = :server AND name = :name \
                     AND uid = :uid) < :most \
             ON CONFLICT (server_id, name, uid, kind, item) DO UPDATE SET \
                 refused_by = CASE WHEN :late OR seen_hash = excluded.seen_hash THEN refused_by END, \
                 seen_hash = CASE WHEN :late THEN seen_hash ELSE excluded.seen_hash END, \
                 seen_text = CASE WHEN :late THEN seen_text ELSE excluded.seen_text END, \
                 pinned_hash = coalesce(pinned_hash, excluded.pinned_hash), \
                 pinned_text = CASE WHEN pinned_hash IS NULL THEN excluded.pinned_text ELSE pinned_text END, \
                 approved_by = CASE WHEN pinned_hash IS NULL THEN excluded.approved_by ELSE approved_by END, \
                 first_seen = min(first_seen, excluded.first_seen), \
                 last_seen = CASE WHEN :late OR seen_hash = excluded.seen_hash \
                     THEN max(last_seen, excluded.last_seen) ELSE excluded.last_seen END, \
                 findings = CASE WHEN :late THEN findings ELSE excluded.findings END, \
                 hidden = CASE WHEN :late THEN hidden WHEN approved_by IS NOT NULL AND pinned_hash = excluded.seen_hash \
                     THEN 0 ELSE excluded.hidden END",
        )?
        .execute(named_params! {
            ":server": identity.server.as_str(),
            ":name": identity.name,
            ":uid": identity.uid,
            ":kind": names::name(&record.key.kind),
            ":item": record.key.name,
            ":seen_hash": record.seen.hash.to_string(),
            ":seen_text": kept(&record.seen),
            ":pinned_hash": pinned.map(|pinned| pinned.hash.to_string()),
            ":pinned_text": pinned.map(kept),
            ":approved_by": record.approved_by,
            ":first_seen": record.first_seen.0,
            ":last_seen": record.last_seen.0,
            ":findings": findings,
            ":hidden": record.hidden,
            ":most": MAX_DEFINITIONS,
            ":late": is_late,
        })?;
    Ok(match (written, before) {
        (0, _) => Put::NoRoom,
        (_, Some(before)) if is_late && (before.pinned.is_some() || pinned.is_none()) => Put::Late,
        (_, Some(before)) if before.seen.hash == record.seen.hash => Put::Known,
        (_, Some(_) | None) => Put::News,
    })
}

/// Accepts a definition as it was last listed, and shows it again. If `hash` is given, its first hexadecimal digits,
/// the definition is accepted only if they match.
pub(super) fn approve(
    connection: &Connection,
    key: &DefinitionKey,
    hash: Option<&str>,
    by: &str,
) -> rusqlite::Result<ApprovalOutcome> {
    let Some(mut record) = get(connection, key)? else {
        return Ok(ApprovalOutcome::Unknown);
    };
    if hash.is_some_and(|hash| !starts_with(record.seen.hash, hash)) {
        return Ok(ApprovalOutcome::Differs {
            seen: record.seen.hash,
        });
    }
    let accepted =
        "pinned_hash = seen_hash, pinned_text = seen_text, approved_by = ?6, refused_by = NULL, hidden = 0";
    decide(connection, accepted, key, by)?;
    record.pinned = Some(record.seen.clone());
    record.approved_by = Some(by.to_owned());
    record.hidden = false;
    Ok(ApprovalOutcome::Accepted(Box::new(record)))
}

/// Refuses a definition as it was last listed, and revokes its acceptance. Returns `false` if it never was listed.
pub(super) fn refuse(
    connection: &Connection,
    key: &DefinitionKey,
    now: Timestamp,
    by: &str,
) -> rusqlite::Result<bool> {
    let refused = "refused_by = ?6, hidden = 1, \
         approved_by = CASE WHEN pinned_hash = seen_hash THEN NULL ELSE approved_by END, \
         pinned_text = CASE WHEN pinned_hash = seen_hash THEN NULL ELSE pinned_text END, \
         pinned_hash = CASE WHEN pinned_hash = seen_hash THEN NULL ELSE pinned_hash END";
    let second = rfc3339(Timestamp(now.0 - now.0.rem_euclid(1_000_000_000)));
    let at = second.replace(".000000000", "");
    Ok(decide(connection, refused, key, &format!("{by} at {at}"))? > 0)
}

/// Records the decision of a person, `?6`, about one definition.
fn decide(
    connection: &Connection,
    decided: &'static str,
    key: &DefinitionKey,
    by: &str,
) -> rusqlite::Result<usize> {
    let (server, name, uid, kind, item) = one(key);
    connection
        .prepare_cached(&format!("UPDATE definitions SET {decided} {ONE}"))?
        .execute((server, name, uid, kind, item, by))
}

/// The condition for one definition, with the parameters of [`one`].
const ONE: &str = "WHERE server_id = ?1 AND name = ?2 AND uid = ?3 AND kind = ?4 AND item = ?5";

fn one(key: &DefinitionKey) -> (&str, &str, u32, String, &str) {
    let PinKey { server, name, uid } = &key.identity;
    (server.as_str(), name, *uid, names::name(&key.kind), &key.name)
}

/// Returns the definitions of one server, package and user that a person refused: the person and the time, in words.
pub(super) fn refused(
    connection: &Connection,
    identity: &PinKey,
) -> rusqlite::Result<Vec<(DefinitionKey, String)>> {
    connection
        .prepare_cached(
            "SELECT kind, item, refused_by FROM definitions \
             WHERE server_id = ?1 AND name = ?2 AND uid = ?3 AND refused_by IS NOT NULL ORDER BY kind, item",
        )?
        .query_map(
            params![identity.server.as_str(), identity.name, identity.uid],
            |row| {
                let key = DefinitionKey {
                    identity: identity.clone(),
                    kind: row::named(row, 0)?,
                    name: row.get(1)?,
                };
                Ok((key, row.get(2)?))
            },
        )?
        .collect()
}

/// Removes one definition, if it exists.
pub(super) fn forget(connection: &Connection, key: &DefinitionKey) -> rusqlite::Result<()> {
    connection
        .prepare_cached(&format!("DELETE FROM definitions {ONE}"))?
        .execute(one(key))
        .map(drop)
}

/// Removes the selected definitions, and those that are stored later but were listed before. Returns their number.
pub(super) fn forget_all(
    connection: &Connection,
    now: Timestamp,
    selection: &Selection,
) -> rusqlite::Result<usize> {
    forgotten::note(connection, now, selection)?;
    connection.execute(
        "DELETE FROM definitions WHERE (?1 IS NULL OR server_id = ?1) AND (?2 IS NULL OR uid = ?2) \
             AND (?3 IS NULL OR item = ?3)",
        params![selection.server, selection.uid, selection.item],
    )
}

/// Returns one definition.
pub(super) fn get(
    connection: &Connection,
    key: &DefinitionKey,
) -> rusqlite::Result<Option<DefinitionRecord>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM definitions {ONE}"))?
        .query_row(one(key), read)
        .optional()
}

/// Returns the definitions of one server, package and user, by kind and name.
pub(super) fn of(connection: &Connection, identity: &PinKey) -> rusqlite::Result<Vec<DefinitionRecord>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM definitions WHERE server_id = ?1 AND name = ?2 AND uid = ?3 \
             ORDER BY kind, item"
        ))?
        .query_map(
            params![identity.server.as_str(), identity.name, identity.uid],
            read,
        )?
        .collect()
}

/// Returns the selected definitions, by server, package, user, kind and name.
pub(super) fn load(
    connection: &Connection,
    selection: &Selection,
) -> rusqlite::Result<Vec<DefinitionRecord>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM definitions WHERE (?1 IS NULL OR server_id = ?1) AND (?2 IS NULL OR uid = ?2) \
                 AND (?3 IS NULL OR item = ?3) ORDER BY server_id, name, uid, kind, item"
        ))?
        .query_map(params![selection.server, selection.uid, selection.item], read)?
        .collect()
}

/// Returns the ids of the servers of one user that have pins.
pub(super) fn pinned_servers(connection: &Connection, uid: u32) -> rusqlite::Result<Vec<ServerId>> {
    connection
        .prepare_cached(
            "SELECT DISTINCT server_id FROM definitions WHERE uid = ?1 AND pinned_hash IS NOT NULL \
             ORDER BY server_id",
        )?
        .query_map([uid], |row| {
            ServerId::new(row.get::<_, String>(0)?).map_err(row::malformed(0))
        })?
        .collect()
}

fn kept(definition: &Definition) -> &str {
    match definition.canonical.len() {
        0..=MAX_TEXT => &definition.canonical,
        _ => "",
    }
}

fn starts_with(digest: Digest, beginning: &str) -> bool {
    let text = digest.to_string();
    let beginning = beginning.to_ascii_lowercase();
    let digits = beginning.strip_prefix("sha256:").unwrap_or(&beginning);
    !digits.is_empty()
        && text
            .strip_prefix("sha256:")
            .is_some_and(|text| text.starts_with(digits))
}

fn read(row: &Row<'_>) -> rusqlite::Result<DefinitionRecord> {
    let pinned = match row.get::<_, Option<String>>(7)? {
        None => None,
        Some(hash) => Some(Definition {
            hash: hash.parse().map_err(row::malformed(7))?,
            canonical: row.get::<_, Option<String>>(8)?.unwrap_or_default().into(),
        }),
    };
    Ok(DefinitionRecord {
        key: DefinitionKey {
            identity: PinKey {
                server: ServerId::new(row.get::<_, String>(0)?).map_err(row::malformed(0))?,
                name: row.get(1)?,
                uid: row.get(2)?,
            },
            kind: row::named(row, 3)?,
            name: row.get(4)?,
        },
        seen: Definition {
            hash: row.get::<_, String>(5)?.parse().map_err(row::malformed(5))?,
            canonical: row.get::<_, String>(6)?.into(),
        },
        pinned,
        approved_by: row.get(9)?,
        first_seen: Timestamp(row.get(10)?),
        last_seen: Timestamp(row.get(11)?),
        findings: serde_json::from_str::<Vec<_>>(&row.get::<_, String>(12)?)
            .map_err(row::malformed(12))?
            .into(),
        hidden: row.get(13)?,
    })
}
